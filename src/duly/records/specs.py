"""Questions about events that can be combined with ``&``, ``|`` and ``~``.

    Ready() & OfType("birthday") | Overdue(hours=1) & OfType("anniversary")

A spec is built from a few comparisons. They are tested in memory here and compiled to SQL by the stores;
property tests prove that both give the same answer. A comparison with an empty field is false, and its
negation true, on both sides.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from duly.errors import Invalid, Problem
from duly.records.event import USER, Event, Status

NULLABLE: Mapping[str, bool] = {
    "id": False,
    "tenant": False,
    "type": False,
    "lane": False,
    "status": False,
    "due": False,
    "ready": True,
    "attempts": False,
    "key": True,
    "series": True,
    "correlation_id": True,
    "last_error": True,
    "hold_kind": True,
    "created": False,
    "claimed": True,
    "executed": True,
    "worker": True,
    "destination": True,
}
"""The fields that a spec may compare, and whether each can be empty."""

ORDERED = frozenset({"id", "due", "ready", "attempts", "created", "claimed", "executed"})
"""The fields whose order is the same in every store; text has as many orders as there are collations."""

OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


_TO_LOWER_ASCII = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")

_BEGINNING = datetime.min.replace(tzinfo=UTC)
_END = datetime.max.replace(tzinfo=UTC)

_EARLIEST_OFFSET = timedelta(days=-2_400_000)
_LATEST_OFFSET = timedelta(days=2_920_000)
"""Every due time lies between these offsets from the current time, and every store can add them to an instant."""

_LONGEST_GAP = timedelta(days=3_660_000)
"""No two instants are further apart, and no store overflows on it."""


class Spec:
    """A question about an event."""

    def matches(self, event: Event, now: datetime) -> bool:
        raise TypeError(f"{type(self).__name__} has no condition to match")

    def __and__(self, other: "Spec") -> "Spec":
        return Both(self, other)

    def __or__(self, other: "Spec") -> "Spec":
        return Either(self, other)

    def __invert__(self) -> "Spec":
        return Not(self)


@dataclass(frozen=True, slots=True)
class Both(Spec):
    left: Spec
    right: Spec

    def matches(self, event: Event, now: datetime) -> bool:
        return self.left.matches(event, now) and self.right.matches(event, now)


@dataclass(frozen=True, slots=True)
class Either(Spec):
    left: Spec
    right: Spec

    def matches(self, event: Event, now: datetime) -> bool:
        return self.left.matches(event, now) or self.right.matches(event, now)


@dataclass(frozen=True, slots=True)
class Not(Spec):
    spec: Spec

    def matches(self, event: Event, now: datetime) -> bool:
        return not self.spec.matches(event, now)


@dataclass(frozen=True, slots=True)
class Everything(Spec):
    """Matches every event: the spec where a filter is expected and none is given."""

    def matches(self, event: Event, now: datetime) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Now:
    """The store's current time, moved by an offset; a result beyond either end of the calendar becomes that end."""

    offset: timedelta = timedelta()

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", max(_EARLIEST_OFFSET, min(self.offset, _LATEST_OFFSET)))

    def instant(self, now: datetime) -> datetime:
        try:
            return now + self.offset
        except OverflowError:
            return _BEGINNING if self.offset < timedelta() else _END


@dataclass(frozen=True, slots=True)
class Compare(Spec):
    """Compares a field with a value, or with the store's current time."""

    field: str
    op: str
    value: Any

    def __post_init__(self) -> None:
        if self.field not in NULLABLE or self.op not in OPERATORS:
            raise ValueError(f"cannot compare {self.field!r} {self.op!r}: known fields are {sorted(NULLABLE)}")
        if self.op != "=" and self.field not in ORDERED:
            raise ValueError(f"{self.field!r} can only be compared with =")

    def matches(self, event: Event, now: datetime) -> bool:
        found = getattr(event, self.field)
        wanted = self.value.instant(now) if isinstance(self.value, Now) else self.value
        return found is not None and wanted is not None and OPERATORS[self.op](found, wanted)


@dataclass(frozen=True, slots=True)
class OneOf(Spec):
    """Whether a field equals one of several values."""

    field: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if self.field not in NULLABLE:
            raise ValueError(f"cannot compare {self.field!r}: known fields are {sorted(NULLABLE)}")

    def matches(self, event: Event, now: datetime) -> bool:
        found = getattr(event, self.field)
        return found is not None and found in self.values


@dataclass(frozen=True, slots=True)
class Gap(Spec):
    """Compares the time from one field to another with a span; a span longer than the calendar is reduced to its
    length."""

    later: str
    earlier: str
    op: str
    span: timedelta

    def __post_init__(self) -> None:
        object.__setattr__(self, "span", _bounded(self.span))

    def matches(self, event: Event, now: datetime) -> bool:
        later, earlier = getattr(event, self.later), getattr(event, self.earlier)
        return later is not None and earlier is not None and OPERATORS[self.op](later - earlier, self.span)


@dataclass(frozen=True, slots=True)
class InSeriesOf(Spec):
    """Events of series whose names begin with the prefix."""

    prefix: str

    def matches(self, event: Event, now: datetime) -> bool:
        return event.series is not None and event.series.startswith(self.prefix)


