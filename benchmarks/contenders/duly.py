"""Duly on either store, with history kept, fences on and durable commits: as it runs by default."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

from benchmarks.cost import Cost
from duly import Duly, InStatus, Timer

CHUNK = 5000


async def insert(url: str, events: int) -> dict[str, float]:
    """Bulk insert of events that are due in a day."""
    duly = Duly(url)
    due = datetime.now(UTC) + timedelta(days=1)
    async with duly:
        with Cost() as cost:
            for start in range(0, events, CHUNK):
                await duly.add_many([Timer(due, "later", {"n": n}) for n in range(start, start + CHUNK)])
    return cost.per(events)


async def drain(url: str, events: int) -> dict[str, float]:
    """Deliver events that are due already to a handler that does nothing, until the last one is settled."""
    duly = Duly(url)
    handled = 0

    @duly.on("due")
    async def handle(_event: object) -> None:
        nonlocal handled
        handled += 1
        if handled == events:
            duly.stop()

    async with duly:
        due = datetime.now(UTC) - timedelta(minutes=1)
        for start in range(0, events, CHUNK):
            await duly.add_many([Timer(due, "due", {"n": n}) for n in range(start, start + CHUNK)])
        with Cost() as cost:
            await duly.run(signals=False)
        unfinished = await duly.events.find(~InStatus("COMPLETED"), limit=1)
    if handled != events or unfinished:
        raise AssertionError(f"{handled} of {events} handled, unfinished: {unfinished}")
    return cost.per(events)


async def lateness(url: str, rate: int, seconds: int) -> dict[str, float]:
    """One-shots at a steady rate, added beforehand; how late each handler starts."""
    duly = Duly(url)
    late: list[float] = []

    @duly.on("tick")
    async def handle(event: object) -> None:
        late.append(time.time() - event.due.timestamp())  # type: ignore[attr-defined]
        if len(late) == rate * seconds:
            duly.stop()

    async with duly:
        first = datetime.now(UTC) + timedelta(seconds=2)
        await duly.add_many([Timer(first + timedelta(seconds=n / rate), "tick", n) for n in range(rate * seconds)])
        with Cost() as cost:
            await duly.run(signals=False)
    late.sort()
    if late[0] < 0:
        raise AssertionError(f"fired {-late[0] * 1e6:.0f} µs early")
    return {
        "p50_ms": late[len(late) // 2] * 1000,
        "p99_ms": late[len(late) * 99 // 100] * 1000,
        "max_ms": late[-1] * 1000,
        "cpu_percent": 100 * cost.cpu / cost.wall,
    }


async def idle(url: str, seconds: int) -> dict[str, float]:
    """A worker with nothing due for a day."""
    duly = Duly(url)

    @duly.on("later")
    async def handle(_event: object) -> None: ...

    async with duly:
        await duly.add_many([Timer(timedelta(days=1), "later", n) for n in range(1000)])
        running = asyncio.create_task(duly.run(signals=False))
        await asyncio.sleep(1)  # starting is not idling
        with Cost() as cost:
            await asyncio.sleep(seconds)
        duly.stop()
        await running
    return {"cpu_percent": 100 * cost.cpu / cost.wall}
