"""The second lock, on PostgreSQL. Here the first one is left open on purpose: statements that name no tenant at all."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from duly import StoreError
from duly.config import read_settings
from duly.errors import Misuse, StoreUnavailable
from duly.stores.postgres.store import PostgresStore
from duly.stores.postgres.tenants.rls_role import CONFINED_TABLES, RIGHTS, ROLE
from duly.stores.postgres.tenants.tenant_session import CONFINED_CONNECTIONS, FOR_OTHERS
from duly.verbs.events.events import Events
from duly.wiring import open_store
from tests.make import HOUR, LANE, LEASE, START, make_head, make_new, make_schedule, make_user
from tests.modest import ModestDatabase
from tests.stores.tenant_pools import (
    idle_connections,
    limit_of,
    pool_of,
    pools_of,
    remembers_no_tenant,
    worker_pools_of,
)

pytestmark = pytest.mark.broken_rows("its tables are filled by hand")

WRITTEN = ("events", "schedules", "users", "targets", "destinations", "requests")
HAVE_A_TENANT = (*WRITTEN, "fired_keys")
EVENTS_ALONE = (
    "GRANT USAGE ON SCHEMA duly TO {role}",
    "GRANT SELECT ON duly.migrations, duly.history TO {role}",
    "GRANT SELECT, INSERT, UPDATE ON duly.events, duly.journal TO {role}",
    "GRANT SELECT, DELETE ON duly.fired_keys TO {role}",
)
FAILS = "SELECT 1 / 0"
WAITING = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))"
"""Whether somebody waits for this transaction."""


class Oops(Exception):
    pass


@asynccontextmanager
async def store_on(url: str, *, migrate: bool = True) -> AsyncIterator[Any]:
    store = open_store(read_settings({}, database_url=url), None)
    await store.open(migrate=migrate)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(clean_postgres: str) -> AsyncIterator[Any]:
    async with store_on(clean_postgres) as store:
        await store.prepare_rls_role()
        yield store


async def something_of(store: PostgresStore, tenant: str) -> None:
    """A row in each table, and history of each."""
    schedule = make_schedule(tenant=tenant, name="hourly")
    user = make_user(tenant=tenant, key="ada")
    async with store.begin() as tx:
        [timer] = await tx.put([make_new(tenant=tenant, key="k")])
        await tx.put_schedule(schedule)
        await tx.plant([make_head(schedule, tenant=tenant)])
        await tx.add_users([user], [], "me")
        target = "INSERT INTO duly.targets VALUES (gen_random_uuid(), $1, 'crm', 'webhook', '{}', NULL, now(), now())"
        await tx.execute(target, tenant)
        await tx.limit(tenant, "crm", 5, None)
        await tx.recall(tenant, "k", "put")
        fired = "INSERT INTO duly.fired_keys VALUES ($1, 'gone', gen_random_uuid(), 'x', now(), NULL, 'FAILED', now())"
        await tx.execute(fired, tenant)
        subjects = [timer.event.id, schedule.id, user.id]
        subjects += [str(await tx.fetchval("SELECT id FROM duly.targets WHERE tenant = $1", tenant))]
        await tx.note([(subject, "noted", tenant) for subject in subjects], "me")
        completed = "UPDATE duly.events SET status = 'COMPLETED', ready = NULL, settled = now() WHERE id = $1"
        await tx.execute(completed, timer.event.id)


@pytest.fixture
async def shared(store: PostgresStore) -> PostgresStore:
    """A store with the same things of acme and of beta."""
    for tenant in ("acme", "beta"):
        await something_of(store, tenant)
    return store


async def kill(store: PostgresStore, request: Any) -> None:
    """End the server's side of a request's connection. (The role itself may not.)"""
    pid = await request.fetchval("SELECT pg_backend_pid()")
    async with store.begin() as tx:
        assert await tx.fetchval("SELECT pg_terminate_backend($1)", pid)


# -- what a request cannot see, it cannot touch


@pytest.mark.parametrize("table", HAVE_A_TENANT)
async def test_rows_of_other_tenants_do_not_exist_for_a_session(shared: PostgresStore, table: str) -> None:
    async with shared.begin() as tx:
        before = await tx.fetch(f"SELECT t::text FROM duly.{table} AS t WHERE tenant = 'beta' ORDER BY 1")
    assert before
    async with shared.tenant_session("acme", writes=True) as request:
        seen = await request.fetch(f"SELECT tenant FROM duly.{table}")
        assert {row["tenant"] for row in seen} == {"acme"}
        assert await request.fetch(f"SELECT FROM duly.{table} WHERE tenant = 'beta'") == []
        if "UPDATE" in RIGHTS[table]:
            assert await request.fetch(f"SELECT FROM duly.{table} WHERE tenant = 'beta' FOR UPDATE") == []
            assert len(await request.fetch(f"SELECT FROM duly.{table} FOR UPDATE")) == len(seen)
            others = f"UPDATE duly.{table} SET tenant = tenant WHERE tenant = 'beta' RETURNING 1"
            assert await request.fetch(others) == []
            assert len(await request.fetch(f"UPDATE duly.{table} SET tenant = tenant RETURNING 1")) == len(seen)
        if "DELETE" in RIGHTS[table]:
            assert await request.fetch(f"DELETE FROM duly.{table} WHERE tenant = 'beta' RETURNING 1") == []
            assert len(await request.fetch(f"DELETE FROM duly.{table} RETURNING 1")) == len(seen)
    async with shared.begin() as tx:
        assert await tx.fetch(f"SELECT t::text FROM duly.{table} AS t WHERE tenant = 'beta' ORDER BY 1") == before


@pytest.mark.parametrize("table", WRITTEN)
async def test_a_session_cannot_write_rows_of_another_tenant(shared: PostgresStore, table: str) -> None:
    async def give_away() -> None:
        async with shared.tenant_session("acme", writes=True) as request:
            await request.execute(f"UPDATE duly.{table} SET tenant = 'beta'")

    async def insert() -> None:
        async with shared.tenant_session("acme", writes=True) as request:
            columns = await request.fetch(
                "SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped "
                "AND attgenerated = ''",
                f"duly.{table}",
            )
            others = [f'"{row[0]}"' for row in columns if row[0] not in ("tenant", "id", "key", "series")]
            own = ["gen_random_uuid()"] if any(row[0] == "id" for row in columns) else []
            named = ", ".join(["tenant", *(["id"] if own else []), *others])
            told = ", ".join(["'gamma'", *own, *others])
            if table == "requests":
                named, told = f"key, {named}", f"'new', {told}"
            await request.execute(f"INSERT INTO duly.{table} ({named}) SELECT {told} FROM duly.{table} LIMIT 1")

    for act in (give_away, insert):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="violates row-level security policy"):
            await act()


@pytest.mark.parametrize("table", ["events", "schedules", "users", "targets", "nothing"])
async def test_a_session_cannot_write_history_of_another_tenants_rows(shared: PostgresStore, table: str) -> None:
    nothing = [make_new().id]
    async with shared.begin() as tx:
        ids = {
            tenant: [str(row[0]) for row in await tx.fetch(f"SELECT id FROM duly.{table} WHERE tenant = $1", tenant)]
            if table != "nothing"
            else nothing
            for tenant in ("acme", "beta")
        }
        before = await tx.fetchval("SELECT count(*) FROM duly.journal")

    async def tell(whose: str) -> None:
        async with shared.tenant_session("acme", writes=True) as request:
            await request.note([(id, "noted", "by acme") for id in ids[whose]], "me")

    with pytest.raises(StoreError, match="violates row-level security policy"):
        await tell("beta")
    if table != "nothing":
        await tell("acme")
    async with shared.begin() as tx:
        own = 0 if table == "nothing" else len(ids["acme"])
        assert await tx.fetchval("SELECT count(*) FROM duly.journal") == before + own


async def test_a_timer_that_another_request_has_just_put_is_moved_with_its_history(store: PostgresStore) -> None:
    """When the second one began, the first one's was not there yet."""
    async with store.tenant_session("acme", writes=True) as second:
        await second.now()
        async with store.tenant_session("acme", writes=True) as first:
            [put] = await first.put([make_new(tenant="acme", key="k")])
            moving = asyncio.create_task(second.put([make_new(tenant="acme", key="k", due=START + HOUR)]))
            while not await first.fetchval(WAITING):  # noqa: ASYNC110 - the server has no event to wait for
                await asyncio.sleep(0.01)
        [moved] = await moving
    assert (moved.change, moved.event.id) == ("moved", put.event.id)
    assert [entry.act for entry in await store.history(put.event.id)] == ["moved"]


