"""What the rules of a schedule say about one instant: which rule was in force then, and whether it names the instant.
Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from duly.decide.error_text import describe
from duly.decide.series.due_head import due_of
from duly.decide.series.edits import NOTHING
from duly.records.schedule import Schedule
from duly.rules.exclusions import rests_on
from duly.rules.recurrence import DEFAULT_ZONE, Local, Occurrence, Rule
from duly.rules.timetable import BEFORE, LONG_AGO, Superseded, Timetable, read_earlier, stored_timetable
from duly.rules.zones import Piece, Zone, instant_of, names, reading_of, seconds_of, to_wall, zone
from duly.values.instants import write_instant

MOST_RULES = 20
"""Earlier rules that are asked whether they name an instant, the nearest first: a rule takes up to 25 ms."""

DAYS_AROUND = 2 * 86400
"""Seconds around a reading in which its instants lie: zones are less than a day away from UTC."""

FOREVER = datetime.max.replace(tzinfo=UTC)
"""The end of the rule that is in force."""

SlotKind = Literal[
    "not_named", "excluded", "gap", "repeated", "before_start", "after_end", "before_creation", "edited", "halted",
    "gone",
]  # fmt: skip
"""Why no rule names an instant."""


class InForce(NamedTuple):
    """A rule and the time in which it was in force: after *since*, up to and including *until*."""

    table: Timetable | None  # None: it cannot be read
    timezone: str
    since: datetime
    until: datetime
    error: str = ""


class Asked(NamedTuple):
    """The instant that somebody asks about, and what the clocks of the schedule's zone show then."""

    at: datetime  # for a reading that the clocks skip, the instant of the change
    local: datetime
    timezone: str
    gap: Piece | None = None  # the clocks skip the reading, and this piece follows
    other: datetime | None = None  # the clocks show it twice, and this is the other instant


class Slot(NamedTuple):
    """What the rules say about an instant."""

    asked: Asked
    at: datetime  # the instant in question: a reading that the clocks skip may fire at another one
    name: str  # of the occurrence, or as text where none is named
    kind: SlotKind | None = None  # None: the rule of its time names it
    message: str = ""  # why that rule does not name it, or where it moves it
    due: datetime | None = None  # with its jitter
    edited: datetime | None = None  # when the edit was that made it so
    until: datetime | None = None
    next_at: datetime | None = None
    used: bool = False  # the name was used before an edit, so that there is an event of this name


def slot_of(schedule: Schedule, moment: datetime) -> Slot:
    """What the rules of a schedule say about an instant, or about a local reading without a zone. To be called in a
    thread: a rule takes up to 25 ms."""
    rules = rules_in_force(schedule)
    asked = place(moment, rules)
    created = schedule.created or LONG_AGO
    slot = Slot(asked, asked.at, asked.local.isoformat())
    if asked.at <= created:
        told = f"the schedule was created later, at {write_instant(created)}"
        return slot._replace(kind="before_creation", message=told, next_at=_after(schedule, created))
    number = _number(rules, asked.at)
    one = rules[number]
    if asked.at <= one.since and number == 0:
        told = f"the schedule has been edited often, and its rules until {write_instant(one.since)} are not remembered"
        return slot._replace(kind="gone", message=told)
    if one.table is None:
        told = f"the rule of that time cannot be read{one.error}"
        return slot._replace(kind="halted", message=told, until=_end(one))
    try:
        return _by_rule(schedule, slot, rules, number)
    except Exception as error:  # the rule cannot be evaluated there
        return slot._replace(kind="halted", message=f"its rule cannot be evaluated: {describe(error)}")


def rules_in_force(schedule: Schedule) -> list[InForce]:
    """The rules of a schedule, the oldest first. One that named nothing while it was in force is not remembered."""
    found: list[InForce] = []
    for one in read_earlier(schedule.earlier_json):
        found.append(InForce(_earlier(one), one.timezone, one.since, one.until))
    since = found[-1].until if found else schedule.created or LONG_AGO
    try:
        table = stored_timetable(schedule.rule_json, schedule.timezone, schedule.policies_json)
    except Exception as error:  # the row was edited by hand
        return [*found, InForce(None, schedule.timezone, since, FOREVER, f": {describe(error)}")]
    return [*found, InForce(table, schedule.timezone, since, FOREVER)]


