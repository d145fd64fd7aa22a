"""Duly's claim alone: among millions of rows, and with fifty concurrent claimers."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg

from benchmarks.crew import Broken, Crew
from benchmarks.engine import Claimer, multiply, settle_all
from benchmarks.peers import Peer
from benchmarks.workloads import TIMEOUT, Figures, quantile, tidy, wait_until_none
from duly import Duly, Event, Timer
from duly.ports import Clock

BATCH = 100  # events of a claim
CLAIMERS = 50
CHUNK = 5000  # events that are added in one call
WARM_UP = 10  # claims that are not timed


def opened(url: str, clock: Clock | None = None) -> Duly:
    duly = Duly(url, clock=clock)

    @duly.on("bench")
    async def handle(_event: Event) -> None: ...

    return duly


async def _add_due(duly: Duly, events: int, type: str = "bench") -> None:
    due = datetime.now(UTC) - timedelta(minutes=1)
    for start in range(0, events, CHUNK):
        many = min(CHUNK, events - start)
        await duly.add_many([Timer(due + timedelta(microseconds=n), type, {"n": n}) for n in range(many)])


# -- a claim of 100 events, among other rows


def backdrop(_peer: Peer, url: str, future: int, foreign: int, finished: int) -> Figures:
    """Fills a database with events that a claim must skip. Finished events are added last, see ``behind``."""
    asyncio.run(_stock(url, future, foreign, finished))
    return {}


async def _stock(url: str, future: int, foreign: int, finished: int) -> None:
    async with opened(url) as duly:
        for events, type, delay in (
            (future, "bench", timedelta(days=1)),
            (foreign, "foreign", timedelta(hours=-1)),
            (finished, "bench", timedelta(hours=-3)),
        ):
            if events:
                [id] = await duly.add_many([Timer(datetime.now(UTC) + delay, type, {"n": 0})])
                multiply(url, id, events - 1)


@contextmanager
def held_open(url: str) -> Iterator[None]:
    """Keeps a transaction open that has read the events, so that vacuum cannot remove rows that die later."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM duly.events WHERE status = 'FAILED'")
        yield


def finish_all(peer: Peer, url: str, events: int) -> Figures:
    """Processes all due events with two workers."""
    with Crew(peer, "work", url, size=2) as workers, peer.watch(url) as left:
        workers.go()
        workers.wait_until_handled(events, 4 * TIMEOUT)
        wait_until_none(left)
        workers.stop()
    return {}


def claim(_peer: Peer, url: str, rounds: int) -> Figures:
    """Measures how long a claim of 100 events takes; settling them is not timed."""
    spans = sorted(asyncio.run(_claim(url, rounds)))
    return {"p50_ms": quantile(spans, 0.5), "p99_ms": quantile(spans, 0.99), "max_ms": spans[-1]}


async def _claim(url: str, rounds: int) -> list[float]:
    spans = []
    async with opened(url) as duly:
        await _add_due(duly, (rounds + WARM_UP) * BATCH)
        claimer = Claimer(duly, "bench")
        for _ in range(rounds + WARM_UP):
            start = time.perf_counter()
            events = await claimer.claim(BATCH)
            spans.append(1000 * (time.perf_counter() - start))
            if len(events) != BATCH or any(event.type != "bench" for event in events):
                raise Broken(f"claimed {len(events)} instead of {BATCH}")
            await settle_all(duly, "bench", events)
    return spans[WARM_UP:]


# -- fifty concurrent claimers


def claimers(_peer: Peer, url: str, events: int, batch: int) -> Figures:
    """Measures fifty claimers, each with its own connection pool as fifty workers have, until all events are claimed
    exactly once."""
    return asyncio.run(_claimers(url, events, batch))


async def _claimers(url: str, events: int, batch: int) -> Figures:
    everybody = [opened(url) for _ in range(CLAIMERS)]
    claimers = [Claimer(duly, f"bench-{n}") for n, duly in enumerate(everybody)]
    for duly, claimer in zip(everybody, claimers, strict=True):
        await duly.__aenter__()
        await claimer.claim(batch)  # claims nothing, but connects and prepares statements, as running workers have
    await _add_due(everybody[0], events)
    tidy(url)
    spans: list[float] = []
    claimed: list[str] = []

    async def take(claimer: Claimer) -> None:
        while len(claimed) < events:
            start = time.perf_counter()
            found = await claimer.claim(batch)
            spans.append(1000 * (time.perf_counter() - start))
            claimed.extend(event.id for event in found)

    start = time.perf_counter()
    await asyncio.gather(*map(take, claimers))
    wall = time.perf_counter() - start
    for duly in everybody:
        await duly.__aexit__()
    if len(claimed) != events or len(set(claimed)) != events:
        raise Broken(f"{len(claimed):,} claims of {len(set(claimed)):,} events, but there were {events:,}")
    spans.sort()
    return {"events_per_second": events / wall, "p50_ms": quantile(spans, 0.5), "p99_ms": quantile(spans, 0.99)}
