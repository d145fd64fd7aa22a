"""The days of a timetable, as calendars show them: how often it fires on each, why not, and changes of clocks. Pure."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta

import msgspec

from duly.decide.series.preview import never
from duly.errors import Problem
from duly.rules.exclusions import excluded_by
from duly.rules.recurrence import DEFAULT_ZONE, Dst, OnceLocal
from duly.rules.rrule import TooMuchWork
from duly.rules.timetable import BEFORE, LONG_AGO, Timetable
from duly.rules.zones import seconds_of, wall_of, zone

MOST_DAYS = 400
"""Days that are looked at together, at most: a year and some more."""

ONE_DAY = timedelta(days=1)
FIRST_YEAR, LAST_YEAR = 1971, 9990
"""The years of days that are looked at: local midnights around them are still instants."""


class ScheduleDay(msgspec.Struct, frozen=True):
    """A day on the clocks of a schedule's zone."""

    day: date
    starts: datetime
    ends: datetime  # the first instant of the next day
    expected: int | None  # occurrences by the rule; None if that would take too long to find out
    first: tuple[datetime, ...] = ()  # the first few of them; of an excluded day, the first that does not fire
    excluded: str | None = None  # the exclusion that keeps the schedule from firing
    clocks: str | None = None  # what the clocks do on this day


def days_problems(first: date, last: date) -> list[Problem]:
    """The problems of a range of days."""
    if not FIRST_YEAR <= first.year <= last.year <= LAST_YEAR:
        return [Problem("day", f"must be in the years {FIRST_YEAR} to {LAST_YEAR}, not {first.year}")]
    if not timedelta() <= last - first < timedelta(days=MOST_DAYS):
        return [Problem("day", f"at most {MOST_DAYS} days can be shown together, in their order")]
    return []


def midnight(day: date, timezone: str) -> datetime:
    """The first instant of a local day; if the clocks skip midnight, the end of that gap."""
    wall = datetime.combine(day, time())
    found = OnceLocal(wall=wall, timezone=timezone, dst=Dst("after", "first")).after(LONG_AGO)
    return wall.replace(tzinfo=UTC) if found is None else found.at  # every wall time has an instant


def days_of(
    table: Timetable, first: date, last: date, since: datetime | None, times: int, enough: Callable[[], bool] = never
) -> list[ScheduleDay]:
    """The days from *first* to *last*, with up to *times* instants of each. Before *since* nothing was expected. When
    *enough* returns true, or the rule is too much work, the rest is left open."""
    place = table.rule.timezone or DEFAULT_ZONE
    found, day, starts, open_end = list[ScheduleDay](), first, midnight(first, place), False
    while day <= last:
        ends = midnight(day + ONE_DAY, place)
        excluded = excluded_by(table.policies.exclude, day) if table.policies.exclude else None
        expected: int | None = 0
        instants: tuple[datetime, ...] = ()
        open_end = open_end or enough()
        begins = starts if since is None else max(starts, since)
        try:
            if excluded is not None:
                instants = _left_out(table, starts, ends) if times and not open_end else ()
            elif begins < ends:
                expected = None if open_end else table.count(begins, ends - BEFORE)
                instants = _first(table, begins, ends, min(times, expected or 0))
        except TooMuchWork:
            expected, open_end = (None if excluded is None else 0), True
        found.append(ScheduleDay(day, starts, ends, expected, instants, excluded, _clocks(place, starts, ends)))
        day, starts = day + ONE_DAY, ends
    return found


def _first(table: Timetable, starts: datetime, ends: datetime, many: int) -> tuple[datetime, ...]:
    found, after = list[datetime](), starts - BEFORE
    while len(found) < many and (following := table.after(after)) is not None and following.at < ends:
        found.append(following.at)
        after = following.at
    return tuple(found)


def _left_out(table: Timetable, starts: datetime, ends: datetime) -> tuple[datetime, ...]:
    """The first instant that the rule names on an excluded day."""
    passed = table.rule.after(starts - BEFORE)
    return () if passed is None or passed.at >= ends else (passed.at,)


def _clocks(place: str, starts: datetime, ends: datetime) -> str | None:
    """What the clocks do on a day, such as ``clocks go forward 1 h at 02:00``."""
    piece = zone(place).piece(seconds_of(starts))
    change = piece.after - piece.offset
    if piece.end >= seconds_of(ends) or not change:
        return None
    at = wall_of(piece.end + piece.offset)
    hours, seconds = divmod(abs(change), 3600)
    span = f"{hours} h" if not seconds else f"{abs(change) // 60} min"
    return f"clocks go {'forward' if change > 0 else 'back'} {span} at {at:%H:%M}"
