"""The loops beside the worker's own: deadlines of handlers, figures of passes, held events, and parked destinations."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from datetime import timedelta
from typing import Any

from duly.engine.destinations.circuit_breaker import CircuitBreaker
from duly.engine.destinations.parking import look_after_parked
from duly.engine.executor import Executor
from duly.engine.fairness.lanes import Lanes
from duly.engine.faults.boot_clock import steady
from duly.engine.pauses.pause_ends import end_pauses
from duly.engine.series.heads import Claimant
from duly.engine.series.holds import look_after_held
from duly.engine.stopping import end_tasks
from duly.errors import StoreUnavailable
from duly.ports import WorkerStore

SWEEP_EVERY_S = 0.25
"""Seconds between checks of handlers' deadlines, and of whether a pass has ended."""


class Release:
    """Ends pauses, releases held events whose reason is over, and probes parked destinations. A safety net: pauses end
    on time by `PauseEnds`, and whatever ends a hold releases its events at once."""

    def __init__(
        self, store: WorkerStore, claimant: Claimant, lanes: Lanes, destinations: CircuitBreaker, executor: Executor
    ) -> None:
        self._store, self._claimant, self._lanes = store, claimant, lanes
        self._destinations, self._executor = destinations, executor

    async def once(self) -> None:
        await end_pauses(self._store)
        await look_after_held(self._store)
        sent = steady()
        worker, lease, _ = self._claimant
        probes = await look_after_parked(self._store, self._lanes.trusted, worker, lease)
        if probes:
            self._destinations.trying(probes)
            self._executor.start(probes, sent)

    async def every(self, interval: timedelta) -> None:
        while True:
            await asyncio.sleep(interval.total_seconds())
            with contextlib.suppress(StoreUnavailable):  # the worker's loop reports that
                await self.once()


Follow = Callable[[], Awaitable[bool]]
"""Makes the events of some users follow what their tenant has set; returns whether there may be more."""


async def nothing_to_follow() -> bool:
    """For a worker that only runs timers."""
    return False


async def follow_every(interval: timedelta, follow: Follow) -> None:
    while True:
        await asyncio.sleep(interval.total_seconds())
        with contextlib.suppress(StoreUnavailable):  # the worker's loop reports that
            while await follow():  # one transaction after another; each lets other tasks run
                pass


async def sweep(executor: Executor, then: Callable[[], None]) -> None:
    """Ends handlers that are past their deadlines, and starts events that could not start before, for instance while
    the store was unavailable."""
    while True:
        await asyncio.sleep(SWEEP_EVERY_S)
        executor.end_overdue()
        executor.poke()
        then()


@contextlib.asynccontextmanager
async def beside(loops: Iterable[Coroutine[Any, Any, None]], stop: Callable[[], None]) -> AsyncIterator[None]:
    """Runs loops within this context. If one of them fails, the worker is stopped and the error raised at the end: a
    worker that no longer settles or renews leases must not claim more events."""
    broken: list[BaseException] = []

    def ended(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            broken.append(error)
            stop()

    tasks = [asyncio.create_task(loop) for loop in loops]
    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    finally:
        await end_tasks(*tasks)
    if broken:
        raise broken[0]
