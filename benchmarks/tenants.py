"""Measures how late the events of a quiet tenant are while another tenant floods the lane."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

from benchmarks.crew import Broken
from benchmarks.peers import Peer
from benchmarks.workloads import TIMEOUT, Figures, quantile, tidy
from duly import Duly, Event, Timer

CHUNK = 5000
LEAD = timedelta(seconds=2)
"""The time from adding the last event until the first event of the quiet tenant is due."""

FEWEST = 10
"""Events of the quiet tenant during the flood at least; fewer would prove nothing."""


def quiet(_peer: Peer, url: str, flood: int, rate: int, seconds: int) -> Figures:
    """Measures the lateness of *rate* events a second of one tenant, while one worker processes *flood* events of
    another, all due at one instant. Events due after the end of the flood do not count."""
    return asyncio.run(_quiet(url, flood, rate, seconds))


async def _quiet(url: str, flood: int, rate: int, seconds: int) -> Figures:
    duly = Duly(url)
    late: dict[float, float] = {}  # the lateness of the quiet tenant's events, by due time
    others: list[float] = []  # when events of the flood were handled

    @duly.on("bench")
    async def handle(event: Event) -> None:
        now = time.time()
        if event.tenant == "quiet":
            late[event.due.timestamp()] = 1000 * (now - event.due.timestamp())
            if len(late) == rate * seconds:
                duly.stop()
        else:
            others.append(now)

    async with duly, asyncio.timeout(TIMEOUT):
        due = datetime.now(UTC) - timedelta(minutes=1)
        for start in range(0, flood, CHUNK):
            await duly.add_many(Timer(due, "bench", tenant="flooding") for _ in range(min(CHUNK, flood - start)))
        tidy(url)
        first = datetime.now(UTC) + LEAD
        await duly.add_many(
            Timer(first + timedelta(seconds=n / rate), "bench", tenant="quiet") for n in range(rate * seconds)
        )
        await asyncio.sleep((first - timedelta(seconds=1 / rate) - datetime.now(UTC)).total_seconds())
        await duly.run(signals=False)
    over = others[-1] if others else first.timestamp() + seconds
    beside = sorted(ms for at, ms in late.items() if at <= over)
    if len(beside) < FEWEST:
        raise Broken(f"only {len(beside)} of the quiet tenant's events were due beside the flood")
    return {
        "p50_ms": quantile(beside, 0.5),
        "p99_ms": quantile(beside, 0.99),
        "max_ms": beside[-1],
        "beside": float(len(beside)),
        "events_per_second": len(others) / (over - first.timestamp()),
    }
