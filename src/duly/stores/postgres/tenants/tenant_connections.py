"""Connections for requests of the API. Each remembers the tenant that its session is set to.

A statement that needs no transaction runs alone on a session that already has the role and the tenant: one round trip.
No statement may run while the session names a different tenant than the request. So the remembered tenant is cleared
before the server is asked to change it, and set when the server has confirmed the change; and a connection on which any
statement failed is closed, not reused.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import asyncpg

from duly.engine.fairness.keyed_semaphore import KeyedSemaphore
from duly.errors import RightsMissing
from duly.stores.postgres.driver import PostgresConnection, is_open, terminate

IDLE_S = 60.0
"""Seconds without use after which a connection is closed."""

LONGEST_LIFE_S = 3600.0
"""Seconds after which a connection is replaced: a session keeps its role even if the privilege was revoked."""


class TenantConnection(PostgresConnection):
    """A connection whose session has the role of the API, and the tenant in ``tenant``: None if no tenant is set, or if
    it is uncertain."""

    role: str | None = None  # None: requests run as the login (DULY_API_ROLE=off)
    tenant: str | None = None
    has_session = False  # whether the session is its own; behind a pooler, each transaction may use another
    opened_at = 0.0  # by the event loop's clock
    idle_since = 0.0

    async def take_role(self) -> None:
        """Sets the role for the lifetime of the connection, if the connection has a session of its own. Behind a
        pooler, the id of the server process differs from the one that was reported at the start."""
        self.has_session = await self.fetchval("SELECT pg_backend_pid()") == self.get_server_pid()
        if self.has_session and self.role is not None:
            with unprepared():
                await self.execute(f'SET ROLE "{self.role}"')

    def confining(self, tenant: str) -> str:
        """The statements that confine a transaction to a tenant."""
        role = "" if self.role is None else f'SET LOCAL ROLE "{self.role}"; '
        return f"{role}SET LOCAL duly.tenant = {quoted(tenant)}"

    async def set_tenant(self, tenant: str) -> None:
        self.tenant = None
        await self.execute(f"SET duly.tenant = {quoted(tenant)}")
        self.tenant = tenant


class TenantConnections:
    """A pool of at most *most* connections. (asyncpg's own pool cannot select a connection by tenant, and creates a
    task for each return.)"""

    def __init__(self, connect: Callable[[], Awaitable[TenantConnection]], most: int) -> None:
        self._connect = connect
        self._places = asyncio.Semaphore(most)  # one place is taken for each connection in use
        self._open: set[TenantConnection] = set()
        self._idle: list[TenantConnection] = []  # the most recently used one is last
        self._closing_idle: asyncio.TimerHandle | None = None
        self._closed = False
        self._all_back = asyncio.Event()

    @property
    def size(self) -> int:
        return len(self._open)

    @property
    def has_idle(self) -> bool:
        """Whether a connection is available without waiting."""
        return bool(self._idle) and not self._places.locked()

    async def take(self, tenant: str) -> TenantConnection:
        """A connection, preferably one whose session has this tenant."""
        await self._places.acquire()
        try:
            return self._idle_one(tenant) or await self._new()
        except BaseException:
            self._places.release()
            raise

    def give_back(self, connection: TenantConnection) -> None:
        """Returns a connection to the pool, unless it is closed or in a transaction."""
        self._places.release()
        now = asyncio.get_running_loop().time()
        if (
            self._closed
            or not is_open(connection)
            or connection.is_in_transaction()
            or now - connection.opened_at > LONGEST_LIFE_S
        ):
            self._drop(connection)
            return
        connection.idle_since = now
        self._idle.append(connection)
        if self._closing_idle is None:
            self._closing_idle = asyncio.get_running_loop().call_later(IDLE_S, self._close_idle)

    async def close(self) -> None:
        """Closes idle connections, and waits until the others are returned."""
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

    def drop_idle(self) -> None:
        """Drops the connections that are not in use: their sessions may have a role that was dropped meanwhile."""
        for connection in self._idle:
            self._drop(connection)
        self._idle.clear()

    def terminate(self) -> None:
        """Drops all connections at once."""
        self._closed = True
        for connection in tuple(self._open):
            self._drop(connection)
        self._idle.clear()

    def _idle_one(self, tenant: str) -> TenantConnection | None:
        """An idle connection with this tenant, or else the least recently used one: its tenant may be gone."""
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
    """A tenant's access to a pool, limited to its share of the connections."""

    pool: TenantConnections
    shares: KeyedSemaphore
    tenant: str

    async def take(self, within: float) -> TenantConnection:
        """A connection; raises TimeoutError after *within* seconds."""
        if self.shares.has_room(self.tenant) and self.pool.has_idle:  # an unnecessary timer would cost 6 µs
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
    """The text as a string literal that is correct with every setting for backslashes."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


@contextmanager
def unprepared() -> Iterator[None]:
    try:
        yield
    except (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError) as error:
        raise RightsMissing(
            f"{error}: the role for API requests is not prepared; `duly doctor` prints the SQL to run"
        ) from error