@pytest.mark.parametrize("view", ["journal", "history"])
async def test_a_session_sees_the_history_of_its_own_rows_only(shared: PostgresStore, view: str) -> None:
    async with shared.tenant_session("acme", writes=False) as request:
        told = await request.fetch(f"SELECT act, detail FROM duly.{view}")
    assert {row["detail"] for row in told if row["act"] == "noted"} == {"acme"}
    assert [row["act"] for row in told].count("noted") == 4
    assert [row["act"] for row in told].count("delivered") == (1 if view == "history" else 0)


async def test_the_view_of_timers_shows_through_the_policies(shared: PostgresStore) -> None:
    """The role has no right to it; one that somebody gives shows no more than the tables do."""
    async with shared.begin() as tx:
        await tx.execute("UPDATE duly.events SET lane = 'timer' WHERE key IS NOT NULL")
    with suppress(Oops):
        async with shared.begin() as tx:
            await tx.execute(f"GRANT SELECT ON duly.timer_schedules TO {ROLE}")
            assert len(await tx.fetch("SELECT FROM duly.timer_schedules")) == 2
            await tx.execute(f"SET LOCAL ROLE {ROLE}; SET LOCAL duly.tenant = 'acme'")
            assert [row[0] for row in await tx.fetch("SELECT tenant_id FROM duly.timer_schedules")] == ["acme"]
            raise Oops


