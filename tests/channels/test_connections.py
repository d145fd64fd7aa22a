"""What a delivery leaves behind: connections that are good for the next one, and nothing else."""

import asyncio
import time
import tracemalloc

import psutil
import pytest

from duly.channels.http import guard, sender
from duly.records.event import Delivered, Failed, Rejected
from tests.channels.conftest import PATIENT, QUICK, SOON, Deliver
from tests.receivers.hostile import Hostile
from tests.worker.running_worker import until

BIG = "z" * 20_000_000
"""A payload that the system's buffers do not take whole: they are larger than those of a distant receiver."""


@pytest.mark.parametrize(("path", "door"), [("/never-reads", "open"), ("/", "silent")])
async def test_a_receiver_that_does_not_read_fails_in_time_and_leaves_nothing_open(
    deliver: Deliver, hostile: Hostile, path: str, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "UNACKNOWLEDGED_MS", 400)
    began = time.monotonic()
    outcome = await deliver(path, door, payload=BIG, timeout=QUICK)
    assert time.monotonic() - began < SOON
    assert isinstance(outcome, Failed)
    assert "within 0.3 s" in outcome.error
    await until(lambda: not connected_to(hostile.port(door)), "the connection is closed")


async def test_an_early_refusal_is_heard_while_the_body_is_being_sent(
    deliver: Deliver, hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "UNACKNOWLEDGED_MS", 400)
    outcome = await deliver("/early/413", payload=BIG)
    assert isinstance(outcome, Rejected)
    assert outcome.error.startswith("413")
    await until(lambda: not connected_to(hostile.port()), "the connection is closed")


async def test_a_hundred_deliveries_use_one_connection(deliver: Deliver, hostile: Hostile) -> None:
    for _ in range(100):
        assert await deliver("/ok") == Delivered()
    assert hostile.connections().accepted == 1
    assert sum(request.reused for request in hostile.requests()) == 99


async def test_refused_deliveries_use_the_connection_again(deliver: Deliver, hostile: Hostile) -> None:
    for status in (503, 404, 302, 429, 200):
        await deliver(f"/status/{status}")
    assert hostile.connections().accepted == 1


@pytest.mark.parametrize("path", ["/big", "/endless-body", "/slow-body", "/big?status=500", "/endless-body?status=404"])
async def test_a_connection_with_more_to_read_is_closed(deliver: Deliver, hostile: Hostile, path: str) -> None:
    await deliver(path)
    await until(lambda: hostile.connections().open == 0, "the connection is closed")
    assert hostile.connections().sent < 20_000_000
    assert await deliver("/ok") == Delivered()
    assert not hostile.requests()[-1].reused


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_connection_that_closes_as_it_is_used_again_costs_nothing(
    deliver: Deliver, hostile: Hostile, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "STALE_WITHIN", 15.0)
    for _ in range(5):
        assert await deliver(f"/close-after-one?how={how}") == Delivered()
    requests = hostile.requests()
    assert [request.reused for request in requests] == [False, *[True, False] * 4]
    ids = [request.header("webhook-id") for request in requests]
    assert ids[1::2] == ids[2::2], "the same delivery, sent again"
    assert len(set(ids)) == 5


async def test_a_receiver_that_breaks_down_over_a_request_is_not_sent_it_again_at_once(
    deliver: Deliver, hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "STALE_WITHIN", 0.1)
    assert await deliver("/close-after-one?wait=0.2") == Delivered()
    assert isinstance(await deliver("/close-after-one?wait=0.2"), Failed)
    assert len(hostile.requests()) == 2


async def test_a_connection_that_died_in_silence_costs_one_attempt(deliver: Deliver, hostile: Hostile) -> None:
    outcomes = [await deliver("/half-open", timeout=timeout) for timeout in (PATIENT, QUICK, PATIENT)]
    assert [type(outcome) for outcome in outcomes] == [Delivered, Failed, Delivered]
    assert [request.connection for request in hostile.requests()] == [1, 1, 2]


async def test_an_answer_that_nobody_asked_for_answers_nothing(deliver: Deliver, hostile: Hostile) -> None:
    for _ in range(5):
        assert await deliver("/two-answers?second=410") == Delivered()
    assert len(hostile.requests()) == 5


async def test_cookies_are_not_kept(deliver: Deliver, hostile: Hostile) -> None:
    await deliver("/set-cookie")
    await deliver("/ok")
    assert hostile.requests()[-1].header("cookie") is None


async def test_a_delivery_that_is_cancelled_hangs_up(deliver: Deliver, hostile: Hostile) -> None:
    delivery = asyncio.ensure_future(deliver("/no-answer", timeout="1m"))
    await until(hostile.requests, "the request arrives")
    delivery.cancel()
    await asyncio.wait([delivery])
    await until(lambda: hostile.connections().open == 0, "the connection is closed")


async def test_many_stalled_deliveries_end_together(deliver: Deliver, hostile: Hostile) -> None:
    began = time.monotonic()
    outcomes = await asyncio.gather(*(deliver("/no-answer", timeout="1s") for _ in range(200)))
    assert {type(outcome) for outcome in outcomes} == {Failed}
    assert time.monotonic() - began < 1 + SOON
    await until(lambda: hostile.connections().open == 0, "all connections are closed")


@pytest.mark.parametrize(
    "path",
    [
        "/big",
        "/big?status=500",
        "/endless-body",
        "/endless-body?status=500",
        "/gzip-bomb",
        "/gzip-bomb?status=500",
        "/long-header?bytes=100000000",
        "/slow-headers?drip=0",
        "/garbage?bytes=50000000",
        "/100-continue?every=0",
    ],
)
async def test_large_answers_of_receivers_take_little_memory(deliver: Deliver, path: str) -> None:
    await deliver("/ok")
    tracemalloc.start()
    try:
        await deliver(path, timeout=QUICK)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


def connected_to(port: int) -> list[object]:
    """This process's own connections to a door."""
    return [known for known in psutil.Process().net_connections("tcp4") if known.raddr and known.raddr.port == port]
