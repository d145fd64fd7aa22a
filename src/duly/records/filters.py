"""Filters of events, as one struct: read from a query string, a JSON body or command-line options, written as a query
string or a body, and converted to a spec and back.

A new filter is one field here, with its description, its kind of value and its spec. The OpenAPI description and the
options of the command line are generated from the fields.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import msgspec

from duly.decide.checks import is_id, name_problems
from duly.decide.targets.targets import origin_of, target_name_problems, url_problems
from duly.errors import Misuse, Problem
from duly.records.event import SCHEDULE, USER, Status, schedule_of, user_of
from duly.records.specs import (
    Both,
    DueBetween,
    Either,
    ErrorLike,
    Everything,
    ExecutedLate,
    FailedBetween,
    InStatus,
    OfDestination,
    OfSeries,
    OfTenant,
    OfType,
    OfUser,
    OneOf,
    Overdue,
    Ready,
    Spec,
    Stuck,
    WithKey,
)
from duly.values.durations import format_duration
from duly.values.instants import read_instant, read_span, write_instant

LONGEST_ERROR = 500
"""The longest text, in characters, that can be searched for in errors."""


class FilterKind(NamedTuple):
    """A kind of value: how it is read, and written in a query string and in JSON."""

    name: str
    read: Callable[[str, Any], Any]  # (field, written value) → the value, or a Problem
    in_query: Callable[[Any], str] = str
    in_body: Callable[[Any], Any] | None = None  # None: as in a query string


class FilterField(NamedTuple):
    """The meaning of a field of `EventFilter`."""

    told: str
    kind: FilterKind
    spec: Callable[[Any], Spec] | None = None  # None: its meaning depends on another field


# -- kinds of values


def _read_statuses(field: str, written: Any) -> tuple[Status, ...] | Problem:
    """Reads statuses in any letter case."""
    names = written.split(",") if isinstance(written, str) else written
    known = {status.value: status for status in Status}
    if isinstance(names, list) and names and all(isinstance(name, str) and name.upper() in known for name in names):
        return tuple(known[name.upper()] for name in names)
    return Problem(field, f"must be one or several of {', '.join(known)}, not {written!r:.50}")


def _read_name(field: str, written: Any) -> str | Problem:
    return next(iter(name_problems(field, written)), written)


def _read_schedule(field: str, written: Any) -> str | Problem:
    """Checks only that the name is text: whether the schedule exists is known to the store alone."""
    return written if isinstance(written, str) else no_schedule(written)


def no_schedule(written: Any) -> Problem:
    return Problem("schedule", f"there is no schedule {written!r:.60}")


def _read_user_id(field: str, written: Any) -> str | Problem:
    if isinstance(written, str) and is_id(written.lower()):
        return written.lower()
    return Problem(field, f"{written!r:.60} is not a user's id: expected a UUID")


def _read_destination(field: str, written: Any) -> str | Problem:
    if not isinstance(written, str):
        return Problem(field, f"expected a target's name or a URL, not {written!r:.50}")
    problems = url_problems if "://" in written else target_name_problems
    return next(iter(problems(field, written)), written)


def _read_error(field: str, written: Any) -> str | Problem:
    if isinstance(written, str) and 0 < len(written) <= LONGEST_ERROR and written.isprintable():
        return written
    return Problem(field, f"expected 1 to {LONGEST_ERROR} characters of text, not {written!r:.50}")


def _read_flag(field: str, written: Any) -> bool | Problem:
    if isinstance(written, bool):
        return written
    if written in ("true", "false"):
        return bool(written == "true")
    return Problem(field, f"must be true or false, not {written!r:.50}")


STATUSES = FilterKind("statuses", _read_statuses, ",".join, list)
TYPE = FilterKind("type", _read_name)
KEY = FilterKind("key", _read_name)
USER_ID = FilterKind("user's id", _read_user_id)
SCHEDULE_NAME = FilterKind("schedule", _read_schedule)
DESTINATION = FilterKind("destination", _read_destination)
ERROR = FilterKind("error", _read_error)
INSTANT = FilterKind("instant", read_instant, write_instant)
SPAN = FilterKind("span", read_span, format_duration)
FLAG = FilterKind("flag", _read_flag, lambda flag: "true" if flag else "false", bool)


# -- the filter


def _in_status(statuses: tuple[Status, ...]) -> Spec:
    statuses = tuple(map(Status, statuses))  # in Python, people write them as text
    return InStatus(statuses[0]) if len(statuses) == 1 else OneOf("status", statuses)


def _to_destination(destination: str) -> Spec:
    """Events are stored under a target's name, or under the origin of a URL."""
    return OfDestination(origin_of(destination) if "://" in destination else destination)


class FilterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A filter: all fields that are set must match. Its fields have a `FilterField` each."""

    @classmethod
    def fields(cls) -> Mapping[str, FilterField]:
        """The fields of the filter, by name."""
        return fields_of(cls)

    def given(self) -> Iterator[tuple[str, FilterField, Any]]:
        """The fields that are set, with their values."""
        for name, field in self.fields().items():
            value = getattr(self, name)
            if value not in (None, ()) and (value is not False or getattr(type(self)(), name) is None):
                yield name, field, value

    def query(self) -> dict[str, str]:
        """The filter as parameters of a query string."""
        return {name: field.kind.in_query(value) for name, field, value in self.given()}

    def body(self) -> dict[str, Any]:
        """The filter as JSON."""
        return {name: (field.kind.in_body or field.kind.in_query)(value) for name, field, value in self.given()}


@lru_cache
def fields_of(record: type[FilterRecord]) -> Mapping[str, FilterField]:
    hints = get_type_hints(record, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}


F = TypeVar("F", bound=FilterRecord)


class EventFilter(FilterRecord, frozen=True, kw_only=True):
    """A filter of events: all fields that are set must match."""

    status: Annotated[tuple[Status, ...], FilterField("With this status, or one of several", STATUSES, _in_status)] = ()
    type: Annotated[str | None, FilterField("Of this type", TYPE, OfType)] = None
    key: Annotated[str | None, FilterField("With this key", KEY, WithKey)] = None
    user_id: Annotated[str | None, FilterField("Of this user", USER_ID, OfUser)] = None
    schedule: Annotated[  # when `spec` is called, its id: the verbs have looked it up by name
        str | None, FilterField("Of this schedule", SCHEDULE_NAME, lambda id: OfSeries(f"{SCHEDULE}{id}"))
    ] = None
    destination: Annotated[
        str | None,
        FilterField("To this target (by name), or to the origin of this URL", DESTINATION, _to_destination),
    ] = None
    error: Annotated[str | None, FilterField("With this text in the last error", ERROR, ErrorLike)] = None
    due_from: Annotated[
        datetime | None, FilterField("Due at this instant or later", INSTANT, lambda at: DueBetween(at))
    ] = None
    due_to: Annotated[
        datetime | None, FilterField("Due before this instant", INSTANT, lambda at: DueBetween(end=at))
    ] = None
    failed_from: Annotated[
        datetime | None,
        FilterField(
            "Dead letters whose last attempt began at this instant or later", INSTANT, lambda at: FailedBetween(at)
        ),
    ] = None
    failed_to: Annotated[
        datetime | None,
        FilterField(
            "Dead letters whose last attempt began before this instant", INSTANT, lambda at: FailedBetween(end=at)
        ),
    ] = None
    late_by: Annotated[
        timedelta | None, FilterField("Completed late: executed more than this after the due time", SPAN)
    ] = None
    stuck: Annotated[
        bool,
        FilterField(
            "Not completed an hour (or `late_by`) after the due time: waiting, running, or a dead letter", FLAG
        ),
    ] = False

    def spec(self) -> Spec:
        """The filter as a spec for a store. The schedule must already be an id here."""
        spec: Spec = Everything()
        for _, field, value in self.given():
            if field.spec is not None:
                spec &= field.spec(value)
        if self.stuck:
            spec &= Stuck() if self.late_by is None else Stuck(self.late_by)
        elif self.late_by is not None:
            spec &= ExecutedLate(self.late_by)
        return spec


FIELDS = fields_of(EventFilter)
"""The fields of a filter of events, by name."""


def read_filter(given: Any, path: str = "") -> tuple[EventFilter, list[Problem]]:
    """The filter of events in a query string or a body, and all problems with it."""
    return read_filter_of(EventFilter, given, path)


def read_filter_of(record: type[F], given: Any, path: str = "") -> tuple[F, list[Problem]]:
    """The filter in a query string or a body, and all problems with it; a field with a problem is left out."""
    fields = record.fields()
    known = ", ".join(fields)
    if not isinstance(given, Mapping):
        return record(), [Problem(path.rstrip(".") or "filter", f"expected an object with some of {known}")]
    values, problems = dict[str, Any](), list[Problem]()
    for name, written in given.items():
        if name not in fields:
            problems.append(Problem(str(name)[:50], f"is unknown; known: {known}"))
            continue
        value = fields[name].kind.read(name, written)
        if isinstance(value, Problem):
            problems.append(value)
        else:
            values[name] = value
    return record(**values), [problem._replace(path=f"{path}{problem.path}") for problem in problems]


# -- specs as filters

_BY_NOW = {
    Ready: 'InStatus("PENDING") & DueBetween(end=…)',
    Overdue: 'InStatus("PENDING") & DueBetween(end=…)',
}
"""Specs that depend on the store's clock, which filters cannot express, and what to use instead."""


