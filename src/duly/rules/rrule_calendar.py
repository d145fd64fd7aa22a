"""The calendar of recurrence rules: the days and times of day that a rule allows, and its periods.

Days are numbered from 1970-01-01, which is 0. The calendar repeats every 400 years and has only 28 kinds of year, so
a rule's days are computed once for each kind that occurs.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import accumulate, pairwise
from math import prod
from typing import NamedTuple, Protocol

from duly.rules.rrule_text import LAST_YEAR, ByDay

DAY = 86_400  # seconds

_DAY_ZERO = date(1970, 1, 1).toordinal()
_CYCLE = 400  # years; a whole number of weeks, so that weekdays repeat too
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def first_day(year: int) -> int:
    """The day number of 1 January of a year, for years past 9999 as well."""
    before = year - 1
    return 365 * before + before // 4 - before // 100 + before // 400 + 1 - _DAY_ZERO


def date_of(day: int) -> date:
    return date.fromordinal(day + _DAY_ZERO)


@lru_cache
def month_begins(*, leap: bool) -> tuple[int, ...]:
    """Days of the year, from 0, on which the months begin; the thirteenth is the year's length."""
    return tuple(accumulate((days + (leap and month == 1) for month, days in enumerate(_MONTHS)), initial=0))


def weekday(day: int) -> int:
    return (day + 3) % 7


def is_leap(year: int) -> bool:
    return first_day(year + 1) - first_day(year) == 366


class _YearKind(NamedTuple):
    """All facts that decide which days of a year match. The years before and after matter because they may contain
    most of its first and last week."""

    begins_on: int
    leap: bool
    after_leap: bool
    before_leap: bool


@lru_cache(maxsize=1024)
def _first_day_and_kind(year: int) -> tuple[int, _YearKind]:
    first = first_day(year)
    return first, _YearKind(weekday(first), is_leap(year), is_leap(year - 1), is_leap(year + 1))


