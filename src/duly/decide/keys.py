"""What becomes of a timer whose key an event has that the timer cannot simply move."""

from typing import NamedTuple

from duly.decide.targets.commands import COMMAND
from duly.errors import AlreadyFired, Conflict
from duly.records.event import TERMINAL, Event, NewEvent, Status
from duly.records.results import PutChange
from duly.values.instants import write_instant

COMPARED = (
    "type",
    "payload_json",
    "target_json",
    "retry_json",
    "correlation_id",
    "expires",
    "quiet",
    "max_wait",
    "due",
)
"""What makes two timers with one key different. (Lane and destination follow from the type and the target.)"""


class KeyHolder(NamedTuple):
    """The event that has a key: it is open, or it has fired."""

    event: Event
    forgotten: bool = False  # whether it has fired so long ago that its key is no longer remembered


def has_started(event: Event) -> bool:
    """Whether an open event runs, or has run and waits for its next attempt."""
    return event.status is not Status.PENDING or event.attempts > 0 or event.interruptions > 0


def decide_put(new: NewEvent, holder: KeyHolder, *, retried: bool) -> PutChange | None:
    """What putting a timer comes to that the store has neither created nor moved; None if it is to be put again, with
    the key taken from the holder. *retried*: it was put again before.

    A debounced call takes the key also from an event that has started: what happens now is not part of that one.
    """
    event = holder.event
    if event.status in TERMINAL:
        if holder.forgotten or not new.once:
            return None
        return PutChange.UNCHANGED if new.due == event.due else PutChange.ALREADY_FIRED
    if event.type != new.type or is_closed(new, event):
        return PutChange.REFUSED
    if has_started(event):
        return PutChange.UNCHANGED if new.quiet is None else None
    # It can be moved, so it is the same, or an older request; or somebody created it a moment ago.
    same = all(getattr(new, field) == getattr(event, field) for field in COMPARED)
    return PutChange.UNCHANGED if same or retried or new.asked is not None else None


def is_closed(new: NewEvent, event: Event) -> bool:
    """Whether a request over HTTP would put a timer in place of a command that code has scheduled."""
    return event.lane == COMMAND and event.via is None and new.via is not None


def required_fresh(added: tuple[Event, PutChange]) -> Event:
    """The event of a timer that was put; raises AlreadyFired if its key had fired with another due time."""
    event, change = added
    if change is PutChange.ALREADY_FIRED:
        raise AlreadyFired(
            f"the key {event.key!r:.60} has fired already, and nothing was scheduled: event {event.id} ({event.type}) "
            f"was due at {write_instant(event.due)} and is {event.status}. Pass once=False to let the key fire again, "
            "or call put, which returns this as a change",
            event,
        )
    return event


def key_refused(new_type: str, event: Event) -> Conflict:
    """The error for a timer of another type than the open event that has its key, or one in place of a command."""
    if event.type == new_type:
        return Conflict(
            f"the key {event.key!r:.60} belongs to event {event.id}, which runs a command and was made in Python or on "
            "the command line: over HTTP, nothing of it can be changed"
        )
    return Conflict(
        f"the key {event.key!r:.60} belongs to event {event.id}, which is {event.status} and of type "
        f"{event.type!r:.60}: a timer of type {new_type!r:.60} needs another key, or that event must be cancelled first"
    )