def filter_of(spec: Spec, tenant: str | None) -> EventFilter:
    """The filter that selects the same events in this tenant. Raises Misuse if no filter can: each field has one value,
    and all fields that are set must match."""
    asked: dict[str, Any] = {}
    for one in _parts(spec):
        for name, value in _read(one, tenant):
            asked[name] = value if name not in asked else _joined(name, asked[name], value)
    if "status" in asked:
        asked["status"] = tuple(status for status in Status if status in asked["status"])
    return EventFilter(**asked)


def _parts(spec: Spec) -> Iterator[Spec]:
    if isinstance(spec, Both):
        yield from _parts(spec.left)
        yield from _parts(spec.right)
    elif not isinstance(spec, Everything):
        yield spec


def _read(spec: Spec, tenant: str | None) -> Iterator[tuple[str, Any]]:
    match spec:
        case OfType(type):
            yield "type", type
        case WithKey(key):
            yield "key", key
        case OfUser(user_id):
            yield "user_id", user_id
        case OfDestination(destination):
            yield "destination", destination
        case ErrorLike(text):
            yield "error", text
        case DueBetween(start, end):
            yield from _between("due", start, end)
        case FailedBetween(start, end):
            yield from _between("failed", start, end)
            yield "status", frozenset({Status.FAILED})
        case ExecutedLate(by):
            yield "late_by", by
            yield "stuck", False
        case Stuck(by):
            yield "late_by", by
            yield "stuck", True
        case OfSeries(series) if (schedule := schedule_of(series)) is not None:
            yield "schedule", schedule
        case OfSeries(series) if (whose := user_of(series)) is not None:
            yield "user_id", whose
            yield "type", series.removeprefix(f"{USER}{whose}:")
        case OfTenant(named) if named == tenant:
            pass
        case _:
            yield "status", _statuses(spec)


def _statuses(spec: Spec) -> frozenset[Status]:
    match spec:
        case InStatus(status):
            return frozenset({Status(status)})
        case OneOf("status", values):
            return frozenset(values)
        case Either(left, right):
            return _statuses(left) | _statuses(right)
        case _:
            raise _beyond(spec)


def _between(name: str, start: datetime | None, end: datetime | None) -> Iterator[tuple[str, datetime]]:
    if start is not None:
        yield f"{name}_from", start.astimezone(UTC)
    if end is not None:
        yield f"{name}_to", end.astimezone(UTC)


def _joined(name: str, before: Any, value: Any) -> Any:
    """The value that satisfies both *before* and *value*."""
    if name == "status":
        if not before & value:
            raise Misuse("the filter asks for two different statuses at once: no event can have both")
        return before & value
    if name == "late_by" or name.endswith("_from"):
        return max(before, value)
    if name.endswith("_to"):
        return min(before, value)
    if before != value:
        raise Misuse(f"over HTTP, a filter can have only one {name}: {before!r:.50} or {value!r:.50}")
    return value


def _beyond(spec: Spec) -> Misuse:
    if (instead := _BY_NOW.get(type(spec))) is not None:
        return Misuse(f"{type(spec).__name__} uses the database's clock and cannot be sent over HTTP: use {instead}")
    if isinstance(spec, OfTenant):
        return Misuse("a Client reads one tenant only: create another Client(…, tenant=…) with a key for all tenants")
    return Misuse(
        f"the API has no filter for {type(spec).__name__}: ask with `&` for a type, key, user, destination, error, "
        "status, DueBetween, FailedBetween, ExecutedLate, Stuck or a schedule's series, and filter the results yourself"
    )
