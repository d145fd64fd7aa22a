"""What observers hear: frozen records, told after the commit that made them true."""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from duly.records.event import Event

log = logging.getLogger("duly")


def lateness(event: Event) -> timedelta:
    """How long after its due time the attempt under way began."""
    return max(timedelta(), (event.claimed or event.due) - event.due)


class Created(msgspec.Struct, frozen=True):
    """Events of one type and tenant that the store has accepted: timers, the next ones of schedules and of users'
    calendars, triggers and backfills. Not those that are stored by a transaction on a connection of your own."""

    ids: Sequence[str]
    type: str
    tenant: str


class FileCreated(msgspec.Struct, frozen=True):
    """There was no database file, and a new one was made."""

    path: str


class Claimed(msgspec.Struct, frozen=True):
    event: Event
    worker: str


class Completed(msgspec.Struct, frozen=True):
    event: Event

    @property
    def late(self) -> timedelta:
        return lateness(self.event)


class Late(msgspec.Struct, frozen=True):
    """Completed, but late. Told beside Completed, so that who only cares for these need not hear of all."""

    event: Event
    late: timedelta


class Retried(msgspec.Struct, frozen=True):
    """An attempt failed and another one will follow."""

    event: Event
    error: str
    wait: timedelta


class DeadLettered(msgspec.Struct, frozen=True):
    """The event is FAILED: rejected, its attempts spent, or interrupted too often."""

    event: Event
    error: str


class ChannelDown(msgspec.Struct, frozen=True):
    """The server behind a channel cannot be reached; what is due for it waits."""

    channel: str
    reason: str


class ChannelUp(msgspec.Struct, frozen=True):
    """It can be reached again."""

    channel: str
    after: timedelta


class ChannelNotServed(msgspec.Struct, frozen=True):
    """Events wait for a channel that this worker cannot reach; others may."""

    channel: str
    advice: str


class CommandsTaken(msgspec.Struct, frozen=True):
    """Commands that came over a broker: they are stored, or were refused."""

    many: int
    refused: int


class CommandRejected(msgspec.Struct, frozen=True):
    """A command that cannot be carried out. It is kept, with the reason."""

    place: str
    reason: str


class CommandStuck(msgspec.Struct, frozen=True):
    """The same, and not even that could be kept: it is not acknowledged, and comes again."""

    place: str
    reason: str


class GivenBack(msgspec.Struct, frozen=True):
    """A claim was returned unspent; for some time, where the means of delivery is not there."""

    event: Event
    reason: str
    wait: timedelta = timedelta()
    told: bool = False  # ChannelDown has told of it


class HeldBack(msgspec.Struct, frozen=True):
    """A claim was returned unspent, and the event waits until what it goes to is open again."""

    event: Event
    reason: str


class Interrupted(msgspec.Struct, frozen=True):
    """A claim whose worker vanished was found; the event's worker and claim are that one's."""

    event: Event


class Lost(msgspec.Struct, frozen=True):
    """A verdict came too late: the event was claimed again, cancelled or settled by somebody else."""

    event: Event
    act: str


class Skipped(msgspec.Struct, frozen=True):
    """An occurrence of a schedule did not fire, and why."""

    event: Event
    reason: str


class Halted(msgspec.Struct, frozen=True):
    """A schedule has no next event, and why."""

    schedule: str  # its id
    reason: str
    name: str = ""


class Orphaned(msgspec.Struct, frozen=True):
    """Schedules that a function of this program once declared, and none does any more."""

    schedules: Sequence[str]  # their names


class Replanned(msgspec.Struct, frozen=True):
    """Newer zone data has moved so many events."""

    events: int
    zone_data: str


class DestinationParked(msgspec.Struct, frozen=True):
    """Nothing more is sent there: its events are held until it answers, or until a person enables it."""

    tenant: str
    destination: str
    reason: str
    gone: bool = False  # it takes a person


class DestinationOpened(msgspec.Struct, frozen=True):
    """It answers again, and what has waited for it is released."""

    tenant: str
    destination: str
    after: timedelta


class StoreDown(msgspec.Struct, frozen=True):
    error: str
    readable: bool = False  # it only cannot be written: its disk is full, or somebody else has it locked


class StoreUp(msgspec.Struct, frozen=True):
    after: timedelta


class ClockStepped(msgspec.Struct, frozen=True):
    """Somebody has set this machine's clock, which is the store's, forward or (less than nothing) back."""

    by: timedelta


class HandlerAbandoned(msgspec.Struct, frozen=True):
    """A handler went on past its deadline and could not be stopped."""

    event: Event
    deadline: timedelta
    threads: int = 0  # of plain `def` handlers, how many hang like this in this process now


class WorkerStarted(msgspec.Struct, frozen=True):
    worker: str
    lanes: Sequence[str]


class WorkerStopped(msgspec.Struct, frozen=True):
    worker: str
    given_back: int


class PassEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a tick, or of what a running worker settled from one idle time to the next. A pass that does not
    end is told of once a minute. What was given back, or lost to somebody else, is not in them."""

    worker: str
    processed: int  # COMPLETED
    retried: int  # attempts that failed, and will be followed by another
    failed: int  # dead-lettered
    late: int  # attempts that began more than DULY_LATE_AFTER after their event was due
    average_lateness: timedelta  # of all attempts
    greatest_lateness: timedelta
    duration: timedelta

    @property
    def recovery(self) -> bool:
        """Whether this was, in part at least, work that should have been done before."""
        return self.late > 0


Observer = Callable[[Any], None]


class Signals:
    """Tells observers. One that fails is logged and harms nothing."""

    def __init__(self, late_after: timedelta = timedelta(minutes=5)) -> None:
        self.late_after = late_after
        self._observers: list[tuple[Observer, tuple[type, ...]]] = []
        self._wanted: dict[type, list[Observer]] = {}

    def observe(self, observer: Observer, *kinds: type) -> Callable[[], None]:
        """Without kinds, the observer hears everything. What this returns ends that; a second call of it does
        nothing."""
        one = (observer, kinds)
        self._observers.append(one)
        self._wanted.clear()

        def end() -> None:
            self._observers = [other for other in self._observers if other is not one]
            self._wanted.clear()

        return end

    def wanted(self, kind: type) -> list[Observer]:
        """Who hears this kind; empty means that nobody does, and the signal need not be made."""
        found = self._wanted.get(kind)
        if found is None:
            found = [observer for observer, kinds in self._observers if not kinds or kind in kinds]
            self._wanted[kind] = found
        return found

    def emit(self, signal: Any) -> None:
        for observer in self.wanted(type(signal)):
            try:
                observer(signal)
            except Exception:
                log.exception("observer.failed signal=%s", type(signal).__name__)
