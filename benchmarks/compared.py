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
AHEAD = timedelta(seconds=1)  # from when they are added until the first is due
PATIENCE = 300.0  # seconds

CPU = dict[str, float]


async def migrate(url: str, _: int) -> CPU:
    """Makes the tables, which is not measured."""
    async with Duly(url):
        return {}


async def insert(url: str, events: int) -> CPU:
    """Many at once, due in a year."""
    return await _add(url, events, datetime.now(UTC) + timedelta(days=365))


async def fill(url: str, events: int) -> CPU:
    """The same, due already: for whoever drains them."""
    return await _add(url, events, datetime.now(UTC) - timedelta(hours=1))


async def drain(url: str, events: int) -> CPU:
    """From the first claim until the last settlement."""
    return await _work(url, events)


async def lateness(url: str, events: int) -> CPU:
    """One by one, each at its instant."""
    async with Duly(url) as duly:
        first = datetime.now(UTC) + AHEAD
        await duly.add_many([Timer(first + timedelta(seconds=n / RATE), "bench", {"n": n}) for n in range(events)])
    return await _work(url, events)


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


async def _work(url: str, events: int) -> CPU:
    duly, handled = Duly(url), 0

    @duly.on("bench")
    async def handle(_event: Event) -> None:
        nonlocal handled
        handled += 1
        if handled == events:
            duly.stop()  # what has begun is settled before it stops

    async with duly:
        began = _cpu()
        async with asyncio.timeout(PATIENCE):
            await duly.run(signals=False)
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
    "fill": fill,
    "drain": drain,
    "lateness": lateness,
    "key": key,
}

if __name__ == "__main__":
    name, url, events = sys.argv[1:]
    print(json.dumps(asyncio.run(WORKLOADS[name](url, int(events)))))
