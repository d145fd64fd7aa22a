"""Which events, as JSON and addresses say it."""

from collections.abc import Mapping
from typing import Any

from duly.api.protocol.request import ApiRequest
from duly.decide.checks import is_id, name_problems
from duly.decide.targets.targets import origin_of, target_name_problems, url_problems
from duly.errors import Invalid, NotFound, Problem
from duly.instants import read_instant, read_span
from duly.records.event import Status
from duly.records.specs import (
    DueBetween,
    ErrorLike,
    Everything,
    ExecutedLate,
    FailedBetween,
    OfDestination,
    OfSeries,
    OfType,
    OfUser,
    OneOf,
    Spec,
    WithKey,
)

FIELDS = "status type key user_id schedule destination error due_from due_to failed_from failed_to late_by".split()
LONGEST_ERROR = 500


async def read_filter(ask: ApiRequest, given: Any, path: str = "") -> Spec:
    """All that is given must hold; Invalid with all that is wrong."""
    if not isinstance(given, Mapping):
        raise Invalid([Problem(path.rstrip(".") or "filter", f"expected an object with some of {', '.join(FIELDS)}")])
    problems = [
        Problem(str(field)[:50], f"is unknown; known: {', '.join(FIELDS)}") for field in given if field not in FIELDS
    ]
    spec: Spec = Everything()
    for field, written in given.items():
        if field not in _READERS:
            continue
        read = _READERS[field](field, written)
        if isinstance(read, Problem):
            problems.append(read)
        else:
            spec &= read
    for between, name in ((DueBetween, "due"), (FailedBetween, "failed")):
        found = {side: _instant(given, f"{name}_{side}", problems) for side in ("from", "to")}
        if any(found.values()):
            spec &= between(found["from"], found["to"])
    if "schedule" in given:
        spec &= await _of_schedule(ask, given["schedule"], problems)
    if problems:
        raise Invalid([problem._replace(path=f"{path}{problem.path}") for problem in problems])
    return spec


def _instant(given: Mapping[str, Any], field: str, problems: list[Problem]) -> Any:
    if field not in given:
        return None
    instant = read_instant(field, given[field])
    if isinstance(instant, Problem):
        problems.append(instant)
        return None
    return instant


async def _of_schedule(ask: ApiRequest, written: Any, problems: list[Problem]) -> Spec:
    if isinstance(written, str):
        try:
            return OfSeries((await ask.own.schedules.get(written, tenant=ask.tenant)).series)
        except NotFound:
            pass
    problems.append(Problem("schedule", f"there is no schedule {written!r:.60}"))
    return Everything()


def _status(field: str, written: Any) -> Spec | Problem:
    names = written.split(",") if isinstance(written, str) else written
    known = {status.value: status for status in Status}
    if isinstance(names, list) and names and all(isinstance(name, str) and name in known for name in names):
        return OneOf("status", tuple(known[name] for name in names))
    return Problem(field, f"must be one or several of {', '.join(known)}, not {written!r:.50}")


def _name(field: str, written: Any) -> Problem | None:
    found = name_problems(field, written)
    return found[0] if found else None


def _user(field: str, written: Any) -> Spec | Problem:
    if isinstance(written, str) and is_id(written.lower()):
        return OfUser(written.lower())
    return Problem(field, f"{written!r:.60} is not a user's id: expected a UUID")


def _destination(field: str, written: Any) -> Spec | Problem:
    if not isinstance(written, str):
        return Problem(field, f"expected a target's name or a URL, not {written!r:.50}")
    if "://" not in written:
        named = list(target_name_problems(field, written))
        return named[0] if named else OfDestination(written)
    if found := list(url_problems(field, written)):
        return found[0]
    return OfDestination(origin_of(written))


def _error(field: str, written: Any) -> Spec | Problem:
    if isinstance(written, str) and 0 < len(written) <= LONGEST_ERROR and written.isprintable():
        return ErrorLike(written)
    return Problem(field, f"expected 1 to {LONGEST_ERROR} characters of text, not {written!r:.50}")


def _late_by(field: str, written: Any) -> Spec | Problem:
    span = read_span(field, written)
    return span if isinstance(span, Problem) else ExecutedLate(span)


_READERS: Mapping[str, Any] = {
    "status": _status,
    "type": lambda field, written: _name(field, written) or OfType(written),
    "key": lambda field, written: _name(field, written) or WithKey(written),
    "user_id": _user,
    "destination": _destination,
    "error": _error,
    "late_by": _late_by,
}
