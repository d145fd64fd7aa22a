"""Scheduling inside the caller's own transaction: it commits with it, and is undone with it."""

import asyncio
import gc
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row, namedtuple_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from duly import Duly, Misuse, StoreError, Timer, every
from duly.stores.postgres.bulk_copy import WORTH_COPYING
from duly.testing import ManualClock
from tests.make import HOUR, SECOND, START

EFFECTS = "CREATE TABLE effects (name text)"
EFFECT = "INSERT INTO effects VALUES ('sent')"

MANY = [Timer(START + n * SECOND, "greet", {"é\x00": n}, tenant="ключ") for n in range(WORTH_COPYING)]
"""So many that they are copied, where the caller's connection can."""


class Oops(Exception):
    pass


def with_driver(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


# -- a caller's transaction in each of its forms: what to pass, and how to write beside it


@asynccontextmanager
async def with_asyncpg(url: str) -> AsyncIterator[tuple[Any, Callable[[str], Any]]]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection, connection.execute
    finally:
        await connection.close()


@asynccontextmanager
async def with_an_asyncpg_pool(url: str) -> AsyncIterator[tuple[Any, Callable[[str], Any]]]:
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection, connection.execute


@asynccontextmanager
async def with_psycopg(url: str, **options: Any) -> AsyncIterator[tuple[Any, Callable[[str], Any]]]:
    async with await psycopg.AsyncConnection.connect(url, **options) as connection:
        yield connection, connection.execute


def with_psycopg_dicts(url: str) -> Any:
    return with_psycopg(url, row_factory=dict_row)


@asynccontextmanager
async def with_psycopg_autocommit_block(url: str) -> AsyncIterator[tuple[Any, Callable[[str], Any]]]:
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
        connection.transaction(),
    ):
        yield connection, connection.execute


@asynccontextmanager
async def with_sqlalchemy_core(url: str, driver: str) -> AsyncIterator[tuple[Any, Callable[[str], Any]]]:
    engine = create_async_engine(with_driver(url, driver))
    try:
        async with engine.begin() as connection:
            yield connection, lambda sql: connection.execute(sqlalchemy.text(sql))
    finally:
        await engine.dispose()


@asynccontextmanager
async def with_sqlalchemy_orm(url: str, driver: str) -> AsyncIterator[tuple[Any, Callable[[str], Any]]]:
    engine = create_async_engine(with_driver(url, driver))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session, lambda sql: session.execute(sqlalchemy.text(sql))
    finally:
        await engine.dispose()


ASYNC: dict[str, Callable[[str], AbstractAsyncContextManager[tuple[Any, Callable[[str], Any]]]]] = {
    "asyncpg": with_asyncpg,
    "an asyncpg pool": with_an_asyncpg_pool,
    "psycopg": with_psycopg,
    "psycopg with rows as dicts": with_psycopg_dicts,
    "psycopg in autocommit": with_psycopg_autocommit_block,
    "SQLAlchemy Core on asyncpg": lambda url: with_sqlalchemy_core(url, "asyncpg"),
    "SQLAlchemy Core on psycopg": lambda url: with_sqlalchemy_core(url, "psycopg"),
    "SQLAlchemy ORM on asyncpg": lambda url: with_sqlalchemy_orm(url, "asyncpg"),
    "SQLAlchemy ORM on psycopg": lambda url: with_sqlalchemy_orm(url, "psycopg"),
}


@contextmanager
def with_sync_psycopg(url: str, **options: Any) -> Iterator[tuple[Any, Callable[[str], Any]]]:
    with psycopg.connect(url, **options) as connection:
        yield connection, connection.execute


def with_sync_psycopg_named_tuples(url: str) -> Any:
    return with_sync_psycopg(url, row_factory=namedtuple_row)


def with_sync_psycopg_dicts(url: str) -> Any:
    return with_sync_psycopg(url, row_factory=dict_row)


@contextmanager
def with_sync_sqlalchemy_core(url: str) -> Iterator[tuple[Any, Callable[[str], Any]]]:
    engine = sqlalchemy.create_engine(with_driver(url, "psycopg"))
    try:
        with engine.begin() as connection:
            yield connection, lambda sql: connection.execute(sqlalchemy.text(sql))
    finally:
        engine.dispose()