async def test_without_a_tenant_no_row_exists_for_a_session(shared: PostgresStore) -> None:
    for tenant in (None, ""):
        async with shared.begin() as tx:
            await tx.execute(f"SET LOCAL ROLE {ROLE}")
            if tenant is not None:
                await tx.execute(f"SET LOCAL duly.tenant = '{tenant}'")
            for table in (*CONFINED_TABLES, "history"):
                assert await tx.fetchval(f"SELECT count(*) FROM duly.{table}") == 0
            for table in WRITTEN:
                assert await tx.fetch(f"UPDATE duly.{table} SET tenant = tenant RETURNING 1") == []


@pytest.mark.parametrize("tenant", ["o'brien", "a\\b", "a\\' OR true --", "é→日本", "acme; RESET ROLE", "x" * 100])
async def test_a_tenant_may_have_any_name(store: PostgresStore, tenant: str) -> None:
    await something_of(store, tenant)
    await something_of(store, "acme")
    async with store.tenant_session(tenant, writes=True) as request:
        assert await request.fetchval("SELECT current_setting('duly.tenant')") == tenant
        assert await request.fetchval("SELECT current_user") == ROLE
        assert {row[0] for row in await request.fetch("SELECT tenant FROM duly.users")} == {tenant}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT FROM duly.api_keys",
        "UPDATE duly.api_keys SET scope = 'admin'",
        "SELECT FROM duly.migrations",
        "SELECT FROM duly.timer_schedules",
        "UPDATE duly.journal SET act = 'nothing'",
        "DELETE FROM duly.journal",
        "DELETE FROM duly.events",
        "UPDATE duly.fired_keys SET due = now()",
        "INSERT INTO duly.fired_keys SELECT * FROM duly.fired_keys",
        "TRUNCATE duly.events",
        "ALTER TABLE duly.events DISABLE ROW LEVEL SECURITY",
        "CREATE TABLE duly.more (n int)",
    ],
)
async def test_the_role_of_requests_may_not_do_what_it_does_not_need(shared: PostgresStore, sql: str) -> None:
    async with shared.tenant_session("acme", writes=True) as request:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with request.begin() as tx:
                await tx.execute(sql)


# -- nothing of it is left on a connection


async def is_clean(store: PostgresStore) -> int:
    """That all pooled connections are as they were opened; how many there are."""
    seen = 0
    for requests in pools_of(store):
        for connection in idle_connections(requests):
            assert not connection.is_in_transaction()
            told = await connection.fetchrow("SELECT current_user, current_setting('duly.tenant', true) AS tenant")
            assert told is not None
            assert (told["current_user"], told["tenant"] or None) == (ROLE, connection.tenant)
        assert requests.size == len(idle_connections(requests)), "none is kept by a request that has ended"
        seen += requests.size
    for pool in worker_pools_of(store):
        own = [await pool.acquire(timeout=10) for _ in range(pool.get_size())]
        for each in own:
            assert not each.is_in_transaction()
            told = await each.fetchrow(
                "SELECT current_user, session_user, coalesce(current_setting('duly.tenant', true), '') AS tenant"
            )
            assert told is not None
            assert (told["current_user"], told["tenant"]) == (told["session_user"], "")
        for each in own:
            await pool.release(each)
        seen += len(own)
    return seen


