"""What accepting timers asks of a store."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from duly.ports.targets import DestinationReader
from duly.ports.transactions import Creations
from duly.records.event import Event, NewEvent


class Added(NamedTuple):
    """What became of a new event: created, moved (an earlier one with its key), or unchanged."""

    event: Event
    change: str


class TimerPort(Creations, DestinationReader, Protocol):
    """Store one-shot events."""

    async def add(self, events: Sequence[NewEvent]) -> list[str]:
        """Insert events without keys; their ids, in order."""

    async def put(self, events: Sequence[NewEvent]) -> list[Added]:
        """Insert or move events by (tenant, key): one that has started or ended is left alone."""


class TimerStore(TimerPort, Protocol):
    """A store that takes timers, many in one transaction."""

    def begin(self) -> AbstractAsyncContextManager[TimerPort]: ...
