"""Why an occurrence of a schedule did not run at an instant: the one cause, by the rules, the rows and the history of
that time. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import msgspec

from duly.decide.series.due_head import occurrence_of
from duly.decide.series.slots import Slot, reading
from duly.decide.why import Surroundings, Why, why
from duly.records.event import Event, HoldKind, Status
from duly.records.history import Cause, Entry
from duly.records.marks import Id, Instant
from duly.records.schedule import HaltKind, Schedule
from duly.rules.policies import SHADOW
from duly.values.instants import write_instant

Kind = Literal[
    "not_named", "excluded", "gap", "repeated", "before_start", "after_end", "before_creation", "edited", "halted",
    "gone", "paused", "skipped", "moved", "merged", "misfire", "overlap", "dependency", "shadow", "expired",
    "scheduled", "retrying", "held", "limit", "parked", "unserved", "down", "waiting", "running", "interrupted",
    "completed", "failed", "cancelled",
]  # fmt: skip
"""Why an occurrence did not run then: by the rules; by an act or a policy; because its event waits; or it ran."""


class WhyNot(msgspec.Struct, frozen=True, kw_only=True, rename={"local": "local_at"}):
    """Why a schedule did not run at an instant, or that it did."""

    kind: Kind
    message: str  # a sentence for people; programs go by the kind
    at: Instant  # for a reading that the clocks skip: when it fires instead, or when the clocks are changed
    local: datetime  # what the clocks in its zone show, without a zone
    timezone: str
    event_id: Id | None = None  # the event of this occurrence, or the one that stands for it
    by: str | None = None  # who has paused, skipped, moved or edited it, where that is known
    until: Instant | None = None  # when that was over, or will be
    next_at: Instant | None = None  # when it runs, or another occurrence does, where that is known


class Neighbour(NamedTuple):
    """An event of the series near an occurrence, by its name."""

    id: str
    name: str
    scheduled: datetime
    due: datetime
    claimed: datetime | None
    first: datetime | None  # of the occurrences that it stands for, if they are several
    last: datetime | None


class Chosen(NamedTuple):
    """The event that says what became of an occurrence."""

    id: str
    stands: bool = False  # it is another occurrence's, and stands for this one
    waits: bool = False  # it is an earlier occurrence's, which has not fired yet


class Facts(NamedTuple):
    """What is known of an occurrence besides the rules."""

    schedule: Schedule
    now: datetime
    acts: Sequence[Entry]  # of people on the schedule, and its errors, the oldest first
    near: Sequence[Neighbour] = ()
    chosen: Chosen | None = None
    event: Event | None = None
    history: Sequence[Entry] = ()
    around: Surroundings | None = None
    discreet: bool = False


AT_ONCE = timedelta(minutes=1)
"""More than passes between the claim of an event and the entry about the error that leaves its schedule without a next
one: both are written in one transaction."""

BACKFILL = "backfill:default:"
"""The prefix of the names of occurrences that a backfill without a label fires."""


def choose(slot: Slot, near: Sequence[Neighbour], head: Event | None, now: datetime) -> Chosen | None:
    """The event that says what became of an occurrence; None if no row does."""
    if slot.kind in (None, "gone") or slot.used:
        for one in near:
            if one.name == slot.name:
                return Chosen(one.id)
        for one in near:
            if slot.kind == "gone" and one.scheduled == slot.at:  # the name is unknown
                return Chosen(one.id)
        standing = [one for one in near if _covers(one, slot.at)]
        if standing:
            return Chosen(min(standing, key=_width).id, stands=True)
    if slot.kind is None:
        waits = head is not None and occurrence_of(head).at < slot.at <= now
        return Chosen(head.id, waits=True) if waits and head is not None else None
    moved = [one for one in near if one.due == slot.at != one.scheduled]  # by hand, or by jitter
    return Chosen(moved[0].id) if moved else None


def _covers(one: Neighbour, at: datetime) -> bool:
    return one.first is not None and one.last is not None and one.first <= at <= one.last


def _width(one: Neighbour) -> float:
    return 0.0 if one.first is None or one.last is None else (one.last - one.first).total_seconds()


class Reason(NamedTuple):
    kind: Kind
    message: str
    by: str | None = None
    until: datetime | None = None
    next_at: datetime | None = None


def why_not(slot: Slot, facts: Facts) -> WhyNot:
    """The one cause for which an occurrence did not run at an instant."""
    asked = slot.asked
    reason = _by_event(slot, facts, facts.event) if facts.event is not None else _without_event(slot, facts)
    kind, message = reason.kind, reason.message
    if asked.gap is not None and slot.kind is None:
        kind, message = "gap", f"{slot.message}: {message}"
    if asked.other is not None:
        twice = f"the clocks of {asked.timezone} show {reading(asked.local)} twice"
        message = f"{twice}, and this is about {_moment(asked.at)}, not {_moment(asked.other)}: {message}"
    event_id = None if facts.event is None else facts.event.id
    backfilled = next((one.id for one in facts.near if one.name == f"{BACKFILL}{slot.name}"), None)
    if backfilled is not None:
        message = f"{message}. It was backfilled, as event {backfilled}"
    return WhyNot(
        kind=kind,
        message=message,
        at=slot.at,
        local=asked.local,
        timezone=asked.timezone,
        event_id=event_id or backfilled,
        by=reason.by,
        until=reason.until,
        next_at=reason.next_at,
    )


# -- by its event


def _by_event(slot: Slot, facts: Facts, event: Event) -> Reason:
    told = why(event, facts.history, facts.around, facts.now, discreet=facts.discreet)
    if facts.chosen is not None and facts.chosen.waits:
        return _behind(facts, event, told)
    if slot.used:
        by = _editor(facts, slot.edited)
        return Reason("edited", f"{slot.message}{_by(by)}: event {event.id}, {told.message}", by)
    if event.status is Status.SKIPPED:
        return _skipped(facts, event, told)
    if facts.chosen is not None and facts.chosen.stands:
        which = f"event {event.id}, which stands for {event.stands_for:,} of them, for {write_instant(_at(event))}"
        message = f"it was found late, and only the latest fires: {which}; {told.message}"
        return Reason("merged", message, None, None, told.next_at)
    if event.hold_kind is HoldKind.PAUSED:
        return _paused(facts, event, f"event {event.id} waits")
    moved = _moved(slot, facts, event)
    if moved is not None and event.status is not Status.CANCELLED:
        who = moved.worker or "somebody"
        where = f"{who} moved event {event.id} at {_moment(moved.at)}, to {write_instant(event.due)}"
        if event.due == slot.at:
            return Reason(told.kind, f"{where}: {told.message}", moved.worker, None, told.next_at)
        return Reason("moved", f"{where}; {told.message}", moved.worker, None, told.next_at)
    by = _canceller(facts.history) if event.status is Status.CANCELLED else None
    return Reason(told.kind, f"event {event.id}: {told.message}", by, None, told.next_at)


def _at(event: Event) -> datetime:
    return event.scheduled or event.due


def _moved(slot: Slot, facts: Facts, event: Event) -> Entry | None:
    """The entry about the move of an event by hand; None if it is where its rule has it."""
    if event.due == (slot.due or event.scheduled):
        return None
    return next((entry for entry in reversed(facts.history) if entry.act == "rescheduled"), None)


_BY_PEOPLE = frozenset({Cause.PAUSED, Cause.EDITED, Cause.MOVED, Cause.BY_HAND})
"""The causes that are acts of people: the entry names who it was. Other entries name workers."""


_CAUSES: Mapping[Cause, Kind] = {
    Cause.MISFIRE: "misfire",
    Cause.OVERLAP: "overlap",
    Cause.DEPENDENCY: "dependency",
    Cause.SHADOW: "shadow",
    Cause.PAUSED: "paused",
    Cause.EDITED: "edited",
    Cause.MOVED: "moved",
    Cause.BY_HAND: "skipped",
    Cause.EXPIRED: "expired",
}


def _skipped(facts: Facts, event: Event, told: Why) -> Reason:
    entry = next((one for one in reversed(facts.history) if one.act in ("skipped", "shadowed")), None)
    cause = None if entry is None else entry.cause
    if entry is None or cause is None:
        return Reason("skipped", f"event {event.id}: {told.message}")
    if cause is Cause.PAUSED:
        return _paused(facts, event, f"event {event.id} was skipped", entry)
    by = entry.worker if cause in _BY_PEOPLE else None
    who = "" if cause in (Cause.BY_HAND, Cause.MOVED) else _by(by)  # their sentences name who it was
    message = f"event {event.id} was skipped{who} at {_moment(entry.at)}: {entry.detail or cause}"
    return Reason(_CAUSES[cause], message, by)


def _paused(facts: Facts, event: Event | None, what: str, ended: Entry | None = None) -> Reason:
    """An occurrence whose time came during a pause that has *ended*, or lasts."""
    until = None if ended is None else ended.at
    before = [one for one in facts.acts if one.act in ("paused", "created") and (until is None or one.at < until)]
    paused = before[-1] if before else None
    by = None if paused is None else paused.worker
    since = facts.schedule.paused_since if ended is None else None if paused is None else paused.at
    told = f"the schedule was paused{_by(by)}{'' if since is None else f' at {_moment(since)}'}"
    reason = "" if paused is None or paused.detail is None else f" ({paused.detail})"
    rest = f"until {_moment(until)}" if until is not None else "and has not been resumed"
    return Reason("paused", f"{told}{reason}, {rest}: {what}", by, until)


def _behind(facts: Facts, head: Event, told: Why) -> Reason:
    """An occurrence that comes after the next event, which is due and has not fired."""
    what = f"event {head.id}, of {write_instant(_at(head))}, comes first"
    if head.hold_kind is HoldKind.PAUSED or not facts.schedule.enabled:
        return _paused(facts, head, what)
    return Reason(told.kind, f"{what}: {told.message}", None, None, told.next_at)


def _canceller(history: Sequence[Entry]) -> str | None:
    """Who has cancelled an event: an entry of a worker's tells of the claim that it has ended."""
    acts = ("stop requested", "cancelled", "discarded")
    return next((one.worker for one in history if one.act in acts and one.claimed is None), None)