async def test_a_request_that_failed_in_the_middle_leaves_no_trace(store: PostgresStore) -> None:
    with suppress(asyncpg.DivisionByZeroError):
        async with store.tenant_session("acme", writes=True) as request:
            await request.put([make_new(tenant="acme", key="k")])
            await request.execute(FAILS)
    assert await is_clean(store)
    assert await store.by_key("acme", "k") is None


async def test_an_error_that_nobody_undid_does_not_look_like_a_commit(store: PostgresStore) -> None:
    async def swallow() -> None:
        async with store.tenant_session("acme", writes=True) as request:
            await request.put([make_new(tenant="acme", key="k")])
            with suppress(asyncpg.DivisionByZeroError):
                await request.execute(FAILS)

    with pytest.raises(StoreError, match="nothing of the request was stored"):
        await swallow()
    assert await store.by_key("acme", "k") is None
    assert await is_clean(store)


@pytest.mark.parametrize("sql", ["COMMIT", "ROLLBACK"])
async def test_a_session_whose_transaction_was_ended_from_within_refuses_statements(
    store: PostgresStore, sql: str
) -> None:
    await something_of(store, "beta")

    async def escape() -> None:
        async with store.tenant_session("acme", writes=True) as request:
            await request.execute(sql)
            await request.fetch("SELECT FROM duly.events")

    with pytest.raises(Misuse, match="ended from within"):
        await escape()
    assert await is_clean(store)


@pytest.mark.parametrize("notices", [True, False])
async def test_a_connection_that_is_lost_is_told_as_an_outage(store: PostgresStore, notices: bool) -> None:
    async def lose() -> None:
        async with store.tenant_session("acme", writes=True) as request:
            await request.put([make_new(tenant="acme", key="k")])
            await kill(store, request)
            if notices:
                await request.now()

    with pytest.raises(StoreUnavailable):
        await lose()
    assert await is_clean(store)
    assert await store.by_key("acme", "k") is None


async def test_a_session_that_is_cancelled_again_and_again_leaves_no_trace(store: PostgresStore) -> None:
    """As some frameworks do: until the task gives up, each step of it is cancelled anew."""
    inside = asyncio.Event()

    async def hang() -> None:
        async with store.tenant_session("acme", writes=True) as request, request.begin() as tx:
            await tx.put([make_new(tenant="acme", key="k")])
            inside.set()
            await tx.fetch("SELECT pg_sleep(60)")

    task = asyncio.create_task(hang())
    await inside.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await is_clean(store)
    assert await store.by_key("acme", "k") is None