@contextmanager
def with_sync_sqlalchemy_orm(url: str) -> Iterator[tuple[Any, Callable[[str], Any]]]:
    engine = sqlalchemy.create_engine(with_driver(url, "psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield session, lambda sql: session.execute(sqlalchemy.text(sql))
    finally:
        engine.dispose()


SYNC: dict[str, Callable[[str], AbstractContextManager[tuple[Any, Callable[[str], Any]]]]] = {
    "psycopg": with_sync_psycopg,
    "psycopg with rows as named tuples": with_sync_psycopg_named_tuples,
    "psycopg with rows as dicts": with_sync_psycopg_dicts,
    "SQLAlchemy Core": with_sync_sqlalchemy_core,
    "SQLAlchemy ORM": with_sync_sqlalchemy_orm,
}


@pytest.fixture
async def on_postgres(clean_postgres: str, clock: ManualClock) -> AsyncIterator[Duly]:
    async with Duly(clean_postgres, clock=clock) as app:
        async with app.transaction() as tx:
            await tx.execute(EFFECTS)
        yield app


@pytest.fixture
def sync_on_postgres(clean_postgres: str, clock: ManualClock) -> Iterator[Duly]:
    app = Duly(clean_postgres, clock=clock)
    with app.sync:
        with app.sync.transaction() as tx:
            tx.execute(EFFECTS)
        yield app


async def effects(app: Duly) -> int:
    async with app.transaction() as tx:
        return int(await tx.fetchval("SELECT count(*) FROM effects"))


# -- asynchronous connections


@pytest.mark.parametrize("kind", ASYNC)
async def test_a_commit_makes_the_event_appear(on_postgres: Duly, clean_postgres: str, kind: str) -> None:
    app = on_postgres
    async with ASYNC[kind](clean_postgres) as (connection, execute):
        await execute(EFFECT)
        event = await app.at(START + HOUR, "greet", {"a": ["\x00", 1.5, None]}, key="k", transaction=connection)
        assert (event.due, event.payload, event.key) == (START + HOUR, {"a": ["\x00", 1.5, None]}, "k")
        again = await app.put(START + HOUR, "greet", {"a": ["\x00", 1.5, None]}, key="k", transaction=connection)
        assert again == (event, "unchanged")
        delayed = await app.after(HOUR, "greet", transaction=connection)
        ids = await app.add_many([Timer(START, "greet"), Timer(START, "greet", key="other")], transaction=connection)
        schedule = await app.every("hourly", every("1h"), "digest", transaction=connection)
        assert await app.events.find() == [], "nobody else sees it before the commit"
    assert await app.events.get(event.id) == event
    assert (await app.events.get(delayed.id)).due == START + HOUR
    assert [(await app.events.get(id)).due for id in ids] == [START, START]
    head = await app.store.head(schedule.series)
    assert head is not None
    assert head.due == START + HOUR
    assert await effects(app) == 1


@pytest.mark.parametrize("kind", ASYNC)
async def test_a_rollback_leaves_no_event(on_postgres: Duly, clean_postgres: str, kind: str) -> None:
    app = on_postgres
    moved = await app.at(START + HOUR, "greet", key="moved")
    with suppress(Oops):
        async with ASYNC[kind](clean_postgres) as (connection, execute):
            await execute(EFFECT)
            await app.at(START, "greet", key="k", transaction=connection)
            await app.at(START, "greet", key="moved", transaction=connection)
            await app.add_many([Timer(START, "greet")], transaction=connection)
            await app.every("hourly", every("1h"), "digest", transaction=connection)
            raise Oops
    assert await app.events.find() == [moved]
    assert await app.events.history(moved.id) == []
    assert await app.store.schedule_named("default", "hourly") is None
    assert await effects(app) == 0


@pytest.mark.parametrize("kind", ASYNC)
async def test_many_events_commit_and_roll_back_with_the_callers_writes(
    on_postgres: Duly, clean_postgres: str, kind: str
) -> None:
    app = on_postgres
    with suppress(Oops):
        async with ASYNC[kind](clean_postgres) as (connection, execute):
            await execute(EFFECT)
            await app.add_many(MANY, transaction=connection)
            raise Oops
    assert (await app.events.find(), await effects(app)) == ([], 0)
    async with ASYNC[kind](clean_postgres) as (connection, execute):
        await execute(EFFECT)
        ids = await app.add_many(MANY, transaction=connection)
        await execute(EFFECT)
        assert await app.events.find() == [], "nobody else sees them before the commit"
    assert [told(await app.events.get(id)) for id in ids] == [told(timer) for timer in MANY]
    assert await effects(app) == 2


def told(one: Any) -> tuple[Any, ...]:
    return one.due, one.type, one.payload, one.tenant


async def test_many_events_are_a_plain_insert_where_the_connection_cannot_copy(
    on_postgres: Duly, clean_postgres: str
) -> None:
    async with with_psycopg(clean_postgres) as (connection, _), connection.pipeline():
        await on_postgres.add_many(MANY, transaction=connection)
    async with with_psycopg(clean_postgres) as (connection, execute):
        await execute("SET client_encoding = 'KOI8R'")
        await on_postgres.add_many([Timer(START, "ключ") for _ in MANY], transaction=connection)
    async with with_asyncpg(clean_postgres) as (connection, execute):
        await execute("SET client_encoding = 'LATIN1'")
        await on_postgres.add_many([Timer(START, "é") for _ in MANY], transaction=connection)
    types = [event.type for event in await on_postgres.events.find(limit=1000)]
    assert [types.count(type) for type in ("greet", "ключ", "é")] == [len(MANY)] * 3


async def test_one_transaction_may_hold_many_calls_and_sees_its_own_events(
    on_postgres: Duly, clean_postgres: str
) -> None:
    async with with_asyncpg(clean_postgres) as (connection, _):
        first = await on_postgres.put(START, "greet", 1, key="k", transaction=connection)
        second = await on_postgres.put(START, "greet", 2, key="k", transaction=connection)
    assert (first.change, second.change, second.event.id) == ("created", "moved", first.event.id)


@pytest.mark.parametrize("kind", SYNC)
async def test_a_synchronous_connection_is_refused_by_the_asynchronous_calls(
    on_postgres: Duly, clean_postgres: str, kind: str
) -> None:
    refused = pytest.raises(Misuse, match=r"use duly\.sync for synchronous connections")
    with SYNC[kind](clean_postgres) as (connection, _), refused:
        await on_postgres.at(START, "greet", transaction=connection)
    assert await on_postgres.events.find() == []


async def test_a_connection_without_a_transaction_is_refused(on_postgres: Duly, clean_postgres: str) -> None:
    """The event would be there whatever became of the caller's own writes."""
    connection = await asyncpg.connect(clean_postgres)
    try:
        with pytest.raises(Misuse, match="no transaction open"):
            await on_postgres.at(START, "greet", transaction=connection)
        with pytest.raises(Misuse, match="no transaction open"):
            await on_postgres.add_many(MANY, transaction=connection)
    finally:
        await connection.close()
    async with await psycopg.AsyncConnection.connect(clean_postgres, autocommit=True) as psycopg_connection:
        with pytest.raises(Misuse, match="no transaction open"):
            await on_postgres.at(START, "greet", transaction=psycopg_connection)
        with pytest.raises(Misuse, match="no transaction open"):
            await on_postgres.add_many(MANY, transaction=psycopg_connection)


@pytest.mark.parametrize("stranger", [object(), "postgresql://", 7, asyncio], ids=lambda s: type(s).__name__)
async def test_a_transaction_that_is_no_connection_is_refused_with_what_may_be_passed(
    on_postgres: Duly, stranger: Any
) -> None:
    with pytest.raises(Misuse, match="Supported: asyncpg, psycopg"):
        await on_postgres.at(START, "greet", transaction=stranger)


async def test_a_connection_to_another_kind_of_database_is_refused(on_postgres: Duly) -> None:
    connection = sqlite3.connect(":memory:")
    try:
        with pytest.raises(Misuse, match="sqlite3 connection"):
            await on_postgres.at(START, "greet", transaction=connection)
    finally:
        connection.close()
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as core, pytest.raises(Misuse):
        await on_postgres.at(START, "greet", transaction=core)
    engine.dispose()


async def test_a_database_without_dulys_tables_says_what_to_do(on_postgres: Duly, new_postgres: Any) -> None:
    elsewhere = new_postgres()
    for kind in ("asyncpg", "psycopg", "SQLAlchemy Core on asyncpg", "SQLAlchemy Core on psycopg"):
        with pytest.raises(StoreError, match="duly migrate"):
            async with ASYNC[kind](elsewhere) as (connection, _):
                await on_postgres.at(START, "greet", transaction=connection)
        with pytest.raises(StoreError, match="duly migrate"):
            async with ASYNC[kind](elsewhere) as (connection, _):
                await on_postgres.add_many(MANY, transaction=connection)


# -- synchronous connections


@pytest.mark.parametrize("kind", SYNC)
def test_a_commit_makes_the_event_appear_to_synchronous_code(
    sync_on_postgres: Duly, clean_postgres: str, kind: str
) -> None:
    sync = sync_on_postgres.sync
    with SYNC[kind](clean_postgres) as (connection, execute):
        execute(EFFECT)
        event = sync.at(START + HOUR, "greet", {"a": "\x00"}, key="k", transaction=connection)
        assert (event.due, event.payload) == (START + HOUR, {"a": "\x00"})
        assert sync.at(START + HOUR, "greet", {"a": "\x00"}, key="k", transaction=connection) == event
        delayed = sync.after(HOUR, "greet", transaction=connection)
        ids = sync.add_many([Timer(START, "greet"), Timer(START, "greet", key="other")], transaction=connection)
        assert sync.events.find() == []
    assert sync.events.get(event.id) == event
    assert {found.id for found in sync.events.find()} == {event.id, delayed.id, *ids}


@pytest.mark.parametrize("kind", SYNC)
def test_a_rollback_leaves_no_event_of_synchronous_code(sync_on_postgres: Duly, clean_postgres: str, kind: str) -> None:
    sync = sync_on_postgres.sync
    with suppress(Oops), SYNC[kind](clean_postgres) as (connection, execute):
        execute(EFFECT)
        sync.at(START, "greet", key="k", transaction=connection)
        sync.add_many([Timer(START, "greet")], transaction=connection)
        raise Oops
    assert sync.events.find() == []
    with sync.transaction() as tx:
        assert tx.fetchval("SELECT count(*) FROM effects") == 0


@pytest.mark.parametrize("kind", SYNC)
def test_many_events_commit_and_roll_back_with_the_writes_of_synchronous_code(
    sync_on_postgres: Duly, clean_postgres: str, kind: str
) -> None:
    sync = sync_on_postgres.sync
    with suppress(Oops), SYNC[kind](clean_postgres) as (connection, execute):
        execute(EFFECT)
        sync.add_many(MANY, transaction=connection)
        raise Oops
    assert sync.events.find() == []
    with SYNC[kind](clean_postgres) as (connection, execute):
        ids = sync.add_many(MANY, transaction=connection)
        execute(EFFECT)
        assert sync.events.find() == []
    assert [told(sync.events.get(id)) for id in ids] == [told(timer) for timer in MANY]
    with sync.transaction() as tx:
        assert tx.fetchval("SELECT count(*) FROM effects") == 1


async def refuse_in_a_thread(app: Duly, connection: Any) -> str:
    """What duly.sync says to a connection, asked from a thread as synchronous code would be."""

    def ask() -> str:
        with pytest.raises(Misuse) as refused:
            app.sync.at(START, "greet", transaction=connection)
        with pytest.raises(Misuse) as refused_too:
            app.sync.add_many(MANY, transaction=connection)
        assert str(refused_too.value) == str(refused.value)
        return str(refused.value)

    return await asyncio.to_thread(ask)


@pytest.mark.parametrize("kind", ASYNC)
async def test_an_asynchronous_connection_is_refused_by_duly_sync(
    on_postgres: Duly, clean_postgres: str, kind: str
) -> None:
    with suppress(Oops):
        async with ASYNC[kind](clean_postgres) as (connection, _):
            said = await refuse_in_a_thread(on_postgres, connection)
            gc.collect()  # a coroutine that nobody awaited is told of here, and not in another test
            raise Oops
    assert "use the asynchronous calls" in said


# -- Duly's own transaction, on both stores


async def test_dulys_own_transaction_commits_its_events(app: Duly) -> None:
    async with app.transaction() as tx:
        await tx.execute(EFFECTS)
        await tx.execute(EFFECT)
        event = await app.at(START, "greet", transaction=tx)
        await app.add_many([Timer(START, "greet")], transaction=tx)
        schedule = await app.every("hourly", every("1h"), "digest", transaction=tx)
    assert len(await app.events.find()) == 3
    assert await app.events.get(event.id) == event
    head = await app.store.head(schedule.series)
    assert head is not None
    assert head.due == START + HOUR
    assert await effects(app) == 1


async def test_dulys_own_transaction_undoes_its_events_when_it_fails(app: Duly) -> None:
    with suppress(Oops):
        async with app.transaction() as tx:
            await tx.execute(EFFECTS)
            await app.at(START, "greet", key="k", transaction=tx)
            raise Oops
    assert await app.events.find() == []
    async with app.transaction() as tx:
        await tx.execute(EFFECTS)  # it is not there


async def test_an_invalid_timer_does_not_spoil_the_transaction(app: Duly) -> None:
    async with app.transaction() as tx:
        await app.at(START, "greet", transaction=tx)
        with suppress(Exception):
            await app.at(START, "", object(), transaction=tx)
    assert len(await app.events.find()) == 1


async def test_a_transaction_of_another_duly_is_refused(app: Duly, tmp_path: Path, clock: ManualClock) -> None:
    """It would write into another database than the one that was asked to."""
    async with Duly(f"sqlite:///{tmp_path}/other.db", clock=clock) as other, other.transaction() as theirs:
        with pytest.raises(Misuse):
            await app.at(START, "greet", transaction=theirs)


# -- SQLite


@pytest.fixture
async def on_sqlite(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Duly]:
    async with Duly(f"sqlite:///{tmp_path}/duly.db", clock=clock) as app:
        yield app


async def test_sqlite_refuses_a_foreign_connection_with_the_reason(on_sqlite: Duly) -> None:
    connection = sqlite3.connect(":memory:")
    try:
        with pytest.raises(Misuse) as refused:
            await on_sqlite.at(START, "greet", transaction=connection)
    finally:
        connection.close()
    message = str(refused.value)
    assert "transaction= got a sqlite3 connection" in message
    assert "break each other's locks and lose committed rows" in message
    assert "async with duly.transaction() as tx" in message
    assert await on_sqlite.events.find() == []


async def test_sqlite_refuses_a_sqlalchemy_connection(on_sqlite: Duly) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(Misuse, match="takes only its own"):
        await on_sqlite.at(START, "greet", transaction=connection)
    engine.dispose()


def test_sqlite_refuses_a_foreign_connection_of_synchronous_code(tmp_path: Path) -> None:
    app = Duly(f"sqlite:///{tmp_path}/duly.db")
    connection = sqlite3.connect(":memory:")
    try:
        with app.sync as sync, pytest.raises(Misuse, match="takes only its own"):
            sync.at(START, "greet", transaction=connection)
    finally:
        connection.close()


async def test_sqlite_refuses_to_wait_for_its_own_transaction(on_sqlite: Duly) -> None:
    async with on_sqlite.transaction() as tx:
        with pytest.raises(Misuse, match="transaction=tx"):
            await on_sqlite.at(START, "greet")
        with pytest.raises(Misuse, match="transaction=tx"):
            await on_sqlite.tick()
        assert await on_sqlite.events.find() == []
        await on_sqlite.at(START, "greet", transaction=tx)
    assert len(await on_sqlite.events.find()) == 1
