"""The decision about a due head: whether and as which occurrence it fires, and its successor. Pure: the engine supplies
the facts and carries the decision out."""

import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from duly.decide.series.occurrence_facts import OccurrenceFact, facts_among
from duly.records.event import Event, HoldKind, NewEvent
from duly.records.history import Cause
from duly.records.series import Series
from duly.rules import zones
from duly.rules.policies import SHADOW, SKIP
from duly.rules.recurrence import Occurrence
from duly.rules.timetable import BEFORE, Timetable, is_local
from duly.values.durations import format_duration
from duly.values.instants import write_instant

NewId = Callable[[], str]


class Fire(NamedTuple):
    """The head fires, as its own occurrence or as the latest missed one."""

    occurrence: Occurrence
    stands_for: int
    next: Occurrence | None
    note: str | None = None  # for the history: the missed occurrences that do not fire


class Drop(NamedTuple):
    """The head does not fire, and neither do the missed occurrences that it stands for."""

    reason: str
    stands_for: int
    next: Occurrence | None
    act: str = "skipped"
    cause: Cause = Cause.MISFIRE  # the reason for programs
    last: datetime | None = None  # the last of the missed occurrences, if there are several


class Hold(NamedTuple):
    """An event does not fire yet, and waits: the kind for programs, the reason for people. A head stays the head."""

    kind: HoldKind
    reason: str


PAUSED = Hold(HoldKind.PAUSED, "paused")
"""The hold of events whose schedule is paused."""

ITS_TURN = Hold(HoldKind.LIMIT, "waits for its turn")
"""The hold of events that their schedule releases one after another."""


Decision = Fire | Drop | Hold


class HeadFacts(NamedTuple):
    """The facts that a decision depends on, besides the series itself."""

    now: datetime
    under_way: int = 0  # events of the series that have begun and not ended
    succeeded: datetime | None = None  # when the schedule that this one depends on last succeeded
    taken: tuple[OccurrenceFact, ...] = ()  # occurrences that have an event already, so that they were not missed


def decide(head: Event, series: Series, facts: HeadFacts) -> Decision:
    """The decision about a due head."""
    if not series.enabled:
        return PAUSED
    policies = series.policies
    full = policies.room is not None and facts.under_way >= policies.room
    if full and policies.overlap != SKIP:
        other = "its predecessor" if policies.room == 1 else f"one of {policies.room}"
        return Hold(HoldKind.LIMIT, f"waits for {other} to end")
    decision = catch_up(head, series, facts)
    if isinstance(decision, Drop):
        return decision
    if full:
        return _dropped(decision, Cause.OVERLAP, "its predecessor is still running")
    if policies.depends_on is not None and not _lately(facts, policies.depends_on.within):
        name, within = policies.depends_on.schedule, format_duration(policies.depends_on.within)
        return _dropped(decision, Cause.DEPENDENCY, f"{name!r} has not succeeded within the {within} before")
    if policies.mode == SHADOW:
        told = f"shadow: it would have fired for {write_instant(decision.occurrence.at)}"
        return _dropped(decision, Cause.SHADOW, told, "shadowed")
    return decision


def _lately(facts: HeadFacts, within: timedelta) -> bool:
    return facts.succeeded is not None and facts.now - facts.succeeded <= within


def _dropped(decision: Fire, cause: Cause, reason: str, act: str = "skipped") -> Drop:
    last = decision.occurrence.at if decision.stands_for > 1 else None
    return Drop(reason, decision.stands_for, decision.next, act, cause, last)


# -- misfires


def catch_up(head: Event, series: Series, facts: HeadFacts) -> Fire | Drop:
    """The decision of the misfire policy alone."""
    misfire = series.policies.misfire
    return {"latest": _latest, "all": _all, "skip": _skip}[misfire.policy](head, series, facts)


def _count(table: Timetable, first: datetime, until: datetime, facts: HeadFacts) -> int:
    return table.count(first, until) - facts_among(table, first - BEFORE, until, facts.taken)


def _latest(head: Event, series: Series, facts: HeadFacts) -> Fire:
    now, table, itself = facts.now, series.timetable, occurrence_of(head)
    following = table.after(continues_after(head, series))
    last = _last_missed(following, series, now)
    if following is None or last is None:
        return Fire(itself, 1, following)
    more = _count(table, following.at, last.at, facts)
    dropped = f"stands for {1 + more:,} occurrences, {_from_to(itself, last)}: only the latest fires"
    return Fire(last, 1 + more, table.after(last.at), dropped)


