"""Measures how fast the heads of schedules fire and get their successors: with fifty concurrent claimers, and with one
worker after a day of downtime."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from typing import TypeVar

import psycopg

from benchmarks.bare_claims import BareClaimer
from benchmarks.claims import CLAIMERS, opened
from benchmarks.crew import Broken
from benchmarks.engine import Claimer, multiply_schedules, settle_all
from benchmarks.peers import Peer
from benchmarks.workloads import TIMEOUT, Figures, quantile, tidy
from duly import Duly, Event, Rule, cron, every
from duly.testing import ManualClock

HOURLY: tuple[Rule, ...] = (
    every("1h"),
    every("60m", start=datetime(2025, 6, 1, 0, 20, tzinfo=UTC)),
    cron("0 * * * *"),
    cron("0 * * * *", timezone="Europe/Brussels"),
    cron("30 * * * *", timezone="Asia/Kolkata"),
    cron("15 0-23 * * *", timezone="America/New_York"),
    cron("45 0-23 * * *", timezone="Asia/Kathmandu"),
    cron("5 0-23 * * *", timezone="Australia/Lord_Howe"),
)
"""Rules that are each due once in every hour; no zone changes its clocks in January."""

START = datetime(2026, 1, 15, 12, 2, tzinfo=UTC)
UNLIKE = """\
SELECT count(*) FROM (
    SELECT count(*) FILTER (WHERE NOT e.head) AS fired, count(*) FILTER (WHERE e.head) AS heads,
           coalesce(sum(e.stands_for) FILTER (WHERE NOT e.head), 0) AS occurrences
    FROM duly.schedules AS s LEFT JOIN duly.events AS e ON e.series = 'schedule:' || s.id GROUP BY s.id
) AS schedule WHERE fired <> %s OR occurrences <> %s OR heads <> 1
"""


def due(_peer: Peer, url: str, schedules: int, batch: int, rounds: int) -> Figures:
    """Measures fifty claimers with fifty pools, until each schedule has fired exactly once and has its next head, in
    each of several simulated hours."""
    return asyncio.run(_due(url, schedules, batch, rounds))


async def _due(url: str, schedules: int, batch: int, rounds: int) -> Figures:
    clock = ManualClock(START)
    everybody = [opened(url, clock) for _ in range(CLAIMERS)]
    claimers = [Claimer(duly, f"bench-{n}") for n, duly in enumerate(everybody)]
    for duly in everybody:
        await duly.__aenter__()
    await _stock(everybody[0], url, schedules)
    race = _Race()
    for hour in range(1 + rounds):
        clock.advance(hours=1)
        fired = await race.run([partial(claimer.claim, batch) for claimer in claimers], counts=hour > 0)
        await settle_all(everybody[0], "bench", fired)
        for claimer in claimers:  # workers do this beside their loops
            await claimer.complete()
    for duly in everybody:
        await duly.__aexit__()
    _check(url, fired=1 + rounds, occurrences=1 + rounds)
    return race.figures(rounds * schedules)


def due_bare(_peer: Peer, url: str, schedules: int, batch: int, rounds: int) -> Figures:
    """Measures the same race by the shortest statement on the smallest table."""
    return asyncio.run(_due_bare(url, schedules, batch, rounds))


async def _due_bare(url: str, schedules: int, batch: int, rounds: int) -> Figures:
    claimers = [BareClaimer(url) for _ in range(CLAIMERS)]
    for claimer in claimers:
        await claimer.open()
    await claimers[0].stock(START + timedelta(hours=1), schedules)
    tidy(url)
    race = _Race()
    for hour in range(1, 2 + rounds):
        now = START + timedelta(hours=hour)
        await race.run([partial(claimer.claim, now, batch) for claimer in claimers], counts=hour > 1)
    fired = await claimers[0].count()
    for claimer in claimers:
        await claimer.close()
    if fired != schedules * (1 + rounds):
        raise Broken(f"{fired:,} rows were claimed instead of {schedules * (1 + rounds):,}")
    return race.figures(rounds * schedules)


T = TypeVar("T")


class _Race:
    """Claimers that all claim at once until nothing is left, several times, and how long their claims took."""

    def __init__(self) -> None:
        self._wall, self._spans = 0.0, list[float]()

    async def run(self, claims: Sequence[Callable[[], Awaitable[Sequence[T]]]], *, counts: bool) -> list[T]:
        """Returns all that was claimed. The first time does not count: in it, all connect and prepare statements, as
        running workers have."""
        start = time.perf_counter()
        claimed = await asyncio.gather(*(self._take(claim) for claim in claims))
        self._wall += time.perf_counter() - start
        if not counts:
            self._wall, self._spans = 0.0, []
        return list(chain(*claimed))

    async def _take(self, claim: Callable[[], Awaitable[Sequence[T]]]) -> list[T]:
        claimed: list[T] = []
        while True:
            start = time.perf_counter()
            some = await claim()
            if not some:
                return claimed
            self._spans.append(1000 * (time.perf_counter() - start))
            claimed += some

    def figures(self, events: int) -> Figures:
        spans = sorted(self._spans)
        rate = events / self._wall
        return {"events_per_second": rate, "p50_ms": quantile(spans, 0.5), "p99_ms": quantile(spans, 0.99)}


def catch_up(_peer: Peer, url: str, schedules: int, hours: int) -> Figures:
    """Measures one worker that finds every schedule overdue after *hours* of downtime."""
    return asyncio.run(_catch_up(url, schedules, hours))


async def _catch_up(url: str, schedules: int, hours: int) -> Figures:
    clock = ManualClock(START)
    fired, wall = 0, 0.0
    duly = Duly(url, clock=clock)

    @duly.on("bench")
    async def handle(_event: Event) -> None:
        nonlocal fired, wall
        fired += 1
        if fired == schedules:
            wall = time.perf_counter() - start
            duly.stop()  # events in progress are settled first

    async with duly, asyncio.timeout(TIMEOUT):
        await _stock(duly, url, schedules)
        clock.advance(hours=hours)
        start = time.perf_counter()
        await duly.run(signals=False)
        whole = time.perf_counter() - start  # with the completion of the new heads
    _check(url, fired=1, occurrences=hours)
    return {"events_per_second": schedules / wall, "seconds": wall, "whole_s": whole}


async def _stock(duly: Duly, url: str, schedules: int) -> None:
    for n, rule in enumerate(HOURLY):
        await duly.schedules.put(f"bench-{n}", rule, "bench", {"n": n})
    multiply_schedules(url, schedules // len(HOURLY) - 1)
    tidy(url)


def _check(url: str, *, fired: int, occurrences: int) -> None:
    with psycopg.connect(url) as connection:
        [unlike] = connection.execute(UNLIKE, [fired, occurrences]).fetchone() or [-1]
    if unlike:
        raise Broken(f"{unlike:,} schedules did not fire {fired} times for {occurrences} occurrences, or lack a head")