def _earlier(one: Superseded) -> Timetable | None:
    try:
        return None if one.rule == NOTHING else one.stretch().table
    except Exception:  # such as a calendar of holidays that this machine does not have
        return None


def _number(rules: Sequence[InForce], at: datetime) -> int:
    return next((number for number, one in enumerate(rules) if at <= one.until), len(rules) - 1)


def _end(one: InForce) -> datetime | None:
    return None if one.until >= FOREVER else one.until


# -- instants and readings


def place(moment: datetime, rules: Sequence[InForce]) -> Asked:
    """The instant that is asked about. A moment without a zone is a reading of the clocks in the schedule's zone of
    that time; of two instants with the same reading, the rule's policy chooses one."""
    if moment.tzinfo is not None:
        timezone = _zone(rules[_number(rules, moment)])
        return Asked(moment, to_wall(moment, timezone), timezone)
    found = [_read(moment, one) for one in rules]
    newest = list(zip(rules, found, strict=True))[::-1]
    for in_gap in (False, True):
        for one, asked in newest:
            if (asked.gap is not None) is in_gap and one.since < asked.at <= one.until:
                return asked
    return next((asked for one, asked in zip(rules, found, strict=True) if asked.at <= one.until), found[-1])


def _read(moment: datetime, one: InForce) -> Asked:
    timezone = _zone(one)
    there = zone(timezone)
    instants, gap = shown(there, reading_of(moment))
    if not instants:
        assert gap is not None  # a reading that is not shown is in a gap
        return Asked(instant_of(gap.start), moment, timezone, gap)
    exact = [instant_of(instant) + timedelta(microseconds=moment.microsecond) for instant in instants]
    if len(exact) == 1:
        return Asked(exact[0], moment, timezone)
    first, again = exact[:2]
    if one.table is not None and _fires_second(one.table.rule):
        return Asked(again, moment, timezone, other=first)
    return Asked(first, moment, timezone, other=again)


def _fires_second(rule: Rule) -> bool:
    """Whether a reading that the clocks show twice fires the second time only."""
    return isinstance(rule, Local) and not rule.spacing and rule.dst.overlap == "second"


def _zone(one: InForce) -> str:
    return one.timezone if one.timezone in names() else DEFAULT_ZONE


def shown(there: Zone, reading: int) -> tuple[list[int], Piece | None]:
    """The instants at which the clocks of a zone show a reading; or, if they skip it, the piece after the gap."""
    instants: list[int] = []
    gap: Piece | None = None
    piece = there.piece(reading - DAYS_AROUND)
    while piece.start <= reading + DAYS_AROUND:
        if piece.start <= reading - piece.offset < piece.end:
            instants.append(reading - piece.offset)
        if piece.start + piece.before <= reading < piece.start + piece.offset:
            gap = piece
        piece = there.piece(piece.end)
    return instants, gap


# -- by the rule of that time


def _by_rule(schedule: Schedule, slot: Slot, rules: Sequence[InForce], number: int) -> Slot:
    table = rules[number].table
    assert table is not None
    if slot.asked.gap is not None:
        slot = _in_gap(slot, table, slot.asked.gap)
        if slot.kind is not None:
            return slot
    in_force = slot.at > rules[number].since
    named = _named(table, slot.at) if in_force else None
    if named is not None:
        return _by_policies(schedule, slot, rules, number, named)
    if in_force and (other := _shown_before(table, slot.at)) is not None:
        told = f"the clocks show {_reading(slot)} twice that day, and the rule fires the other time, {_moment(other)}"
        return slot._replace(kind="repeated", message=told, next_at=other)
    name = write_instant(slot.at) if table.by_instant else slot.name
    return _by_edits(schedule, slot._replace(name=name), rules, number, in_force)


def _in_gap(slot: Slot, table: Timetable, gap: Piece) -> Slot:
    """A reading that the clocks skip: where the rule moves it, or why it does not fire."""
    rule, wall = table.rule, reading_of(slot.asked.local)
    skipped = f"the clocks of {slot.asked.timezone} skip {_reading(slot)} that day"
    if not isinstance(rule, Local) or rule.spacing or not rule.shows(wall):
        told = f"{skipped}, and the rule fires nothing for it"
        return slot._replace(kind="gap", message=told, next_at=_first(table, slot.at - BEFORE))
    policy = rule.dst.gap or rule.usual_gap
    if policy == "skip":
        told = f"{skipped}, and by the policy of the schedule for gaps it does not fire then"
        return slot._replace(kind="gap", message=told, next_at=_first(table, slot.at - BEFORE))
    at = instant_of(gap.start if policy == "after" else wall - gap.before)
    return slot._replace(at=at, message=f"{skipped}: it fires at {write_instant(at)} instead")