def _all(head: Event, series: Series, facts: HeadFacts) -> Fire | Drop:
    now, table, limit = facts.now, series.timetable, series.policies.misfire.limit
    following = table.after(continues_after(head, series))
    last = _last_missed(following, series, now)
    if following is None or last is None:
        return Fire(occurrence_of(head), 1, following)
    many = 1 + table.count(following.at, last.at)
    if many <= limit:
        return Fire(occurrence_of(head), 1, following)
    first = last
    for _ in range(limit - 1):
        first = table.last(first.at - BEFORE) or first
    dropped = 1 + _count(table, following.at, first.at - BEFORE, facts)
    reason = f"{many:,} occurrences were missed, and only the latest {limit:,} are caught up"
    return Drop(reason, dropped, first, last=_before(table, first) if dropped > 1 else None)


def _skip(head: Event, series: Series, facts: HeadFacts) -> Fire | Drop:
    now, table, tolerance = facts.now, series.timetable, series.policies.misfire.tolerance
    base = continues_after(head, series)
    if now - head.due <= tolerance:
        return Fire(occurrence_of(head), 1, table.after(base))
    following = table.after(base)
    next = table.after(max(base, now - tolerance - table.longest_jitter - BEFORE))
    while next is not None and now - due_of(series, next) > tolerance:
        next = table.after(next.at)
    many = 1
    if following is not None and (next is None or following.at < next.at):
        many += _count(table, following.at, now if next is None else next.at - BEFORE, facts)
    late = f"more than {format_duration(tolerance)} late"
    if many == 1:
        return Drop(f"it was {late}", 1, next)
    return Drop(f"{many:,} occurrences were {late}", many, next, last=now if next is None else _before(table, next))


def _before(table: Timetable, occurrence: Occurrence) -> datetime:
    """The instant of the occurrence before another one."""
    before = table.last(occurrence.at - BEFORE)
    return occurrence.at - BEFORE if before is None else before.at


def _last_missed(following: Occurrence | None, series: Series, now: datetime) -> Occurrence | None:
    """The last occurrence after the head, from *following* on, that is due too; None if none is."""
    if following is None or due_of(series, following) > now:
        return None
    table = series.timetable
    last = table.last(now)
    if last is not None and due_of(series, last) > now:  # its time has come, but its jitter has not passed
        last = table.last(last.at - BEFORE)
    return last if last is not None and last.at > following.at else following


def continues_after(head: Event | NewEvent, series: Series) -> datetime:
    """The instant after which the series continues: that of the head's occurrence, or the later time to which somebody
    has moved the head."""
    itself = occurrence_of(head)
    return itself.at if head.due is None or head.due == due_of(series, itself) else max(itself.at, head.due)


def _from_to(first: Occurrence, last: Occurrence) -> str:
    return f"{write_instant(first.at)} to {write_instant(last.at)}"


# -- making events


def occurrence_of(head: Event | NewEvent) -> Occurrence:
    at = head.scheduled or head.due
    assert at is not None  # only a new timer has neither
    return Occurrence(head.occurrence or "", at)


def due_of(series: Series, occurrence: Occurrence) -> datetime:
    """The due time of an occurrence: its instant plus its jitter. Every process computes the same value, also after
    later edits."""
    edited = series.earlier_json is not None
    jitter = series.timetable.jitter(occurrence.at) if edited else series.policies.jitter
    if not jitter:
        return occurrence.at
    digest = hashlib.blake2b(f"{series.schedule_id} {occurrence.name}".encode(), digest_size=8).digest()
    return occurrence.at + jitter * (int.from_bytes(digest, "big") / 2**64)


def event_of(series: Series, id: str, occurrence: str, *, hold: Hold | None = None, **fields: Any) -> NewEvent:
    """An event with the type, target, payload and policies of its series; with *hold*, it waits."""
    return NewEvent(
        id=id,
        tenant=series.tenant,
        type=series.type,
        lane=series.lane,
        destination=series.destination,
        payload_json=series.payload_json,
        target_json=series.target_json,
        retry_json=series.retry_json,
        series=series.name,
        occurrence=occurrence,
        timezone=series.timezone,
        rule_json=series.carried_rule,
        via=series.via,
        owner=series.owner,
        expires=series.policies.expires,
        held=hold and hold.reason,
        hold_kind=hold and hold.kind,
        **fields,
    )


def head_of(series: Series, occurrence: Occurrence, new_id: NewId) -> NewEvent:
    """The next occurrence of a series, as the event that will be its head."""
    return event_of(
        series,
        new_id(),
        occurrence.name,
        due=due_of(series, occurrence),
        head=True,
        scheduled=occurrence.at,
        zone_data=zones.VERSION if is_local(series.rule_json) else None,
        hold=None if series.enabled else PAUSED,
    )


def kept(head: Event, series: Series) -> NewEvent:
    """The head, updated from its series, except for its due time and the zone data that it was computed with."""
    anew = head_of(series, occurrence_of(head), lambda: head.id)
    return msgspec.structs.replace(anew, due=head.due, zone_data=anew.zone_data and head.zone_data)


class Reshaped(NamedTuple):
    """The new version of an unstarted head, and the entry for its history."""

    id: str
    anew: NewEvent
    act: str
    detail: str