# -- without an event


def _without_event(slot: Slot, facts: Facts) -> Reason:
    schedule = facts.schedule
    if slot.kind is not None:
        by = _editor(facts, slot.edited)
        return Reason(slot.kind, f"{slot.message}{_by(by)}", by, slot.until, slot.next_at)
    if slot.at > facts.now:
        if not schedule.enabled:
            return _paused(facts, None, "it will not fire before it is resumed")
        if schedule.halt_kind is HaltKind.ERROR:
            return Reason("halted", f"an error has halted the schedule: {schedule.halted}")
        due = slot.due or slot.at
        shadow = ", as a shadow: it will be recorded, and not delivered" if schedule.policies.mode == SHADOW else ""
        return Reason("scheduled", f"it is due at {_moment(due)}{shadow}", None, None, due)
    if (halted := _halted(slot, facts)) is not None:
        return halted
    told = "no event of it is left: finished events of that time have been deleted, as the retention says"
    return Reason("gone", told)


def _halted(slot: Slot, facts: Facts) -> Reason | None:
    """The error that kept the schedule from having a next event, from the last one before the occurrence on until
    somebody edited it."""
    before = [one for one in facts.near if one.scheduled < slot.at]
    last = max(before, key=lambda one: one.scheduled, default=None)
    since = None if last is None else last.claimed
    for entry in reversed(facts.acts):
        was_late = since is not None and since <= entry.at <= since + AT_ONCE  # the last one fired after the occurrence
        if entry.act != "halted" or not (entry.at <= slot.at or was_late):
            continue
        ended = next((one.at for one in facts.acts if one.act in ("changed", "resumed") and one.at > entry.at), None)
        if ended is None or slot.at <= ended:
            until = "" if ended is None else f" until {_moment(ended)}"
            return Reason("halted", f"an error halted the schedule{until}: {entry.detail}", None, ended)
    is_last = all(one.scheduled < slot.at for one in facts.near)
    if facts.schedule.halt_kind is HaltKind.ERROR and is_last and last is not None:
        return Reason("halted", f"an error has halted the schedule: {facts.schedule.halted}")
    return None


def _editor(facts: Facts, edited: datetime | None) -> str | None:
    """Who has edited the schedule then."""
    if edited is None:
        return None
    return next((one.worker for one in facts.acts if one.act == "changed" and one.at >= edited), None)


def _by(by: str | None) -> str:
    return "" if by is None else f" by {by}"


def _moment(instant: datetime) -> str:
    return write_instant(instant.replace(microsecond=0))
