"""The signals that observers receive: frozen records, emitted after the commit that made them true."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, Self

import msgspec

from duly.records.event import Event, Settlement
from duly.records.schedule import HaltKind

log = logging.getLogger("duly")


def lateness(event: Event) -> timedelta:
    """How long after the event's due time its current attempt began."""
    return max(timedelta(), (event.claimed or event.due) - event.due)


class Created(msgspec.Struct, frozen=True):
    """Events of one type, tenant and lane that the store has accepted: timers, the next events of schedules and of
    users' calendars, triggers and backfills. Not emitted for events that are stored in a transaction on your own
    connection."""

    ids: Sequence[str]
    type: str
    tenant: str
    lane: str


class Opened(msgspec.Struct, frozen=True):
    """A Duly has opened its database."""


class FileCreated(msgspec.Struct, frozen=True):
    """A new database file was created, because there was none."""

    path: str


class Claimed(msgspec.Struct, frozen=True):
    event: Event
    worker: str


class ClaimMade(msgspec.Struct, frozen=True):
    """The end of a claim, for observers that count and measure: emitted once for each claim, whatever it found."""

    events: Sequence[Event]
    transaction_s: float  # seconds from asking for a connection to the end of all that the claim commits
    query_s: float | None  # seconds of the statement that finds and takes events; None if the claim had none


class Completed(msgspec.Struct, frozen=True):
    event: Event

    @property
    def late(self) -> timedelta:
        return lateness(self.event)


class Late(msgspec.Struct, frozen=True):
    """An event was completed late. Emitted in addition to Completed, for observers that want only late events."""

    event: Event
    late: timedelta


class Retried(msgspec.Struct, frozen=True):
    """An attempt failed, and another attempt will follow."""

    event: Event
    error: str
    wait: timedelta


class FailReason(StrEnum):
    """Why an event is FAILED. The error is for people."""

    REJECTED = "rejected"  # a handler or receiver does not want it tried again
    SPENT = "spent"  # its last attempt failed
    INTERRUPTED = "interrupted"  # it was running in too many crashes


class DeadLettered(msgspec.Struct, frozen=True):
    """The event is FAILED: rejected, its attempts spent, or interrupted too often."""

    event: Event
    error: str
    reason: FailReason


class Settled(msgspec.Struct, frozen=True):
    """The settlements that were committed together, for observers that count. Emitted in addition to the signals of
    their events. Without claims that were lost, and without events that were cancelled while they ran."""

    settlements: Sequence[Settlement]


class WorkerNotShown(msgspec.Struct, frozen=True):
    """A worker may not write the row that tells others of it. It works all the same."""

    worker: str
    error: str


class TypeNotServed(msgspec.Struct, frozen=True):
    """An event was scheduled whose type no worker has ever served. Emitted once for each type."""

    type: str


class ChannelDown(msgspec.Struct, frozen=True):
    """The server behind a channel cannot be reached; due events for it wait."""

    channel: str
    reason: str


class ChannelUp(msgspec.Struct, frozen=True):
    """The server behind a channel can be reached again."""

    channel: str
    after: timedelta


class ChannelNotServed(msgspec.Struct, frozen=True):
    """Events wait for a channel that this worker does not serve; other workers may."""

    channel: str
    advice: str


class CommandsTaken(msgspec.Struct, frozen=True):
    """Commands that came over a broker were stored or refused."""

    many: int
    refused: int


class CommandRejected(msgspec.Struct, frozen=True):
    """A command cannot be carried out. It is stored with the reason."""

    place: str
    reason: str


class CommandStuck(msgspec.Struct, frozen=True):
    """A command cannot be carried out, and could not be stored either: it is not acknowledged, and will be delivered
    again."""

    place: str
    reason: str


class GivenBack(msgspec.Struct, frozen=True):
    """A claim was given back without using up an attempt; with a wait, where the channel is unavailable."""

    event: Event
    reason: str
    wait: timedelta = timedelta()
    told: bool = False  # ChannelDown has reported the reason already


class HeldBack(msgspec.Struct, frozen=True):
    """A claim was given back without using up an attempt, and the event is held until its destination is open again."""

    event: Event
    reason: str


class Interrupted(msgspec.Struct, frozen=True):
    """A claim was found whose worker has vanished; the event carries the worker and the time of that claim."""

    event: Event


class Lost(msgspec.Struct, frozen=True):
    """A verdict came too late: another worker has claimed or settled the event, or it was cancelled."""

    event: Event
    act: str


class Cancelled(msgspec.Struct, frozen=True):
    """A running event was asked to stop, and has ended."""

    event: Event


