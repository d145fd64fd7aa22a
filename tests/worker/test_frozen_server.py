"""A database that neither answers nor refuses: frozen, or behind a network that drops packets."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from duly import Duly, InStatus, Status, Timer
from duly.errors import StoreUnavailable
from duly.signals import Completed, Lost, StoreDown, StoreUp
from duly.stores.postgres.store import PostgresStore
from tests.make import make_new
from tests.servers import Postgres
from tests.worker.running_worker import Logged, Told, until, working
from tests.worker.test_outages import Effects, assert_said

NOW = timedelta()
LIMIT = timedelta(seconds=2)

NEVER = 30.0
"""Seconds after which a call that is to end within the limit counts as one that does not end."""

LEFT = """
SELECT pid, application_name, state, query FROM pg_stat_activity
WHERE application_name LIKE 'duly%' AND state IN ('active', 'idle in transaction')
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """One that these tests may freeze."""
    with Postgres() as server:
        yield server


@pytest.fixture
def database(server: Postgres) -> str:
    return server.create_database(f"silent_{random.getrandbits(48):x}")


@asynccontextmanager
async def frozen(server: Postgres) -> AsyncIterator[None]:
    """Whatever becomes of the test, the server goes on after it."""
    try:
        await asyncio.to_thread(server.freeze)
        yield
    finally:
        await asyncio.to_thread(server.thaw)


async def nothing_is_left_behind(url: str) -> None:
    def left() -> list[Any]:
        with psycopg.connect(url, autocommit=True) as connection:
            return connection.execute(LEFT).fetchall()

    async def none() -> bool:
        return not await asyncio.to_thread(left)

    await until(none, "the server runs no query of a client that has given up")


async def begin(store: PostgresStore) -> None:
    async with store.begin() as tx:
        await tx.now()


async def lend(store: PostgresStore) -> None:
    async with store.lend() as tx:
        await tx.now()


async def tenant_session(store: PostgresStore) -> None:
    async with store.tenant_session("acme", writes=True) as request:
        await request.now()


async def find(store: PostgresStore) -> None:
    await store.find(InStatus(Status.PENDING), limit=1)


async def copy(store: PostgresStore) -> None:
    await store.add([make_new() for _ in range(300)])


async def listen(store: PostgresStore) -> None:
    """Without a connection that listens, polling is the safety net: this fails for nobody, and does not hang."""
    async with store.listen(["lane"]):
        pass


CALLS: dict[str, Callable[[PostgresStore], Awaitable[Any]]] = {
    "a query": lambda store: store.now(),
    "a search": find,
    "a transaction": begin,
    "a lent transaction": lend,
    "a request of the API": tenant_session,
    "a bulk insert": copy,
    "the version of the tables": lambda store: store.applied(),
}


@asynccontextmanager
async def opened(database: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(database, timeout=LIMIT)
    await store.open()
    await store.prepare_rls_role()
    try:
        yield store
    finally:
        await store.close()


async def test_each_call_to_a_frozen_server_ends_within_the_limit(
    database: str, server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.stores.postgres.store.COPY_STALL_LIMIT_S", 2)
    async with opened(database) as store:
        for call in (*CALLS.values(), listen):  # each pool has a connection
            await call(store)
        async with frozen(server), asyncio.timeout(NEVER):
            ended = await asyncio.gather(*(call(store) for call in CALLS.values()), return_exceptions=True)
            await listen(store)
        assert {name: type(end) for name, end in zip(CALLS, ended, strict=True)} == dict.fromkeys(
            CALLS, StoreUnavailable
        )
        await store.now()
        await nothing_is_left_behind(server.url)


async def test_new_connections_to_a_frozen_server_end_within_the_limit(database: str, server: Postgres) -> None:
    async with opened(database) as store, frozen(server), asyncio.timeout(NEVER):
        for _ in range(2):  # the first one loses the connection that there was
            with pytest.raises(StoreUnavailable, match=r"no (answer|connection) within 2 s"):
                await store.now()


async def test_a_call_that_is_cancelled_while_the_server_is_frozen_ends_at_once(
    database: str, server: Postgres
) -> None:
    """asyncpg would ask the server to cancel, wait for that, and raise TimeoutError in place of CancelledError."""
    async with opened(database) as store, frozen(server):
        store.query_limit = 3600.0
        for call in (CALLS["a query"], begin, lend, tenant_session):
            asked = asyncio.ensure_future(call(store))
            await asyncio.sleep(0.2)
            asked.cancel()
            _, pending = await asyncio.wait([asked], timeout=NEVER)
            assert not pending
            assert asked.cancelled()


async def test_a_store_is_closed_while_the_server_is_frozen(database: str, server: Postgres) -> None:
    store = PostgresStore(database, timeout=LIMIT)
    await store.open()
    async with frozen(server), asyncio.timeout(NEVER):
        asked = asyncio.ensure_future(store.now())
        await asyncio.sleep(0.1)
        await store.close()
        with pytest.raises(StoreUnavailable):
            await asked


async def test_a_slow_query_is_ended_by_the_server_and_the_connection_is_kept(database: str) -> None:
    async with opened(database) as store, store.lend() as locking:
        await locking.execute("LOCK TABLE duly.events")
        before = await backend_of(store)
        with pytest.raises(StoreUnavailable, match="another transaction holds a lock; try again"):
            await store.get("01a1eaef-0bb5-7815-827e-d9e675ccbbf9")
        assert await backend_of(store) == before


async def backend_of(store: PostgresStore) -> int:
    """The server's process behind the connection that is used next."""
    async with store.begin() as tx:
        return int(await tx.fetchval("SELECT pg_backend_pid()"))


async def test_users_own_statements_have_no_time_limit(database: str) -> None:
    async with opened(database) as store, store.lend() as tx:
        assert await tx.fetchval("SHOW statement_timeout") == "0"
        await tx.execute("SELECT pg_sleep(2.5)")
        assert await tx.now()


async def test_a_bulk_insert_may_take_longer_than_the_limit(database: str) -> None:
    async with opened(database) as store:
        async with store.lend() as tx:
            await tx.execute(
                "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS "
                "'BEGIN PERFORM pg_sleep(0.008); RETURN NEW; END'"
            )
            await tx.execute("CREATE TRIGGER slow BEFORE INSERT ON duly.events FOR EACH ROW EXECUTE FUNCTION slowly()")
        began = time.monotonic()
        assert len(await store.add([make_new() for _ in range(400)])) == 400
        assert time.monotonic() - began > LIMIT.total_seconds(), "or this would prove nothing"


async def test_a_worker_survives_a_frozen_server_and_says_so_once(database: str, server: Postgres) -> None:
    duly = Duly(database, concurrency=10, batch_size=20, lease="12s", store_timeout="2s", poll_interval="500ms")
    told, effects = Told(duly), Effects(duly, most=50)
    with Logged() as logged:
        async with duly:
            ids = await duly.add_many(Timer(NOW, "task") for _ in range(300))
            async with working(duly):
                await until(lambda: len(effects.ids) == 50, "it is in the middle of the work")
                async with frozen(server):
                    effects.may_go_on.set()
                    await until(lambda: told.of(StoreDown), "the silence is noticed")
                    with pytest.raises(StoreUnavailable):
                        await duly.after(NOW, "task")
                await until(lambda: told.of(StoreUp), "the end of the silence is noticed")
                await until(lambda: len(told.of(Completed)) == 300, "all are done, and told of")
                await nothing_is_left_behind(server.url)
        assert_said(told, logged)
    assert sorted(effects.ids) == sorted(ids), "none twice"
    assert not told.of(Lost), "what the server recorded although it did not answer is not lost"
