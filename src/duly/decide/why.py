"""Why an event has not fired yet, or did not fire: the one cause, by its row, its history, and what is around it."""

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from duly.decide.series.pauses import PausedTime, paused_time
from duly.decide.targets.commands import COMMAND
from duly.records.event import HANDLER, Event, HoldKind, Status, schedule_of
from duly.records.history import Entry
from duly.records.marks import Id, Instant
from duly.records.schedule import Schedule
from duly.records.target import DESTINATION_OF_ALL, Known
from duly.values.durations import format_duration
from duly.values.instants import write_instant

Kind = Literal[
    "scheduled", "retrying", "held", "limit", "parked", "unserved", "down", "waiting", "running", "interrupted",
    "completed", "failed", "cancelled", "skipped",
]  # fmt: skip

MOST_AHEAD = 1000
"""The number up to which the events before another one are counted."""


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why an event has not fired yet, or did not fire."""

    id: Id
    status: Status
    kind: Kind
    message: str  # a sentence for people; programs go by the kind
    next_at: Instant | None = None  # when something happens to it by itself, where that is known


class Ahead(NamedTuple):
    """The events of a lane that are before another one or run; each number is counted up to MOST_AHEAD."""

    ready: int
    running: int
    running_of_tenant: int
    running_of_destination: int  # of the tenant
    rate_is_spent: bool  # whether a rate of the tenant or of the destination allows no start now


class Surroundings(NamedTuple):
    """What is around an event that could begin."""

    served: bool  # whether a worker serves its lane
    seen: datetime | None  # when a worker that serves its lane was last seen
    down: str | None  # why none of these workers can reach the lane's broker at the moment
    known: Sequence[Known]  # the limits of its destination and of its tenant
    ahead: Ahead
    ticked: datetime | None = None  # when the last tick of its lane ended, if no worker is at work


def could_begin(event: Event, now: datetime) -> bool:
    """Whether nothing in the event's own row keeps it from beginning."""
    waits = event.status in (Status.PENDING, Status.PROCESSING) and event.held is None
    return waits and event.ready is not None and event.ready <= now


def why(
    event: Event,
    history: Sequence[Entry],
    around: Surroundings | None,
    now: datetime,
    *,
    paused: Schedule | None = None,
    discreet: bool = False,
) -> Why:
    """Explains the state of an event. *around* is needed if it could begin or its target is parked, and its *paused*
    schedule if it is held by the pause. *discreet*: without workers, hosts and numbers of events, which are no
    tenant's."""
    pause = None if paused is None else paused_time(paused)
    if paused is not None and pause is not None:
        kind, message, next_at = _until_resumed(event, pause, paused.pause_reason)
    else:
        kind, message, next_at = _reason(event, history, around, now, discreet)
    return Why(id=event.id, status=event.status, kind=kind, message=message, next_at=next_at)


Reason = tuple[Kind, str, datetime | None]


def _reason(
    event: Event, history: Sequence[Entry], around: Surroundings | None, now: datetime, discreet: bool
) -> Reason:
    if around is not None and could_begin(event, now):
        return _ready(event, around, discreet)
    match event.status:
        case Status.PENDING if event.held is not None:
            return (
                _HOLDS[event.hold_kind or HoldKind.PAUSED],
                f"it is held: {event.held}{_until(event)}",
                _probe_at(around),
            )
        case Status.PENDING:
            return _later(event, history, event.ready or event.due, discreet)
        case Status.PROCESSING:
            asked = "" if event.stop_requested is None else f", and was asked {_at(event.stop_requested)} to stop"
            began = f"{_by_worker(event, discreet)} {_at(event.claimed)}{asked}; it is leased until"
            return "running", f"{began} {_moment(event.ready)}", event.ready
        case Status.COMPLETED:
            late = "" if event.lateness is None else f", {format_duration(event.lateness)} after it was due"
            return "completed", f"it fired {_at(event.executed)}{late}", None
        case Status.FAILED:
            spent = (
                f"it failed after {event.attempts} of {event.retry.max_attempts} attempts: {event.last_error or '?'}"
            )
            return "failed", f"{spent}. Replay it when the cause is fixed, or discard it", None
        case Status.CANCELLED:
            acts = ("stop requested",) if _has(history, "stop requested") else ("cancelled", "discarded")
            return "cancelled", _act(history, acts, "it was cancelled", discreet), None
        case Status.SKIPPED:
            return "skipped", _act(history, ("skipped", "shadowed"), "it was skipped", discreet), None


def _until_resumed(event: Event, pause: PausedTime, note: str | None) -> Reason:
    """The hold by a pause that ends by itself, and what becomes of the event then."""
    until, why = pause.until, "" if note is None else f" ({note})"
    held = f"it is held until {_moment(until)}, when the pause of its schedule ends{why}; "
    fires = pause.fires_at(event.due) if event.head else max(until, event.due)
    if fires is None:
        fate = "its time comes during the pause, so it is skipped then"
    else:
        fate = "then it fires by the misfire policy" if event.head and fires == until else f"it fires {_at(fires)}"
    return "held", f"{held}{fate}{_until(event)}", until


def _until(event: Event) -> str:
    """What ends the hold of a paused schedule's event."""
    if event.hold_kind is not HoldKind.PAUSED or schedule_of(event.series) is None or event.owner is None:
        return ""
    return (
        f". Resume the schedule {event.owner!r:.60}: `duly schedules resume {shlex.quote(event.owner)}`"
        f"{'' if event.tenant == 'default' else f' with --tenant {shlex.quote(event.tenant)}'}, or /resume over HTTP"
    )


