import asyncio
import time

import pytest
from aiohttp import ClientSession

from tests.receivers.healthy import Healthy, Stats
from tests.receivers.wire import Wire


def port_of(healthy: Healthy) -> int:
    return int(healthy.url.rstrip("/").rpartition(":")[2])


def test_the_healthy_receiver_counts_ids(healthy: Healthy) -> None:
    began = time.time()
    with Wire(port_of(healthy)) as wire:
        for id in ("e1", "E2", "e1", "e1"):
            assert wire.ask("/", b"{}", Webhook_Id=id).hear_answer() == (200, b"")
        wire.ask("/", b"{}", Idempotency_Key="e3").hear_answer()
        wire.ask("/", b"{}").hear_answer()
    assert healthy.stats() == Stats(posts=6, distinct=3, duplicates=2, nameless=1)
    arrivals = healthy.arrivals()
    assert {id: arrival.posts for id, arrival in arrivals.items()} == {"e1": 3, "E2": 1, "e3": 1}
    assert all(began <= arrival.at <= time.time() for arrival in arrivals.values())
    healthy.reset()
    assert healthy.stats() == Stats(posts=0, distinct=0, duplicates=0, nameless=0)


def test_requests_are_read_out_of_any_pieces(healthy: Healthy) -> None:
    bodies = [b"", b"{", b"\r\n\r\n", b"\r\n\r\n" * 1000]
    head = b"POST /x HTTP/1.1\r\nwebhook-id: e%d\r\nContent-Length: %d\r\n\r\n"
    requests = b"".join(head % (len(body), len(body)) + body for body in bodies)
    for size in (1, 7, 100, len(requests)):
        healthy.reset()
        with Wire(port_of(healthy)) as wire:
            for start in range(0, len(requests), size):
                wire.socket.sendall(requests[start : start + size])
            assert [wire.hear_answer() for _ in range(4)] == [(200, b"")] * 4
        assert sorted(healthy.arrivals()) == ["e0", "e1", "e4", "e4000"]


def test_the_healthy_receiver_refuses_what_it_cannot_read(healthy: Healthy) -> None:
    with Wire(port_of(healthy)) as wire:
        wire.socket.sendall(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        assert wire.hear_answer() == (411, b"")
        assert wire.hear_all() == b""


def test_a_real_client_uses_a_connection_again(healthy: Healthy) -> None:
    async def post() -> None:
        async with ClientSession() as session:
            for number in range(100):
                async with session.post(healthy.url, json={"n": number}, headers={"webhook-id": str(number)}) as answer:
                    assert answer.status == 200

    asyncio.run(post())
    assert healthy.stats() == Stats(posts=100, distinct=100, duplicates=0, nameless=0)


def test_a_test_can_wait_for_ids_at_the_healthy_receiver(healthy: Healthy) -> None:
    with Wire(port_of(healthy)) as wire:
        wire.ask("/", webhook_id="e1").hear_answer()
        assert healthy.wait_for(1).distinct == 1
        with pytest.raises(TimeoutError, match="in vain for 2 ids"):
            healthy.wait_for(2, patience=0.01)


def test_an_answer_can_be_delayed() -> None:
    with Healthy(delay=0.1) as healthy, Wire(port_of(healthy)) as wire:
        began = time.monotonic()
        wire.ask("/", webhook_id="e1")
        assert healthy.wait_for(1).distinct == 1
        wire.hear_answer()
        assert 0.1 <= time.monotonic() - began < 5
