"""What ``make compare`` runs in the environment of each checkout. It comes from the newer one, so it asks Duly only for
what users may ask for: ``Duly``, ``Timer``, ``add_many``, ``on``, ``run``, ``stop`` and ``keys.create``.

python -m benchmarks.compared drain postgresql://… 20000
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

from duly import Duly, Event, Timer

CHUNK = 5000
RATE = 200  # events a second, where they come one by one
START = timedelta(seconds=4)  # for a worker to start, and to load what sends webhooks
BEFORE = timedelta(milliseconds=200)  # the first event, from when on is measured
SLOWEST_INSERT = 10_000  # events a second, on a busy machine
PATIENCE = 300.0  # seconds

CPU = dict[str, float]


async def migrate(url: str, _: int) -> CPU:
    """Makes the tables, which is not measured."""
    async with Duly(url):
        return {}


async def insert(url: str, events: int) -> CPU:
    """Many at once, due in a year."""
    return await _add(url, events, datetime.now(UTC) + timedelta(days=365))


async def drain(url: str, events: int) -> CPU:
    """Many that are due at once, from the first claim until the last settlement."""
    first = datetime.now(UTC) + START + timedelta(seconds=events / SLOWEST_INSERT)
    await _add(url, events, first)
    return await _work(url, events, first)


async def lateness(url: str, events: int) -> CPU:
    """One by one, each at its instant."""
    async with Duly(url) as duly:
        first = datetime.now(UTC) + START
        await duly.add_many([Timer(first + timedelta(seconds=n / RATE), "bench", {"n": n}) for n in range(events)])
    return await _work(url, events, first)


async def key(url: str, _: int) -> dict[str, str]:
    """With which the HTTP API lets in as much as can come."""
    async with Duly(url) as duly:
        return {"secret": (await duly.keys.create("compare", scope="write", rate=1_000_000)).secret}


async def _add(url: str, events: int, first: datetime) -> CPU:
    timers = [Timer(first + timedelta(microseconds=n), "bench", {"n": n}) for n in range(events)]
    async with Duly(url) as duly:
        await duly.add_many(timers[:1])  # connects
        began = _cpu()
        for start in range(1, events, CHUNK):
            await duly.add_many(timers[start : start + CHUNK])
        return {"us": 1e6 * (_cpu() - began) / events}


async def _work(url: str, events: int, first: datetime) -> CPU:
    """Measures from a moment before the first is due: by then, the worker has loaded all that it may need."""
    duly, handled = Duly(url), 0

    @duly.on("bench")
    async def handle(_event: Event) -> None:
        nonlocal handled
        handled += 1
        if handled == events:
            duly.stop()  # what has begun is settled before it stops

    async with duly, asyncio.timeout(PATIENCE):
        running = asyncio.create_task(duly.run(signals=False))
        await asyncio.sleep((first - BEFORE - datetime.now(UTC)).total_seconds())
        if handled:
            raise SystemExit("the machine is too slow: events were due before the worker had started")
        began = _cpu()
        await running
        spent = _cpu() - began
    if handled != events:
        raise SystemExit(f"of {events:,} events, {handled:,} were handled")
    return {"us": 1e6 * spent / events}


def _cpu() -> float:
    gc.collect()  # nobody pays for the litter of what came before
    return time.process_time()


WORKLOADS: dict[str, Callable[[str, int], Coroutine[Any, Any, dict[str, Any]]]] = {
    "migrate": migrate,
    "insert": insert,
    "drain": drain,
    "lateness": lateness,
    "key": key,
}

if __name__ == "__main__":
    name, url, events = sys.argv[1:]
    print(json.dumps(asyncio.run(WORKLOADS[name](url, int(events)))))