_HOLDS: dict[HoldKind, Kind] = {
    HoldKind.PAUSED: "held",
    HoldKind.LIMIT: "limit",
    HoldKind.TARGET: "parked",
    HoldKind.PASSED_OVER: "held",
}


def _later(event: Event, history: Sequence[Entry], ready: datetime, discreet: bool) -> Reason:
    if event.attempts:
        failed = f"attempt {event.attempts} of {event.retry.max_attempts} failed: {event.last_error or '?'}"
        return "retrying", f"{failed}. The next one begins {_at(ready)}", ready
    if event.due >= ready:
        return "scheduled", f"it is due {_at(event.due)}", event.due
    last = history[-1] if history else None
    if last is None or last.act != "given back":  # the look-ahead, or a head that is being decided about
        who = "a worker" if discreet or event.worker is None else f"worker {event.worker}"
        return "running", f"{who} has reserved it, and is about to start it; it is leased until {_moment(ready)}", ready
    detail = "" if last.detail is None else f" ({last.detail})"
    return "retrying", f"it was returned before it was tried{detail}, until {_moment(ready)}", ready


def _ready(event: Event, around: Surroundings, discreet: bool) -> Reason:
    """The one cause for which an event that could begin does not."""
    could = f"it could have begun {_at(event.ready)}"
    if event.status is Status.PROCESSING:
        could = f"{_by_worker(event, discreet)} {_at(event.claimed)} and stopped without a trace"
    if not around.served:
        return "unserved", f"{could}, but {_unserved(event, around)}", None
    if around.down is not None:
        reason = "" if discreet else f": {around.down}"
        return "down", f"{could}, but what its lane needs is down at the moment{reason}", None
    for known in around.known:
        if known.parked is not None:
            return "parked", f"{could}, but its target {known.destination} is parked: {known.parked}", known.probe_at
    if event.status is Status.PROCESSING:
        who = "the next worker that is free" if around.ticked is None else "the next `duly tick` or worker"
        then = "runs it again, on its own" if event.stop_requested is None else "cancels it, as it was asked to stop"
        return "interrupted", f"{could}: {who} {then}", None
    if (limit := _limit(around)) is not None:
        return "limit", f"{could}, but {limit}", None
    return "waiting", f"{could}: {_turn(around, discreet)}", None


def _unserved(event: Event, around: Surroundings) -> str:
    handler = event.lane.partition(":")[2] if event.lane.startswith(f"{HANDLER}:") else ""
    who = f"has a handler for {handler!r}" if handler else _means(event.lane)
    never = f"no worker has ever served its lane, {event.lane}"
    since = (
        never if around.seen is None else f"no worker has served its lane, {event.lane}, since {_moment(around.seen)}"
    )
    return f"{since}: start a worker that {who}"


def _means(lane: str) -> str:
    return "runs commands, with `duly worker --commands`" if lane == COMMAND else f"delivers by {lane}"


def _limit(around: Surroundings) -> str | None:
    """The limit of the destination or of the tenant that keeps the event from beginning."""
    ahead = around.ahead
    for known in around.known:
        of_all = known.destination == DESTINATION_OF_ALL
        whose = "its tenant" if of_all else f"its destination {known.destination}"
        running = ahead.running_of_tenant if of_all else ahead.running_of_destination
        if known.concurrency is not None and running >= known.concurrency:
            return f"as many events of {whose} run as may run at once: {known.concurrency} in each worker"
        if known.rate is not None and ahead.rate_is_spent:
            return f"{whose} gets no more than {known.rate:g} events a second, and has had them"
    return None


def _turn(around: Surroundings, discreet: bool) -> str:
    ahead = around.ahead
    if discreet:
        return "it waits its turn"
    if around.ticked is not None:
        ended = f"no worker is at work on its lane; the last `duly tick` ended {_at(around.ticked)}"
        return f"{ended}, and the next one takes it, or a worker"
    if not ahead.ready:
        return f"it is the next of its lane, of which {ahead.running} run; a worker takes it as soon as it has a place"
    more = " or more" if ahead.ready >= MOST_AHEAD else ""
    others = f"{ahead.ready}{more} other event{'s' * (ahead.ready != 1)}"
    return f"it waits its turn behind {others} of its lane, of which {ahead.running} run"


def _by_worker(event: Event, discreet: bool) -> str:
    who = "a worker" if discreet else f"worker {event.worker}"
    return f"{who} began attempt {event.attempt}"


def _probe_at(around: Surroundings | None) -> datetime | None:
    """When the parked target of an event is tried again."""
    parked = [known for known in around.known if known.parked is not None] if around is not None else []
    return parked[0].probe_at if parked else None


def _has(history: Sequence[Entry], act: str) -> bool:
    return any(entry.act == act for entry in history)


_TOLD = {"stop requested": "cancelled while it ran"}
"""How the sentence calls an act whose word in the history does not fit into it."""


def _act(history: Sequence[Entry], acts: tuple[str, ...], usual: str, discreet: bool) -> str:
    """The last of these acts in the history: by whom, when, and the reason. An entry that ends a claim names a
    worker."""
    for entry in reversed(history):
        if entry.act in acts:
            by = "" if entry.worker is None or (discreet and entry.claimed is not None) else f" by {entry.worker}"
            reason = "" if entry.detail is None else f": {entry.detail}"
            return f"it was {_TOLD.get(entry.act, entry.act)}{by} {_at(entry.at)}{reason}"
    return usual


def _at(instant: datetime | None) -> str:
    return f"at {_moment(instant)}"


def _moment(instant: datetime | None) -> str:
    return "an unknown time" if instant is None else write_instant(instant.replace(microsecond=0))
