"""Runs Duly's statements on a caller's own connection: the transaction and the commit are the caller's."""

import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any, Self

from duly.errors import Misuse, SchemaMismatch
from duly.stores.postgres.bulk_copy import UTF8, BulkCopyQueries, asyncpg_copies, asyncpg_copy, sqlstate_of
from duly.stores.postgres.copy_rows import Table
from duly.stores.queries import Query
from duly.stores.statements.statements import StoreQueries
from duly.stores.undone import rolled_back, savepoint

SUPPORTED = "asyncpg, psycopg (3), SQLAlchemy (Core or ORM, sync or async) on PostgreSQL, or duly.transaction()"


class CallersTransaction(BulkCopyQueries):
    """The statements of a store, run on a caller's connection."""

    def __init__(self, store: StoreQueries, connection: Any) -> None:
        self.clock, self.soon, self.key_memory = store.clock, store.soon, store.key_memory
        self.connection = connection

    async def run(self, query: Query, parameters: dict[str, Any]) -> list[Any]:
        with _told_of_missing_tables():
            return await run_on(self.connection, query, parameters)

    @asynccontextmanager
    async def undone(self) -> AsyncIterator[Self]:
        async with rolled_back(savepoint(self.run)):
            yield self

    def copies(self) -> bool:
        return copies_on(self.connection)

    async def copy(self, table: Table, blocks: Iterator[bytes]) -> None:
        with _told_of_missing_tables():
            await copy_on(self.connection, table, blocks)


class SyncCallersTransaction(CallersTransaction):
    """The statements of a store, run on a caller's synchronous connection. It never waits, so it needs no event
    loop."""

    async def run(self, query: Query, parameters: dict[str, Any]) -> list[Any]:
        with _told_of_missing_tables():
            return run_on_sync(self.connection, query, parameters)

    async def copy(self, table: Table, blocks: Iterator[bytes]) -> None:
        with _told_of_missing_tables():
            copy_on_sync(self.connection, table, blocks)


def family(connection: Any) -> str:
    """The library that a connection comes from."""
    roots = [cls.__module__.split(".")[0] for cls in type(connection).__mro__]
    for known in ("asyncpg", "sqlalchemy", "psycopg", "psycopg2", "django"):
        if known in roots:
            return known
    return roots[0]


async def run_on(connection: Any, query: Query, parameters: dict[str, Any]) -> list[Any]:
    """For the asynchronous API: asyncpg, psycopg.AsyncConnection, SQLAlchemy's AsyncConnection and AsyncSession."""
    kind = family(connection)
    if kind == "asyncpg":
        _refuse_autocommit(not connection.is_in_transaction())
        rows = await connection.fetch(query.numbered(), *[parameters[name] for name in query.parameters])
    elif kind == "psycopg" and inspect.iscoroutinefunction(connection.execute):
        _refuse_autocommit(_commits_at_once(connection))
        async with connection.cursor(row_factory=_tuples()) as cursor:
            await cursor.execute(query.named(), _used(query, parameters))
            rows = await cursor.fetchall() if cursor.description else []
    elif kind == "sqlalchemy" and hasattr(connection, "sync_session"):
        return await run_on(await connection.connection(), query, parameters)
    elif kind == "sqlalchemy" and hasattr(connection, "sync_connection"):
        found = await connection.exec_driver_sql(*_driver_sql(connection, query, parameters))
        rows = found.fetchall() if found.returns_rows else []
    else:
        raise Misuse(
            f"transaction= got a {kind} {type(connection).__name__}, which cannot be awaited: "
            f"use duly.sync for synchronous connections. Supported: {SUPPORTED}."
        )
    return [_in_utc(row) for row in rows]


