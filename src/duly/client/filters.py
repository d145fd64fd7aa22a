"""Specs as the API's filters say them: of each thing one value, and all that is given must hold."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from duly.durations import format_duration
from duly.errors import Misuse
from duly.instants import write_instant
from duly.records.event import USER, Status, schedule_of, user_of
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

SCHEDULE_ID = "schedule_id"
"""No filter of the API: it asks for the name, which has to be found."""

_BY_NOW = {
    Ready: 'InStatus("PENDING") & DueBetween(end=…)',
    Overdue: 'InStatus("PENDING") & DueBetween(end=…)',
    Stuck: '(InStatus("PENDING") | InStatus("FAILED")) & DueBetween(end=…)',
}
"""What the store's own clock decides, which the filters cannot ask."""


def filters_of(spec: Spec | None, tenant: str | None) -> dict[str, str]:
    """As an address writes them. Misuse for what they cannot say."""
    asked: dict[str, Any] = {}
    for one in _parts(Everything() if spec is None else spec):
        for field, value in _read(one, tenant):
            asked[field] = value if field not in asked else _joined(field, asked[field], value)
    return {field: _written(value) for field, value in asked.items()}


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
        case OfSeries(series) if schedule_of(series) is not None:
            yield SCHEDULE_ID, schedule_of(series)
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


def _joined(field: str, before: Any, value: Any) -> Any:
    """What both ask for."""
    if field == "status":
        if not before & value:
            raise Misuse("this asks for a status and for another one at once: nothing can have both")
        return before & value
    if field in ("due_from", "failed_from", "late_by"):
        return max(before, value)
    if field in ("due_to", "failed_to"):
        return min(before, value)
    if before != value:
        raise Misuse(f"over HTTP, a spec can ask for one {field} only: {before!r:.50} or {value!r:.50}")
    return value


def _written(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, frozenset):
        return ",".join(status.value for status in Status if status in value)
    return write_instant(value) if isinstance(value, datetime) else format_duration(value)


def _beyond(spec: Spec) -> Misuse:
    if (instead := _BY_NOW.get(type(spec))) is not None:
        return Misuse(f"{type(spec).__name__} goes by the store's clock, which HTTP cannot ask: use {instead}")
    if isinstance(spec, OfTenant):
        return Misuse(
            "a Client asks for one tenant alone: make another one, Client(…, tenant=…), with a key for all tenants"
        )
    return Misuse(
        f"the API has no filter for {type(spec).__name__}: ask with `&` for a type, key, user, destination, error, "
        "status, DueBetween, FailedBetween, ExecutedLate or a schedule's series, and choose among what comes"
    )


def body_of(filters: Mapping[str, str]) -> dict[str, Any]:
    """The same in a body."""
    return {field: value.split(",") if field == "status" else value for field, value in filters.items()}
