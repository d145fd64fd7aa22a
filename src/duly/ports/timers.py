"""The store as accepting timers needs it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from duly.ports.targets import DestinationReader
from duly.ports.transactions import Creations
from duly.records.event import Event, NewEvent


class Added(NamedTuple):
    """The result for a new event: created, moved (an earlier event with the same key), or unchanged."""

    event: Event
    change: str


class TimerPort(Creations, DestinationReader, Protocol):
    """Stores one-shot events."""

    async def add(self, events: Sequence[NewEvent]) -> list[str]:
        """Inserts events without keys; returns their ids, in order."""

    async def put(self, events: Sequence[NewEvent]) -> list[Added]:
        """Inserts or moves events by (tenant, key); an event that has started or ended is left alone."""


class TimerStore(TimerPort, Protocol):
    """A store that accepts timers, many in one transaction."""

    def begin(self) -> AbstractAsyncContextManager[TimerPort]: ...