def run_on_sync(connection: Any, query: Query, parameters: dict[str, Any]) -> list[Any]:
    """For duly.sync: psycopg.Connection, SQLAlchemy's Connection and Session, and DB-API wrappers like Django's."""
    kind = family(connection)
    if kind == "asyncpg" or hasattr(connection, "sync_session") or hasattr(connection, "sync_connection"):
        awaited = True
    else:
        awaited = inspect.iscoroutinefunction(getattr(connection, "execute", None))
    if awaited or not (hasattr(connection, "cursor") or kind == "sqlalchemy"):
        raise Misuse(
            f"duly.sync got a {kind} {type(connection).__name__} as transaction=: "
            f"use the asynchronous calls of duly for connections that are awaited. Supported: {SUPPORTED}."
        )
    if kind == "sqlalchemy" and hasattr(connection, "flush"):
        return run_on_sync(connection.connection(), query, parameters)
    if kind == "sqlalchemy":
        found = connection.exec_driver_sql(*_driver_sql(connection, query, parameters))
        rows = found.fetchall() if found.returns_rows else []
    else:
        if kind == "psycopg":
            _refuse_autocommit(_commits_at_once(connection))
        with connection.cursor(**({"row_factory": _tuples()} if kind == "psycopg" else {})) as cursor:
            cursor.execute(query.named(), _used(query, parameters))
            rows = cursor.fetchall() if cursor.description else []
    return [_in_utc(row) for row in rows]


def copies_on(connection: Any) -> bool:
    """Whether many events may be sent with COPY: not if a layer above the driver tracks its statements."""
    kind = family(connection)
    if kind == "asyncpg":
        return asyncpg_copies(connection)
    if kind == "psycopg":
        info = connection.info  # COPY is not possible in a pipeline
        return bool(info.parameter_status("client_encoding") == UTF8 and info.pipeline_status.name == "OFF")
    return False


async def copy_on(connection: Any, table: Table, blocks: Iterator[bytes]) -> None:
    if family(connection) == "asyncpg":
        await asyncpg_copy(connection, table, blocks)
    else:
        async with connection.cursor() as cursor, cursor.copy(table.copy) as copy:
            for block in blocks:
                await copy.write(block)


def copy_on_sync(connection: Any, table: Table, blocks: Iterator[bytes]) -> None:
    with connection.cursor() as cursor, cursor.copy(table.copy) as copy:
        for block in blocks:
            copy.write(block)


def _commits_at_once(connection: Any) -> bool:
    """Whether a psycopg connection is in autocommit mode, outside a ``transaction()`` block."""
    return bool(connection.autocommit) and connection.info.transaction_status.name == "IDLE"


def _refuse_autocommit(commits_at_once: bool) -> None:
    if commits_at_once:
        raise Misuse(
            "transaction= got a connection with no transaction open: the event would be committed at once, on its own. "
            "Begin a transaction, or leave transaction= out."
        )


def _tuples() -> Any:
    """A row factory for tuples, regardless of the row factory of the caller's connection."""
    from psycopg.rows import tuple_row

    return tuple_row


@contextmanager
def _told_of_missing_tables() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if sqlstate_of(error) in ("42P01", "3F000"):
            told = getattr(error, "orig", error)
            raise SchemaMismatch(
                f"the transaction's database has no Duly tables ({told}): run `duly migrate`"
            ) from error
        raise


def _driver_sql(connection: Any, query: Query, parameters: dict[str, Any]) -> tuple[str, Any]:
    if connection.dialect.name != "postgresql":
        refuse = f"transaction= got a SQLAlchemy connection to {connection.dialect.name}"
        raise Misuse(f"{refuse}, and Duly's tables are not there. Supported: {SUPPORTED}.")
    if connection.dialect.driver == "asyncpg":
        return query.numbered(), tuple(parameters[name] for name in query.parameters)
    return query.named(), _used(query, parameters)


def _used(query: Query, parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: parameters[name] for name in query.parameters}


def _in_utc(row: Any) -> tuple[Any, ...]:
    """The row with its instants in UTC: drivers return them in the time zone of the session."""
    return tuple(value.astimezone(UTC) if isinstance(value, datetime) else value for value in row)
