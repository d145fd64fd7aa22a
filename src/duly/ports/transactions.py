"""What every use of a store shares: its clock, transactions, and who wakes a worker."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol

from duly.records.event import Event, NewEvent


class Clock(Protocol):
    """Stands in for the store's own clock; tests move it."""

    def now(self) -> datetime: ...


class Waker(Protocol):
    """Ends a wait early when work arrives from elsewhere."""

    async def wait(self, timeout: float) -> None:
        """Return after *timeout* seconds, or sooner when an event may have become ready sooner."""

    def wake(self) -> None: ...


class Clocked(Protocol):
    """The clock that decides what is due."""

    async def now(self) -> datetime:
        """The store's clock, which decides what is due and which lease has expired."""


class Creations(Protocol):
    """Who listens hears of new events when they are committed."""

    def tell_created(self, events: Iterable[Event | NewEvent]) -> None:
        """These were created: whoever listens is told as soon as that is committed."""


class Notes(Protocol):
    """The history: what was done, by whom."""

    async def note(self, notes: Sequence[tuple[str, str, str | None]], by: str) -> None:
        """History rows: the subject's id, the act, and a detail."""


class Health(Protocol):
    """Whether a store can be written, and whether its clock is this machine's."""

    def system_time(self) -> float | None:
        """Seconds since 1970 by the clock of this machine, where that is the store's clock; None where the store has
        another one."""

    async def try_writing(self) -> None:
        """Write something that leaves nothing behind, for those who must know whether that works again."""


class Transaction(Protocol):
    """One database transaction as users' code sees it: their own statements. ``transaction=`` takes it."""

    @property
    def connection(self) -> Any:
        """The driver's own connection."""

    @property
    def outage(self) -> str | None:
        """Why it cannot go on, where that is the database's doing and passes: its connection is lost, or the database
        has rolled it back. None else."""

    def abandon(self) -> None:
        """Roll back now, whatever its user still wants to do with it."""

    async def execute(self, sql: str, *args: Any) -> Any: ...

    async def fetch(self, sql: str, *args: Any) -> list[Any]: ...

    async def fetchrow(self, sql: str, *args: Any) -> Any: ...

    async def fetchval(self, sql: str, *args: Any) -> Any: ...
