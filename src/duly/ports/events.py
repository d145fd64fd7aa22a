"""The store as people's questions about events, and their changes to an event, need it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import NamedTuple, Protocol

from duly.ports.dead_letters import DeadLetterPort
from duly.ports.series import SeriesTransaction
from duly.ports.workers import PresencePort
from duly.records.event import Event, NewEvent
from duly.records.finding.acts import ActKind
from duly.records.finding.counts import Count
from duly.records.finding.search import SearchResult, Wanted
from duly.records.finding.sorting import DuePlace
from duly.records.history import Entry
from duly.records.schedule import Schedule
from duly.records.specs import Spec


class Page(NamedTuple):
    """A page of events, and the id after which the next page begins; None at the end. If few events satisfy the spec, a
    page may be short or empty without being the last one."""

    events: list[Event]
    next: str | None


PAGE_EXAMINED = 5_000
"""The number of events that one page examines: about 5 ms of work."""

DUE_EXAMINED = 5_000
"""Waiting events that a page in the order of due times examines, in each tenant: about 5 ms of work."""

COUNT_EXAMINED = 100_000
"""Events that a count examines: about 0.1 s of work."""


class DuePage(NamedTuple):
    """A page of events in the order of due times, and the place after which the next page begins; None at the end."""

    events: list[Event]
    next: DuePlace | None


class EventPort(Protocol):
    """Reads events, and changes a single event."""

    async def get(self, id: str) -> Event | None: ...

    async def lock(self, id: str) -> Event | None:
        """An event, locked until the transaction ends."""

    async def by_key(self, tenant: str, key: str) -> Event | None:
        """The open event with this key, or else the latest."""

    async def find(self, spec: Spec, *, limit: int, after: str | None = None) -> list[Event]:
        """Events that satisfy the spec, newest id first, at most *limit*, older than the id *after*."""

    async def page(self, spec: Spec, *, limit: int, after: str | None = None, examine: int = PAGE_EXAMINED) -> Page:
        """Events like ``find``, but it examines at most *examine* events that may not satisfy the spec, and reads no
        more than PAGE_BYTES."""

    async def history(
        self, subject: str, *, skip: int = 0, limit: int | None = None, within: int | None = None
    ) -> list[Entry]:
        """History entries, oldest first, without the first *skip*; CutShort if the entries do not fit into *within*
        bytes."""

    async def change(self, event: Event, act: str, by: str, detail: str | None = None) -> None:
        """Writes a locked event that a person has changed, with its history row."""

    async def unlocked(self, ids: Sequence[str]) -> set[str]:
        """Locks those of the events that nobody else has locked; returns their ids."""

    async def cancel_found(self, events: Sequence[Event], by: str, reason: str | None) -> set[str]:
        """Cancels those of the events that wait, have not changed since they were found, and are locked by nobody else;
        except heads and events for whose end others wait. Returns the ids of the cancelled events."""

    async def request_stop(self, id: str, by: str, detail: str | None) -> None:
        """Asks a running event to stop, with a history row."""

    async def link_replay(self, old: str, new: str) -> None:
        """Lets a new event name the old one that it replays with another payload, and the old one the new one."""

    async def lanes_of(self, spec: Spec, *, examine: int) -> list[str]:
        """The lanes of the events that satisfy the spec, among the newest *examine* events of its tenant."""

    async def overview(self) -> list[tuple[str, str, int, datetime]]:
        """For each lane and status: the number of events, and the oldest due time."""

    async def schedule_named(self, tenant: str, name: str) -> Schedule | None:
        """A schedule by name, not locked."""


class EventFinder(Protocol):
    """Finds and counts events."""

    async def page_by_due(
        self, spec: Spec, *, limit: int, latest_first: bool = False, after: DuePlace | None = None
    ) -> DuePage:
        """Waiting events (PENDING) that satisfy the spec, in the order of due time and id, after a place. Examines at
        most DUE_EXAMINED events that may not satisfy the spec, and reads no more than PAGE_BYTES."""

    async def count_events(self, spec: Spec) -> Count:
        """How many events satisfy the spec: exact if they are at most MOST_COUNTED, and if no more than COUNT_EXAMINED
        had to be examined for that."""

    async def event_kinds(self, spec: Spec, *, most: int) -> list[ActKind]:
        """The most frequent kinds among the newest MOST_COUNTED events that satisfy the spec, at most *most*."""


class SearchPort(Protocol):
    """Finds anything that people look for."""

    async def find_anything(self, tenant: str, wanted: Wanted, *, limit: int) -> list[SearchResult]:
        """What a tenant has with this id, key or name, or with a name that begins so, the best match first."""


class EventTransaction(EventPort, SeriesTransaction, DeadLetterPort, Protocol):
    """One transaction about an event, and about its successor if the event is a head."""

    async def add(self, events: Sequence[NewEvent]) -> list[str]:
        """Inserts events without keys; returns their ids, in order."""


class EventStore(EventPort, EventFinder, DeadLetterPort, PresencePort, Protocol):
    """A store as the verbs of events see it."""

    def begin(self) -> AbstractAsyncContextManager[EventTransaction]: ...
