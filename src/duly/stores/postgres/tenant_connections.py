"""Connections for requests of the API, each of which remembers the tenant that its session is set to.

A statement that needs no transaction runs by itself on a session that has role and tenant already: one round trip. The
promise is that no statement runs while the session names another tenant than the request does. So what is remembered
here is forgotten before the server is asked to change it, and written down when the server has confirmed it; and a
connection on which anything failed is closed, not used again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import asyncpg

from duly.errors import StoreError
from duly.keyed_semaphore import KeyedSemaphore
from duly.stores.postgres.driver import PostgresConnection, is_open, terminate
from duly.stores.postgres.rls_role import ROLE

IDLE_S = 60.0
"""Seconds without use after which a connection is closed."""

LONGEST_S = 3600.0
"""Seconds after which a connection is replaced: a session keeps its role even where the right to it was taken away."""


class TenantConnection(PostgresConnection):
    """A connection whose session has the role of the API, and the tenant that stands here: None where there is none, or
    where it is not certain."""

    tenant: str | None = None
    has_session = False  # of its own; behind a pooler, each transaction may be in another one
    opened_at = 0.0  # by the clock of the loop
    idle_since = 0.0

    async def take_role(self) -> None:
        """Set the role for as long as the connection lasts, where it has a session of its own. Behind a pooler, the
        number of the server's process is not the one that was told at the start."""
        self.has_session = await self.fetchval("SELECT pg_backend_pid()") == self.get_server_pid()
        if self.has_session:
            with unprepared():
                await self.execute(f"SET ROLE {ROLE}")

    async def set_tenant(self, tenant: str) -> None:
        self.tenant = None
        await self.execute(f"SET duly.tenant = {quoted(tenant)}")
        self.tenant = tenant


class TenantConnections:
    """At most so many connections. (Asyncpg's own pool cannot be asked for one with a certain tenant, and makes a task
    of each return.)"""

    def __init__(self, connect: Callable[[], Awaitable[TenantConnection]], most: int) -> None:
        self._connect = connect
        self._places = asyncio.Semaphore(most)  # one for each connection that is in use
        self._open: set[TenantConnection] = set()
        self._idle: list[TenantConnection] = []  # the one that was used last at the end
        self._closing_idle: asyncio.TimerHandle | None = None
        self._closed = False
        self._all_back = asyncio.Event()

    @property
    def size(self) -> int:
        return len(self._open)

    @property
    def has_idle(self) -> bool:
        """Whether a connection can be had without waiting."""
        return bool(self._idle) and not self._places.locked()

    async def take(self, tenant: str) -> TenantConnection:
        """A connection, if possible one whose session has this tenant."""
        await self._places.acquire()
        try:
            return self._idle_one(tenant) or await self._new()
        except BaseException:
            self._places.release()
            raise

    def give_back(self, connection: TenantConnection) -> None:
        """To be used again, unless it is closed or in the middle of something."""
        self._places.release()
        now = asyncio.get_running_loop().time()
        if (
            self._closed
            or not is_open(connection)
            or connection.is_in_transaction()
            or now - connection.opened_at > LONGEST_S
        ):
            self._drop(connection)
            return
        connection.idle_since = now
        self._idle.append(connection)
        if self._closing_idle is None:
            self._closing_idle = asyncio.get_running_loop().call_later(IDLE_S, self._close_idle)

    async def close(self) -> None:
        """Once those that are in use have come back."""
        self._closed = True
        if self._closing_idle is not None:
            self._closing_idle.cancel()
        for connection in self._idle:
            self._open.discard(connection)
            with suppress(OSError, asyncpg.InterfaceError, asyncpg.PostgresError):
                await connection.close()
        self._idle.clear()
        while self._open:
            self._all_back.clear()
            await self._all_back.wait()

    def terminate(self) -> None:
        """All of them, at once."""
        self._closed = True
        for connection in tuple(self._open):
            self._drop(connection)
        self._idle.clear()

    def _idle_one(self, tenant: str) -> TenantConnection | None:
        """Where none has the tenant, it is the one that was not used for longest: its tenant may have gone."""
        while self._idle:
            having_it = (place for place in reversed(range(len(self._idle))) if self._idle[place].tenant == tenant)
            connection = self._idle.pop(next(having_it, 0))
            if is_open(connection):
                return connection
            self._drop(connection)  # the server has closed it
        return None

    async def _new(self) -> TenantConnection:
        if self._closed:
            raise asyncpg.InterfaceError("the connections are closed")
        connection = await self._connect()
        try:
            connection.opened_at = asyncio.get_running_loop().time()
            await connection.take_role()
            if self._closed:
                raise asyncpg.InterfaceError("the connections were closed meanwhile")
        except BaseException:
            terminate(connection)
            raise
        self._open.add(connection)
        return connection

    def _drop(self, connection: TenantConnection) -> None:
        terminate(connection)
        self._open.discard(connection)
        self._all_back.set()

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        now, kept = loop.time(), []
        for connection in self._idle:
            if now - connection.idle_since < IDLE_S:
                kept.append(connection)
            else:
                self._drop(connection)
        self._idle = kept
        again = kept[0].idle_since + IDLE_S if kept else None
        self._closing_idle = None if again is None else loop.call_at(again, self._close_idle)


class TenantPlace(NamedTuple):
    """A tenant's right to connections of a pool, within its share."""

    pool: TenantConnections
    shares: KeyedSemaphore
    tenant: str

    async def take(self, within: float) -> TenantConnection:
        """A connection, or TimeoutError after so many seconds."""
        if self.shares.has_room(self.tenant) and self.pool.has_idle:  # a timer for nothing takes 6 µs
            return await self._take()
        async with asyncio.timeout(within):
            return await self._take()

    async def _take(self) -> TenantConnection:
        await self.shares.take(self.tenant)
        try:
            return await self.pool.take(self.tenant)
        except BaseException:
            self.shares.give_back(self.tenant)
            raise

    def give_back(self, connection: TenantConnection) -> None:
        try:
            self.pool.give_back(connection)
        finally:
            self.shares.give_back(self.tenant)


def quoted(text: str) -> str:
    """As a literal that means the same whatever the server takes a backslash for."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


@contextmanager
def unprepared() -> Iterator[None]:
    try:
        yield
    except (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError) as error:
        raise StoreError(f"{error}: the role for requests is not prepared; `duly serve` does that at start") from error
