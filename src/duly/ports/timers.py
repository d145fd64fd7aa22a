"""The store as accepting timers needs it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from duly.ports.targets import DestinationReader
from duly.ports.transactions import Creations
from duly.records.event import Event, NewEvent
from duly.records.results import PutChange


class Added(NamedTuple):
    """The result for a new event. Unless it was created, *event* is the one that has its key."""

    event: Event
    change: PutChange


class TimerPort(Creations, DestinationReader, Protocol):
    """Stores one-shot events."""

    async def add(self, events: Sequence[NewEvent]) -> list[str]:
        """Inserts events without keys; returns their ids, in order."""

    async def put(self, events: Sequence[NewEvent]) -> list[Added]:
        """Inserts or moves events by (tenant, key). An open event that has started is left alone; so is one that has
        fired, unless the new event says that it may fire again, or its key is no longer remembered."""


class KeyMemory(Protocol):
    """Deletes events that have ended, and remembers the keys of those that have fired."""

    async def delete_ended(self, ids: Sequence[str]) -> set[str]:
        """Deletes those of the events that have ended, with their history, and remembers the keys of those that have
        fired, in one transaction. Returns the ids of the deleted events. Events that somebody has locked are left."""

    async def forget_keys(self, limit: int) -> int:
        """Forgets keys that have fired longer ago than they are remembered, at most *limit*; returns their number."""


class TimerStore(TimerPort, Protocol):
    """A store that accepts timers, many in one transaction."""

    def begin(self) -> AbstractAsyncContextManager[TimerPort]: ...
