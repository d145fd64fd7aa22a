"""Statements without a transaction, on sessions that keep their tenant: whatever happens to a connection in between, no
statement ever runs for another tenant than its request's. Statements here name no tenant at all."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import asyncpg
import psycopg
import pytest

from duly.errors import Misuse, StoreError, StoreUnavailable, Unconfirmed
from duly.stores.postgres.store import PostgresStore
from duly.stores.postgres.tenants import tenant_connections
from duly.stores.postgres.tenants.rls_role import ROLE
from duly.stores.postgres.tenants.tenant_connections import TenantConnection
from duly.stores.queries import Query
from tests.make import HOUR, START, make_new
from tests.stores.tenant_pools import idle_connections, pool_of, remembers_no_tenant
from tests.stores.test_row_level_security import is_clean, store_on

SEES = Query("sees", "SELECT tenant FROM duly.events", reads=True)
SESSION = Query("session", "SELECT current_user, current_setting('duly.tenant'), pg_backend_pid()", reads=True)
SLEEPS = Query("sleeps", "SELECT pg_sleep(60)", reads=True)
FAILS = Query("fails", "SELECT 1 / 0", reads=True)


@pytest.fixture
async def store(clean_postgres: str) -> AsyncIterator[Any]:
    async with store_on(clean_postgres) as store:
        await store.prepare_rls_role()
        for tenant in ("acme", "beta"):
            await store.put([make_new(tenant=tenant, key="k")])
        yield store


async def ask(store: PostgresStore, tenant: str, query: Query) -> list[Any]:
    async with store.tenant_session(tenant, writes=True, one_statement=True) as request:
        return [tuple(row) for row in await request.run(query, {})]


async def process_of(store: PostgresStore, tenant: str) -> int:
    """The server's process that answers a tenant; in the middle of nothing, and as that tenant."""
    [(user, named, pid)] = await ask(store, tenant, SESSION)
    assert (user, named) == (ROLE, tenant)
    return int(pid)


async def is_at_work(store: PostgresStore, pid: int) -> None:
    """Return when the server's process has a statement under way."""
    active = "SELECT state = 'active' AND query LIKE '%pg_sleep%' FROM pg_stat_activity WHERE pid = $1"
    async with asyncio.timeout(10):
        at_work = False
        while not at_work:
            async with store.begin() as tx:
                at_work = await tx.fetchval(active, pid)


def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of requests' connections from now on."""
    told: list[str] = []

    async def execute(self: Any, sql: str, *args: Any) -> Any:
        told.append(sql)
        return await asyncpg.Connection.execute(self, sql, *args)

    async def fetch(self: Any, sql: str, *args: Any) -> Any:
        told.append(sql)
        return await asyncpg.Connection.fetch(self, sql, *args)

    monkeypatch.setattr(TenantConnection, "execute", execute)
    monkeypatch.setattr(TenantConnection, "fetch", fetch)
    return told


# -- what it is for


