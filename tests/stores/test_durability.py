"""Accepted is durable: every connection that writes waits for the disk. Live connections are asked, not settings."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import psycopg
import pytest

from duly.errors import NotWritable
from duly.stores.postgres.store import PostgresStore
from duly.stores.postgres.tenants.tenant_connections import TenantConnection
from duly.stores.sqlite.store import SqliteStore, SqliteTransaction
from duly.stores.sqlite.tenant_session import SqliteTenantSession
from tests.conftest import AnyStore
from tests.make import LANE, LEASE, SECOND, make_new
from tests.servers import Postgres
from tests.stores.tenant_pools import pools_of

AHEAD, PATIENCE = SECOND / 2, 2 * SECOND
FULL, ON = 2, "on"


async def reserved(store: AnyStore) -> list[Any]:
    """One event, reserved for a worker that will start it in a moment."""
    await store.add([make_new(due=await store.now() + AHEAD / 2)])
    found, _ = await store.reserve("w1", {LANE: 5}, AHEAD, PATIENCE)
    assert len(found) == 1
    return list(found)


# -- SQLite


@pytest.fixture
async def lite(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "duly.db"), timeout=timedelta(milliseconds=50))
    await store.open()
    yield store
    await store.close()


def levels(store: SqliteStore) -> list[int]:
    """Of every connection of a store."""
    connections = [value for value in vars(store).values() if isinstance(value, apsw.Connection)]
    assert len(connections) == 2
    return [connection.pragma("synchronous") for connection in connections]


async def test_sqlite_waits_for_the_disk_at_every_commit(lite: SqliteStore) -> None:
    assert levels(lite) == [FULL, FULL]
    assert lite.writer.pragma("journal_mode") == "wal"
    for transaction in (lite.begin(), lite.lend(), lite.tenant_session("default", writes=True)):
        async with transaction as tx:
            assert isinstance(tx, SqliteTransaction | SqliteTenantSession)
            assert await tx.fetchval("PRAGMA synchronous") == FULL


async def test_sqlite_waits_for_the_disk_again_after_starting_an_event(lite: SqliteStore) -> None:
    """What is started is reserved on disk, and so `start` alone does not wait."""
    events, _ = await lite.start(await reserved(lite), LEASE, LEASE, "w1")
    assert len(events) == 1
    assert levels(lite) == [FULL, FULL]


async def test_sqlite_waits_for_the_disk_again_when_starting_an_event_could_not_begin(lite: SqliteStore) -> None:
    ahead = await reserved(lite)
    other = apsw.Connection(lite.path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(NotWritable):
        await lite.start(ahead, LEASE, LEASE, "w1")
    other.close()
    assert levels(lite) == [FULL, FULL]


@pytest.mark.parametrize("how", ["ABORT", "ROLLBACK", "FAIL"])
async def test_sqlite_waits_for_the_disk_again_after_starting_an_event_failed(lite: SqliteStore, how: str) -> None:
    ahead = await reserved(lite)
    async with lite.begin() as tx:
        planted = f"CREATE TRIGGER planted BEFORE UPDATE ON events BEGIN SELECT RAISE({how}, 'planted'); END"
        await tx.execute(planted)
    with pytest.raises(apsw.ConstraintError, match="planted"):
        await lite.start(ahead, LEASE, LEASE, "w1")
    assert levels(lite) == [FULL, FULL]
    assert not lite.writer.in_transaction


# -- PostgreSQL


@pytest.fixture(scope="module")
def careless() -> Iterator[str]:
    """A database whose server, own settings and role all say that nobody waits for the disk."""
    with Postgres(settings={"synchronous_commit": "off"}) as server:
        url = server.create_database("careless")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ALTER DATABASE careless SET synchronous_commit = off")
            connection.execute("ALTER ROLE postgres SET synchronous_commit = off")
        yield url


@pytest.fixture
async def served(careless: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(careless)
    await store.open()
    await store.prepare_rls_role()
    yield store
    await store.close()


async def settings(store: PostgresStore) -> list[str]:
    """Of several connections of each pool of a store."""
    pools = [value for value in vars(store).values() if isinstance(value, asyncpg.Pool)]
    assert len(pools) == 3  # its own, searching, and lent
    async with AsyncExitStack() as stack:
        connections: list[TenantConnection | asyncpg.pool.PoolConnectionProxy[Any]] = [
            await stack.enter_async_context(pool.acquire()) for pool in pools for _ in range(3)
        ]
        for requests in pools_of(store):
            for _ in range(3):
                taken = await requests.take("acme")
                connections.append(taken)
                stack.callback(requests.give_back, taken)
        return [await connection.fetchval("SHOW synchronous_commit") for connection in connections]


async def test_the_server_of_these_tests_does_not_wait_for_the_disk_by_itself(careless: str) -> None:
    connection = await asyncpg.connect(careless)
    assert await connection.fetchval("SHOW synchronous_commit") == "off", "else these tests would prove nothing"
    await connection.close()


async def test_postgres_waits_for_the_disk_at_every_commit(served: PostgresStore) -> None:
    assert set(await settings(served)) == {ON}
    async with served.begin() as tx:
        assert await tx.fetchval("SHOW synchronous_commit") == ON
    async with served.lend() as tx:
        assert await tx.fetchval("SHOW synchronous_commit") == ON
    async with served.tenant_session("default", writes=True) as own:
        await own.now()
        assert await own.connection.fetchval("SHOW synchronous_commit") == ON
    async with served._maintaining() as connection:
        assert await connection.fetchval("SHOW synchronous_commit") == ON


async def test_postgres_waits_for_the_disk_again_after_starting_an_event(served: PostgresStore) -> None:
    events, _ = await served.start(await reserved(served), LEASE, LEASE, "w1")
    assert len(events) == 1
    assert set(await settings(served)) == {ON}


async def test_postgres_waits_for_the_disk_again_after_starting_an_event_failed(served: PostgresStore) -> None:
    ahead = await reserved(served)
    async with served.begin() as tx:
        await tx.execute("ALTER TABLE duly.events ADD CONSTRAINT planted CHECK (status <> 'PROCESSING') NOT VALID")
    try:
        with pytest.raises(asyncpg.CheckViolationError):
            await served.start(ahead, LEASE, LEASE, "w1")
    finally:
        async with served.begin() as tx:
            await tx.execute("ALTER TABLE duly.events DROP CONSTRAINT planted")
    assert set(await settings(served)) == {ON}
