"""The parts that every use of a store shares: its clock, transactions, and the waker of workers."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol


class Clock(Protocol):
    """A replacement for the store's own clock; tests move it."""

    def now(self) -> datetime: ...


class Waker(Protocol):
    """Ends a wait early when work arrives from elsewhere."""

    async def wait(self, timeout: float) -> None:
        """Returns after *timeout* seconds, or earlier if an event may have become ready."""

    def wake(self) -> None: ...


class Clocked(Protocol):
    """The clock that decides what is due."""

    async def now(self) -> datetime:
        """The store's clock, which decides what is due and which lease has expired."""


class CreatedEvent(Protocol):
    """A new event, as far as listeners are told of it."""

    @property
    def id(self) -> str: ...

    @property
    def tenant(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def lane(self) -> str: ...


class Creations(Protocol):
    """Announces new events to listeners after the commit."""

    def tell_created(self, events: Iterable[CreatedEvent]) -> None:
        """Announces these created events to listeners, as soon as they are committed."""


class Notes(Protocol):
    """The history: acts, and who did them."""

    async def note(self, notes: Sequence[tuple[str, str, str | None]], by: str) -> None:
        """Writes history rows: the subject's id, the act, and a detail."""


class Health(Protocol):
    """Whether the store can be written, and whether it uses this machine's clock."""

    def system_time(self) -> float | None:
        """Seconds since 1970 by this machine's clock, if that is the store's clock; None if the store has another
        clock."""

    async def try_writing(self) -> None:
        """Writes something and leaves nothing behind, to find out whether writing works again."""


class Transaction(Protocol):
    """One database transaction as users' code sees it: it runs their own statements, and ``transaction=`` takes it."""

    @property
    def connection(self) -> Any:
        """The driver's own connection."""

    @property
    def outage(self) -> str | None:
        """Why the transaction cannot continue, if the cause is a temporary fault of the database: the connection is
        lost, or the database has rolled the transaction back. None otherwise."""

    def abandon(self) -> None:
        """Rolls back now, even if its user still wants to use it."""

    async def execute(self, sql: str, *args: Any) -> Any: ...

    async def fetch(self, sql: str, *args: Any) -> list[Any]: ...

    async def fetchrow(self, sql: str, *args: Any) -> Any: ...

    async def fetchval(self, sql: str, *args: Any) -> Any: ...