async def test_sessions_of_many_tenants_are_isolated(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 at once over three connections; some fail, some are cancelled, and some lose their connection."""
    monkeypatch.setattr("duly.stores.postgres.store.CONFINED_CONNECTIONS", 3)
    tenants = [f"tenant {n}" for n in range(20)]
    for tenant in tenants:
        await something_of(store, tenant)
    luck = random.Random(7)
    met: list[str] = []
    ended: list[str] = []

    async def look(request: Any, tenant: str) -> None:
        for table in HAVE_A_TENANT:
            seen = {row[0] for row in await request.fetch(f"SELECT tenant FROM duly.{table}")}
            if seen != {tenant}:
                met.append(f"{tenant} sees {seen} in {table}")

    async def one(number: int, what: str) -> None:
        tenant = tenants[number % len(tenants)]
        async with few.tenant_session(tenant, writes=True) as request:
            await look(request, tenant)
            await request.put([make_new(tenant=tenant, key=f"by {what} {number}", due=START + 1000 * HOUR)])
            async with request.begin():
                await asyncio.sleep(luck.random() / 100)
                if what == "error":
                    raise Oops
                if what == "failure":
                    await request.execute(FAILS)
                if what == "kill":
                    await kill(few, request)
                    await request.now()
                if what == "cancel":
                    this = asyncio.current_task()
                    assert this is not None
                    this.cancel()
                    await request.fetchval("SELECT pg_sleep(60)")
            await look(request, tenant)
        ended.append(what)

    acts = luck.sample(["read"] * 100 + ["error"] * 25 + ["failure"] * 25 + ["kill"] * 25 + ["cancel"] * 25, 200)
    async with store_on(store.url) as few:
        told = await asyncio.gather(
            *(asyncio.create_task(one(number, what)) for number, what in enumerate(acts)), return_exceptions=True
        )
        assert met == []
        assert ended == ["read"] * 100
        assert len([error for error in told if error is not None]) == 100
        assert pool_of(few).size <= 3
        assert await is_clean(few)
        async with few.begin() as tx:
            stored = await tx.fetch("SELECT split_part(key, ' ', 2) FROM duly.events WHERE key LIKE 'by %'")
            assert [row[0] for row in stored] == ["read"] * 100


# -- nobody keeps the others waiting


async def test_one_tenant_cannot_have_all_connections(store: PostgresStore) -> None:
    """Whatever it asks at once: others are served meanwhile."""
    inside, may_end = asyncio.Semaphore(0), asyncio.Event()

    async def hold(tenant: str) -> None:
        async with store.tenant_session(tenant, writes=True) as request:
            await request.now()
            inside.release()
            await may_end.wait()

    many = [asyncio.create_task(hold("acme")) for _ in range(CONFINED_CONNECTIONS + 5)]
    for _ in range(CONFINED_CONNECTIONS - FOR_OTHERS):
        await inside.acquire()
    async with store.tenant_session("beta", writes=True) as request:
        await request.now()
    async with store.tenant_session("gamma", writes=False) as request:
        assert await Events(request).find(tenant="gamma") == []
    assert inside.locked(), "the others of acme wait"
    may_end.set()
    await asyncio.gather(*many)
    assert remembers_no_tenant(store), "what nobody uses is not kept"


async def test_a_session_that_gives_up_waiting_for_a_connection_takes_none(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "query_limit", 0.05)
    limit = limit_of(store)
    for _ in range(CONFINED_CONNECTIONS - FOR_OTHERS):
        await limit.take("acme")
    with pytest.raises(StoreUnavailable):
        async with store.tenant_session("acme", writes=True) as request:
            await request.now()
    for _ in range(CONFINED_CONNECTIONS - FOR_OTHERS):
        limit.give_back("acme")
    assert remembers_no_tenant(store)


async def test_a_session_that_waits_too_long_for_a_lock_is_told_so(store: PostgresStore) -> None:
    brief = PostgresStore(store.url, timeout=timedelta(seconds=1))
    await brief.open()

    async def recall() -> None:
        async with brief.tenant_session("acme", writes=True) as request:
            await request.recall("acme", "k", "put")

    try:
        async with store.tenant_session("acme", writes=True) as first:
            await first.recall("acme", "k", "put")
            with pytest.raises(StoreUnavailable, match="another transaction holds a lock; try again"):
                await recall()
        assert await is_clean(brief)
        await recall()
    finally:
        await brief.close()


# -- nobody else is bound


@pytest.fixture
def role(postgres_connection: psycopg.Connection[Any], store: PostgresStore) -> Iterator[str]:
    """One that owns nothing, and has rights on the tables of events alone."""
    name = f"other_{random.getrandbits(48):x}"
    postgres_connection.execute(f"CREATE ROLE {name} LOGIN")
    for grant in EVENTS_ALONE:
        postgres_connection.execute(grant.format(role=name))
    yield name
    postgres_connection.execute(f"DROP OWNED BY {name}")
    postgres_connection.execute(f"DROP ROLE {name}")


def as_role(url: str, role: str) -> str:
    return url.replace("postgres@", f"{role}@")


@pytest.mark.parametrize("who", ["owner", "other"])
async def test_workers_see_all_tenants_events(store: PostgresStore, clean_postgres: str, role: str, who: str) -> None:
    for tenant in ("acme", "beta"):
        await something_of(store, tenant)
        await store.add([make_new(tenant=tenant, due=START)])
    async with store_on(clean_postgres if who == "owner" else as_role(clean_postgres, role), migrate=False) as worker:
        events = await worker.claim("w1", {LANE: 10}, LEASE)
        assert {event.tenant for event in events} == {"acme", "beta"}
        async with worker.begin() as tx:
            assert await tx.fetchval("SELECT count(*) FROM duly.journal") == 8
            assert await tx.fetchval("SELECT count(*) FROM duly.history") == 10
        assert len(await worker.add([make_new(tenant=f"t{n % 3}") for n in range(500)])) == 500
        await worker.add([make_new() for _ in range(3)])


async def test_a_user_who_does_not_own_the_tables_gets_the_plans_of_the_owner(
    store: PostgresStore, clean_postgres: str, role: str
) -> None:
    """The policies are no part of other roles' plans: not even as a filter."""
    sql = "EXPLAIN (COSTS off) SELECT * FROM duly.{table}"
    async with store_on(as_role(clean_postgres, role), migrate=False) as other, other.begin() as tx:
        for table in ("events", "journal", "history"):
            async with store.begin() as owner:
                assert await tx.fetch(sql.format(table=table)) == await owner.fetch(sql.format(table=table))


# -- the role


def test_the_documentation_lists_the_rights_of_the_role() -> None:
    page = (Path(__file__).parents[2] / "docs/operations.md").read_text(encoding="utf-8")
    granted = {
        (table.removeprefix("duly."), right)
        for rights, tables in re.findall(rf"^GRANT ([A-Z, ]+) ON (duly\..*?) TO {ROLE};", page, re.MULTILINE)
        for table in tables.split(", ")
        for right in rights.split(", ")
    }
    assert granted == {(table, right) for table, rights in RIGHTS.items() for right in rights}


async def test_preparing_the_role_grants_a_missing_right_again(store: PostgresStore) -> None:
    async with store.begin() as tx:
        await tx.execute(f"REVOKE DELETE ON duly.users FROM {ROLE}")
    await store.prepare_rls_role()
    async with store.tenant_session("acme", writes=True) as request:
        await request.delete_users([make_user().id])


async def test_many_processes_that_start_at_once_on_many_databases_all_get_the_role(
    new_postgres: Callable[[], str],
) -> None:
    urls = [new_postgres() for _ in range(4)]
    for url in urls:
        async with store_on(url):
            pass

    async def start(url: str) -> None:
        async with store_on(url) as store:
            await store.prepare_rls_role()
            async with store.tenant_session("acme", writes=True) as request:
                await request.add([make_new(tenant="acme")])

    await asyncio.gather(*(start(url) for url in urls for _ in range(3)))


@pytest.mark.parametrize(
    ("grant", "told"),
    [
        (f"GRANT SELECT ON duly.api_keys TO {ROLE}", "SELECT on duly.api_keys"),
        ("GRANT SELECT ON duly.migrations TO PUBLIC", "SELECT on duly.migrations"),
        (f"GRANT TRUNCATE ON duly.events TO {ROLE}", "TRUNCATE on duly.events"),
        ("ALTER TABLE duly.users DISABLE ROW LEVEL SECURITY", "does not apply to duly_api on duly.users"),
    ],
)
async def test_a_role_with_rights_past_row_level_security_is_refused(
    new_postgres: Callable[[], str], grant: str, told: str
) -> None:
    async with store_on(new_postgres()) as store:
        await store.prepare_rls_role()
        async with store.begin() as tx:
            await tx.execute(grant)
        with pytest.raises(StoreError, match=told):
            await store.prepare_rls_role()


async def test_a_store_whose_role_was_not_prepared_says_so(modest: ModestDatabase) -> None:
    async with store_on(modest.url) as store:
        with pytest.raises(StoreError, match="not prepared"):
            async with store.tenant_session("acme", writes=False) as request:
                await request.now()


async def test_a_postgres_older_than_the_least_version_is_refused(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.stores.postgres.tenants.rls_role.LEAST_VERSION", 99)
    with pytest.raises(StoreError, match="needs 99 or newer"):
        await store.prepare_rls_role()


async def test_a_search_in_the_middle_is_planned_for_its_values(store: PostgresStore) -> None:
    """And what comes after it as usual."""
    async with store.tenant_session("acme", writes=True) as request:
        await request.now()
        before = await request.fetchval("SELECT current_setting('plan_cache_mode')")
        assert await Events(request).find(tenant="acme") == []
        assert await request.fetchval("SELECT current_setting('plan_cache_mode')") == before == "force_generic_plan"
        assert await request.fetchval("SELECT current_setting('enable_seqscan')") == "off"
