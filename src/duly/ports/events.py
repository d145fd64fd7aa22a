"""What people ask of a store about events."""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import NamedTuple, Protocol

from duly.ports.dead_letters import DeadLetterPort
from duly.ports.series import SeriesTransaction
from duly.ports.transactions import Clocked
from duly.records.event import Event
from duly.records.history import Entry
from duly.records.schedule import Schedule
from duly.records.specs import Spec


class Page(NamedTuple):
    """Some events, and the id after which the next page begins; None at the end. Where few events satisfy a spec, a
    page may hold less than it has room for, or nothing, and still not be the last."""

    events: list[Event]
    next: str | None


EXAMINED = 5_000
"""Events that one page looks at: some 5 ms of work."""


class EventPort(Protocol):
    """Look at events, and change one."""

    async def get(self, id: str) -> Event | None: ...

    async def lock(self, id: str) -> Event | None:
        """An event, which nobody else can change until the transaction ends."""

    async def by_key(self, tenant: str, key: str) -> Event | None: ...

    async def find(self, spec: Spec, *, limit: int, after: str | None = None) -> list[Event]:
        """Events that satisfy the spec, newest id first, at most *limit*, older than the id *after*."""

    async def page(self, spec: Spec, *, limit: int, after: str | None = None, examine: int = EXAMINED) -> Page:
        """The same, but no more than so many events are looked at that may not satisfy the spec, and no more are read
        than PAGE_BYTES have room for."""

    async def history(
        self, subject: str, *, skip: int = 0, limit: int | None = None, within: int | None = None
    ) -> list[Entry]:
        """Oldest first, without the first *skip*; CutShort where not all of them are *within* so many bytes."""

    async def change(self, event: Event, act: str, by: str, detail: str | None = None) -> None:
        """Write a locked event that a person changed, with its history row."""

    async def overview(self) -> list[tuple[str, str, int, datetime]]:
        """For each lane and status: how many events, and the oldest due time."""

    async def schedule_names(self, ids: Collection[str]) -> dict[str, str]:
        """What schedules are called, by their ids; one that is missing has been deleted."""

    async def schedule_named(self, tenant: str, name: str) -> Schedule | None:
        """A schedule by name, not locked."""


class EventTransaction(EventPort, SeriesTransaction, Protocol):
    """One transaction about an event, and what follows it if it is a head."""


class EventStore(EventPort, DeadLetterPort, Clocked, Protocol):
    """A store as the verbs of events see it."""

    def begin(self) -> AbstractAsyncContextManager[EventTransaction]: ...
