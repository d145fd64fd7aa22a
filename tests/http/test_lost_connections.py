"""A statement by itself whose connection to PostgreSQL is lost: nobody knows whether it was stored."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from duly import Duly
from duly.api.app import create_api
from tests.http.calling import Caller

TIMER = {"type": "greet", "due_at": "2030-01-01T00:00:00Z"}
WAITS_FOR_ME = "SELECT pid FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"


@pytest.fixture
async def http(clean_postgres: str) -> AsyncIterator[Caller]:
    async with Duly(clean_postgres) as app:
        api = create_api(app, keyless=True)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://127.0.0.1") as client:
            yield Caller(app, api, client)


async def test_a_put_that_loses_its_connection_may_have_been_stored(http: Caller) -> None:
    assert (await http("PUT", "/v1/timers/k", TIMER)).status_code == 201
    async with http.app.store.begin() as tx:
        await tx.execute("SELECT FROM duly.events WHERE key = 'k' FOR UPDATE")
        asked = asyncio.create_task(http("PUT", "/v1/timers/k", TIMER | {"payload": "other"}))
        pid = None
        async with asyncio.timeout(10):
            while pid is None:
                pid = await tx.fetchval(WAITS_FOR_ME)
        await tx.fetchval("SELECT pg_terminate_backend($1)", pid)
        answer = await asked
    assert answer.status_code == 503
    assert "it may have been carried out" in answer.json()["detail"]
    assert answer.json()["type"] == "urn:duly:problem:uncertain"
    again = await http("PUT", "/v1/timers/k", TIMER | {"payload": "other"})
    assert (again.status_code, again.json()["payload"]) == (200, "other")


async def test_a_read_that_loses_its_connection_is_no_more_than_unavailable(http: Caller) -> None:
    assert (await http("PUT", "/v1/timers/k", TIMER)).status_code == 201
    async with http.app.store.begin() as tx:
        await tx.execute("LOCK duly.events IN ACCESS EXCLUSIVE MODE")
        asked = asyncio.create_task(http("GET", "/v1/timers/k"))
        pid = None
        async with asyncio.timeout(10):
            while pid is None:
                pid = await tx.fetchval(WAITS_FOR_ME)
        await tx.fetchval("SELECT pg_terminate_backend($1)", pid)
        answer = await asked
    assert answer.status_code == 503
    assert "carried out" not in answer.json()["detail"]
    assert (await http("GET", "/v1/timers/k")).status_code == 200
