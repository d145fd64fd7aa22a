"""Measures webhooks through the whole engine, beside a bare aiohttp loop that sends the same requests to the same
receiver."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import aiohttp
import psutil

from benchmarks.crew import Broken
from benchmarks.peers import Peer
from benchmarks.usage import Usage
from benchmarks.workloads import TIMEOUT, Figures
from duly import Duly, Status, Timer, webhook
from duly.channels.http.payload_format import JSON, signed_headers, standard_body
from duly.ids import new_id
from duly.records.event import Event
from duly.records.specs import OneOf
from tests.receivers.healthy import Healthy

IN_FLIGHT = 50
"""Concurrent requests, for both sides: the worker's default for one destination."""

TYPE = "invoice.overdue"
PAYLOAD = {"invoice": 7, "amount": "12.50", "currency": "EUR"}
KEY = "a-key-for-benchmarks-and-of-no-use-elsewhere"


def webhooks(_peer: Peer, url: str, events: int) -> Figures:
    """Measures overdue webhooks, from the start of the worker until the receiver has the last one; and a loop that
    posts as many bodies, signed by the same code, without a database."""
    with Healthy() as receiver:
        bare, alone = asyncio.run(_bare(receiver, url, events))
        receiver.reset()
        engine, whole = asyncio.run(_engine(receiver, url, events))
    return {
        "events_per_second": events / engine,
        "bare_per_second": events / bare,
        "bare_percent": 100 * bare / engine,
        **whole.per(events),
        "bare_us_per_event": 1e6 * alone.workers / events,
    }


async def _bare(receiver: Healthy, url: str, events: int) -> tuple[float, Usage]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        left = iter(range(events))

        async def post(numbers: Iterator[int]) -> None:
            for _ in numbers:
                event = _event()
                body = standard_body(event)
                headers = signed_headers(event, body, ["whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"], JSON)
                async with session.post(receiver.url, data=body, headers=headers, allow_redirects=False) as answer:
                    await answer.read()

        with Usage([psutil.Process()], url) as usage:
            start = time.perf_counter()
            await asyncio.gather(*(post(left) for _ in range(IN_FLIGHT)))
            took = time.perf_counter() - start
    if receiver.stats().distinct != events:
        raise Broken(f"the bare loop has sent {receiver.stats().distinct:,} of {events:,}")
    return took, usage


async def _engine(receiver: Healthy, url: str, events: int) -> tuple[float, Usage]:
    duly = Duly(url, secret_key=KEY, webhook_allow="127.0.0.0/8")
    target = webhook(receiver.url)
    async with duly:
        await duly.add_many(Timer(timedelta(), TYPE, PAYLOAD, target=target) for _ in range(events))
        with Usage([psutil.Process()], url) as usage:
            start = time.perf_counter()
            worker = asyncio.create_task(duly.run(signals=False))
            await asyncio.to_thread(receiver.wait_for, events, TIMEOUT)
            took = time.perf_counter() - start
            duly.stop()
            await worker
        left = await duly.events.find(~OneOf("status", (Status.COMPLETED,)), limit=1)
    stats = receiver.stats()
    if left or stats.duplicates:
        raise Broken(f"{stats.distinct:,} of {events:,} were sent, {stats.duplicates:,} of them again")
    return took, usage


def _event() -> Event:
    """An event as a claim returns it."""
    now = datetime.now(UTC)
    return Event(
        id=new_id(), tenant="default", type=TYPE, lane="webhook", status=Status.PROCESSING, due=now, ready=now,
        version=2, attempts=0, interruptions=0, stands_for=1,
        payload_json='{"invoice":7,"amount":"12.50","currency":"EUR"}', target_json=None, retry_json=None, key=None,
        correlation_id=None, series=None, occurrence=None, head=False, held=None, hold_kind=None, held_for=None,
        last_error=None, created=now, claimed=now, executed=None, worker=None,
    )  # fmt: skip