@dataclass(frozen=True, slots=True)
class ErrorLike(Spec):
    """Events whose last error contains this text, ignoring the case of A to Z. (The case of other letters differs
    between stores.)"""

    text: str

    @property
    def small(self) -> str:
        return self.text.translate(_TO_LOWER_ASCII)

    def matches(self, event: Event, now: datetime) -> bool:
        return event.last_error is not None and self.small in event.last_error.translate(_TO_LOWER_ASCII)


@dataclass(frozen=True)
class NamedSpec(Spec):
    """A spec with a name of its own, which stands for a combination of other specs."""

    meaning: Spec = field(init=False, repr=False)

    def matches(self, event: Event, now: datetime) -> bool:
        return self.meaning.matches(event, now)

    def _means(self, spec: Spec) -> None:
        object.__setattr__(self, "meaning", spec)


@dataclass(frozen=True)
class Ready(NamedSpec):
    """Claimable now: the event is due, its back-off is over, or its lease has expired."""

    def __post_init__(self) -> None:
        self._means(Compare("ready", "<=", Now()))


@dataclass(frozen=True)
class OfType(NamedSpec):
    type: str

    def __post_init__(self) -> None:
        self._means(Compare("type", "=", self.type))


@dataclass(frozen=True)
class OfTenant(NamedSpec):
    tenant: str

    def __post_init__(self) -> None:
        self._means(Compare("tenant", "=", self.tenant))


@dataclass(frozen=True)
class OfSeries(NamedSpec):
    series: str

    def __post_init__(self) -> None:
        self._means(Compare("series", "=", self.series))


@dataclass(frozen=True)
class OfUser(NamedSpec):
    """Calendar events of a user, by the user's id."""

    user_id: str

    def __post_init__(self) -> None:
        self._means(InSeriesOf(f"{USER}{self.user_id}:"))


@dataclass(frozen=True)
class OfDestination(NamedSpec):
    """Events that go to a stored target, by its name, or to the origin of a URL, such as ``https://hooks.example``."""

    destination: str

    def __post_init__(self) -> None:
        self._means(Compare("destination", "=", self.destination))


@dataclass(frozen=True)
class WithKey(NamedSpec):
    key: str

    def __post_init__(self) -> None:
        self._means(Compare("key", "=", self.key))


@dataclass(frozen=True)
class InStatus(NamedSpec):
    status: str

    def __post_init__(self) -> None:
        self._means(Compare("status", "=", Status(self.status)))


@dataclass(frozen=True)
class Overdue(NamedSpec):
    """Not ended (PENDING or PROCESSING) more than *hours* after the due time."""

    hours: float = 1

    def __post_init__(self) -> None:
        unfinished = OneOf("status", (Status.PENDING, Status.PROCESSING))
        self._means(unfinished & Compare("due", "<", Now(-_hours(self.hours))))


@dataclass(frozen=True)
class DueBetween(NamedSpec):
    """Due from *start* (included) to *end* (excluded); None leaves that side open."""

    start: datetime | None = None
    end: datetime | None = None

    def __post_init__(self) -> None:
        self._means(_between("due", self.start, self.end))


@dataclass(frozen=True)
class FailedBetween(NamedSpec):
    """Dead letters whose last attempt began from *start* (included) to *end* (excluded); None leaves that side open."""

    start: datetime | None = None
    end: datetime | None = None

    def __post_init__(self) -> None:
        self._means(Compare("status", "=", Status.FAILED) & _between("claimed", self.start, self.end))


@dataclass(frozen=True)
class ExecutedLate(NamedSpec):
    """Completed, but executed more than *by* after the due time."""

    by: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        self._means(Compare("status", "=", Status.COMPLETED) & Gap("executed", "due", ">", self.by))


@dataclass(frozen=True)
class Stuck(NamedSpec):
    """Not completed an hour (or *by*) after the due time, dead letters included."""

    by: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        unsent = OneOf("status", (Status.PENDING, Status.PROCESSING, Status.FAILED))
        self._means(unsent & Compare("due", "<", Now(-_bounded(self.by))))


def _between(field: str, start: datetime | None, end: datetime | None) -> Spec:
    spec: Spec = Everything()
    if start is not None:
        spec &= Compare(field, ">=", _utc(start))
    if end is not None:
        spec &= Compare(field, "<", _utc(end))
    return spec


def _utc(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError(f"{instant.isoformat()} has no time zone: use an aware datetime")
    try:
        return instant.astimezone(UTC)
    except OverflowError:  # its offset moves it beyond the end of the calendar
        return _BEGINNING if instant.year == 1 else _END


def _bounded(span: timedelta) -> timedelta:
    return max(-_LONGEST_GAP, min(span, _LONGEST_GAP))


def _hours(hours: float) -> timedelta:
    if hours != hours:
        raise Invalid([Problem("hours", "must be a number")])
    try:
        return _bounded(timedelta(hours=hours))
    except OverflowError:
        return _LONGEST_GAP if hours > 0 else -_LONGEST_GAP