async def test_a_statement_of_the_same_tenant_is_one_round_trip(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await process_of(store, "acme")
    told = executed(monkeypatch)
    async with store.tenant_session("acme", writes=True, one_statement=True) as request:
        [added] = await request.put([make_new(tenant="acme", key="new")])
    assert added.change == "created"
    assert len(told) == 1
    assert "INSERT INTO duly.events" in told[0]


async def test_a_reading_session_needs_no_transaction(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await process_of(store, "acme")
    told = executed(monkeypatch)
    async with store.tenant_session("acme", writes=False) as request:
        assert await request.by_key("acme", "k") is not None
    assert len(told) == 1


async def test_the_tenant_of_a_connection_is_set_before_a_statement_of_another(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = await process_of(store, "acme")
    told = executed(monkeypatch)
    assert await process_of(store, "beta") == pid
    assert told == ["SET duly.tenant = E'beta'", SESSION.sql]


async def test_a_connection_with_the_same_tenant_is_preferred(store: PostgresStore) -> None:
    pool = pool_of(store)
    connections = [await pool.take(tenant) for tenant in ("acme", "beta", "gamma")]
    for connection, tenant in zip(connections, ("acme", "beta", "gamma"), strict=True):
        await connection.set_tenant(tenant)
        pool.give_back(connection)
    for connection, tenant in zip(connections, ("acme", "beta", "gamma"), strict=True):
        assert await process_of(store, tenant) == connection.get_server_pid()
    assert await process_of(store, "delta") == connections[0].get_server_pid(), "the one that was not used for longest"


async def test_a_stored_statement_stays_though_the_request_fails_later(store: PostgresStore) -> None:
    """As the declaration of one statement says; who hears of what was created hears of it, too."""
    told: list[Any] = []
    store.on_created = told.extend

    async def fail() -> None:
        async with store.tenant_session("acme", writes=True, one_statement=True) as request:
            [added] = await request.put([make_new(tenant="acme", key="new")])
            request.tell_created([added.event])
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await store.by_key("acme", "new") is not None
    assert [event.key for event in told] == ["new"]


async def test_a_transaction_that_is_asked_for_is_one(store: PostgresStore) -> None:
    async def fail() -> None:
        async with store.tenant_session("acme", writes=True, one_statement=True) as request:
            await request.put([make_new(tenant="acme", key="before")])
            async with request.begin() as tx:
                await tx.put([make_new(tenant="acme", key="within")])
                raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await store.by_key("acme", "before") is not None
    assert await store.by_key("acme", "within") is None
    assert await is_clean(store)


async def test_a_tenant_session_that_has_ended_refuses_statements(store: PostgresStore) -> None:
    async with store.tenant_session("acme", writes=False) as request:
        await request.now()
    with pytest.raises(Misuse, match="ended"):
        await request.now()


# -- attacks


async def test_a_transaction_leaves_the_tenant_of_the_session(store: PostgresStore) -> None:
    pid = await process_of(store, "acme")
    for how in ("commits", "fails"):
        with suppress(asyncpg.DivisionByZeroError):
            async with store.tenant_session("beta", writes=True) as request:
                assert await request.fetchval("SELECT pg_backend_pid()") == pid
                assert {row[0] for row in await request.fetch(SEES.sql)} == {"beta"}
                if how == "fails":
                    await request.execute(FAILS.sql)
        assert await is_clean(store)
    assert await ask(store, "acme", SEES) == [("acme",)]


async def test_a_session_whose_tenant_is_not_confirmed_is_closed(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has set it, and who asked was cancelled before its answer came."""
    before = await process_of(store, "acme")
    real = TenantConnection.execute

    async def late(self: Any, sql: str, *args: Any) -> Any:
        await real(self, sql, *args)
        raise asyncio.CancelledError

    monkeypatch.setattr(TenantConnection, "execute", late)
    with pytest.raises(asyncio.CancelledError):
        await ask(store, "beta", SEES)
    monkeypatch.undo()
    assert pool_of(store).size == 0
    assert await process_of(store, "acme") != before
    assert await ask(store, "acme", SEES) == [("acme",)]


async def test_a_tenant_that_cannot_be_set_runs_nothing(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await process_of(store, "acme")
    monkeypatch.setattr("duly.stores.postgres.tenants.tenant_connections.quoted", lambda _: "no literal at all")
    told = executed(monkeypatch)
    with pytest.raises(asyncpg.PostgresSyntaxError):
        await ask(store, "beta", SEES)
    assert SEES.sql not in told
    assert pool_of(store).size == 0


async def test_a_statement_that_fails_closes_its_connection(store: PostgresStore) -> None:
    before = await process_of(store, "acme")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await ask(store, "acme", FAILS)
    assert pool_of(store).size == 0
    assert await process_of(store, "acme") != before
    assert remembers_no_tenant(store)


async def test_a_session_that_is_cancelled_in_the_middle_closes_its_connection(store: PostgresStore) -> None:
    before = await process_of(store, "acme")
    task = asyncio.create_task(ask(store, "acme", SLEEPS))
    await is_at_work(store, before)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pool_of(store).size == 0
    assert await ask(store, "beta", SEES) == [("beta",)]


async def test_a_connection_that_the_server_ended_is_not_used_again(store: PostgresStore) -> None:
    before = await process_of(store, "acme")
    async with store.begin() as tx:
        assert await tx.fetchval("SELECT pg_terminate_backend($1)", before)
    while not idle_connections(pool_of(store))[0].is_closed():  # noqa: ASYNC110 - the driver tells nobody
        await asyncio.sleep(0.01)
    assert await process_of(store, "acme") != before
    assert pool_of(store).size == 1


@pytest.mark.parametrize("reads", [True, False])
async def test_a_write_whose_connection_is_lost_may_have_been_stored(store: PostgresStore, reads: bool) -> None:
    """A read is no more than unavailable."""
    pid = await process_of(store, "acme")
    task = asyncio.create_task(ask(store, "acme", replace(SLEEPS, reads=reads)))
    await is_at_work(store, pid)
    async with store.begin() as tx:
        assert await tx.fetchval("SELECT pg_terminate_backend($1)", pid)
    with pytest.raises(StoreUnavailable) as told:
        await task
    assert isinstance(told.value, Unconfirmed) is not reads


async def test_a_right_that_is_revoked_counts_at_once(store: PostgresStore) -> None:
    assert await ask(store, "acme", SEES) == [("acme",)]
    async with store.begin() as tx:
        await tx.execute(f"REVOKE SELECT ON duly.events FROM {ROLE}")
    with pytest.raises(StoreError, match="permission denied"):
        await ask(store, "acme", SEES)
    await store.prepare_rls_role()
    assert await ask(store, "acme", SEES) == [("acme",)]


async def test_a_user_who_may_not_take_the_role_is_told_so(new_postgres: Callable[[], str]) -> None:
    url, name = new_postgres(), f"modest_{random.getrandbits(48):x}"
    async with store_on(url) as owner:
        await owner.prepare_rls_role()
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN")
        admin.execute(f"GRANT USAGE ON SCHEMA duly TO {name}; GRANT SELECT ON duly.migrations TO {name}")
        try:
            async with store_on(url.replace("postgres@", f"{name}@"), migrate=False) as modest:
                for one_statement in (True, False):
                    with pytest.raises(StoreError, match="not prepared"):
                        async with modest.tenant_session("acme", writes=True, one_statement=one_statement) as request:
                            await request.now()
                assert pool_of(modest).size == 0
        finally:
            admin.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


async def test_behind_a_pooler_role_and_tenant_are_set_for_each_statement(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sessions are anybody's: what is set in one would bind the next who gets it."""
    monkeypatch.setattr(TenantConnection, "get_server_pid", lambda _: 0)
    told = executed(monkeypatch)
    for tenant in ("acme", "beta"):
        assert await ask(store, tenant, SEES) == [(tenant,)]
    assert not [sql for sql in told if sql.startswith("SET ") and not sql.startswith("SET LOCAL ")]
    for connection in idle_connections(pool_of(store)):
        row = await connection.fetchrow("SELECT current_user = session_user, current_setting('duly.tenant', true)")
        assert row is not None
        assert (row[0], row[1] or None) == (True, None)


async def test_statements_of_many_tenants_are_isolated(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """600 over three connections, with transactions among them; some fail, some are cancelled at any moment, and some
    lose their connection."""
    monkeypatch.setattr("duly.stores.postgres.store.CONFINED_CONNECTIONS", 3)
    tenants = [f"tenant {n}" for n in range(20)]
    for tenant in tenants:
        await store.put([make_new(tenant=tenant, key="k", due=START + 1000 * HOUR)])
    luck = random.Random(7)
    met: list[str] = []
    ended: list[str] = []

    async def one(number: int, what: str) -> None:
        tenant = tenants[number % len(tenants)]
        alone = what != "transaction"
        async with few.tenant_session(tenant, writes=True, one_statement=alone) as request:
            for _ in range(3):
                if (seen := {row[0] for row in await request.run(SEES, {})}) != {tenant}:
                    met.append(f"{tenant} sees {seen}")
                if what == "failure":
                    await request.run(FAILS, {})
                if what == "kill":
                    [row] = await request.run(SESSION, {})
                    async with few.begin() as tx:
                        await tx.fetchval("SELECT pg_terminate_backend($1)", row[2])
            [added] = await request.put([make_new(tenant=tenant, key=f"by {number}", due=START + 1000 * HOUR)])
            if (added.event.tenant, added.change) != (tenant, "created"):
                met.append(f"{tenant} put {added}")
        ended.append(what)

    async def cancelled(number: int) -> None:
        task = asyncio.create_task(one(number, "cancel"))
        await asyncio.sleep(luck.random() / 20)
        task.cancel()
        await task

    acts = ["alone"] * 200 + ["transaction"] * 150 + ["failure"] * 50 + ["kill"] * 50 + ["cancel"] * 150
    luck.shuffle(acts)
    async with store_on(store.url) as few:
        await asyncio.gather(
            *(cancelled(n) if what == "cancel" else one(n, what) for n, what in enumerate(acts)),
            return_exceptions=True,
        )
        assert met == []
        assert ended.count("transaction") > 100
        assert ended.count("alone") > 100
        assert pool_of(few).size <= 3
        assert remembers_no_tenant(few)
        await is_clean(few)
        for tenant in tenants:
            assert {row[0] for row in await ask(few, tenant, SEES)} == {tenant}


# -- the connections themselves


async def test_connections_that_nobody_uses_are_closed(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_connections, "IDLE_S", 0.05)
    await process_of(store, "acme")
    pool = pool_of(store)
    assert pool.size == 1
    async with asyncio.timeout(10):
        while pool.size:  # noqa: ASYNC110 - a timer closes it
            await asyncio.sleep(0.01)
    await process_of(store, "acme")


async def test_a_connection_is_replaced_in_time(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    before = await process_of(store, "acme")
    monkeypatch.setattr(tenant_connections, "LONGEST_LIFE_S", -1.0)
    assert await process_of(store, "acme") == before
    assert await process_of(store, "acme") != before


async def test_a_session_that_waits_for_a_connection_gets_the_next_one(store: PostgresStore) -> None:
    pool = pool_of(store)
    taken = [await pool.take("acme") for _ in range(12)]
    waiting = asyncio.create_task(pool.take("beta"))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    pool.give_back(taken.pop())
    taken.append(await waiting)
    assert pool.size == 12
    for connection in taken:
        pool.give_back(connection)


async def test_closing_the_store_waits_for_connections_in_use(store: PostgresStore) -> None:
    pool = pool_of(store)
    connection = await pool.take("acme")
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0.01)
    assert not closing.done()
    pool.give_back(connection)
    await closing
    assert connection.is_closed()
    with pytest.raises(asyncpg.InterfaceError, match="closed"):
        await pool.take("acme")
