"""What one request does is one transaction, whatever becomes of it."""

import asyncio
import time
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

import pytest

from duly.errors import Conflict, Invalid, Misuse
from duly.ports.events import EventPort
from duly.records.event import Status
from duly.records.specs import Everything
from duly.stores.postgres.store import PostgresStore
from duly.stores.postgres.tenants.tenant_session import PostgresTenantSession
from duly.stores.sqlite.tenant_session import SqliteTenantSession
from duly.verbs.events.events import Events
from tests.conftest import AnyStore, OpenStore
from tests.make import LANE, LEASE, make_new, make_user
from tests.stores.rows import ask, event_of, spelled
from tests.stores.tenant_pools import pool_of


class Oops(Exception):
    pass


@pytest.fixture
async def store(opened: OpenStore) -> Any:
    store = await opened()
    await store.prepare_rls_role()
    return store


def mine(**fields: Any) -> Any:
    return make_new(**({"tenant": "acme"} | fields))


async def seconds(wait: Awaitable[None]) -> float:
    began = time.monotonic()
    await wait
    return time.monotonic() - began


async def count(store: EventPort) -> int:
    return len(await store.find(Everything(), limit=1000))


async def test_preparing_the_role_twice_changes_nothing(store: AnyStore) -> None:
    await store.prepare_rls_role()
    async with store.tenant_session("acme", writes=True) as request:
        await request.add([mine()])
    assert await count(store) == 1


async def test_the_statements_of_a_tenant_session_commit_together(opened: OpenStore, store: AnyStore) -> None:
    elsewhere = await opened()
    async with store.tenant_session("acme", writes=True) as request:
        await request.add([mine()])
        async with request.begin() as tx:
            await tx.put([mine(key="k")])
        assert await count(request) == 2
        assert await count(elsewhere) == 0
    assert await count(elsewhere) == 2


async def test_an_error_in_a_tenant_session_leaves_nothing(store: AnyStore) -> None:
    async def fails() -> None:
        async with store.tenant_session("acme", writes=True) as request:
            await request.add([mine()])
            async with request.begin() as tx:
                await tx.add([mine()])
            raise Oops

    with pytest.raises(Oops):
        await fails()
    assert await count(store) == 0


async def test_an_error_within_a_savepoint_undoes_only_the_savepoint(store: AnyStore) -> None:
    async with store.tenant_session("acme", writes=True) as request:
        assert isinstance(request, SqliteTenantSession | PostgresTenantSession)
        await request.put([mine(key="k")])
        with suppress(Oops):
            async with request.begin() as tx:
                await tx.add([mine()])
                async with tx.begin() as inner:
                    await inner.add([mine()])
                raise Oops
        async with request.begin() as tx:
            with suppress(Oops):
                async with tx.begin() as inner:
                    await inner.add([mine()])
                    raise Oops
            await tx.put([mine(key="l")])
        with pytest.raises(Exception, match=r"(?i)unique"):
            async with request.begin() as tx:
                await tx.add([mine(), mine(key="k")])
    assert {event.key for event in await store.find(Everything(), limit=10)} == {"k", "l"}


async def test_a_verb_that_refuses_in_a_tenant_session_leaves_the_rest(store: AnyStore) -> None:
    """As where one of many is wrong, and where a refusal is remembered as the answer."""
    [id] = await store.add([mine()])
    async with store.tenant_session("acme", writes=True) as request:
        await request.recall("acme", "k", "cancel")
        events = Events(request)
        await events.cancel(id, tenant="acme")
        with pytest.raises(Conflict):
            await events.discard(id, tenant="acme")
        await request.remember("acme", "k", 409, "{}", b"")
    assert (await event_of(store, id)).status is Status.CANCELLED
    async with store.tenant_session("acme", writes=True) as request:
        answer = await request.recall("acme", "k", "cancel")
    assert answer is not None
    assert answer.status == 409


async def test_cancelling_a_tenant_session_rolls_back_and_lets_others_go_on(store: AnyStore) -> None:
    async def hang(inside: asyncio.Event, *, deep: bool) -> None:
        async with store.tenant_session("acme", writes=True) as request:
            await request.add([mine()])
            async with request.begin() as tx:
                await tx.add([mine()])
                if deep:
                    inside.set()
                    await asyncio.Event().wait()
            inside.set()
            await asyncio.Event().wait()

    for deep in (True, False):
        inside = asyncio.Event()
        task = asyncio.create_task(hang(inside, deep=deep))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with store.tenant_session("acme", writes=True) as request:
            assert await count(request) == 0
            await request.now()
    assert await count(store) == 0


