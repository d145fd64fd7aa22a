"""A receiver's own transaction, in each form that it may have: what to pass, and how to write beside it."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psycopg
import sqlalchemy
from django.db import connections, transaction
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import scoped_session, sessionmaker

from duly.inbox import ddl
from duly.inbox.connections import AwaitedConnection
from tests.api.test_transactions import ASYNC as ASYNC_ON_POSTGRES
from tests.api.test_transactions import SYNC as SYNC_ON_POSTGRES
from tests.api.test_transactions import with_driver

Caller = tuple[object, Callable[[str], Any]]
AwaitedCaller = tuple[AwaitedConnection, Callable[[str], Any]]
T = TypeVar("T")


class Places(NamedTuple):
    postgres: str
    sqlite: Path

    def make_tables(self) -> None:
        with psycopg.connect(self.postgres) as postgres, closing(sqlite3.connect(self.sqlite)) as lite, lite:
            for connection, dialect in ((postgres, "postgresql"), (lite, "sqlite")):
                connection.execute(ddl(dialect))
                connection.execute("CREATE TABLE effects (name text)")

    def count(self, table: str) -> int:
        """In both databases together: each test writes to one."""
        sql = f"SELECT count(*) FROM {table}"
        with psycopg.connect(self.postgres) as postgres, closing(sqlite3.connect(self.sqlite)) as lite:
            [(in_postgres,)], [(in_sqlite,)] = postgres.execute(sql).fetchall(), lite.execute(sql).fetchall()
            return int(in_postgres + in_sqlite)


def _on_postgres(begin: Callable[[str], T]) -> Callable[[Places], T]:
    return lambda places: begin(places.postgres)


# -- synchronous ones


@contextmanager
def with_sqlite3(places: Places) -> Iterator[Caller]:
    with closing(sqlite3.connect(places.sqlite)) as connection, connection:
        yield connection, connection.execute


@contextmanager
def with_sqlite3_that_begins_by_itself(places: Places) -> Iterator[Caller]:
    with closing(sqlite3.connect(places.sqlite, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            yield connection, connection.execute


@contextmanager
def with_a_sqlite3_cursor(places: Places) -> Iterator[Caller]:
    with (
        closing(sqlite3.connect(places.sqlite)) as connection,
        connection,
        closing(connection.cursor()) as cursor,
    ):
        yield cursor, connection.execute


@contextmanager
def with_a_psycopg_cursor(places: Places) -> Iterator[Caller]:
    with psycopg.connect(places.postgres) as connection, connection.cursor() as cursor:
        yield cursor, cursor.execute


@contextmanager
def with_sqlalchemy_on_sqlite(places: Places, **options: Any) -> Iterator[Caller]:
    engine = sqlalchemy.create_engine(f"sqlite:///{places.sqlite}", **options)
    try:
        with engine.begin() as connection:
            yield connection, lambda sql: connection.execute(sqlalchemy.text(sql))
    finally:
        engine.dispose()


@contextmanager
def with_sqlalchemy_that_says_begin(places: Places) -> Iterator[Caller]:
    """As SQLAlchemy's own pages tell those who want real transactions on SQLite."""
    engine = sqlalchemy.create_engine(f"sqlite:///{places.sqlite}")
    sqlalchemy.event.listen(engine, "connect", lambda driver, _: setattr(driver, "isolation_level", None))
    sqlalchemy.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    try:
        with engine.connect() as connection:
            yield connection, lambda sql: connection.execute(sqlalchemy.text(sql))
            connection.commit()
    finally:
        engine.dispose()


@contextmanager
def with_a_scoped_session(places: Places) -> Iterator[Caller]:
    engine = sqlalchemy.create_engine(with_driver(places.postgres, "psycopg"))
    session = scoped_session(sessionmaker(engine))
    try:
        with session.begin():
            yield session, lambda sql: session.execute(sqlalchemy.text(sql))
    finally:
        session.remove()
        engine.dispose()


@contextmanager
def with_django(alias: str) -> Iterator[Caller]:
    connection = connections[alias]
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        yield connection, cursor.execute


@contextmanager
def with_a_django_cursor(alias: str) -> Iterator[Caller]:
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        yield cursor, cursor.execute


SYNC: dict[str, Callable[[Places], AbstractContextManager[Caller]]] = {
    **{kind: _on_postgres(begin) for kind, begin in SYNC_ON_POSTGRES.items()},
    "a psycopg cursor": with_a_psycopg_cursor,
    "a scoped session of SQLAlchemy": with_a_scoped_session,
    "sqlite3": with_sqlite3,
    "sqlite3 with BEGIN": with_sqlite3_that_begins_by_itself,
    "a sqlite3 cursor": with_a_sqlite3_cursor,
    "SQLAlchemy on SQLite": with_sqlalchemy_on_sqlite,
    "SQLAlchemy on SQLite with BEGIN": with_sqlalchemy_that_says_begin,
    "Django on PostgreSQL": lambda _: with_django("default"),
    "Django on SQLite": lambda _: with_django("lite"),
    "a Django cursor": lambda _: with_a_django_cursor("default"),
}


# -- asynchronous ones


@asynccontextmanager
async def with_an_async_psycopg_cursor(places: Places) -> AsyncIterator[AwaitedCaller]:
    async with await psycopg.AsyncConnection.connect(places.postgres) as connection, connection.cursor() as cursor:
        yield cursor, cursor.execute


@asynccontextmanager
async def with_an_async_scoped_session(places: Places) -> AsyncIterator[AwaitedCaller]:
    engine = create_async_engine(with_driver(places.postgres, "asyncpg"))
    session: async_scoped_session[AsyncSession] = async_scoped_session(async_sessionmaker(engine), lambda: 0)
    try:
        async with session.begin():
            yield session, lambda sql: session.execute(sqlalchemy.text(sql))
    finally:
        await session.remove()
        await engine.dispose()


ASYNC: dict[str, Callable[[Places], AbstractAsyncContextManager[AwaitedCaller]]] = {
    **{kind: _on_postgres(begin) for kind, begin in ASYNC_ON_POSTGRES.items()},
    "an asynchronous psycopg cursor": with_an_async_psycopg_cursor,
    "a scoped AsyncSession of SQLAlchemy": with_an_async_scoped_session,
}
