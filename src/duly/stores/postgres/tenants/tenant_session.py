"""The store as one request of the API sees it: only the tenant's own rows, under a separate role.

Usually the request is one transaction, and the tenant is set for this transaction alone (SET LOCAL): the end of the
transaction ends the setting too, and a connection whose transaction may still be open is closed. If each statement may
commit on its own, there is no transaction, and the tenant is that of the connection's session: see
tenant_connections.py.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from duly.decide.checks import name_problems
from duly.engine.fairness.keyed_semaphore import KeyedSemaphore
from duly.errors import Invalid, Misuse, NotWritable, StoreError, StoreUnavailable, Unconfirmed
from duly.ports import Clock, CreatedEvent
from duly.stores.creations import CreatedEvents
from duly.stores.postgres.bulk_copy import BulkCopyQueries
from duly.stores.postgres.copy_rows import Table
from duly.stores.postgres.driver import SEARCHES, QueryTimeout, is_open, run_query, terminate, translated
from duly.stores.postgres.tenants.tenant_connections import TenantConnections, TenantPlace, unprepared
from duly.stores.queries import Query

CONFINED_CONNECTIONS = 12
"""Connections for requests of the API that do not begin with a search."""

CONFINED_SEARCHING_CONNECTIONS = 4
"""Connections for requests of the API that begin with a search."""

FOR_OTHERS = 2
"""Of CONFINED_CONNECTIONS, those that a single tenant cannot take, so that other tenants are served too."""

FOR_OTHERS_SEARCHING = 1
"""Of CONFINED_SEARCHING_CONNECTIONS, those that a single tenant cannot take."""

PLANNED_ANEW = (
    "SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on; "
    "SET LOCAL plan_cache_mode = force_custom_plan"
)
"""Planner settings for a search on a connection of the usual pool."""

PLANNED_AS_USUAL = (
    "SET LOCAL enable_seqscan TO DEFAULT; SET LOCAL enable_hashjoin TO DEFAULT; "
    "SET LOCAL enable_mergejoin TO DEFAULT; SET LOCAL plan_cache_mode TO DEFAULT"
)
"""Undoes PLANNED_ANEW after the search."""


class Pools(NamedTuple):
    """Connections that are never used under another role, because a plan is made for one role."""

    usual: TenantConnections | None
    searching: TenantConnections | None


class TenantLimits(NamedTuple):
    """The number of connections of each pool that one tenant may use."""

    usual: KeyedSemaphore
    searching: KeyedSemaphore


class PostgresTenantSession(BulkCopyQueries):
    """A store and its only transaction in one: ``begin`` is a savepoint. The first statement takes a connection, and
    also decides the pool: a request that begins with a search takes a connection from other searches.

    A session that *autocommits* has no transaction until ``begin``; each statement before that commits on its own.
    """

    def __init__(self, store: Any, tenant: str, pools: Pools, shares: TenantLimits, *, autocommits: bool) -> None:
        if problems := name_problems("tenant", tenant):
            raise Invalid(problems)
        self.store = store
        self.clock: Clock | None = store.clock
        self.soon: timedelta = store.soon
        self.key_memory: timedelta = store.key_memory
        self.tenant = tenant
        self._limit: float = store.query_limit
        self._autocommits = autocommits
        self._pools = pools
        self._shares = shares
        self._lease: TenantPlace | None = None
        self._connection: Any = None
        self._beginning = asyncio.Lock()
        self._asking = asyncio.Lock()  # a connection runs one statement at a time, and an import sends two at once
        self._over = False
        self._spoilt = False  # whether the transaction can only be rolled back
        self.creations = CreatedEvents()

    # -- the transaction

    @property
    def connection(self) -> Any:
        if self._over or self._connection is None:
            raise Misuse("this request's transaction has ended, or not begun")
        return self._connection

    def _require_not_over(self) -> None:
        if self._over:
            raise Misuse("this request has ended: it cannot run further queries")

    async def _begun(self, searches: bool = False) -> Any:
        self._require_not_over()
        if self._connection is None:
            async with self._beginning:
                if self._connection is None:
                    await self._begin(searches)
        elif not is_open(self._connection):
            raise StoreUnavailable(LOST)
        elif self._spoilt or not self._connection.is_in_transaction():  # then role and tenant are no longer set
            raise Misuse("this request's transaction was ended from within: it cannot run further queries")
        return self._connection

    def _place(self, searches: bool) -> TenantPlace:
        pool, shares = (
            (self._pools.searching, self._shares.searching) if searches else (self._pools.usual, self._shares.usual)
        )
        if pool is None:
            raise Misuse("this Duly is not open: use `async with duly:` around your calls")
        return TenantPlace(pool, shares, self.tenant)

    async def _begin(self, searches: bool) -> None:
        lease = self._place(searches)
        with translated():
            connection = await lease.take(self._limit)
        try:
            with QueryTimeout(connection, self._limit), unprepared():
                await connection.execute(f"BEGIN; {connection.confining(self.tenant)}")
            if self._over:
                raise Misuse("this request has ended while it was beginning")
        except BaseException:
            terminate(connection)
            lease.give_back(connection)
            raise
        self._lease, self._connection = lease, connection

    async def end(self, how: str | None) -> None:
        """Ends the transaction with COMMIT or ROLLBACK; None drops a connection that may be broken. The end is
        completed even if the caller no longer waits for it."""
        self._over = True
        connection, self._connection = self._connection, None  # another request may use it soon
        if connection is None or self._lease is None:
            return
        how_it_ends = "ROLLBACK" if self._spoilt else how
        ending = asyncio.create_task(_end(self._lease, connection, how_it_ends, self._limit))
        ending.add_done_callback(_nobody_may_wait)
        await asyncio.wait({ending})
        ending.result()
        if how == "COMMIT" and self._spoilt:
            raise StoreError(UNSTORED)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator["PostgresTenantSession"]:
        await self._plainly("SAVEPOINT duly")
        try:
            with self.creations.undone_together():
                yield self
        except StoreUnavailable:
            self._spoilt = True
            raise
        except BaseException:
            self._spoilt = True  # unless the savepoint is rolled back below
            if not self._over and is_open(self._connection) and self._connection.is_in_transaction():
                async with self._asking:
                    with QueryTimeout(self._connection, self._limit):
                        await self._connection.execute("ROLLBACK TO SAVEPOINT duly; RELEASE SAVEPOINT duly")
                self._spoilt = False
            raise
        else:
            await self._plainly("RELEASE SAVEPOINT duly")

    def lend(self) -> AbstractAsyncContextManager["PostgresTenantSession"]:
        return self.begin()

    @property
    def outage(self) -> str | None:
        return LOST if self._connection is not None and not is_open(self._connection) else None

    def abandon(self) -> None:
        if self._connection is not None:
            terminate(self._connection)  # the server rolls back and releases its locks

    # -- statements

    async def run(self, query: Query, parameters: dict[str, Any]) -> list[Any]:
        searches = query.name in SEARCHES
        if self._autocommits and self._connection is None:
            return await self._run_alone(query, parameters, searches)
        connection = await self._begun(searches)
        async with self._asking:
            self._require_not_over()  # the request may have ended while this statement waited for another one
            return await self._asked(connection, query, parameters, searches)

    async def _run_alone(self, query: Query, parameters: dict[str, Any], searches: bool) -> list[Any]:
        """Runs a statement outside of a transaction: one round trip, if an idle connection's session has this
        tenant."""
        self._require_not_over()
        place = self._place(searches)
        with translated():
            connection = await place.take(self._limit)
        asked = False
        try:
            with QueryTimeout(connection, self._limit):
                if not connection.has_session:
                    asked = True
                    return await self._run_behind_pooler(connection, query, parameters)
                if connection.tenant != self.tenant:
                    await connection.set_tenant(self.tenant)
                asked = True
                return await run_query(connection, query, parameters)
        except BaseException as error:
            written = asked and not query.reads and not is_open(connection)  # possibly
            terminate(connection)  # after any error, its session is no longer trusted
            if written and isinstance(error, StoreUnavailable) and not isinstance(error, NotWritable):
                raise Unconfirmed(str(error)) from error
            raise
        finally:
            place.give_back(connection)

    async def _run_behind_pooler(self, connection: Any, query: Query, parameters: dict[str, Any]) -> list[Any]:
        async with connection.transaction():
            with unprepared():
                await connection.execute(connection.confining(self.tenant))
            return await run_query(connection, query, parameters)

    async def _asked(self, connection: Any, query: Query, parameters: dict[str, Any], searches: bool) -> list[Any]:
        with QueryTimeout(connection, self._limit):
            if not searches or (self._lease is not None and self._lease.pool is self._pools.searching):
                return await run_query(connection, query, parameters)
            await connection.execute(PLANNED_ANEW)
            rows = await run_query(connection, query, parameters)
            await connection.execute(PLANNED_AS_USUAL)
            return rows

    def tell_created(self, events: Iterable[CreatedEvent]) -> None:
        if self._autocommits and self._connection is None:
            self.store.tell_created(events)
        else:
            self.creations.add(events)

    def copies(self) -> bool:
        return False  # COPY is not possible with row-level security

    async def copy(self, table: Table, blocks: Iterator[bytes]) -> None:
        raise Misuse("there is no COPY through row-level security")

    async def _plainly(self, sql: str) -> None:
        connection = await self._begun()
        async with self._asking:
            self._require_not_over()
            with QueryTimeout(connection, self._limit):
                await connection.execute(sql)

    async def execute(self, sql: str, *args: Any) -> None:
        await (await self._begun()).execute(sql, *args)

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        return await (await self._begun()).fetch(sql, *args)  # type: ignore[no-any-return]

    async def fetchrow(self, sql: str, *args: Any) -> Any:
        return await (await self._begun()).fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        return await (await self._begun()).fetchval(sql, *args)

    # -- calls that a request must not make

    async def open(self, *, migrate: bool) -> None:
        raise Misuse(NOT_HERE)

    async def close(self) -> None:
        raise Misuse(NOT_HERE)

    async def prepare_rls_role(self) -> bool:
        raise Misuse(NOT_HERE)

    async def require_rls_role(self) -> None:
        raise Misuse(NOT_HERE)

    def rls_role_script(self, login: str) -> str:
        raise Misuse(NOT_HERE)

    def tenant_session(self, tenant: str, *, writes: bool, one_statement: bool = False) -> Any:
        raise Misuse(NOT_HERE)

    def listen(self, lanes: Sequence[str]) -> Any:
        raise Misuse(NOT_HERE)


LOST = "PostgreSQL: the connection was lost in the middle of a request"
UNSTORED = "a statement of this request failed and was not undone, so nothing of the request was stored"
NOT_HERE = "this is what one request sees of a store: ask the store itself"


async def _end(lease: TenantPlace, connection: Any, how: str | None, limit: float) -> None:
    try:
        if how == "COMMIT":
            if not is_open(connection):
                raise StoreUnavailable(LOST)
            with QueryTimeout(connection, limit):
                told = await connection.execute("COMMIT")
            if told != "COMMIT":  # after a failed statement, PostgreSQL rolls back and reports it only here
                raise StoreError(UNSTORED)
        elif how == "ROLLBACK" and is_open(connection):
            with QueryTimeout(connection, limit):
                await connection.execute("ROLLBACK")
        else:
            terminate(connection)
    except Exception:
        terminate(connection)  # the server rolls back
        if how == "COMMIT":
            raise
    except BaseException:
        terminate(connection)
        raise
    finally:
        lease.give_back(connection)


def _nobody_may_wait(ending: "asyncio.Task[None]") -> None:
    if not ending.cancelled():
        ending.exception()
