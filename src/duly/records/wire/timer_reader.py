"""Reads timers from JSON."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from duly.decide.checks import timer_problems, write_json
from duly.decide.own_checks import checks_of
from duly.decide.retry import DEFAULT, Retry, parse_retry
from duly.errors import Invalid, Problem
from duly.records.event import TIMER_SPANS as SPANS
from duly.records.event import Timer
from duly.values.durations import EXAMPLES as A_DURATION
from duly.values.instants import read_instant, read_json_delay

FIELDS = ("key", "due_at", "after", "type", "payload", "target", "retry", "correlation_id", "once", *SPANS)
WHENS = ("due_at", "after", "quiet")
"""The fields of which a timer has exactly one."""

PLACEHOLDER_DUE = datetime(2000, 1, 1, tzinfo=UTC)
"""Stands for a due time that is missing or wrong, so that the other fields can still be checked."""


def read_timer(written: Any, tenant: str, channels: Collection[str], *, key: str | None = None) -> Timer:
    """The timer in a decoded JSON object; raises Invalid with all problems. The planning of the event checks the rest.
    A *key* from elsewhere, such as the URL path, must not contradict the object's own."""
    if not isinstance(written, Mapping):
        raise Invalid([Problem("timer", f"expected an object with {', '.join(FIELDS)}")])
    problems = _unknown(written)
    own = written.get("key")
    if own is not None and key is not None and own != key:
        problems.append(Problem("key", f"{own!r:.50} is not the key in the address, {key!r:.50}"))
    if written.get("type") is None:
        problems.append(Problem("type", "is missing"))
    due = _due(written, problems)
    retry = _retry(written.get("retry"), problems)
    timer = Timer(
        due,
        written.get("type", "missing"),
        written.get("payload"),
        own if key is None else key,
        tenant,
        written.get("target"),
        retry,
        written.get("correlation_id"),
        once=_once(written, problems),
        **_spans(written, problems),
    )
    if problems:
        payload = write_json(timer.payload, "payload")
        problems += [problem for problem in timer_problems(timer, channels) if problem.path != "due"]
        problems += [payload] if isinstance(payload, Problem) else []
        checks = checks_of(channels)
        problems += [one for one in checks.problems(timer, problems) if one.path != "due"] if checks else []
        raise Invalid(problems)
    return timer


def _unknown(written: Mapping[Any, Any]) -> list[Problem]:
    return [
        Problem(str(field)[:50], f"is unknown; known: {', '.join(FIELDS)}") for field in written if field not in FIELDS
    ]


def _due(written: Mapping[Any, Any], problems: list[Problem]) -> Any:
    given = [field for field in WHENS if written.get(field) is not None]
    if len(given) != 1:
        together = f"cannot be given together with {given[-1]}: give one of them" if given else ""
        problems.append(Problem(given[0] if given else "due_at", together or "is missing: give due_at, after or quiet"))
        return None if "quiet" in given else PLACEHOLDER_DUE
    [field] = given
    if field == "quiet":
        return None
    due = (read_instant if field == "due_at" else read_json_delay)(field, written[field])
    if isinstance(due, Problem):
        problems.append(due)
        return PLACEHOLDER_DUE
    return due


def _once(written: Mapping[Any, Any], problems: list[Problem]) -> bool | None:
    once = written.get("once")
    if once is None or isinstance(once, bool):
        return once
    problems.append(Problem("once", f"expected true or false, not {once!r:.50}"))
    return None


def _spans(written: Mapping[Any, Any], problems: list[Problem]) -> dict[str, Any]:
    """The valid spans of the timer; appends to *problems* for the others."""
    found: dict[str, Any] = {}
    for field, option in SPANS.items():
        given = written.get(field)
        if isinstance(given, str | int | float) and not isinstance(given, bool):
            try:
                found[field] = option.read(field, given)
            except Invalid as error:
                problems += error.problems
        elif given is not None:
            problems.append(Problem(field, f"expected {A_DURATION}, or a number of seconds, not {given!r:.50}"))
    return found


def _retry(written: Any, problems: list[Problem]) -> Retry:
    if written is None:
        return DEFAULT
    try:
        return parse_retry(written)
    except Invalid as error:
        problems += error.problems
        return DEFAULT
