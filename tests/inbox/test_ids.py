"""An id is recorded in the receiver's own transaction: with its effect, or not at all."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from django.db import connections
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from duly import Misuse
from duly.inbox import ddl, forget, record
from tests.api.test_transactions import with_asyncpg, with_driver
from tests.inbox.callers import ASYNC, SYNC, Places, with_sqlite3

EFFECT = "INSERT INTO effects VALUES ('done')"
DAY = timedelta(days=1)


class Oops(Exception):
    pass


# -- in each kind of transaction


@pytest.mark.parametrize("kind", SYNC)
def test_the_id_of_a_delivery_is_new_once(with_django: Places, kind: str) -> None:
    places = with_django
    for expected in (True, False, False):
        with SYNC[kind](places) as (connection, execute):
            assert record(connection, "one") is expected
            assert record(connection, "one") is False
            if expected:
                execute(EFFECT)
    with SYNC[kind](places) as (connection, _):
        assert record(connection, "another") is True
    assert (places.count("effects"), places.count("duly_inbox")) == (1, 2)


@pytest.mark.parametrize("kind", SYNC)
def test_an_id_is_forgotten_with_the_effect_that_failed(with_django: Places, kind: str) -> None:
    places = with_django
    with suppress(Oops), SYNC[kind](places) as (connection, execute):
        assert record(connection, "one")
        execute(EFFECT)
        raise Oops
    assert (places.count("effects"), places.count("duly_inbox")) == (0, 0)
    with SYNC[kind](places) as (connection, _):
        assert record(connection, "one")


@pytest.mark.parametrize("kind", SYNC)
def test_old_ids_can_be_forgotten(with_django: Places, kind: str) -> None:
    with SYNC[kind](with_django) as (connection, execute):
        for id, days in (("old", 9), ("older", 10), ("new", 7)):
            record(connection, id)
            execute(aged(id, days, sqlite="lite" in kind.lower()))
        assert forget(connection, 8 * DAY) == 2
        assert [record(connection, id) for id in ("old", "older", "new")] == [True, True, False]


@pytest.mark.parametrize("kind", ASYNC)
async def test_an_id_is_new_once_to_asynchronous_code(places: Places, kind: str) -> None:
    for expected in (True, False, False):
        async with ASYNC[kind](places) as (connection, execute):
            assert await record(connection, "one") is expected
            assert await record(connection, "one") is False
            if expected:
                await execute(EFFECT)
    async with ASYNC[kind](places) as (connection, _):
        assert await record(connection, "another") is True
    assert (places.count("effects"), places.count("duly_inbox")) == (1, 2)


@pytest.mark.parametrize("kind", ASYNC)
async def test_an_id_is_forgotten_with_the_effect_that_failed_in_asynchronous_code(places: Places, kind: str) -> None:
    with suppress(Oops):
        async with ASYNC[kind](places) as (connection, execute):
            assert await record(connection, "one")
            await execute(EFFECT)
            raise Oops
    assert (places.count("effects"), places.count("duly_inbox")) == (0, 0)
    async with ASYNC[kind](places) as (connection, _):
        assert await record(connection, "one")


@pytest.mark.parametrize("kind", ASYNC)
async def test_old_ids_can_be_forgotten_by_asynchronous_code(places: Places, kind: str) -> None:
    async with ASYNC[kind](places) as (connection, execute):
        for id, days in (("old", 9), ("older", 10), ("new", 7)):
            await record(connection, id)
            await execute(aged(id, days))
        assert await forget(connection, 8 * DAY) == 2
        assert [await record(connection, id) for id in ("old", "older", "new")] == [True, True, False]


def aged(id: str, days: int, *, sqlite: bool = False) -> str:
    then = f"datetime('now', '-{days} days')" if sqlite else f"now() - interval '{days} days'"
    return f"UPDATE duly_inbox SET received_at = {then} WHERE id = '{id}'"


# -- two deliveries at the same time


@pytest.mark.parametrize("first_commits", [True, False])
async def test_the_second_of_two_deliveries_waits_for_what_becomes_of_the_first(
    places: Places, first_commits: bool
) -> None:
    async def second() -> bool:
        async with with_asyncpg(places.postgres) as (connection, _):
            new: bool = await record(connection, "one")
            return new

    waiting: asyncio.Task[bool] | None = None
    with suppress(Oops):
        async with with_asyncpg(places.postgres) as (connection, _):
            assert await record(connection, "one")
            waiting = asyncio.create_task(second())
            await until_someone_waits(places.postgres)
            assert not waiting.done()
            if not first_commits:
                raise Oops
    assert waiting
    assert await waiting is not first_commits


async def test_under_stricter_isolation_the_second_delivery_fails_and_finds_the_id_when_it_tries_again(
    places: Places,
) -> None:
    second = await asyncpg.connect(places.postgres)
    attempt = second.transaction(isolation="repeatable_read")
    await attempt.start()
    await second.fetchval("SELECT 1")
    async with with_asyncpg(places.postgres) as (first, _):
        assert await record(first, "one")
        waiting = asyncio.ensure_future(record(second, "one"))
        await until_someone_waits(places.postgres)
    with pytest.raises(asyncpg.SerializationError):
        await waiting
    await attempt.rollback()
    async with second.transaction(isolation="repeatable_read"):
        assert await record(second, "one") is False
    await second.close()


async def until_someone_waits(url: str) -> None:
    looking = await asyncpg.connect(url)
    waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    try:
        async with asyncio.timeout(30):
            while not await looking.fetchval(waits):  # noqa: ASYNC110 - the server has no event to wait for
                await asyncio.sleep(0.01)
    finally:
        await looking.close()


@pytest.mark.parametrize("kind", ["sqlite3", "SQLAlchemy on SQLite", "psycopg", "Django on PostgreSQL"])
def test_of_many_threads_with_the_same_id_one_is_first(with_django: Places, kind: str) -> None:
    told: list[bool] = []
    together = threading.Barrier(10)

    def deliver() -> None:
        together.wait()
        with SYNC[kind](with_django) as (connection, execute):
            told.append(record(connection, "one"))
            if told[-1]:
                execute(EFFECT)
        connections.close_all()

    threads = [threading.Thread(target=deliver) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == [False] * 9 + [True]
    assert with_django.count("effects") == 1


# -- no transaction


def test_a_connection_that_commits_each_statement_is_refused(with_django: Places) -> None:
    places = with_django
    sqlite, postgres = f"sqlite:///{places.sqlite}", with_driver(places.postgres, "psycopg")
    engines = [sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT") for url in (sqlite, postgres)]
    with (
        closing(sqlite3.connect(places.sqlite, isolation_level=None)) as lite,
        psycopg.connect(places.postgres, autocommit=True) as psycopg_connection,
        engines[0].connect() as sqlalchemy_on_sqlite,
        engines[1].connect() as sqlalchemy_on_postgres,
    ):
        django = [connections["default"], connections["lite"]]
        for connection in (lite, psycopg_connection, sqlalchemy_on_sqlite, sqlalchemy_on_postgres, *django):
            with pytest.raises(Misuse, match="no transaction open"):
                record(connection, "one")
    for engine in engines:
        engine.dispose()
    assert places.count("duly_inbox") == 0


async def test_an_asynchronous_connection_that_commits_each_statement_is_refused(places: Places) -> None:
    engine = create_async_engine(with_driver(places.postgres, "asyncpg"), isolation_level="AUTOCOMMIT")
    connection = await asyncpg.connect(places.postgres)
    async with (
        await psycopg.AsyncConnection.connect(places.postgres, autocommit=True) as psycopg_connection,
        engine.connect() as sqlalchemy_connection,
    ):
        for one in (connection, psycopg_connection, sqlalchemy_connection):
            with pytest.raises(Misuse, match="no transaction open"):
                await record(one, "one")
    await connection.close()
    await engine.dispose()
    assert places.count("duly_inbox") == 0


# -- misuse


@pytest.mark.parametrize("kind", ASYNC)
async def test_a_forgotten_await_is_an_error_and_not_a_yes(places: Places, kind: str) -> None:
    async with ASYNC[kind](places) as (connection, _):
        with pytest.raises(Misuse, match="await record"):
            assert record(connection, "one")
    assert places.count("duly_inbox") == 0


async def test_something_that_is_no_connection_is_refused_with_what_may_be_passed(places: Places) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{places.sqlite}")
    async_engine = create_async_engine(with_driver(places.postgres, "asyncpg"))
    async with asyncpg.create_pool(places.postgres, min_size=1, max_size=1) as pool:
        for stranger in (object(), "postgresql://", None, pool, engine, async_engine, async_sessionmaker(async_engine)):
            with pytest.raises(Misuse, match="Supported: a connection or session of sqlite3, asyncpg, psycopg"):
                record(stranger, "one")


def test_a_connection_to_an_unsupported_database_is_refused(places: Places) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{places.sqlite}")
    engine.dialect.name = "oracle"
    with (
        engine.connect() as connection,
        pytest.raises(
            Misuse,
            match=r"sqlite or postgresql.* this "
            "connection is to oracle",
        ),
    ):
        record(connection, "one")
    engine.dispose()
    with pytest.raises(Misuse, match="'mysql': expected sqlite or postgresql"):
        ddl("mysql")


@pytest.mark.parametrize("span", [timedelta(), -DAY])
def test_forgetting_every_id_is_refused(places: Places, span: timedelta) -> None:
    with with_sqlite3(places) as (connection, _), pytest.raises(Misuse, match="every id"):
        forget(connection, span)


# -- the table


def test_the_table_of_ids_can_have_another_name(places: Places) -> None:
    with psycopg.connect(places.postgres) as connection:
        connection.execute(ddl("postgresql", table="public.seen"))
        connection.execute(ddl("postgresql", table="public.seen"))
        assert [record(connection, "one", table="public.seen") for _ in range(2)] == [True, False]
        assert record(connection, "one")
        assert forget(connection, DAY, table="public.seen") == 0


@pytest.mark.parametrize("table", ["", "a b", "a;b", "a.b.c", "é", '"a"', "1a", "a.", "a\n"])
def test_a_table_name_that_would_need_quotes_is_refused(table: str) -> None:
    refused: list[Callable[[], Any]] = [
        lambda: ddl("sqlite", table=table),
        lambda: record(object(), "one", table=table),
    ]
    for call in refused:
        with pytest.raises(Misuse, match="is not a valid table name"):
            call()
