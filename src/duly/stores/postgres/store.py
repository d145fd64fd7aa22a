"""The store for many workers on many hosts. All its tables are in the schema ``duly``."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import Any

import asyncpg

from duly.engine.fairness.keyed_semaphore import KeyedSemaphore
from duly.errors import Misuse, StoreError, StoreUnavailable
from duly.ports import Clock, CreatedEvent
from duly.records.event import NewEvent
from duly.stores.creations import CreatedEvents
from duly.stores.migrations import pending, require_current
from duly.stores.postgres.bulk_copy import WORTH_COPYING, BulkCopyQueries, asyncpg_copies, asyncpg_copy
from duly.stores.postgres.codec import PostgresQueries
from duly.stores.postgres.copy_rows import Table
from duly.stores.postgres.driver import (
    SEARCHES,
    SERVER_KEEPALIVE,
    TRANSIENT,
    AccessDenied,
    PostgresConnection,
    QueryTimeout,
    is_open,
    opened,
    passes,
    run_query,
    terminate,
    translated,
)
from duly.stores.postgres.tenants.one_tenant import require_one_tenant, require_the_one
from duly.stores.postgres.tenants.rls_role import ROLE, LackingRights, lacking_rights, prepare, require_ready, script
from duly.stores.postgres.tenants.tenant_connections import TenantConnection, TenantConnections
from duly.stores.postgres.tenants.tenant_session import (
    CONFINED_CONNECTIONS,
    CONFINED_SEARCHING_CONNECTIONS,
    FOR_OTHERS,
    FOR_OTHERS_SEARCHING,
    Pools,
    PostgresTenantSession,
    TenantLimits,
)
from duly.stores.postgres.waker import PostgresWaker
from duly.stores.queries import Query
from duly.stores.statements.statements import Autocommit
from duly.stores.undone import rolled_back, savepoint

OWN_CONNECTIONS = 5
"""Connections of the engine: claims, settlements, lease renewals, and people's lookups."""

SEARCHING_CONNECTIONS = 3
"""Connections for finding events by a spec."""

LENT_CONNECTIONS = 20
"""Connections for transactional handlers and duly.transaction(); if all are in use, callers wait."""

MAINTENANCE_LIMIT_S = 3600
"""Seconds that one statement of a migration may take: it may have to rewrite a table, or wait for another migration."""

COPY_STALL_LIMIT_S = 60
"""Seconds that a bulk insert may make no progress. Data in the kernel's buffers counts as sent, so its end may take as
long as the server needs for these megabytes."""

COMMIT_LIMIT_S = 60
"""Seconds that the commit of a user's transaction may take: deferred constraints and triggers run in it."""

CLOSING_LIMIT_S = 1.0
"""Seconds to close connections gracefully; then they are dropped."""

MIGRATION_LOCK = 0x64756C79  # the key of an advisory lock: "duly" in ASCII

MIGRATIONS_TABLE = """\
CREATE SCHEMA IF NOT EXISTS duly;
CREATE TABLE IF NOT EXISTS duly.migrations (
    version integer PRIMARY KEY,
    name    text NOT NULL,
    applied timestamptz NOT NULL DEFAULT now()
);
"""


