"""Why an event has not fired yet, or did not fire, by its row, its history and the last start in its lane."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from duly.records.event import HANDLER, Event, Status
from duly.records.history import Entry
from duly.records.marks import Id, Instant
from duly.values.durations import format_duration
from duly.values.instants import write_instant

Kind = Literal[
    "scheduled", "retrying", "held", "waiting", "running", "interrupted", "completed", "failed", "cancelled", "skipped"
]  # fmt: skip


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why an event has not fired yet, or did not fire."""

    id: Id
    status: Status
    kind: Kind
    message: str  # a sentence for people; programs go by the kind
    next_at: Instant | None = None  # when something happens to it by itself, where that is known


def why(event: Event, history: Sequence[Entry], started: Event | None, now: datetime) -> Why:
    """Explains the state of an event. *started* is the newest event of the same lane that a worker has started within
    the last hour."""
    kind, message, next_at = _reason(event, history, started, now)
    return Why(id=event.id, status=event.status, kind=kind, message=message, next_at=next_at)


Reason = tuple[Kind, str, datetime | None]


def _reason(event: Event, history: Sequence[Entry], started: Event | None, now: datetime) -> Reason:
    match event.status:
        case Status.PENDING if event.held is not None:
            return "held", f"it is held: {event.held}", None
        case Status.PENDING if event.ready is not None and event.ready > now:
            return _later(event, event.ready)
        case Status.PENDING:
            return "waiting", _waiting(event, started), None
        case Status.PROCESSING if event.ready is not None and event.ready < now:
            gone = (
                f"worker {event.worker} began attempt {event.attempt} {_at(event.claimed)} and stopped without a trace"
            )
            then = "runs it again" if event.stop_requested is None else "cancels it, as it was asked to stop"
            return "interrupted", f"{gone}: the next worker that serves its lane {then}", None
        case Status.PROCESSING:
            asked = "" if event.stop_requested is None else f", and was asked {_at(event.stop_requested)} to stop"
            began = f"worker {event.worker} began attempt {event.attempt} {_at(event.claimed)}{asked}"
            return "running", began, event.ready
        case Status.COMPLETED:
            late = "" if event.lateness is None else f", {format_duration(event.lateness)} after it was due"
            return "completed", f"it fired {_at(event.executed)}{late}", None
        case Status.FAILED:
            spent = (
                f"it failed after {event.attempts} of {event.retry.max_attempts} attempts: {event.last_error or '?'}"
            )
            return "failed", f"{spent}. Replay it when the cause is fixed, or discard it", None
        case Status.CANCELLED:
            return "cancelled", _act(history, ("cancelled", "discarded"), "it was cancelled"), None
        case Status.SKIPPED:
            return "skipped", _act(history, ("skipped", "shadowed"), "it was skipped"), None


def _later(event: Event, ready: datetime) -> Reason:
    if event.attempts:
        failed = f"attempt {event.attempts} of {event.retry.max_attempts} failed: {event.last_error or '?'}"
        return "retrying", f"{failed}. The next one begins {_at(ready)}", ready
    if event.due >= ready:
        return "scheduled", f"it is due {_at(event.due)}", event.due
    return "retrying", f"it was returned before it was tried{_because(event)}, until {_at(ready)}", ready


def _because(event: Event) -> str:
    return "" if event.last_error is None else f" ({event.last_error})"


def _waiting(event: Event, started: Event | None) -> str:
    ready = f"it could have begun {_at(event.ready or event.due)}"
    if started is None:
        handler = event.lane.partition(":")[2] if event.lane.startswith(f"{HANDLER}:") else ""
        who = f"has a handler for {handler!r}" if handler else f"delivers by {event.lane}"
        quiet = "no event of its lane was started within the last hour"
        return f"{ready}, but {quiet}: check that a worker is running that {who}"
    busy = f"worker {started.worker} started another one of its lane {_at(started.claimed)}"
    return f"{ready}: it waits behind other events, or for a limit of its destination or tenant; {busy}"


def _act(history: Sequence[Entry], acts: tuple[str, ...], usual: str) -> str:
    """The last of these acts in the history: by whom, when, and the reason."""
    for entry in reversed(history):
        if entry.act in acts:
            by = "" if entry.worker is None else f" by {entry.worker}"
            return f"it was {entry.act}{by} {_at(entry.at)}" + ("" if entry.detail is None else f": {entry.detail}")
    return usual


def _at(instant: datetime | None) -> str:
    return "at an unknown time" if instant is None else f"at {write_instant(instant)}"
