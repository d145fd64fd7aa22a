"""The workloads that ``make compare`` runs in the environment of each checkout. This file comes from the newer one, so
it uses only Duly's public API: ``Duly``, ``Timer``, ``add_many``, ``on``, ``run``, ``stop`` and ``keys.create``; and
``metrics``, if a fourth argument asks for it.

A process takes turns: it reads the number of events of the next turn, and writes the CPU seconds that the turn took.
Between turns it only waits, with its worker running and all modules loaded.

    echo 5000 | python -m benchmarks.compared drain postgresql://…
"""

import asyncio
import contextlib
import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from functools import partial

from duly import Duly, Event, Timer

RATE = 200  # events a second, in the lateness workload
LEAD = timedelta(milliseconds=300)  # from adding the events until the first is due
SLOWEST_INSERT = 20_000  # events a second
SETTLING = 0.1  # seconds in which a worker settles handled events
TIMEOUT = 120.0  # seconds for one turn

Turn = Callable[[int], Awaitable[float]]
"""Handles a number of events, and returns the CPU seconds that this took."""

Opened = Callable[[], Duly]
"""Makes the Duly that is measured."""


@contextlib.asynccontextmanager
async def insert(opened: Opened) -> AsyncIterator[Turn]:
    """Adds many events at once, due in a year."""
    async with opened() as duly:

        async def turn(events: int) -> float:
            timers = _timers(datetime.now(UTC) + timedelta(days=365), timedelta(microseconds=1), events)
            began = _begin()
            await duly.add_many(timers)
            return time.process_time() - began

        yield turn


@contextlib.asynccontextmanager
async def drain(opened: Opened) -> AsyncIterator[Turn]:
    """Works off many events that are due at once, from storing them until the last is settled."""
    async with _working(opened) as handled:

        async def turn(events: int) -> float:
            first = datetime.now(UTC) + LEAD + timedelta(seconds=events / SLOWEST_INSERT)
            return await handled(_timers(first, timedelta(microseconds=1), events))

        yield turn


@contextlib.asynccontextmanager
async def lateness(opened: Opened) -> AsyncIterator[Turn]:
    """Works off events that are due one after another."""
    async with _working(opened) as handled:

        async def turn(events: int) -> float:
            return await handled(_timers(datetime.now(UTC) + LEAD, timedelta(seconds=1 / RATE), events))

        yield turn


@contextlib.asynccontextmanager
async def _working(opened: Opened) -> AsyncIterator[Callable[[list[Timer]], Awaitable[float]]]:
    """A running worker, as a function that adds timers and waits until they are handled."""
    duly, all_handled = opened(), asyncio.Event()
    left = 0

    @duly.on("bench")
    async def handle(_event: Event) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            all_handled.set()

    async def handled(timers: list[Timer]) -> float:
        nonlocal left
        left = len(timers)
        all_handled.clear()
        await duly.add_many(timers)
        if left < len(timers):
            raise SystemExit("the machine is too slow: events were due before all of them were stored")
        began = _begin()
        async with asyncio.timeout(TIMEOUT):
            await all_handled.wait()
        await asyncio.sleep(SETTLING)
        return time.process_time() - began

    async with duly:
        running = asyncio.create_task(duly.run(signals=False))
        yield handled
        duly.stop()
        await running


def _timers(first: datetime, apart: timedelta, events: int) -> list[Timer]:
    return [Timer(first + number * apart, "bench", {"n": number}) for number in range(events)]


def _begin() -> float:
    gc.collect()  # so that no turn pays for garbage of the turn before
    return time.process_time()


def _metered(url: str) -> Duly:
    """A Duly that counts for Prometheus."""
    duly = Duly(url)
    duly.metrics()
    return duly


async def take_turns(workload: Callable[[Opened], AbstractAsyncContextManager[Turn]], opened: Opened) -> None:
    async with workload(opened) as turn:
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await turn(int(line))), flush=True)


async def migrate(url: str) -> None:
    """Creates the tables."""
    async with Duly(url):
        print(json.dumps(None))


async def key(url: str) -> None:
    """Prints an API key without an effective rate limit."""
    async with Duly(url) as duly:
        print(json.dumps((await duly.keys.create("compare", scope="write", rate=1_000_000)).secret))


ONCE = {"migrate": migrate, "key": key}
IN_TURNS = {"insert": insert, "drain": drain, "lateness": lateness}

if __name__ == "__main__":
    name, url, *metered = sys.argv[1:]
    opened = partial(Duly, url) if not metered else partial(_metered, url)
    asyncio.run(ONCE[name](url) if name in ONCE else take_turns(IN_TURNS[name], opened))
