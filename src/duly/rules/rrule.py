"""Recurrence rules of RFC 5545 on the wall clock, evaluated without iterating from the start.

A rule allows some days and times of day (:mod:`duly.rules.rrule_calendar`), and its interval allows every n-th period.
The search jumps between the two until a reading is allowed by both, and counts each jump without a result. An
impossible rule therefore ends in TooMuchWork, not in an endless loop. So does a rule that takes long, because other
work waits meanwhile.

Readings of the wall clock are whole seconds since 1970-01-01T00:00:00 local time, in any zone.
"""

from bisect import bisect_left, bisect_right
from calendar import timegm
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from itertools import islice
from math import gcd
from typing import NamedTuple

from duly.rules.rrule_calendar import (
    DAY,
    UNITS,
    DayFilter,
    MatchingDays,
    Periods,
    TimeFilter,
    Times,
    date_of,
    first_day,
    matching_days,
    matching_times,
    periods,
    places,
)
from duly.rules.rrule_text import FIRST_YEAR, LAST_YEAR, ByDay, Parts, RecurrenceText, parse_recurrence

__all__ = ["MOST_COUNTED", "MOST_STEPS", "Recurrence", "RecurrenceText", "TooMuchWork", "bind", "parse_recurrence"]

MOST_STEPS = 10_000
"""Steps that one call may take, of 2 to 3 µs each. A period without an occurrence costs one step, more with
BYSETPOS."""

STEPS_TO_CHOOSE = 5
"""Steps that applying BYSETPOS to a period costs at least."""

ITEMS_PER_STEP = 16
"""Days and positions of BYSETPOS that cost one more step."""

MOST_COUNTED = 10_000
"""Occurrences that are counted one by one, if their number cannot be calculated. A rule with a higher COUNT is
refused."""

_HORIZON = first_day(LAST_YEAR + 1) * DAY


class TooMuchWork(ValueError):
    """The rule is impossible, or so sparse that the search is not worth continuing."""


