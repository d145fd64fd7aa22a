"""Requests that carry a key of their own: who comes again gets the answer that was given before."""

import asyncio
from contextlib import suppress
from contextvars import Context
from datetime import timedelta
from typing import Any

import pytest

from duly.ports import StoredResponse
from duly.stores.statements.keys import RESPONSE_LIFETIME
from duly.testing import ManualClock
from tests.conftest import AnyStore, OpenStore

ANSWER = (201, '{"etag":"x"}', b'{"id": 7}\x00\xff')
REMEMBERED = StoredResponse("put a", *ANSWER)


class Oops(Exception):
    pass


@pytest.fixture
async def store(opened: OpenStore) -> Any:
    store = await opened()
    await store.prepare_rls_role()
    return store


async def answered(store: AnyStore, key: str = "k", tenant: str = "acme", fingerprint: str = "put a") -> Any:
    """What a request gets that comes with this key, and answers if it is new."""
    async with store.tenant_session(tenant, writes=True) as request:
        found = await request.recall(tenant, key, fingerprint)
        if found is None:
            await request.remember(tenant, key, *ANSWER)
        return found


def comes(store: AnyStore) -> "asyncio.Task[Any]":
    """A request from elsewhere: it knows nothing of the transaction that is open here."""
    return asyncio.create_task(answered(store), context=Context())


async def test_an_idempotent_request_is_new_once(store: AnyStore) -> None:
    assert [await answered(store) for _ in range(3)] == [None, REMEMBERED, REMEMBERED]


async def test_another_request_with_the_same_key_is_told_what_the_first_was(store: AnyStore) -> None:
    await answered(store)
    assert await answered(store, fingerprint="put b") == REMEMBERED


async def test_keys_of_requests_are_each_tenants_own(store: AnyStore) -> None:
    assert [await answered(store, tenant=tenant) for tenant in ("acme", "beta")] == [None, None]
    assert await answered(store, key="other") is None


async def test_a_request_that_was_rolled_back_is_new_again(store: AnyStore) -> None:
    with suppress(Oops):
        async with store.tenant_session("acme", writes=True) as request:
            assert await request.recall("acme", "k", "put b") is None
            await request.remember("acme", "k", *ANSWER)
            raise Oops
    assert [await answered(store) for _ in range(2)] == [None, REMEMBERED]


async def test_a_request_that_was_never_answered_is_new_again(store: AnyStore) -> None:
    async with store.tenant_session("acme", writes=True) as request:
        assert await request.recall("acme", "k", "put b") is None
    assert [await answered(store) for _ in range(2)] == [None, REMEMBERED]


async def test_a_request_that_comes_meanwhile_waits_and_gets_the_same_answer(opened: OpenStore) -> None:
    one, other = await opened(), await opened()
    await one.prepare_rls_role()
    async with one.tenant_session("acme", writes=True) as request:
        assert await request.recall("acme", "k", "put a") is None
        waiting = [comes(store) for store in (one, other)]
        done, _ = await asyncio.wait(waiting, timeout=0.1)  # long enough for one that does not wait
        assert not done
        await request.remember("acme", "k", *ANSWER)
    assert await asyncio.gather(*waiting) == [REMEMBERED, REMEMBERED]


async def test_a_request_that_waited_for_one_that_was_rolled_back_is_new(opened: OpenStore) -> None:
    one, other = await opened(), await opened()
    await one.prepare_rls_role()
    with suppress(Oops):
        async with one.tenant_session("acme", writes=True) as request:
            assert await request.recall("acme", "k", "put a") is None
            waiting = [comes(store) for store in (one, other, other)]
            done, _ = await asyncio.wait(waiting, timeout=0.1)  # long enough for one that does not wait
            assert not done
            raise Oops
    found = await asyncio.gather(*waiting)
    assert sorted(found, key=str) == [None, REMEMBERED, REMEMBERED]


async def test_of_many_equal_requests_at_once_one_is_new(store: AnyStore) -> None:
    found = await asyncio.gather(*(answered(store) for _ in range(30)))
    assert (found.count(None), found.count(REMEMBERED)) == (1, 29)


async def test_the_answer_of_a_request_is_forgotten_after_a_day(store: AnyStore, clock: ManualClock) -> None:
    await answered(store)
    clock.advance(RESPONSE_LIFETIME - timedelta(microseconds=1))
    assert await answered(store, fingerprint="put b") == REMEMBERED
    clock.advance(timedelta(microseconds=1))
    assert await answered(store, fingerprint="put b") is None
    assert await answered(store) == REMEMBERED._replace(fingerprint="put b")


async def test_old_requests_are_removed_in_batches(store: AnyStore, clock: ManualClock) -> None:
    for n in range(5):
        await answered(store, key=f"k{n}")
    clock.advance(timedelta(hours=1))
    await answered(store, key="young")
    assert await store.forget_requests(10) == 0
    clock.advance(RESPONSE_LIFETIME - timedelta(hours=1))
    assert [await store.forget_requests(3) for _ in range(3)] == [3, 2, 0]
    assert await answered(store, key="young") == REMEMBERED
