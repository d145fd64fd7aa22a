"""Compares the runs of a schedule with those that another scheduler has for the job it came from."""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from duly.imports.found import NextRun
from duly.rules.recurrence import DEFAULT_ZONE
from duly.rules.timetable import Timetable
from duly.rules.zones import Piece, Zone, instant_of, reading_of, seconds_of, to_wall, wall_of, zone

MOST_COMPARED = 20_000
"""Runs of a schedule that are compared one by one. Of more frequent ones, as many from the beginning are, and the days
around each change of clocks. The other schedulers take some 40 µs for a run."""

AROUND_A_CHANGE = timedelta(days=2)
"""How long before and after a change of clocks the runs of frequent schedules are compared."""

SAME = timedelta(milliseconds=1)
"""Runs closer than this are the same one: APScheduler adds intervals in floating-point numbers."""

A_DAY = 86_400
"""Seconds before and after a change of clocks within which a difference is put down to it."""

A_MINUTE = timedelta(minutes=1)
MINUTES_OF_A_DAY = 1440

MOST_DIFFERENCES = 10_000
"""Differences of one job, after which it is not compared further."""


class Difference(NamedTuple):
    """A run that only one of the two schedulers has."""

    at: datetime
    local: datetime  # what the clocks in the zone of the schedule show
    only_in: str
    reason: str


class Compared(NamedTuple):
    """What the comparison of a job has found."""

    same: int  # runs that both have
    differences: list[Difference]
    ranges: list[tuple[datetime, datetime]]  # what was compared
    whole: bool  # the ranges are the whole time that was asked for


def compare(table: Timetable, old: NextRun, start: datetime, end: datetime, old_name: str) -> Compared:
    """Compares the runs after *start* and up to *end*."""
    place = zone(table.rule.timezone or DEFAULT_ZONE)
    many = table.count(start, end) > MOST_COMPARED
    ranges = _ranges(place, start, _enough(table, start, end), end) if many else [(start, end)]
    same, differences = 0, []
    endless: set[datetime] = set()
    for low, high in ranges:
        for at, side in _merged(_of_duly(table, low, high), _of_old(table, old, (low, high), endless)):
            if side is None and at not in endless:
                same += 1
                continue
            only_in = "Duly" if side else old_name
            differences.append(Difference(at, to_wall(at, place.name), only_in, _reason(table, at, at in endless)))
            if len(differences) >= MOST_DIFFERENCES:
                return Compared(same, differences, ranges, whole=False)
    return Compared(same, differences, ranges, whole=not many)


def _reason(table: Timetable, at: datetime, endless: bool) -> str:
    if table.rests(at):
        return "Duly excludes this day"
    reason = reason_of(zone(table.rule.timezone or DEFAULT_ZONE), at)
    return f"{reason}, and it is found again without end" if endless else reason


def _of_duly(table: Timetable, low: datetime, high: datetime) -> Iterator[datetime]:
    found = table.after(low)
    while found is not None and found.at <= high:
        yield found.at
        found = table.after(found.at)


def _of_old(
    table: Timetable, old: NextRun, within: tuple[datetime, datetime], endless: set[datetime]
) -> Iterator[datetime]:
    """The runs of the other scheduler, from the last run of Duly's on, which its intervals count from. A run that it
    finds again after itself is put into *endless*: APScheduler does so when clocks go back."""
    low, high = within
    before = table.last(low)
    following = _later(old, low if before is None else before.at, endless)
    while following is not None and following <= high:
        at, following = following, _later(old, following, endless)
        if at > low:
            yield at


def _later(old: NextRun, at: datetime, endless: set[datetime]) -> datetime | None:
    found = old(at)
    if found is not None and found <= at:
        endless.add(at)
        later = (old(at + minutes * A_MINUTE) for minutes in range(1, MINUTES_OF_A_DAY))
        found = next((one for one in later if one is None or one > at), None)
    return None if found is None else found.astimezone(UTC)


def _merged(ours: Iterator[datetime], theirs: Iterator[datetime]) -> Iterator[tuple[datetime, bool | None]]:
    """Each instant, with None if both have it, True if only we do, False if only they do."""
    our, their = next(ours, None), next(theirs, None)
    while our is not None or their is not None:
        if our is not None and their is not None and abs(our - their) < SAME:
            yield our, None
            our, their = next(ours, None), next(theirs, None)
        elif their is None or (our is not None and our < their):
            assert our is not None
            yield our, True
            our = next(ours, None)
        else:
            yield their, False
            their = next(theirs, None)


def _enough(table: Timetable, start: datetime, end: datetime) -> datetime:
    """A whole number of days after the start, within which a schedule has as many runs as are compared; at
    least a day."""
    days = range(1, max(2, (end - start).days))
    found = bisect_right(days, MOST_COMPARED, key=lambda day: table.count(start, start + timedelta(days=day)))
    return min(end, start + timedelta(days=days[max(0, found - 1)]))


def _ranges(place: Zone, start: datetime, first: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """The first days and those around changes of clocks, in order and without overlaps."""
    found = [(start, first)]
    for change in _changes(place, start, end):
        low, high = max(change - AROUND_A_CHANGE, start), min(change + AROUND_A_CHANGE, end)
        if low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def _changes(place: Zone, start: datetime, end: datetime) -> Iterator[datetime]:
    piece = place.piece(seconds_of(start))
    while piece.end <= seconds_of(end):
        if piece.after != piece.offset:
            yield instant_of(piece.end)
        piece = place.piece(piece.end)


def reason_of(place: Zone, at: datetime) -> str:
    """Why a run may differ at an instant, as far as the clocks tell."""
    instant = seconds_of(at)
    piece = place.piece(instant)
    reading = instant + piece.offset
    if reading < piece.start + piece.before:
        return f"the clocks go back, and show {_time(reading)} twice: this is the second time"
    if reading >= piece.end + piece.after:
        return f"the clocks go back, and show {_time(reading)} twice: this is the first time"
    for change in (piece, place.piece(piece.end)):
        if change.offset > change.before and abs(instant - change.start) < A_DAY:
            return _skipped(change)
        if change.offset < change.before and abs(instant - change.start) < A_DAY:
            return f"the clocks go back on {wall_of(change.start + change.before):%Y-%m-%d}"
    return _zone_data(place, at)


def _skipped(piece: Piece) -> str:
    begin, end = piece.start + piece.before, piece.start + piece.offset
    return f"the clocks go forward on {wall_of(begin):%Y-%m-%d}, from {_time(begin)} to {_time(end)}"


def _zone_data(place: Zone, at: datetime) -> str:
    theirs = at.astimezone(ZoneInfo(place.name)).replace(tzinfo=None)
    if reading_of(theirs) != seconds_of(at) + place.offset(seconds_of(at)):
        return f"this machine's zone data differ from Duly's: it takes the clocks there to show {theirs:%H:%M}"
    return "the rules differ"


def _time(reading: int) -> str:
    shown = wall_of(reading)
    return f"{shown:%H:%M:%S}" if shown.second else f"{shown:%H:%M}"