class PostgresStore(PostgresQueries, Autocommit):
    """The store on PostgreSQL: pools of connections. Only the database decides which worker gets which event."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        soon: timedelta = timedelta(seconds=5),
        timeout: timedelta = timedelta(seconds=10),
        key_memory: timedelta = timedelta(days=365),
        api_role: str | None = ROLE,
    ) -> None:
        self.url = url
        self.api_role = api_role  # the role of requests; None: they run as the login, for one tenant
        self.clock = clock
        self.soon = soon
        self.key_memory = key_memory
        self.timeout = timeout  # how long one query may take before the server counts as unavailable
        self.query_limit = timeout.total_seconds()
        self._own: asyncpg.Pool | None = None
        self._searching: asyncpg.Pool | None = None
        self._lent: asyncpg.Pool | None = None
        self._tenant_pools = Pools(None, None)
        self._shares = TenantLimits(
            KeyedSemaphore(CONFINED_CONNECTIONS - FOR_OTHERS),
            KeyedSemaphore(CONFINED_SEARCHING_CONNECTIONS - FOR_OTHERS_SEARCHING),
        )

    async def connect(self) -> None:
        """Connects to the database, regardless of its tables; ``open`` also requires them."""
        bounded = SESSION | bounds(self.timeout)
        try:
            self._own = await self._connect(bounded | PLANS, OWN_CONNECTIONS)
            self._searching = await self._connect(bounded | SEARCHING, SEARCHING_CONNECTIONS)
            self._lent = await self._connect(SESSION, LENT_CONNECTIONS)
            self._tenant_pools = Pools(
                TenantConnections(self._connecting(bounded | PLANS), CONFINED_CONNECTIONS),
                TenantConnections(self._connecting(bounded | SEARCHING), CONFINED_SEARCHING_CONNECTIONS),
            )
            await self.now()
        except ValueError as error:
            await self.close()
            raise StoreError(f"the database URL cannot be used: {error}") from error
        except AccessDenied as error:
            await self.close()
            raise StoreError(str(error)) from error
        except BaseException:
            await self.close()
            raise

    async def open(self, *, migrate: bool = True) -> None:
        await self.connect()
        try:
            if migrate:
                await self.migrate()
            require_current(self.dialect, await self.applied())
        except BaseException:
            await self.close()
            raise

    async def _connect(self, session: dict[str, str], most: int) -> asyncpg.Pool:
        with translated():
            return await asyncpg.create_pool(
                self.url,
                min_size=0,  # during an outage, asyncpg would log each failed attempt to keep more of them open
                max_size=most,
                reset=_no_reset,
                max_inactive_connection_lifetime=60,
                timeout=self.query_limit,
                connection_class=PostgresConnection,
                server_settings=session,
            )

    def _connecting(self, session: dict[str, str]) -> Callable[[], Awaitable[TenantConnection]]:
        async def connect() -> TenantConnection:
            connection: TenantConnection = await asyncpg.connect(
                self.url, timeout=self.query_limit, connection_class=TenantConnection, server_settings=session
            )
            connection.role = self.api_role
            return connection

        return connect

    async def close(self) -> None:
        pools = self._own, self._searching, self._lent, *self._tenant_pools
        self._own = self._searching = self._lent = None
        self._tenant_pools = Pools(None, None)
        closing = [asyncio.ensure_future(pool.close()) for pool in pools if pool is not None]
        if closing:
            await asyncio.wait(closing, timeout=CLOSING_LIMIT_S)
        for pool in pools:
            if pool is not None:
                pool.terminate()
        for done in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(done, BaseException) and not isinstance(done, TRANSIENT):
                raise done

    async def run(self, query: Query, parameters: dict[str, Any]) -> list[Any]:
        pool = opened(self._searching if query.name in SEARCHES else self._own)
        connection = await self._acquire(pool)
        try:
            with QueryTimeout(connection, self.query_limit):
                return await run_query(connection, query, parameters)
        finally:
            await self._release(pool, connection)

    async def _acquire(self, pool: asyncpg.Pool, *, patiently: bool = False) -> Any:
        """A connection of the pool, within the time limit; *patiently* waits without a limit until one is free."""
        try:
            with translated():
                return await pool.acquire(timeout=None if patiently else self.query_limit)
        except StoreUnavailable as error:
            if isinstance(error.__cause__, TimeoutError):
                raise StoreUnavailable(f"PostgreSQL: no connection within {self.query_limit:g} s") from error.__cause__
            raise

    async def _release(self, pool: asyncpg.Pool, connection: Any) -> None:
        try:
            await pool.release(connection, timeout=self.query_limit)
        except (TimeoutError, *TRANSIENT):
            terminate(connection)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator["PostgresTransaction"]:
        async with self._transaction(opened(self._own), own=True) as transaction:
            yield transaction

    async def add(self, events: Sequence[NewEvent]) -> list[str]:
        if len(events) < WORTH_COPYING:
            return await super().add(events)
        async with self.begin() as tx:
            return await tx.add(events)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator["PostgresTransaction"]:
        async with self._transaction(opened(self._lent), own=False) as transaction:
            yield transaction

    @asynccontextmanager
    async def _transaction(self, pool: asyncpg.Pool, *, own: bool) -> AsyncIterator["PostgresTransaction"]:
        """A transaction. *own*: one of the engine; otherwise one of a user, who may take any time: only Duly's own
        statements in it have a limit."""
        connection = await self._acquire(pool, patiently=not own)
        transaction = PostgresTransaction(self, connection, own=own)
        try:
            inner = connection.transaction()
            with QueryTimeout(connection, self.query_limit):
                await inner.start()
            try:
                yield transaction
            except StoreUnavailable:
                terminate(connection)  # the connection may be broken; the server rolls back
                raise
            except Exception:
                with suppress(StoreUnavailable), QueryTimeout(connection, self.query_limit):
                    await inner.rollback()
                raise
            except BaseException:  # a cancelled caller does not wait for an answer; the server rolls back
                terminate(connection)
                raise
            else:
                with QueryTimeout(connection, self.query_limit if own else max(self.query_limit, COMMIT_LIMIT_S)):
                    await inner.commit()
        finally:
            transaction.end()
            await self._release(pool, connection)
        transaction.creations.committed(self.on_created)

    @asynccontextmanager
    async def tenant_session(
        self, tenant: str, *, writes: bool, one_statement: bool = False
    ) -> AsyncIterator[PostgresTenantSession]:
        """A store for one request. A request that only reads needs no transaction either: even inside one, each query
        sees the last commit."""
        if self.api_role is None:
            require_the_one(tenant)
        autocommits = one_statement or not writes
        tenant_session = PostgresTenantSession(self, tenant, self._tenant_pools, self._shares, autocommits=autocommits)
        try:
            yield tenant_session
        except StoreUnavailable:
            await tenant_session.end(None)  # the connection may be broken; the server rolls back
            raise
        except BaseException:
            await tenant_session.end("ROLLBACK")
            raise
        else:
            await tenant_session.end("COMMIT")
        tenant_session.creations.committed(self.on_created)

    async def prepare_rls_role(self) -> bool:
        for pool in self._tenant_pools:
            if pool is not None:
                pool.drop_idle()
        async with self._maintaining() as connection:
            if self.api_role is not None:
                return await prepare(connection, self.api_role, MIGRATION_LOCK)
            await require_one_tenant(connection)
            return False

    async def require_rls_role(self) -> None:
        async with self._maintaining() as connection:
            if self.api_role is None:
                await require_one_tenant(connection)
            else:
                await require_ready(connection, self.api_role)

    def rls_role_script(self, login: str) -> str:
        return script(self.api_role, login)

    async def lacking_rights(self) -> LackingRights:
        """What the user in the database URL lacks to be a worker, a server and a caller."""
        async with self._maintaining() as connection:
            return await lacking_rights(connection)

    @asynccontextmanager
    async def listen(self, lanes: Sequence[str]) -> AsyncIterator[PostgresWaker]:
        waker = PostgresWaker(self.url, lanes, self.query_limit)
        await waker.start()
        try:
            yield waker
        finally:
            await waker.stop()

    # -- migrations

    @asynccontextmanager
    async def _maintaining(self) -> AsyncIterator[Any]:
        """A separate connection for maintenance that may take long, with its own time limit."""
        with translated():
            connection = await asyncpg.connect(
                self.url, timeout=self.query_limit, connection_class=PostgresConnection, server_settings=SESSION
            )
        try:
            with QueryTimeout(connection, MAINTENANCE_LIMIT_S):
                yield connection
        finally:
            terminate(connection)

    async def applied(self) -> int:
        pool = opened(self._own)
        connection = await self._acquire(pool)
        try:
            with QueryTimeout(connection, self.query_limit):
                return await _applied(connection)
        finally:
            await self._release(pool, connection)

    async def migrate(self) -> list[str]:
        """Applies missing migrations; returns their names."""
        if not pending(self.dialect, await self.applied()):
            return []
        # A process that starts at the same time waits here, then finds nothing to do.
        async with self._maintaining() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
            await connection.execute(MIGRATIONS_TABLE)
            missing = pending(self.dialect, await _applied(connection))
            for migration in missing:
                await connection.execute(migration.sql)
                await connection.execute(
                    "INSERT INTO duly.migrations (version, name) VALUES ($1, $2)", migration.version, migration.name
                )
        return [f"{migration.version:04}_{migration.name}" for migration in missing]


SESSION = {
    "application_name": "duly",
    "synchronous_commit": "on",  # an accepted event is durable, regardless of the server's default
    "cursor_tuple_fraction": "1",  # a page reads the whole cursor; planned for a tenth of it, a worse index was used
    "jit": "off",  # compiling a query that runs for a millisecond takes longer than running it
    **SERVER_KEEPALIVE,
}


def bounds(timeout: timedelta) -> dict[str, str]:
    """Time limits that the server itself enforces, so that no statement or lock of a vanished client stays behind. They
    end a little before the client's own: then the connection stays usable, and the error says more."""
    milliseconds = timeout // timedelta(milliseconds=1)
    return {
        "statement_timeout": str(max(1, milliseconds * 9 // 10)),
        "idle_in_transaction_session_timeout": str(2 * milliseconds),
    }


PLANS = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}
"""Planner settings of the engine's own connections. The numbers of due and claimed events change faster than statistics
do, and a plan for the numbers of a minute ago scans the table: settling 1,000 of 60,000 events then takes 3 s instead
of 20 ms. Each of the engine's queries has its index, so no other plan is wanted; and planning a small claim each time
takes longer than running it."""


SEARCHING = {"plan_cache_mode": "force_custom_plan"}
"""Planner settings of searches. The best index depends on the values: a plan that is right for a tenant with a million
events reads all of them for a tenant with ten."""


class PostgresTransaction(BulkCopyQueries):
    """One open transaction: Duly's statements and the user's, on one asyncpg connection."""

    def __init__(self, store: PostgresStore, connection: Any, *, own: bool) -> None:
        self.store = store
        self.clock = store.clock
        self.soon = store.soon
        self.key_memory = store.key_memory
        self._connection = connection
        self._own = own  # whether it is the engine's, not a user's
        self._outage: str | None = None
        self.creations = CreatedEvents()

    @property
    def connection(self) -> Any:
        if self._connection is None:
            raise Misuse("this transaction has ended: begin another one")
        return self._connection

    @property
    def outage(self) -> str | None:
        if self._outage is None and self._connection is not None and not is_open(self._connection):
            return "PostgreSQL: the connection was lost"
        return self._outage

    def tell_created(self, events: Iterable[CreatedEvent]) -> None:
        self.creations.add(events)

    def end(self) -> None:
        self._connection = None

    def abandon(self) -> None:
        if self._connection is not None:
            terminate(self._connection)  # the server rolls back and releases its locks

    async def run(self, query: Query, parameters: dict[str, Any]) -> list[Any]:
        connection = self.connection
        with QueryTimeout(connection, self.store.query_limit):
            return await run_query(connection, query, parameters)

    @asynccontextmanager
    async def undone(self) -> AsyncIterator["PostgresTransaction"]:
        async with rolled_back(savepoint(self.run)):
            with self.creations.all_undone():
                yield self

    def copies(self) -> bool:
        return asyncpg_copies(self.connection)

    async def copy(self, table: Table, blocks: Iterator[bytes]) -> None:
        connection, limit = self.connection, self.store.query_limit
        if self._own:  # its duration depends on the number of rows
            with QueryTimeout(connection, limit):
                await connection.execute(f"SET LOCAL statement_timeout = '{MAINTENANCE_LIMIT_S}s'")
        with QueryTimeout(connection, max(limit, COPY_STALL_LIMIT_S)) as answer:
            await asyncpg_copy(connection, table, blocks, answer.goes_on)

    async def execute(self, sql: str, *args: Any) -> None:
        with self._noting():
            await self.connection.execute(sql, *args)

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        with self._noting():
            return await self.connection.fetch(sql, *args)  # type: ignore[no-any-return]

    async def fetchrow(self, sql: str, *args: Any) -> Any:
        with self._noting():
            return await self.connection.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        with self._noting():
            return await self.connection.fetchval(sql, *args)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Passes the driver's own errors on to users, and records whether one is an outage."""
        try:
            yield
        except Exception as error:
            if passes(error):
                self._outage = f"PostgreSQL: {error}"
            raise


async def _applied(connection: Any) -> int:
    if await connection.fetchval("SELECT to_regclass('duly.migrations')") is None:
        return 0
    return int(await connection.fetchval("SELECT coalesce(max(version), 0) FROM duly.migrations"))


async def _no_reset(_connection: Any) -> None:
    """Does nothing: Duly leaves no state on a connection, so its return needs no round trip."""