class Skipped(msgspec.Struct, frozen=True):
    """An occurrence of a schedule did not fire, with the reason."""

    event: Event
    reason: str


class Halted(msgspec.Struct, frozen=True):
    """A schedule has no next event, with the reason."""

    schedule: str  # its id
    kind: HaltKind
    reason: str  # for people
    name: str = ""


class Orphaned(msgspec.Struct, frozen=True):
    """Schedules that functions of this program once declared, and that no function declares any more."""

    schedules: Sequence[str]  # their names


class Replanned(msgspec.Struct, frozen=True):
    """Newer time zone data has moved events."""

    events: int
    zone_data: str


class DestinationParked(msgspec.Struct, frozen=True):
    """A destination is parked: its events are held until it answers, or until a person enables it."""

    tenant: str
    destination: str
    reason: str
    gone: bool = False  # only a person can enable it again


class DestinationOpened(msgspec.Struct, frozen=True):
    """A parked destination answers again, and its held events are released."""

    tenant: str
    destination: str
    after: timedelta


class StoreDown(msgspec.Struct, frozen=True):
    error: str
    readable: bool = False  # only writes fail: the disk is full, or another process has the database locked


class StoreUp(msgspec.Struct, frozen=True):
    after: timedelta


class EventsPruned(msgspec.Struct, frozen=True):
    """A worker has looked through all events, and deleted finished ones that are kept no longer."""

    worker: str
    events: int
    duration: timedelta


class PruningRefused(msgspec.Struct, frozen=True):
    """A worker may not delete finished events. It works all the same. Told once."""

    worker: str
    error: str


class RollUpRefused(msgspec.Struct, frozen=True):
    """A worker may not add ended runs to the roll-ups. It works all the same, and so do the figures, ever more slowly.
    Told once."""

    worker: str
    error: str


class ClockStepped(msgspec.Struct, frozen=True):
    """This machine's clock, which is the store's, was set forward or (negative) back."""

    by: timedelta


class HandlerAbandoned(msgspec.Struct, frozen=True):
    """A handler ran past its deadline and could not be stopped."""

    event: Event
    deadline: timedelta
    threads: int = 0  # how many threads of plain `def` handlers hang like this in this process now


class WorkerStarted(msgspec.Struct, frozen=True):
    worker: str
    lanes: Sequence[str]


class WorkerDraining(msgspec.Struct, frozen=True):
    """A stopped worker waits for running events. Told at the beginning, and every few seconds until it has ended."""

    worker: str
    types: Mapping[str, int]  # how many events of each type are running
    oldest: timedelta  # for how long the oldest of them has been running
    left: timedelta  # the time until they are given back


class WorkerStopped(msgspec.Struct, frozen=True):
    worker: str
    given_back: int


class PassEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a tick, or of the events that a running worker settled from one idle time to the next. A pass that
    does not end is reported once a minute. Events that were given back, or lost to another worker, are not counted."""

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
        """Whether the pass caught up on late events, at least in part."""
        return self.late > 0


OF_BATCHES = (ClaimMade, Settled)
"""What only those observers hear that name it: it repeats, in batches, what other signals tell of each event."""

Observer = Callable[[Any], None]


class Signals:
    """Sends signals to observers. The error of an observer is logged, and affects nothing else."""

    def __init__(self, late_after: timedelta = timedelta(minutes=5)) -> None:
        self.late_after = late_after
        self._observers: list[tuple[Observer, tuple[type, ...]]] = []
        self._wanted: dict[type, list[Observer]] = {}

    def copy(self) -> Self:
        """The same observers; those added here later are not in the original."""
        other = type(self)(self.late_after)
        other._observers = list(self._observers)
        return other

    def observe(self, observer: Observer, *kinds: type) -> Callable[[], None]:
        """Adds an observer of these kinds of signals; without kinds, of all but those of batches. Returns a function
        that removes the observer; calling it twice is harmless."""
        one = (observer, kinds)
        self._observers.append(one)
        self._wanted.clear()

        def end() -> None:
            self._observers = [other for other in self._observers if other is not one]
            self._wanted.clear()

        return end

    def wanted(self, kind: type) -> list[Observer]:
        """The observers of a kind of signal; if there are none, the signal need not be created."""
        found = self._wanted.get(kind)
        if found is None:
            by_default = kind not in OF_BATCHES
            found = [observer for observer, kinds in self._observers if kind in kinds or (by_default and not kinds)]
            self._wanted[kind] = found
        return found

    def emit(self, signal: Any) -> None:
        for observer in self.wanted(type(signal)):
            try:
                observer(signal)
            except Exception:
                log.exception("observer.failed signal=%s", type(signal).__name__)