def _by_policies(schedule: Schedule, slot: Slot, rules: Sequence[InForce], number: int, named: Occurrence) -> Slot:
    """An instant that the bare rule names: whether its start, end, exclusions and the rules before let it."""
    table = rules[number].table
    assert table is not None
    policies, name = table.policies, named.name
    if policies.start is not None and slot.at < policies.start:
        told = f"the schedule starts at {write_instant(policies.start)}"
        return slot._replace(kind="before_start", message=told, until=policies.start, name=name)
    if policies.end is not None and slot.at > policies.end:
        told = f"the schedule ended at {write_instant(policies.end)}"
        return slot._replace(kind="after_end", message=told, name=name)
    if table.rests(slot.at):
        day = to_wall(slot.at, slot.asked.timezone).date()
        which = next(written for written in policies.exclude if rests_on((written,))(day))
        told = f"{day.isoformat()} is excluded, by {which!r}"
        return slot._replace(kind="excluded", message=told, name=name, next_at=_first(table, slot.at))
    if number and schedule.timetable.after(slot.at - BEFORE) != named:
        told = f"its occurrence, {name}, had its event before the schedule was edited"
        return slot._replace(kind="edited", message=told, name=name, edited=rules[number].since, used=True)
    return slot._replace(name=name, due=due_of(schedule.as_series, named))


def _by_edits(schedule: Schedule, slot: Slot, rules: Sequence[InForce], number: int, in_force: bool) -> Slot:
    """An instant that the rule of its time does not name: whether another rule of the schedule does."""
    for one in rules[max(0, number - MOST_RULES) : number][::-1]:
        if one.table is not None and _names(one.table, slot.at):
            told = f"the rule that names it was in force until {write_instant(one.until)}, when the schedule was edited"
            return slot._replace(kind="edited", message=told, edited=one.until)
    for one in rules[number + in_force :][:MOST_RULES]:
        if one.table is not None and _names(one.table, slot.at):
            told = f"the rule that names it came later, with the edit at {write_instant(one.since)}"
            return slot._replace(kind="edited", message=told, edited=one.since)
    following = _after(schedule, slot.at)
    told = "" if following is None else f"; the next that it names is {_moment(following)}"
    return slot._replace(kind="not_named", message=f"the rule does not name it{told}", next_at=following)


def _named(table: Timetable, at: datetime) -> Occurrence | None:
    """The occurrence of the bare rule at an instant."""
    found = table.rule.after(at - BEFORE)
    return found if found is not None and found.at == at else None


def _names(table: Timetable, at: datetime) -> bool:
    return _first(table, at - BEFORE) == at


def _first(table: Timetable, after: datetime) -> datetime | None:
    try:
        found = table.after(after)
    except Exception:  # the rule cannot be evaluated there
        return None
    return None if found is None else found.at


def _after(schedule: Schedule, instant: datetime) -> datetime | None:
    try:
        found = schedule.timetable.after(instant)
    except Exception:  # as above
        return None
    return None if found is None else found.at


def _shown_before(table: Timetable, at: datetime) -> datetime | None:
    """The other instant of a reading that the clocks show twice, if the rule fires that one."""
    rule = table.rule
    if not isinstance(rule, Local) or at.microsecond:
        return None
    there, instant = zone(rule.timezone or DEFAULT_ZONE), seconds_of(at)
    instants, _ = shown(there, instant + there.offset(instant))
    others = [instant_of(other) for other in instants if other != instant]
    return next((other for other in others if _named(table, other) is not None), None)


def _reading(slot: Slot) -> str:
    return reading(slot.asked.local)


def reading(local: datetime) -> str:
    """A local time as people write it."""
    return local.isoformat(sep=" ", timespec="minutes" if local == local.replace(second=0, microsecond=0) else "auto")


def _moment(instant: datetime) -> str:
    return write_instant(instant.replace(microsecond=0))