@dataclass(frozen=True)
class Recurrence:
    """A rule with its start and its excluded times or whole days (EXDATE), all of them naive.

    The start is an occurrence only if the rule allows it. Periods are numbered from the start, and a day or time that
    the rule leaves open is taken from it.
    """

    parts: Parts
    start: datetime
    exdates: frozenset[datetime | date] = frozenset()

    def __post_init__(self) -> None:
        moments = [moment for moment in (self.start, self.parts.until, *self.exdates) if isinstance(moment, datetime)]
        if any(moment.tzinfo for moment in moments):
            raise ValueError("a recurrence uses naive local times: convert aware datetimes first")
        if self.start.microsecond or not FIRST_YEAR <= self.start.year <= LAST_YEAR:
            raise ValueError(
                f"{self.start}: a start must be in whole seconds and in the years {FIRST_YEAR} to {LAST_YEAR}"
            )

    def first(self, low: int) -> int | None:
        """The first reading not before *low*; None if there is none before year 9999."""
        known = self._found
        if known is not None and known[0] <= low and (known[1] is None or low <= known[1]):
            return known[1]
        effort = _Effort("without finding an occurrence: the rule is impossible or too sparse")
        reading = self._next(low, effort)
        while reading is not None and (gone := self._left_out(reading)):
            effort.spend(reading)
            reading = self._next(gone.end, effort)
        self.__dict__["_found"] = low, reading
        self.__dict__["steps"] = self.steps + effort.steps
        return reading

    def last(self, high: int) -> int | None:
        """The last reading before *high*."""
        effort = _Effort("without finding an occurrence: the rule is impossible or too sparse")
        reading = self._previous(high, effort)
        while reading is not None and (gone := self._left_out(reading)):
            effort.spend(reading)
            reading = self._previous(gone.begin, effort)
        self.__dict__["steps"] = self.steps + effort.steps
        return reading

    def count(self, low: int, high: int) -> int:
        """The number of readings from *low* up to, not including, *high*. If they must be counted one by one, the
        result is at most MOST_COUNTED."""
        effort = _Effort("without counting them all: give a shorter range")
        begin = bisect_right(self._spans, low, key=lambda span: span.end)
        end = bisect_left(self._spans, high, key=lambda span: span.begin)
        total = 0
        for gone in (*self._spans[begin:end], _Span(high, high)):
            total += self._count(low, gone.begin, MOST_COUNTED - total, effort)
            low = max(low, gone.end)
        return total

    @property
    def countable(self) -> bool:
        """Whether the number of occurrences is calculated, and not counted one by one."""
        return self._every_period or self._even is not None

    # -- cached results

    @cached_property
    def _found(self) -> tuple[int, int | None] | None:
        """The last argument of `first`, with its result. Each occurrence is asked for two or three times: for itself,
        for the end of its zone's summer time, and for the occurrence before."""
        return None

    @cached_property
    def steps(self) -> int:
        """Steps that all calls took so far."""
        return 0

    @cached_property
    def _last_chosen(self) -> tuple[int, list[int]] | None:
        return None

    # -- the allowed days and times, computed once

    @cached_property
    def _start(self) -> int:
        return _span(self.start).begin

    @cached_property
    def _end(self) -> int:
        """The exclusive upper bound of all readings."""
        if not self._times:
            return self._start
        if self.parts.count is not None:
            return self._end_by_count(self.parts.count)
        until = self.parts.until
        if until is None or until.year > LAST_YEAR:
            return _HORIZON
        return min(_span(until).end, _HORIZON)

    @cached_property
    def _days(self) -> MatchingDays:
        parts, start = self.parts, self.start
        months, month_days, weekdays = parts.by_month, parts.by_month_day, parts.by_day
        if not (parts.by_week_number or parts.by_year_day or month_days or weekdays):
            if parts.frequency == "YEARLY":
                months, month_days = months or (start.month,), (start.day,)
            elif parts.frequency == "MONTHLY":
                month_days = (start.day,)
            elif parts.frequency == "WEEKLY":
                weekdays = (ByDay(0, start.weekday()),)
        return matching_days(
            DayFilter(
                frozenset(months),
                frozenset(parts.by_week_number),
                frozenset(parts.by_year_day),
                frozenset(month_days),
                frozenset(weekdays),
                ordinals_in_month=parts.frequency == "MONTHLY" or bool(parts.by_month),
                week_start=parts.week_start,
            )
        )

    @cached_property
    def _times(self) -> Times:
        parts, start, unit = self.parts, self.start, self._unit
        return matching_times(
            TimeFilter(
                parts.by_hour or ((start.hour,) if unit > 3600 else ()),
                parts.by_minute or ((start.minute,) if unit > 60 else ()),
                parts.by_second or ((start.second,) if unit > 1 else ()),
                unit,
                self._step,
                self._start % DAY // unit % self._step,
                () if self._positions else parts.by_position,
            )
        )

    @cached_property
    def _step(self) -> int:
        """The part of the interval that is the same on each day, so that the times of day can account for it."""
        return gcd(self.parts.interval, DAY // self._unit)

    @cached_property
    def _unit(self) -> int:
        """The length of a period in seconds, at most a day."""
        return UNITS.get(self.parts.frequency, DAY)

    @cached_property
    def _positions(self) -> tuple[int, ...]:
        """The BYSETPOS positions among days. For a period of a day or less they are empty: the times of day account
        for BYSETPOS."""
        return () if self.parts.frequency in UNITS else self.parts.by_position

    @cached_property
    def _periods(self) -> Periods:
        return periods(self.parts.frequency, self.parts.week_start)

    @cached_property
    def _origin(self) -> int:
        return self._periods.number(self._start)

    @cached_property
    def _spans(self) -> list["_Span"]:
        return _merged(_span(moment) for moment in self.exdates)

    @cached_property
    def _every_period(self) -> bool:
        """Whether every allowed day and time is a reading, in every period."""
        return self.parts.interval == self._step and not self._positions

    @cached_property
    def _even(self) -> int | None:
        """The seconds between two readings if they are evenly spaced, which needs an interval of days or less and no
        BY part; else None."""
        parts, size = self.parts, UNITS.get(self.parts.frequency)
        plain = not (parts.by_month or parts.by_year_day or parts.by_month_day or parts.by_day or parts.by_position)
        if size is None or not plain or parts.by_hour or parts.by_minute or parts.by_second:
            return None
        return size * parts.interval

    # -- the search for readings, before exclusions

    def _next(self, low: int, effort: "_Effort") -> int | None:
        return next(self._all_from(low, self._end, effort), None)

    def _all_from(self, low: int, end: int, effort: "_Effort") -> Iterator[int]:
        reading = max(low, self._start)
        while reading < end:
            allowed = self._allowed_from(reading)
            if allowed is None or allowed >= end:
                return
            number = self._periods.number(allowed)
            ahead = (self._origin - number) % self.parts.interval
            if not ahead and not self._positions:
                yield allowed
                reading = allowed + 1
                effort.earn()
                continue
            if not ahead:
                chosen = self._chosen(number, effort)
                yield from chosen[bisect_left(chosen, reading) : bisect_left(chosen, end)]
                ahead = self.parts.interval
            effort.spend(allowed)
            reading = self._periods.begin(number + ahead)

    def _previous(self, high: int, effort: "_Effort") -> int | None:
        reading = min(high, self._end)
        while reading > self._start:
            allowed = self._allowed_before(reading)
            if allowed is None or allowed < self._start:
                return None
            number = self._periods.number(allowed)
            behind = (number - self._origin) % self.parts.interval
            if not behind and not self._positions:
                return allowed
            if not behind:
                chosen = self._chosen(number, effort)
                if place := bisect_left(chosen, reading):
                    return chosen[place - 1] if chosen[place - 1] >= self._start else None
                behind = self.parts.interval
            effort.spend(allowed)
            reading = self._periods.begin(number - behind + 1)
        return None

    def _count(self, low: int, high: int, most: int, effort: "_Effort") -> int:
        low, high = max(low, self._start), min(high, self._end)
        if low >= high:
            return 0
        if self._every_period:
            return self._allowed_between(low, high)
        if self._even is not None:
            return (high - 1 - self._start) // self._even - (low - 1 - self._start) // self._even
        return sum(1 for _ in islice(self._all_from(low, high, effort), most))

    def _end_by_count(self, count: int) -> int:
        if self._even is not None:
            return min(self._start + (count - 1) * self._even + 1, _HORIZON)
        if not self._every_period:
            effort = _Effort(f"without reaching its COUNT of {count}: the rule is impossible or too sparse")
            final = next(islice(self._all_from(self._start, _HORIZON, effort), count - 1, None), _HORIZON - 1)
            return final + 1
        end = self._start + DAY
        while end < _HORIZON and self._allowed_between(self._start, end) < count:
            end += 2 * (end - self._start)
        ends = range(self._start, min(end, _HORIZON))
        return ends.start + bisect_left(ends, count, key=lambda end: self._allowed_between(self._start, end))

    def _left_out(self, reading: int) -> "_Span | None":
        place = bisect_right(self._spans, reading, key=lambda span: span.begin)
        return self._spans[place - 1] if place and reading < self._spans[place - 1].end else None

    # -- allowed days and times, in any period

    def _allowed_from(self, reading: int) -> int | None:
        day, second = divmod(reading, DAY)
        if second > self._times[-1]:
            day, second = day + 1, 0
        found = self._days.at_or_after(day)
        if found is None:
            return None
        return found * DAY + self._times[self._times.place(second) if found == day else 0]

    def _allowed_before(self, reading: int) -> int | None:
        day, second = divmod(reading, DAY)
        if second > self._times[0]:
            day += 1
        else:
            second = DAY
        found = self._days.before(day)
        if found is None:
            return None
        return found * DAY + self._times[self._times.place(second) - 1 if found == day - 1 else -1]

    def _allowed_between(self, low: int, high: int) -> int:
        (low_day, low_second), (high_day, high_second) = divmod(low, DAY), divmod(high, DAY)
        whole = self._days.count(low_day, high_day) * len(self._times)
        before = self._times.place(low_second) if low_day in self._days else 0
        after = self._times.place(high_second) if high_day in self._days else 0
        return whole - before + after

    def _chosen(self, number: int, effort: "_Effort") -> list[int]:
        """The readings of a period that BYSETPOS selects, in order."""
        if (known := self._last_chosen) is not None and known[0] == number:
            return known[1]
        begin, size = self._periods.begin(number), len(self._times)
        days = self._days.between(begin // DAY, self._periods.begin(number + 1) // DAY)
        effort.spend(begin, STEPS_TO_CHOOSE + (len(days) + len(self._positions)) // ITEMS_PER_STEP)
        found = places(self._positions, len(days) * size)
        chosen = [days[place // size] * DAY + self._times[place % size] for place in found]
        self.__dict__["_last_chosen"] = number, chosen
        return chosen


def bind(
    text: RecurrenceText, start: datetime | None = None, *, to_wall: Callable[[datetime], datetime] | None = None
) -> Recurrence:
    """The recurrence of a text from *start*, by default from its own DTSTART.

    *to_wall* converts an aware time to naive local time; only times that are written in UTC need it.
    """
    start = start or text.start
    if start is None:
        raise ValueError("a recurrence without DTSTART needs a start")

    def naive(moment: datetime) -> datetime:
        if moment.tzinfo is None or moment.year > LAST_YEAR:  # past the last year zones do not matter and overflow
            return moment.replace(tzinfo=None)
        if to_wall is None:
            raise ValueError(f"{moment} is in UTC, and its local time is not known: give a time zone")
        return to_wall(moment)

    until = naive(text.until) if isinstance(text.until, datetime) else text.until
    exdates = frozenset(naive(moment) if isinstance(moment, datetime) else moment for moment in text.exdates)
    return Recurrence(replace(text.parts, until=until), naive(start), exdates)


class _Effort:
    """The cost of one call so far, in steps."""

    def __init__(self, failure: str) -> None:
        self._failure = failure
        self.steps = 0

    def earn(self) -> None:
        """Credits one step for an occurrence found: with most intervals, an empty period follows each occurrence."""
        self.steps -= 1

    def spend(self, reading: int, steps: int = 1) -> None:
        self.steps += steps
        if self.steps > MOST_STEPS:
            reached = date_of(reading // DAY)
            raise TooMuchWork(f"gave up after {MOST_STEPS:,} steps, at {reached}, {self._failure}")


class _Span(NamedTuple):
    """A range of readings from *begin* up to, not including, *end*."""

    begin: int
    end: int


def _span(moment: datetime | date) -> _Span:
    """The one reading of a time, or all readings of a date."""
    begin = timegm(moment.timetuple())
    return _Span(begin, begin + (1 if isinstance(moment, datetime) else DAY))


def _merged(spans: Iterable[_Span]) -> list[_Span]:
    """The spans sorted, with overlapping and adjacent spans merged."""
    merged: list[_Span] = []
    for span in sorted(spans):
        if merged and span.begin <= merged[-1].end:
            merged[-1] = _Span(merged[-1].begin, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged
