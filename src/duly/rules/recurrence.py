"""Recurrence rules as pure values: a rule returns its first occurrence after an instant.

Rules of real time (an interval, an instant) ignore zones. Rules of wall time (cron, yearly and RFC 5545) are readings
of the clocks in a zone, by default UTC.
"""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from duly.errors import Problem
from duly.rules.cron import readings_of
from duly.rules.rrule import Recurrence, TooMuchWork, bind
from duly.rules.rrule_text import RecurrenceText
from duly.rules.wall import GAPS, OVERLAPS, Readings, Shown, WallTimes
from duly.rules.yearly import FIRST_YEAR, YearlyReadings
from duly.rules.zones import reading_of, to_wall, wall_of, zone
from duly.values.durations import format_duration
from duly.values.instants import write_instant

DEFAULT_ZONE = "UTC"
BY_DATE = "date"


class Occurrence(NamedTuple):
    """One firing of a rule: the name that makes it unique in its series, and its instant."""

    name: str
    at: datetime


class Dst(NamedTuple):
    """The policy for clock changes. None leaves the choice to the rule: for a time in a gap, cron fires right after the
    gap, and calendar rules fire later by the length of the gap."""

    gap: str | None = None
    overlap: str | None = None

    def problems(self) -> list[Problem]:
        return [
            Problem(f"dst.{name}", f"must be one of {', '.join(allowed)}, not {value!r:.50}")
            for name, value, allowed in (("gap", self.gap, GAPS), ("overlap", self.overlap, OVERLAPS))
            if value is not None and value not in allowed
        ]


OPEN = Dst()


class Rule(Protocol):
    """A recurrence rule. Equal rules have equal JSON."""

    @property
    def timezone(self) -> str | None:
        """The zone whose clocks the rule follows, or None if the rule does not name one."""

    @property
    def local(self) -> bool:
        """Whether the rule follows wall clocks, so that its instants depend on the zone data."""

    @property
    def steps(self) -> int:
        """Steps that all calls on this rule took so far; one call may take MOST_STEPS. 0 if every call is cheap."""

    def after(self, instant: datetime) -> Occurrence | None:
        """The first occurrence strictly later than *instant*; None when there is none."""

    def last(self, until: datetime) -> Occurrence | None:
        """The last occurrence not later than *until*."""

    def count(self, first: datetime, until: datetime) -> int:
        """The number of occurrences between two instants, both included."""

    def anew(self, occurrence: Occurrence) -> Occurrence | None:
        """An occurrence that was computed with older zone data, at its present instant."""

    def placed(self, timezone: str, dst: Dst) -> "Rule":
        """The same rule in a zone, with a policy for clock changes."""

    def anchored(self, instant: datetime) -> "Rule":
        """The same rule with an open start, as of an interval, fixed at *instant*."""

    def same_as(self, other: object) -> bool:
        """Whether both rules are equal; an open start is equal to any start."""

    def to_json(self) -> dict[str, Any]:
        """The rule's JSON form, without the zone."""


# -- rules of real time


@dataclass(frozen=True)
class Once:
    """A rule with a single instant."""

    instant: datetime
    timezone: str | None = None

    steps: ClassVar[int] = 0

    @property
    def local(self) -> bool:
        return False

    def after(self, instant: datetime) -> Occurrence | None:
        return self._occurrence if self.instant > instant else None

    def last(self, until: datetime) -> Occurrence | None:
        return self._occurrence if self.instant <= until else None

    def count(self, first: datetime, until: datetime) -> int:
        return int(first <= self.instant <= until)

    def anew(self, occurrence: Occurrence) -> Occurrence | None:
        return occurrence

    def placed(self, timezone: str, dst: Dst) -> "Once":
        return replace(self, timezone=timezone)

    def anchored(self, instant: datetime) -> "Once":
        return self

    def same_as(self, other: object) -> bool:
        return isinstance(other, Once) and self.instant == other.instant

    def to_json(self) -> dict[str, Any]:
        return {"at": write_instant(self.instant)}

    @property
    def _occurrence(self) -> Occurrence:
        return Occurrence(write_instant(self.instant), self.instant)


