"""How an edit, a move or a skip affects the occurrences of a schedule. Owed occurrences stay owed, future ones follow
the new rule, and skipped ones are reported. Pure: the engine supplies the facts and carries the decisions out."""

import shlex
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from duly.decide.series.due_head import due_of, kept, occurrence_of
from duly.decide.series.occurrence_facts import OccurrenceFact, named_among
from duly.errors import Conflict
from duly.records.event import Event, NewEvent
from duly.records.schedule import PassedOver, Schedule
from duly.records.series import Series
from duly.rules.recurrence import DEFAULT_ZONE, Occurrence
from duly.rules.timetable import BEFORE, LONG_AGO, Superseded, Timetable, read_earlier
from duly.rules.zones import to_wall
from duly.values.instants import write_instant

MOST_EARLIER = 20
"""How many earlier rules a schedule remembers, unless older rules still owe occurrences."""

MOST_OWING = 200
"""How many earlier rules a schedule remembers while each of them owes occurrences, as in a schedule that is paused for
years and edited by every deploy."""

MOST_ROWS = 20
"""Up to this many skipped occurrences get a row each. If there are more, one row stands for all."""

MOST_LISTED = 5
"""How many skipped occurrences a response lists."""

SECOND = timedelta(seconds=1)

NOTHING = {"at": "1970-01-01T00:00:00Z"}
"""Stands for an unreadable rule: while it was in force, it counts as having had no occurrences."""


def superseded(stored: Schedule, head: Event | None, now: datetime) -> str:
    """The earlier rules, as JSON, that a schedule remembers when a new rule applies from *now* on."""
    earlier = read_earlier(stored.earlier_json)
    since = earlier[-1].until if earlier else stored.created or LONG_AGO
    earlier = [*earlier[:1], *filter(_has_any, earlier[1:]), _present(stored, since, now)]
    owing = 0
    if head is not None and head.due <= now:
        owing = sum(one.until > occurrence_of(head).at for one in earlier)
    if owing > MOST_OWING:
        raise Conflict(
            f"schedule {stored.name!r} still has due occurrences of {MOST_OWING} earlier rules, and cannot "
            "be edited again: run a worker and, if the schedule is paused, resume it"
        )
    return msgspec.json.encode(earlier[-max(owing, MOST_EARLIER) :]).decode()


def _present(stored: Schedule, since: datetime, now: datetime) -> Superseded:
    try:
        _ = stored.timetable
    except Exception:  # the rule was edited by hand and is unreadable
        return Superseded(NOTHING, "UTC", since, now)
    policies = None if stored.policies_json is None else msgspec.json.decode(stored.policies_json)
    return Superseded(stored.rule, stored.timezone, since, now, policies)


def _has_any(one: Superseded) -> bool:
    """Whether an earlier rule had any occurrence while it was in force."""
    first = one.stretch().table.after(one.since)
    return first is not None and first.at <= one.until


def is_owed(head: Event, series: Series, now: datetime) -> bool:
    """Whether a head is owed: it is due, or would be but for its jitter."""
    itself = occurrence_of(head)
    return head.due <= now or (itself.at <= now and head.due == due_of(series, itself))


def still_owed(head: Event, series: Series, now: datetime) -> NewEvent:
    """A head that an earlier rule owes. It keeps its occurrence name, time and zone, and takes all else from the edited
    schedule. A head that somebody has moved forward belongs to a future time: the new rule continues from now, not from
    that time."""
    anew = kept(head, series)
    scheduled = min(occurrence_of(head).at, now)
    return msgspec.structs.replace(anew, scheduled=scheduled, timezone=head.timezone, zone_data=None)


# -- skipped occurrences


class OccurrenceSpan(NamedTuple):
    """A range of occurrences: the first MOST_ROWS + 1 of them, the last one, and how many there are."""

    first: list[Occurrence]
    last: Occurrence
    many: int


def span(
    table: Timetable, after: datetime, until: datetime, facts: Collection[OccurrenceFact] = ()
) -> OccurrenceSpan | None:
    """The occurrences of a timetable after one instant and until another, except those that have an event already."""
    taken = {one.name for one in named_among(table, after, until, facts)}
    first: list[Occurrence] = []
    for one in _each(table, after, until):
        if one.name not in taken:
            first.append(one)
            if len(first) > MOST_ROWS:
                break
    if len(first) <= MOST_ROWS:
        return OccurrenceSpan(first, first[-1], len(first)) if first else None
    last = table.last(until) or first[-1]
    while last.name in taken:
        last = table.last(last.at - BEFORE) or first[-1]
    return OccurrenceSpan(first, last, table.count(after + BEFORE, until) - len(taken))


def _each(table: Timetable, after: datetime, until: datetime) -> Iterator[Occurrence]:
    following = table.after(after)
    while following is not None and following.at <= until:
        yield following
        following = table.after(following.at)


def put_into_the_past(head: Event, old: Series, new: Series, now: datetime) -> Occurrence | None:
    """The occurrence of the new rule on the day for which a head was planned, if all its occurrences on that day are
    over. An edit never creates an occurrence in the past, so that day has none."""
    itself, table, before = occurrence_of(head), new.timetable, old.timetable
    if itself.at <= now or not (table.rule.local and before.rule.local):
        return None
    day = to_wall(itself.at, before.rule.timezone or DEFAULT_ZONE).date()
    fired, there, ahead = before.last(now), Timetable(table.rule, table.policies).last(now), table.after(now)
    if fired is not None and to_wall(fired.at, before.rule.timezone or DEFAULT_ZONE).date() == day:
        return None
    zone = table.rule.timezone or DEFAULT_ZONE
    if there is None or to_wall(there.at, zone).date() != day:
        return None
    return None if ahead is not None and to_wall(ahead.at, zone).date() == day else there


def passed_over(schedule: Schedule, first: Sequence[Occurrence], count: int) -> PassedOver:
    """Skipped occurrences as a response shows them."""
    return PassedOver(count, tuple(one.at for one in first[:MOST_LISTED]), _firing(schedule, first[0].at))


def _firing(schedule: Schedule, at: datetime) -> str:
    """The command that fires a skipped occurrence: a backfill, so that the event carries the occurrence. If the current
    rules do not have the occurrence, because an edit has put it into the past, it can only be triggered."""
    try:
        there = schedule.timetable.after(at - BEFORE)
    except Exception:  # an unreadable rule
        there = None
    verb, bounds = "trigger", ""
    if there is not None and there.at == at:
        verb, bounds = "backfill", f" --from {write_instant(at)} --to {write_instant(at + SECOND)}"
    whose = "" if schedule.tenant == "default" else f" --tenant {shlex.quote(schedule.tenant)}"
    name = shlex.quote(schedule.name)
    if schedule.name.startswith("-"):
        return f"duly schedules {verb}{whose}{bounds} -- {name}"
    return f"duly schedules {verb} {name}{whose}{bounds}"


def together(one: PassedOver | None, other: PassedOver | None) -> PassedOver | None:
    """The occurrences that two acts in a row have skipped, those of the earlier act first."""
    if one is None or other is None:
        return one or other
    return PassedOver(one.count + other.count, (one.first + other.first)[:MOST_LISTED], one.fire_with)