class DayFilter(NamedTuple):
    """The parts of a rule that select days; an empty part allows all days."""

    months: frozenset[int] = frozenset()
    week_numbers: frozenset[int] = frozenset()
    year_days: frozenset[int] = frozenset()
    month_days: frozenset[int] = frozenset()
    weekdays: frozenset[ByDay] = frozenset()
    ordinals_in_month: bool = False
    week_start: int = 0

    def days_of(self, year: int) -> Sequence[int]:
        """The matching days of a year, in order; 1 January is 0."""
        first, begins = first_day(year), month_begins(leap=is_leap(year))
        if not any(self[:5]):
            return range(begins[-1])
        found = array("H")
        for month, (begin, end) in enumerate(pairwise(begins), 1):
            if not self.months or month in self.months:
                low, high = (begin, end) if self.ordinals_in_month else (0, begins[-1])
                found.extend(
                    day
                    for day in range(begin, end)
                    if (not self.month_days or not self.month_days.isdisjoint((day - begin + 1, day - end)))
                    and (not self.year_days or not self.year_days.isdisjoint((day + 1, day - begins[-1])))
                    and (
                        not self.weekdays or self._allows_weekday(first + day, (day - low) // 7 + 1, (day - high) // 7)
                    )
                    and (not self.week_numbers or self._allows_week(first + day))
                )
        return found

    def _allows_weekday(self, day: int, nth: int, nth_from_end: int) -> bool:
        this = weekday(day)
        return not self.weekdays.isdisjoint(((0, this), (nth, this), (nth_from_end, this)))

    def _allows_week(self, day: int) -> bool:
        """Whether the week of a day is allowed. A week belongs to the year of its fourth day, for any week start."""
        fourth = day - (weekday(day) - self.week_start) % 7 + 3
        year = date_of(fourth).year
        nth, nth_from_end = (fourth - first_day(year)) // 7 + 1, (fourth - first_day(year + 1)) // 7
        return not self.week_numbers.isdisjoint((nth, nth_from_end))


class MatchingDays:
    """The days that match a filter, found without iterating over the days between."""

    def __init__(self, wanted: DayFilter) -> None:
        self._filter = wanted
        self._by_kind: dict[_YearKind, Sequence[int]] = {}

    def at_or_after(self, day: int) -> int | None:
        year = date_of(day).year
        first, days = self._of(year)
        place = bisect_left(days, day - first)
        if place < len(days):
            return first + days[place]
        for later in range(year + 1, min(year + _CYCLE, LAST_YEAR) + 1):
            first, days = self._of(later)
            if days:
                return first + days[0]
        return None

    def before(self, day: int) -> int | None:
        year = date_of(day).year
        first, days = self._of(year)
        place = bisect_left(days, day - first)
        if place:
            return first + days[place - 1]
        for earlier in range(year - 1, year - _CYCLE - 1, -1):
            first, days = self._of(earlier)
            if days:
                return first + days[-1]
        return None

    def between(self, low: int, high: int) -> list[int]:
        """The matching days from *low* up to, not including, *high*."""
        found: list[int] = []
        for year in range(date_of(low).year, date_of(high - 1).year + 1):
            first, days = self._of(year)
            found += [first + day for day in days[bisect_left(days, low - first) : bisect_left(days, high - first)]]
        return found

    def count(self, low: int, high: int) -> int:
        """The number of matching days from *low* up to, not including, *high*."""
        begin, end = date_of(low).year, date_of(high).year
        cycles, rest = divmod(end - begin, _CYCLE)
        whole = cycles * self._count_years(begin, _CYCLE) if cycles else 0
        return self._place(high) - self._place(low) + whole + self._count_years(begin, rest)

    def _count_years(self, begin: int, years: int) -> int:
        return sum(len(self._of(year)[1]) for year in range(begin, begin + years))

    def __contains__(self, day: int) -> bool:
        first, days = self._of(date_of(day).year)
        place = bisect_left(days, day - first)
        return place < len(days) and days[place] == day - first

    def _place(self, day: int) -> int:
        """The number of matching days of the same year before *day*."""
        first, days = self._of(date_of(day).year)
        return bisect_left(days, day - first)

    def _of(self, year: int) -> tuple[int, Sequence[int]]:
        first, kind = _first_day_and_kind(year)
        days = self._by_kind.get(kind)
        if days is None:
            alike = _CYCLE * 5 + year % _CYCLE  # an equal year near 2000: the last week of 9999 may be in year 10000
            days = self._by_kind[kind] = self._filter.days_of(alike)
        return first, days


@lru_cache(maxsize=256)
def matching_days(wanted: DayFilter) -> MatchingDays:
    """The days that match a filter, shared by all rules with the same filter."""
    return MatchingDays(wanted)


class TimeFilter(NamedTuple):
    """The parts of a rule that select times of day; an empty part allows all times.

    The day consists of units of *unit* seconds. Units whose number is *phase* modulo *step* are allowed, and of the
    times in each unit only those at *positions*.
    """

    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    unit: int = DAY
    step: int = 1
    phase: int = 0
    positions: tuple[int, ...] = ()


class Times:
    """Times of day in order, as seconds since midnight. They are stored as parts of the day, each with its beginning
    and the offsets of its times. Hours or minutes with the same offsets share one sequence: a rule that names every
    second of the day has 1,440 parts and not 86,400 numbers, which took 20 ms to build."""

    def __init__(self, parts: Iterable[tuple[int, Sequence[int]]]) -> None:
        kept = [(begin, offsets) for begin, offsets in parts if offsets]
        self._begins = array("I", (begin for begin, _ in kept))
        self._offsets = [offsets for _, offsets in kept]
        self._places = array("I", accumulate((len(offsets) for offsets in self._offsets), initial=0))

    def __len__(self) -> int:
        return self._places[-1]

    def __getitem__(self, place: int) -> int:
        place += len(self) if place < 0 else 0
        part = bisect_right(self._places, place) - 1
        return self._begins[part] + self._offsets[part][place - self._places[part]]

    def place(self, second: int) -> int:
        """The number of times before *second*."""
        part = bisect_right(self._begins, second) - 1
        return self._places[part] + bisect_left(self._offsets[part], second - self._begins[part]) if part >= 0 else 0


@lru_cache(maxsize=64)
def matching_times(wanted: TimeFilter) -> Times:
    _, _, _, unit, step, phase, positions = wanted
    hours, minutes, seconds = wanted.hours or range(24), wanted.minutes or range(60), wanted.seconds or range(60)
    if unit == 1:
        return _stepped_seconds(wanted) if not positions or places(positions, 1) else Times(())
    if not positions:
        begins = (hour * 3600 + minute * 60 for hour in hours for minute in minutes)
        return Times((begin, seconds) for begin in begins if begin // unit % step == phase)
    axes = {DAY: (hours, minutes, seconds), 3600: (minutes, seconds), 60: (seconds,)}[unit]
    chosen = tuple(_nth(axes, place) for place in places(positions, prod(map(len, axes))))
    units = {
        DAY: (0,),
        3600: (hour * 3600 for hour in hours),
        60: (hour * 3600 + minute * 60 for hour in hours for minute in minutes),
    }[unit]
    return Times((begin, chosen) for begin in units if begin // unit % step == phase)


def _stepped_seconds(wanted: TimeFilter) -> Times:
    """The seconds that are *phase* modulo *step*. Which seconds of a minute match depends only on the minute's
    beginning modulo *step*."""
    hours, minutes, seconds, _, step, phase, _ = wanted
    if not hours and not minutes and not seconds:
        return Times([(0, range(phase, DAY, step))])
    fitting: dict[int, list[int]] = {}
    for second in seconds or range(60):
        fitting.setdefault((phase - second) % step, []).append(second)
    begins = (hour * 3600 + minute * 60 for hour in hours or range(24) for minute in minutes or range(60))
    return Times((begin, fitting.get(begin % step, ())) for begin in begins)


def _nth(axes: Sequence[Sequence[int]], place: int) -> int:
    """The time at a place in the ordered product of all axes; the last axis is seconds, the one before it minutes."""
    time, weight = 0, 1
    for axis in reversed(axes):
        place, index = divmod(place, len(axis))
        time, weight = time + axis[index] * weight, weight * 60
    return time


@lru_cache(maxsize=256)
def places(positions: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The indexes of BYSETPOS positions in a sequence of *size* items. Positions count from 1, or from -1 at the
    end."""
    found = {position - 1 if position > 0 else size + position for position in positions}
    return tuple(sorted(place for place in found if 0 <= place < size))


class Periods(Protocol):
    """The periods of a frequency, such as months, numbered in order."""

    def number(self, reading: int) -> int: ...

    def begin(self, number: int) -> int:
        """The first reading of a period."""


@dataclass(frozen=True, slots=True)
class _Even:
    """Periods of one length in seconds, from weeks down to seconds."""

    size: int
    shift: int = 0

    def number(self, reading: int) -> int:
        return (reading - self.shift) // self.size

    def begin(self, number: int) -> int:
        return number * self.size + self.shift


@dataclass(frozen=True, slots=True)
class _Months:
    """Periods of *size* months each."""

    size: int

    def number(self, reading: int) -> int:
        there = date_of(reading // DAY)
        return (there.year * 12 + there.month - 1) // self.size

    def begin(self, number: int) -> int:
        year, month = divmod(number * self.size, 12)
        return (first_day(year) + month_begins(leap=is_leap(year))[month]) * DAY


UNITS = {"SECONDLY": 1, "MINUTELY": 60, "HOURLY": 3600, "DAILY": DAY}
_PERIODS: dict[str, Periods] = {
    **{frequency: _Even(size) for frequency, size in UNITS.items()},
    "MONTHLY": _Months(1),
    "YEARLY": _Months(12),
}


def periods(frequency: str, week_start: int) -> Periods:
    if frequency == "WEEKLY":
        return _Even(7 * DAY, (week_start - weekday(0)) * DAY)
    return _PERIODS[frequency]