async def test_a_session_that_gave_up_one_step_in_time_can_go_on(store: AnyStore) -> None:
    async with store.tenant_session("acme", writes=True) as request:
        await request.put([mine(key="k")])
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05), request.begin() as tx:
                await tx.put([mine(key="l")])
                await asyncio.Event().wait()
        await request.put([mine(key="m")])
    assert {event.key for event in await store.find(Everything(), limit=10)} == {"k", "m"}


async def test_workers_are_woken_after_the_commit(store: AnyStore) -> None:
    async with store.listen([LANE]) as waker:
        await waker.wait(1)  # it is woken once as it begins to listen
        async with store.tenant_session("acme", writes=True) as request:
            async with request.begin() as tx:
                await tx.add([mine()])
            assert await seconds(waker.wait(0.2)) >= 0.19
        assert await seconds(waker.wait(20)) < 10
    assert len(await store.claim("w1", {LANE: 1}, LEASE)) == 1


async def test_many_tenant_sessions_at_once_all_commit(store: AnyStore) -> None:
    async def one(n: int) -> None:
        async with store.tenant_session(f"tenant {n % 5}", writes=True) as request:
            await request.put([make_new(tenant=f"tenant {n % 5}", key=f"k{n}")])
            await asyncio.sleep(0)
            async with request.begin() as tx:
                await tx.put([make_new(tenant=f"tenant {n % 5}", key=f"k{n}", payload="moved")])

    await asyncio.gather(*(one(n) for n in range(50)))
    assert {event.payload for event in await store.find(Everything(), limit=100)} == {"moved"}
    assert await count(store) == 50


async def test_a_reading_tenant_session_sees_what_was_committed(store: AnyStore) -> None:
    [id] = await store.add([mine()])
    async with store.tenant_session("acme", writes=False) as request:
        assert (await event_of(request, id)).id == id
        assert await count(request) == 1
        assert len(await Events(request).find(tenant="acme")) == 1


async def test_a_tenant_session_without_statements_takes_no_connection(store: AnyStore) -> None:
    for writes in (True, False):
        async with store.tenant_session("acme", writes=writes):
            pass
    if isinstance(store, PostgresStore):
        assert pool_of(store).size == 0
    else:
        async with store.begin(), store.tenant_session("acme", writes=False):
            pass  # a reader does not wait for the writer


async def test_many_users_need_no_copy(store: AnyStore) -> None:
    users = [make_user(tenant="acme") for _ in range(300)]
    async with store.tenant_session("acme", writes=True) as request:
        async with request.begin() as tx:
            assert len(await tx.add_users(users, [], "me")) == 300
        await request.add([mine() for _ in range(300)])
    assert await ask(store, "SELECT count(*) FROM duly.users") == await count(store) == 300


@pytest.mark.parametrize("tenant", ["", " x", "a\x00b", "x" * 101, None, 7])
async def test_a_tenant_that_cannot_be_is_refused(store: AnyStore, tenant: Any) -> None:
    for writes in (True, False):
        with pytest.raises(Invalid, match="tenant"):
            async with store.tenant_session(tenant, writes=writes):
                pass


async def test_a_tenant_session_refuses_statements_after_its_end(store: AnyStore) -> None:
    async with store.tenant_session("acme", writes=True) as request:
        await request.now()
    with pytest.raises(Misuse, match="ended"):
        await request.add([mine()])
    with pytest.raises(Misuse, match="ended"):
        async with request.begin():
            pass
    assert await count(store) == 0


async def test_a_tenant_session_has_no_methods_of_the_store_beyond_its_port(store: AnyStore) -> None:
    async with store.tenant_session("acme", writes=True) as request:
        assert isinstance(request, SqliteTenantSession | PostgresTenantSession)
        for act in (request.close(), request.open(migrate=False), request.prepare_rls_role()):
            with pytest.raises(Misuse, match="ask the store itself"):
                await act
        with pytest.raises(Misuse, match="ask the store itself"):
            request.listen([LANE])
        with pytest.raises(Misuse, match="ask the store itself"):
            request.tenant_session("beta", writes=True)
        assert await request.fetchval(spelled(store, "SELECT count(*) FROM duly.events")) == 0


async def test_a_tenant_session_on_sqlite_refuses_to_wait_for_itself(store: AnyStore) -> None:
    if store.dialect != "sqlite":
        async with (
            store.tenant_session("acme", writes=True) as request,
            store.tenant_session("beta", writes=True) as other,
        ):
            await request.add([mine()])
            await other.add([make_new(tenant="beta")])
        assert await count(store) == 2
        return
    async with store.tenant_session("acme", writes=True):
        with pytest.raises(Misuse, match="transaction=tx"):
            await store.add([mine()])
        with pytest.raises(Misuse, match="transaction=tx"):
            async with store.tenant_session("acme", writes=True):
                pass
        async with store.tenant_session("acme", writes=False) as request:
            assert await count(request) == 0