@dataclass(frozen=True)
class Every:
    """A fixed interval in real time from a start, independent of clock changes."""

    interval: timedelta
    start: datetime | None = None
    timezone: str | None = None

    steps: ClassVar[int] = 0

    @property
    def local(self) -> bool:
        return False

    def after(self, instant: datetime) -> Occurrence | None:
        start = self._start()
        steps = (instant - start) // self.interval + 1 if instant >= start else 0
        return self._nth(steps)

    def last(self, until: datetime) -> Occurrence | None:
        steps = (until - self._start()) // self.interval
        return self._nth(steps) if steps >= 0 else None

    def count(self, first: datetime, until: datetime) -> int:
        start = self._start()
        before = max(0, -((start - first) // self.interval))  # rounded up: the number of the first counted occurrence
        return max(0, (until - start) // self.interval - before + 1)

    def anew(self, occurrence: Occurrence) -> Occurrence | None:
        return occurrence

    def placed(self, timezone: str, dst: Dst) -> "Every":
        return replace(self, timezone=timezone)

    def anchored(self, instant: datetime) -> "Every":
        return self if self.start else replace(self, start=instant)

    def same_as(self, other: object) -> bool:
        if not isinstance(other, Every) or self.interval != other.interval:
            return False
        return self.start is None or other.start is None or self.start == other.start

    def to_json(self) -> dict[str, Any]:
        start = {} if self.start is None else {"start": write_instant(self.start)}
        return {"every": format_duration(self.interval), **start}

    def _start(self) -> datetime:
        if self.start is None:
            raise ValueError("an interval without a start has no occurrences: give it a start first")
        return self.start

    def _nth(self, steps: int) -> Occurrence | None:
        try:
            due = self._start() + steps * self.interval
        except OverflowError:  # past year 9999
            return None
        return Occurrence(write_instant(due), due)


# -- rules of wall time

Placed = TypeVar("Placed", bound="Local")


@dataclass(frozen=True, kw_only=True)
class Local(ABC):
    """The base of all rules of wall time. A subclass defines the wall-clock readings, and may define the names of
    occurrences."""

    timezone: str | None = None
    dst: Dst = OPEN
    by_date: bool = False  # occurrences are named by date alone: another time on that day is the same occurrence

    usual_gap = "shift"

    @property
    def steps(self) -> int:
        return 0

    @property
    def local(self) -> bool:
        return True

    @property
    def spacing(self) -> bool:
        """Whether occurrences stay evenly spaced in real time while clocks are changed. They are then named by their
        instants, so that a move to another zone neither misses nor repeats an occurrence."""
        return False

    @property
    @abstractmethod
    def readings(self) -> Readings:
        """The wall-clock readings of the rule."""

    @cached_property
    def times(self) -> WallTimes:
        gap, overlap = self.dst.gap or self.usual_gap, self.dst.overlap or "first"
        place = zone(self.timezone or DEFAULT_ZONE)
        return WallTimes(self.readings, place, gap=gap, overlap=overlap, spacing=self.spacing)

    def shows(self, reading: int) -> bool:
        """Whether *reading* is one of the rule's readings."""
        return self.readings.first(reading) == reading

    def name_of(self, shown: Shown) -> str:
        if self.by_date:
            return wall_of(shown.reading).date().isoformat() + (" again" if shown.again else "")
        return write_instant(shown.at) if self.spacing else shown.name

    @property
    def naming(self) -> dict[str, Any]:
        return {"named": BY_DATE} if self.by_date else {}

    def after(self, instant: datetime) -> Occurrence | None:
        return self._occurrence(self.times.after(instant))

    def last(self, until: datetime) -> Occurrence | None:
        return self._occurrence(self.times.last(until))

    def count(self, first: datetime, until: datetime) -> int:
        return self.times.count(first, until)

    def anew(self, occurrence: Occurrence) -> Occurrence | None:
        if self.spacing:
            return self.after(occurrence.at - timedelta(microseconds=1))
        wall, _, again = occurrence.name.partition(" ")
        return self._occurrence(self.times.anew(reading_of(datetime.fromisoformat(wall)), bool(again)))

    def placed(self: Placed, timezone: str, dst: Dst) -> Placed:
        return replace(self, timezone=timezone, dst=dst)

    def anchored(self: Placed, instant: datetime) -> Placed:
        return self

    def same_as(self, other: object) -> bool:
        return self == other

    def _occurrence(self, shown: Shown | None) -> Occurrence | None:
        return None if shown is None else Occurrence(self.name_of(shown), shown.at)


@dataclass(frozen=True)
class Cron(Local):
    """A rule given by a cron expression."""

    expression: str

    usual_gap = "after"

    @property
    def spacing(self) -> bool:
        return readings_of(self.expression)[1]

    @property
    def readings(self) -> Readings:
        return readings_of(self.expression)[0]

    def to_json(self) -> dict[str, Any]:
        return {"cron": self.expression}


@dataclass(frozen=True)
class Yearly(Local):
    """A date in every year, at a time of day. Occurrences are named by their date alone, so that another time of day is
    the same occurrence."""

    month: int
    day: int
    at: time
    leap: str = "feb28"
    since: int = FIRST_YEAR

    @property
    def readings(self) -> Readings:
        return YearlyReadings(self.month, self.day, self.at, self.leap, self.since)

    def name_of(self, shown: Shown) -> str:
        return f"{wall_of(shown.reading).year:04}-{self.month:02}-{self.day:02}" + (" again" if shown.again else "")

    def anew(self, occurrence: Occurrence) -> Occurrence | None:
        new_year = datetime(int(occurrence.name[:4]), 1, 1)  # noqa: DTZ001 - on the wall
        return self._occurrence(self.times.anew(reading_of(new_year), occurrence.name.endswith("again")))

    def to_json(self) -> dict[str, Any]:
        leap = {"leap": self.leap} if (self.month, self.day) == (2, 29) else {}
        return {
            "yearly": f"{self.month:02}-{self.day:02}",
            "at": self.at.isoformat("seconds" if self.at.second else "minutes"),
            **leap,
            **({"since": self.since} if self.since > FIRST_YEAR else {}),
        }


@dataclass(frozen=True)
class RRule(Local):
    """A recurrence rule of RFC 5545. Rules that recur within a day stay evenly spaced in real time."""

    text: RecurrenceText
    start: datetime | None = None  # a naive wall-clock time, once the rule is placed in a zone

    @property
    def spacing(self) -> bool:
        return self.text.parts.frequency in WITHIN_THE_DAY

    @property
    def steps(self) -> int:
        return self.readings.steps

    @cached_property
    def readings(self) -> Recurrence:
        if self.start is None:
            raise ValueError("a recurrence rule without a start has no occurrences: give it a start first")
        return bind(self.text, self.start, to_wall=partial(to_wall, name=self.timezone or DEFAULT_ZONE))

    def placed(self, timezone: str, dst: Dst) -> "RRule":
        aware = self.start is not None and self.start.tzinfo is not None
        start = to_wall(self.start, timezone) if aware and self.start is not None else self.start
        return replace(self, timezone=timezone, dst=dst, start=start)

    def anchored(self, instant: datetime) -> "RRule":
        if self.start is not None:
            return self.placed(self.timezone or DEFAULT_ZONE, self.dst)
        begun = replace(self, start=to_wall(instant, self.timezone or DEFAULT_ZONE).replace(microsecond=0))
        return begun if self.text.parts.count is None else begun._from_the_next()

    def _from_the_next(self) -> "RRule":
        """The rule with its start at the next occurrence, if its start is an occurrence: the instant of creation has
        passed and cannot fire, and COUNT counts fired occurrences. All that the rule takes from its start is the same
        at the next occurrence."""
        endless = replace(self, text=self.text._replace(parts=replace(self.text.parts, count=None)))
        now = reading_of(self.start) if self.start is not None else 0
        with suppress(TooMuchWork):  # raised again when the next occurrence is computed
            if endless.shows(now) and (following := endless.readings.first(now + 1)) is not None:
                return replace(self, start=wall_of(following))
        return self

    def same_as(self, other: object) -> bool:
        if not isinstance(other, RRule) or self.start is None or other.start is None:
            return isinstance(other, RRule) and replace(self, start=None) == replace(other, start=None)
        return self == other

    def to_json(self) -> dict[str, Any]:
        start = {} if self.start is None else {"start": self.start.isoformat()}
        exdates = [_written(left_out) for left_out in self.text.exdates]
        return {"rrule": self.text.text, **start, **({"exdate": exdates} if exdates else {}), **self.naming}


def _written(left_out: datetime | date) -> str:
    if isinstance(left_out, datetime) and left_out.tzinfo is not None:
        return write_instant(left_out)
    return left_out.isoformat()


WITHIN_THE_DAY = ("HOURLY", "MINUTELY", "SECONDLY")


@dataclass(frozen=True)
class OnceLocal(Local):
    """A rule with a single wall-clock reading in a zone."""

    wall: datetime

    @property
    def readings(self) -> Readings:
        return OneReading(reading_of(self.wall))

    def to_json(self) -> dict[str, Any]:
        return {"at": self.wall.isoformat(), **self.naming}


@dataclass(frozen=True)
class OneReading:
    reading: int

    def first(self, low: int) -> int | None:
        return self.reading if self.reading >= low else None

    def last(self, high: int) -> int | None:
        return self.reading if self.reading < high else None

    def count(self, low: int, high: int) -> int:
        return int(low <= self.reading < high)
