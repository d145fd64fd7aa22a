"""Who prefers to wait: not too many, not for ever, and not for those who have left."""

import asyncio
import threading
import time
from pathlib import Path
from shutil import copyfile

import httpx
import pytest

from duly.api.protocol import long_poll
from duly.api.protocol.long_poll import LongPoll
from duly.errors import StoreUnavailable
from tests.http.calling import Caller
from tests.http.serving import served
from tests.http.test_schedules import put
from tests.make import LEASE

TRIGGER = "/v1/schedules/daily/trigger"


def waiting_in(long_poll: LongPoll) -> int:
    return long_poll._callers.total()  # no answer tells how many requests wait


def waiters(http: Caller) -> int:
    return waiting_in(http.api.state.waiting)


async def until_waiting(http: Caller, many: int) -> None:
    async with asyncio.timeout(60):
        while waiters(http) != many:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)


async def test_a_request_beyond_the_most_that_may_wait_is_answered_at_once(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_poll, "MOST_WAITING_OF_ONE_CALLER", 2)
    await put(http)
    asked = [asyncio.create_task(http("POST", TRIGGER, prefer="wait=60")) for _ in range(2)]
    await until_waiting(http, 2)
    third = await asyncio.wait_for(http("POST", TRIGGER, prefer="wait=60"), 30)
    assert (third.status_code, third.json()["status"]) == (201, "PENDING")
    assert "preference-applied" not in third.headers
    monkeypatch.setattr(long_poll, "MOST_WAITING_OF_ONE_CALLER", 10)
    monkeypatch.setattr(long_poll, "MOST_WAITING", 2)
    fourth = await asyncio.wait_for(http("POST", TRIGGER, prefer="wait=60"), 30)
    assert (fourth.status_code, "preference-applied" in fourth.headers) == (201, False)
    for one in asked:
        one.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    assert waiters(http) == 0
    assert (await http("POST", TRIGGER, prefer="wait=0")).headers["preference-applied"] == "wait=0"


async def test_a_waiting_request_is_answered_with_what_is_known_when_the_server_stops(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_poll, "FIRST_POLL_INTERVAL_S", 60.0)
    await put(http)
    asked = asyncio.create_task(http("POST", TRIGGER, prefer="wait=60"))
    await until_waiting(http, 1)
    [event] = await http.app.store.claim("w", {"handler:report": 1}, LEASE)
    http.api.state.waiting.end()
    answer = await asyncio.wait_for(asked, 30)
    assert (answer.status_code, answer.json()["id"], answer.json()["status"]) == (201, event.id, "PROCESSING")
    assert "preference-applied" not in answer.headers
    assert (await http("POST", TRIGGER, prefer="wait=60")).status_code == 201  # at once


async def test_a_committed_trigger_is_told_though_the_database_goes_away(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(http)
    asked = asyncio.create_task(http("POST", TRIGGER, prefer="wait=60"))
    await until_waiting(http, 1)

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("planted")

    monkeypatch.setattr(long_poll, "tenancy", away)
    answer = await asyncio.wait_for(asked, 30)
    assert (answer.status_code, answer.json()["status"]) == (201, "PENDING")


async def test_a_waiting_request_polls_less_and_less_often(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(self: LongPoll, seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) < 20

    monkeypatch.setattr(LongPoll, "pause", pause)
    await put(http)
    assert (await http("POST", TRIGGER, prefer="wait=60")).status_code == 201
    assert pauses[0] == pytest.approx(0.05)
    assert pauses == sorted(pauses)
    assert pauses[-1] == 0.5


def test_a_server_waits_neither_for_clients_that_left_nor_for_anybody_when_it_stops(
    sqlite_file: Path, tmp_path: Path
) -> None:
    copyfile(sqlite_file, tmp_path / "duly.db")
    with served(f"sqlite:///{tmp_path}/duly.db", shutdown_grace="60s") as server:
        found: LongPoll = server.api.state.waiting
        httpx.put(f"{server.url}/v1/schedules/daily", json={"type": "x", "rule": {"every": "1d"}})
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}{TRIGGER}", headers={"Prefer": "wait=60"}, timeout=0.5)
        deadline = time.monotonic() + 40
        while waiting_in(found):
            assert time.monotonic() < deadline, "it still waits for a caller who has left"
            time.sleep(0.05)
        told: list[httpx.Response] = []
        asking = threading.Thread(
            target=lambda: told.append(httpx.post(f"{server.url}{TRIGGER}", headers={"Prefer": "wait=60"}, timeout=90))
        )
        asking.start()
        while not waiting_in(found):
            time.sleep(0.01)
        began = time.monotonic()
    asking.join(90)
    assert time.monotonic() - began < 40
    assert told[0].status_code == 201
