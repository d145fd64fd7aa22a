"""The store as one writing request of the API sees it: one transaction. SQLite has no row-level security: the tenant
that each call names is the only protection."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from duly.errors import Misuse
from duly.ports import CreatedEvent
from duly.stores.queries import Query
from duly.stores.sqlite.codec import SqliteQueries

if TYPE_CHECKING:
    from duly.stores.sqlite.store import SqliteTransaction


class SqliteTenantSession(SqliteQueries):
    """A store and its only transaction in one: ``begin`` is a savepoint."""

    def __init__(self, transaction: "SqliteTransaction", tenant: str) -> None:
        self._transaction = transaction
        self.store = transaction.store
        self.clock = transaction.clock
        self.soon = transaction.soon
        self.key_memory = transaction.key_memory
        self.tenant = tenant

    @asynccontextmanager
    async def begin(self) -> AsyncIterator["SqliteTenantSession"]:
        async with self._transaction.savepoint():
            yield self

    def lend(self) -> AbstractAsyncContextManager["SqliteTenantSession"]:
        return self.begin()

    @property
    def connection(self) -> Any:
        return self._transaction.connection

    @property
    def outage(self) -> str | None:
        return self._transaction.outage

    def abandon(self) -> None:
        self._transaction.abandon()

    def tell_created(self, events: Iterable[CreatedEvent]) -> None:
        self._transaction.tell_created(events)

    async def run(self, query: Query, parameters: dict[str, Any]) -> list[Any]:
        return await self._transaction.run(query, parameters)

    async def execute(self, sql: str, *args: Any) -> None:
        await self._transaction.execute(sql, *args)

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        return await self._transaction.fetch(sql, *args)

    async def fetchrow(self, sql: str, *args: Any) -> Any:
        return await self._transaction.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: Any) -> Any:
        return await self._transaction.fetchval(sql, *args)

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


NOT_HERE = "this is what one request sees of a store: ask the store itself"
