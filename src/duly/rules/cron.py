"""Cron expressions: five fields, or six with seconds first.

An expression is a set of wall-clock readings: some times of day on some days. Times and days are looked up in tables,
so finding the next occurrence takes microseconds even if it is years away.
"""

from bisect import bisect_left
from calendar import monthrange, weekday
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from duly.errors import Invalid, Problem
from duly.rules.cron_fields import DAYS, HOURS, MINUTES, MONTHS, SECONDS, WEEKDAYS, Days, parse_field, split_fields

DAY = 86400  # seconds
LAST_YEAR = 9998  # the year after it is still a valid date
LONGEST_PAUSE = 41
"""Years to search, more than can lie between two occurrences: five Mondays in February come 40 years apart around
2100."""

MONTHS_KEPT = 1200
"""Months in the cache of each expression; computing the days of a month takes 20 µs."""

_EPOCH = date(1970, 1, 1).toordinal()
_LAST_DAY = date(LAST_YEAR, 12, 31).toordinal() - _EPOCH


class Expression(NamedTuple):
    """The parsed fields of a cron expression."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: Days
    months: tuple[int, ...]
    weekdays: Days
    spacing: bool  # the minute or hour field begins with a star: evenly spaced in real time when clocks change


def parse_cron(text: object) -> Expression:
    """Parses a cron expression. Raises `Invalid`, with field and reason, if it is malformed, out of range or
    impossible."""
    written = split_fields(text)
    problems: list[Problem] = []
    seconds = parse_field(SECONDS, written[0], problems)
    minutes = parse_field(MINUTES, written[1], problems)
    hours = parse_field(HOURS, written[2], problems)
    days = parse_field(DAYS, written[3], problems)
    months = parse_field(MONTHS, written[4], problems)
    weekdays = parse_field(WEEKDAYS, written[5], problems)
    if problems:
        raise Invalid(problems)
    spacing = written[1].startswith("*") or written[2].startswith("*")
    parsed = Expression(seconds.plain, minutes.plain, hours.plain, days, months.plain, weekdays, spacing)
    _refuse_impossible(parsed, written)
    return parsed


def _refuse_impossible(expression: Expression, written: tuple[str, ...]) -> None:
    """Raises `Invalid` for an expression without any day. There are only fourteen kinds of year, so days that occur in
    none of them never occur."""
    for year in range(2000, 2028):  # any 28 years in a row that skip no leap year contain all fourteen kinds
        if any(days_of(expression, year, month) for month in expression.months):
            return
    which, field = (written[3], "day of month") if not expression.days.every else (written[5], "day of week")
    raise Invalid(
        [Problem("rule.cron", f"{field} {which!r} does not exist in month {written[4]!r}: it would never fire")]
    )


def days_of(expression: Expression, year: int, month: int) -> tuple[int, ...]:
    """The days of a month on which the expression fires. If both day fields are restricted, a match of either is
    enough, as in cron."""
    if month not in expression.months:
        return ()
    first, length = weekday(year, month, 1), monthrange(year, month)[1]
    by_day, by_weekday = expression.days, expression.weekdays
    numbers, names = _by_number(by_day, first, length), _by_weekday(by_weekday, first, length)
    either = not by_day.every and not by_weekday.every
    return tuple(sorted(numbers | names if either else numbers & names))


def _by_number(days: Days, first: int, length: int) -> set[int]:
    found = {day for day in days.plain if day <= length}
    if days.last:
        found.add(length)
    if days.last_workday:
        found.add(_nearest_workday(length, first, length))
    return found | {_nearest_workday(day, first, length) for day in days.workdays if day <= length}


def _nearest_workday(day: int, first: int, length: int) -> int:
    """The workday (Monday to Friday) nearest to a day, in the same month."""
    falls = (first + day - 1) % 7
    if falls == 5:
        return day - 1 if day > 1 else day + 2
    if falls == 6:
        return day + 1 if day < length else day - 2
    return day


def _by_weekday(weekdays: Days, first: int, length: int) -> set[int]:
    """The days of a month that match the weekday field. Cron counts weekdays from Sunday, 0."""
    found = {day for day in range(1, length + 1) if (first + day) % 7 in weekdays.plain}
    for falls, nth in weekdays.nths:
        day = 1 + (falls - 1 - first) % 7 + 7 * (nth - 1)
        if day <= length:
            found.add(day)
    for falls in weekdays.lasts:
        found.add(length - (first + length - falls) % 7)
    return found


class CronReadings:
    """The wall-clock readings of a cron expression."""

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._seconds = expression.seconds
        self._minutes = tuple(3600 * hour + 60 * minute for hour in expression.hours for minute in expression.minutes)
        self._months: dict[tuple[int, int], tuple[int, ...]] = {}
        self._first_time = self._minutes[0] + self._seconds[0]
        self._last_time = self._minutes[-1] + self._seconds[-1]

    def first(self, low: int) -> int | None:
        day, time = divmod(low, DAY)
        found = self._first_day(day)
        if found == day:
            if time <= self._last_time:
                return day * DAY + self._first_time_from(time)
            found = self._first_day(day + 1)
        return None if found is None else found * DAY + self._first_time

    def last(self, high: int) -> int | None:
        day, time = divmod(high, DAY)
        found = self._last_day(day)
        if found == day:
            if time > self._first_time:
                return day * DAY + self._last_time_before(time)
            found = self._last_day(day - 1)
        return None if found is None else found * DAY + self._last_time

    def count(self, low: int, high: int) -> int:
        return (
            self._rank(high)
            - self._rank(low)
            + len(self._minutes) * len(self._seconds) * self._days(low // DAY, high // DAY)
        )

    def _rank(self, reading: int) -> int:
        """The number of readings before *reading* on its day."""
        day, time = divmod(reading, DAY)
        if self._first_day(day) != day:
            return 0
        minute, second = time - time % 60, time % 60
        index = bisect_left(self._minutes, minute)
        exact = index < len(self._minutes) and self._minutes[index] == minute
        return index * len(self._seconds) + (bisect_left(self._seconds, second) if exact else 0)

    def _first_time_from(self, time: int) -> int:
        """The first time of day not before *time*. The caller has checked that the day's last time is not earlier."""
        minute, second = time - time % 60, time % 60
        index = bisect_left(self._minutes, minute)
        if self._minutes[index] == minute:
            if second <= self._seconds[-1]:
                return minute + self._seconds[bisect_left(self._seconds, second)]
            index += 1
        return self._minutes[index] + self._seconds[0]

    def _last_time_before(self, time: int) -> int:
        """The last time of day before *time*. The caller has checked that the day's first time is earlier."""
        minute, second = time - time % 60, time % 60
        index = bisect_left(self._minutes, minute)
        if index < len(self._minutes) and self._minutes[index] == minute and second > self._seconds[0]:
            return minute + self._seconds[bisect_left(self._seconds, second) - 1]
        return self._minutes[index - 1] + self._seconds[-1]

    def _first_day(self, day: int) -> int | None:
        """The first matching day that is not before *day*; days are counted from 1970-01-01."""
        if day > _LAST_DAY:
            return None
        at = date.fromordinal(max(1, day + _EPOCH))
        year, month, least = at.year, at.month, at.day
        for _ in range(12 * LONGEST_PAUSE + 1):
            days = self._days_of(year, month)
            if days and days[-1] >= least:
                return date(year, month, days[bisect_left(days, least)]).toordinal() - _EPOCH
            year, month, least = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
            if year > LAST_YEAR:
                break
        return None

    def _last_day(self, day: int) -> int | None:
        if day + _EPOCH < 1:
            return None
        at = date.fromordinal(min(day, _LAST_DAY) + _EPOCH)
        year, month, most = at.year, at.month, at.day
        for _ in range(12 * LONGEST_PAUSE + 1):
            days = self._days_of(year, month)
            if days and days[0] <= most:
                return date(year, month, days[bisect_left(days, most + 1) - 1]).toordinal() - _EPOCH
            year, month, most = (year, month - 1, 31) if month > 1 else (year - 1, 12, 31)
            if year < 1:
                break
        return None

    def _days_of(self, year: int, month: int) -> tuple[int, ...]:
        days = self._months.get((year, month))
        if days is None:
            if len(self._months) > MONTHS_KEPT:
                self._months.clear()
            days = self._months[year, month] = days_of(self._expression, year, month)
        return days

    def _days(self, low: int, high: int) -> int:
        """The number of matching days from *low* up to, not including, *high*."""
        total = 0
        at, end = date.fromordinal(low + _EPOCH), date.fromordinal(high + _EPOCH)
        year, month, least = at.year, at.month, at.day
        while (year, month) <= (end.year, end.month):
            days = self._days_of(year, month)
            most = end.day if (year, month) == (end.year, end.month) else 32
            total += bisect_left(days, most) - bisect_left(days, least)
            year, month, least = (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)
        return total


@lru_cache(maxsize=4096)
def readings_of(text: str) -> tuple[CronReadings, bool]:
    """The readings of an expression, and whether it is evenly spaced in real time when clocks change."""
    expression = parse_cron(text)
    return CronReadings(expression), expression.spacing
