"""The cost of confining each request of the API to its tenant."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.peers import Peer
from benchmarks.workloads import Figures, tidy
from duly import Duly, Timer
from duly.engine.schedule import put_timer
from duly.verbs.events.events import Events

TENANT = "t7"  # the measured tenant
TENANTS = 100
WARM_UP = 50  # repetitions that are not timed

Act = Callable[[Any, int], Awaitable[Any]]


def tenant_session(_peer: Peer, url: str, events: int, rounds: int) -> Figures:
    """Measures one client that reads events by id, puts timers and cancels events, among *events* of a hundred tenants:
    unconfined, as a program does, and confined, as the API does. Returns medians in milliseconds."""
    needed = 2 * TENANTS * (WARM_UP + rounds)  # both ways cancel events
    if events < needed:
        raise ValueError(f"so many rounds take {needed:,} events")
    return asyncio.run(_tenant_pools(url, events, rounds))


async def _tenant_pools(url: str, events: int, rounds: int) -> Figures:
    async with Duly(url) as duly:
        await duly.store.prepare_rls_role()
        due = datetime.now(UTC) + timedelta(days=300)
        ids = await duly.add_many(Timer(due, "bench", {"n": n}, tenant=f"t{n % TENANTS}") for n in range(events))
        mine = ids[7::TENANTS]
        tidy(url)

        async def read(store: Any, number: int) -> None:
            await Events(store).get(mine[number], tenant=TENANT)

        async def put(store: Any, number: int) -> None:
            await put_timer(store, Timer(due, "bench", {"n": 1}, f"{time.time_ns()}", TENANT), {})

        async def cancel(store: Any, number: int) -> None:
            await Events(store).cancel(mine.pop(), tenant=TENANT)

        figures: Figures = {}
        for act, said in (
            (read, {"writes": False}),
            (put, {"writes": True, "one_statement": True}),
            (cancel, {"writes": True}),
        ):
            plain, tenant_session = await _in_turn(_plainly(duly, act), _in_a_request(duly, act, said), rounds=rounds)
            figures |= {f"{act.__name__}_ms": plain, f"{act.__name__}_confined_ms": tenant_session}
        return figures


def _plainly(duly: Duly, act: Act) -> Callable[[int], Awaitable[Any]]:
    return lambda number: act(duly.store, number)


def _in_a_request(duly: Duly, act: Act, said: dict[str, bool]) -> Callable[[int], Awaitable[Any]]:
    """The act within a tenant session; *said* are the session's options, as the API sets them for the operation."""

    async def request(number: int) -> None:
        async with duly.store.tenant_session(TENANT, **said) as store:
            await act(store, number)

    return request


async def _in_turn(*ways: Callable[[int], Awaitable[Any]], rounds: int) -> list[float]:
    """The median time of each way, measured in turns, so that other load on the machine affects all ways alike."""
    took: list[list[float]] = [[] for _ in ways]
    for number in range(WARM_UP + rounds):
        for way, times in zip(ways, took, strict=True):
            began = time.perf_counter()
            await way(number)
            times.append(1000 * (time.perf_counter() - began))
    return [round(statistics.median(times[WARM_UP:]), 3) for times in took]
