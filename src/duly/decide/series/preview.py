"""Previews of a timetable: the coming occurrences, their local times, and notes on clock changes and excluded days."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from duly.decide.checks import MOST_LISTED
from duly.decide.series.due_head import continues_after, due_of, occurrence_of
from duly.decide.series.pauses import PausedTime, paused_time
from duly.errors import Invalid, Problem
from duly.records.event import Event
from duly.records.marks import Instant
from duly.records.schedule import Schedule
from duly.records.series import Series
from duly.rules.notation import parse_rule, work_problems, zone_of, zone_problems
from duly.rules.policies import DEFAULT as NO_POLICIES
from duly.rules.policies import read_policies
from duly.rules.recurrence import DEFAULT_ZONE, OPEN, Dst, Local, Occurrence, Rule
from duly.rules.timetable import BEFORE, Timetable
from duly.rules.zones import Piece, Zone, seconds_of, to_wall, wall_of, zone
from duly.values.instants import due_problems, write_instant

MOST_NAMED = 3
"""The most days and local times that a note lists."""

MOST_PIECES = 20
"""Clock changes between two occurrences that are examined for gaps."""

MOVED = {
    "after": "it fires right after the gap",
    "shift": "it fires later, by the length of the gap",
    "skip": "it does not fire then",
}
"""What happens to an occurrence in a gap, by the policy for gaps."""


class Preview(msgspec.Struct, frozen=True, rename={"due": "due_at", "local": "local_at"}):
    """One occurrence to come."""

    due: Instant
    local: datetime  # what the clocks in its zone show, without a zone
    note: str | None


def never() -> bool:
    """The default of *enough*: a preview without a time limit."""
    return False


def range_problems(count: Any, after: Any) -> list[Problem]:
    """The problems with the *count* and *after* of a preview."""
    problems = [] if after is None else [Problem("after", message) for _, message in due_problems(after)]
    if after is not None and not problems and not isinstance(after, datetime):
        problems.append(Problem("after", f"expected a datetime, not {type(after).__name__}"))
    if type(count) is not int or not 1 <= count <= MOST_LISTED:
        problems.append(Problem("count", f"must be a whole number from 1 to {MOST_LISTED}, not {count!r:.50}"))
    return problems


def table_of(
    what: Any, timezone: str | None, policies: Mapping[str, Any], now: datetime, problems: Sequence[Problem] = ()
) -> Timetable:
    """The timetable of a rule without a schedule; raises Invalid with all its problems, and the *problems* found
    before."""
    found = list(problems)
    zone = timezone or zone_of(what) or DEFAULT_ZONE
    if wrong := zone_problems(zone):
        found += wrong
        zone = DEFAULT_ZONE
    read = NO_POLICIES
    try:
        read = read_policies(policies, zone)
    except Invalid as error:
        found += error.problems
    try:
        rule = _placed(what, zone, read.dst, bool(policies.get("dst")))
    except Invalid as error:
        found += error.problems
    if found:
        raise Invalid(found)
    anchored = rule.anchored(now)
    if wrong := work_problems(anchored):
        raise Invalid(wrong)
    return Timetable(anchored, read)


def _placed(what: Any, zone: str, dst: Dst, given: bool) -> Rule:
    if isinstance(what, dict):
        return parse_rule(what, zone, dst)
    if not hasattr(what, "placed"):
        raise Invalid([Problem("rule", f"expected a rule or a schedule's name, not {type(what).__name__}")])
    placed: Rule = what.placed(zone, dst if given else getattr(what, "dst", OPEN))
    return placed


def preview(
    table: Timetable,
    after: datetime,
    count: int,
    series: Series | None = None,
    enough: Callable[[], bool] = never,
) -> list[Preview]:
    """The next occurrences strictly after an instant; with jitter, if a series is given. After each occurrence,
    *enough* decides whether to stop: some rules take long to evaluate."""
    place = table.rule.timezone or DEFAULT_ZONE
    found: list[Preview] = []
    before, following = after, table.after(after)
    while following is not None and len(found) < count:
        due = following.at if series is None else due_of(series, following)
        notes = [*_of_the_clocks(table, before, following), *_of_rest(table, before, following)]
        found.append(Preview(due, to_wall(due, place), "; ".join(notes) or None))
        if len(found) == count or enough():
            break
        before, following = following.at, table.after(following.at)
    return found


def preview_of(
    schedule: Schedule, head: Event | None, after: datetime, count: int, enough: Callable[[], bool] = never
) -> list[Preview]:
    """The preview of a schedule: its head as stored, and the occurrences after it. If it is paused, and the pause ends
    by itself, what fires at its end, or after it."""
    return preview_from(schedule.as_series, paused_time(schedule), head, after, count, enough)


def preview_from(
    series: Series,
    paused: PausedTime | None,
    head: Event | None,
    after: datetime,
    count: int,
    enough: Callable[[], bool] = never,
) -> list[Preview]:
    """The same for any series."""
    table = series.timetable
    if paused is not None:
        after = max(after, paused.until)
    if head is None:
        return preview(table, after, count, series, enough)
    if paused is not None and head.due <= paused.until:
        fires = paused.fires_at(head.due)
        note = f"was due {write_instant(head.due)}: it fires when the pause ends, by the misfire policy"
        at_end = [] if fires is None else [Preview(fires, to_wall(fires, series.timezone), note)]
        if len(at_end) == count:
            return at_end
        return [*at_end, *preview(table, after, count - len(at_end), series, enough)]
    itself = occurrence_of(head)
    moved = head.due != due_of(series, itself)
    before = (table.last(itself.at - BEFORE) or itself).at
    by_hand = [f"moved by hand from {write_instant(due_of(series, itself))}"]
    notes = by_hand if moved else _of_the_clocks(table, before, itself)
    first = Preview(head.due, to_wall(head.due, series.timezone), "; ".join(notes) or None)
    return [first, *preview(table, continues_after(head, series), count - 1, series, enough)]


def _of_the_clocks(table: Timetable, before: datetime, occurrence: Occurrence) -> list[str]:
    rule = table.rule
    if not isinstance(rule, Local):
        return []
    place = zone(rule.timezone or DEFAULT_ZONE)
    instant = seconds_of(occurrence.at)
    piece = place.piece(instant)
    reading = instant + piece.offset
    notes = []
    if reading < piece.start + piece.before:
        notes.append(f"the clocks show {_time(reading)} twice, and this is the second time")
    elif reading >= piece.end + piece.after:
        notes.append(f"the clocks show {_time(reading)} twice, and this is the first time")
    for gap in _gaps(place, seconds_of(before), instant):
        lost = _lost(rule, gap)
        if lost and not rule.spacing:
            when = f"{wall_of(lost[0]):%Y-%m-%d} has no {', '.join(map(_time, lost))}"
            here = gap is piece and not rule.shows(reading)
            notes.append(f"{when}: {MOVED[rule.dst.gap or rule.usual_gap] if here else 'it does not fire then'}")
    return notes


def _gaps(place: Zone, after: int, until: int) -> list[Piece]:
    """The pieces of a zone that begin with a gap, after one instant and up to another."""
    found = []
    piece = place.piece(after)
    for _ in range(MOST_PIECES):
        if piece.end > until:
            break
        piece = place.piece(piece.end)
        if piece.offset > piece.before:
            found.append(piece)
    return found


def _lost(rule: Local, piece: Piece) -> list[int]:
    lost: list[int] = []
    low = piece.start + piece.before
    while len(lost) < MOST_NAMED:
        reading = rule.readings.first(low)
        if reading is None or reading >= piece.start + piece.offset:
            break
        lost.append(reading)
        low = reading + 1
    return lost


def _of_rest(table: Timetable, before: datetime, occurrence: Occurrence) -> list[str]:
    """A note on the excluded days between two occurrences."""
    if not table.policies.exclude:
        return []
    days: list[str] = []
    low = before
    while len(days) <= MOST_NAMED:
        passed = table.rule.after(low)
        if passed is None or passed.at >= occurrence.at:
            break
        if table.rests(passed.at):
            days.append(to_wall(passed.at, table.rule.timezone or DEFAULT_ZONE).date().isoformat())
            low = table.end_of_day(passed.at) - BEFORE
        else:
            low = passed.at
    if not days:
        return []
    more = " and more" if len(days) > MOST_NAMED else ""
    return [f"excluded: {', '.join(days[:MOST_NAMED])}{more}"]


def _time(reading: int) -> str:
    shown = wall_of(reading)
    return shown.strftime("%H:%M:%S" if shown.second else "%H:%M")
