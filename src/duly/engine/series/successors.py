"""Completes heads that a claim has planted: computes their own successors and stores them.

A claim plants a successor from the row of the head before it, without asking the rule. The new head does not know what
follows it then. That is computed here, beside the worker's loop, and is not urgent: a head that falls due before is
decided about in the careful way.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from duly.backoff import Backoff
from duly.decide.series.successor import carrying
from duly.engine.series.heads import SlowRuleBudget
from duly.engine.series.rule_threads import Slices, evaluated
from duly.errors import StoreUnavailable
from duly.ports import ClaimPath, PlantedHead
from duly.records.event import NewEvent
from duly.records.series import carried

MOST_AT_ONCE = 500
"""Heads that one statement completes."""

RETRY_FIRST_S = 0.1
"""Seconds before the first retry while the store is unavailable."""

RETRY_MOST_S = 5.0
"""Seconds between such retries, at most."""

GATHER_S = 0.1
"""Seconds for which heads gather before one statement completes them: each statement and its commit delay what fires
meanwhile."""

BUSY_WAIT_S = 0.5
"""Seconds between two such statements while the worker has a backlog: firing comes first."""

BUSY_RECHECK_S = 0.02
"""Seconds between checks whether the backlog is over."""

MOST_WAITING = 100_000
"""Heads that wait here, at most. Those beyond it are decided about when they are due."""


class Successors:
    """The new heads of one worker that do not carry their successors yet."""

    def __init__(self, store: ClaimPath, busy: Callable[[], bool] = lambda: False) -> None:
        self._store = store
        self._busy = busy  # whether the worker has a backlog
        self._hurry = asyncio.Event()  # the worker is about to end
        self._waiting: list[str] = []  # ids
        self._added = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, heads: Sequence[PlantedHead]) -> None:
        """Announces these heads, and completes them soon."""
        self._store.tell_created(heads)
        if heads and len(self._waiting) < MOST_WAITING:
            self._waiting += [head.id for head in heads]
            self._added.set()
            self._idle.clear()

    async def run(self) -> None:
        backoff = Backoff(RETRY_FIRST_S, RETRY_MOST_S)
        while True:
            await self._added.wait()
            if len(self._waiting) < MOST_AT_ONCE:
                await self._pause(GATHER_S)
            await self._give_way()
            try:
                await self._complete(self._waiting[:MOST_AT_ONCE])
            except StoreUnavailable:  # the worker's loop reports it
                await asyncio.sleep(backoff.next())
                continue
            backoff.reset()
            del self._waiting[:MOST_AT_ONCE]
            if not self._waiting:
                self._added.clear()
                self._idle.set()

    async def finish(self, within: float) -> None:
        """Waits until all added heads are completed, *within* seconds at most."""
        self._hurry.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._idle.wait()

    async def _give_way(self) -> None:
        """Waits while the worker has a backlog, BUSY_WAIT_S at most."""
        until = time.monotonic() + BUSY_WAIT_S
        while self._busy() and not self._hurry.is_set() and time.monotonic() < until:
            await self._pause(BUSY_RECHECK_S)

    async def _pause(self, seconds: float) -> None:
        """Waits so many seconds, or until the worker is about to end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    async def _complete(self, ids: Sequence[str]) -> None:
        found = await self._store.heads_without_successors(ids)
        completed: list[NewEvent] = []
        slowness, slices = SlowRuleBudget(), Slices()
        for head, schedule in found:
            await slices.between()
            series = carried(head) if schedule is None else schedule.as_series
            if series is not None:
                with slowness.of(series):
                    slow = slowness.knows(series)
                    completed.append(await evaluated(carrying, head, series) if slow else carrying(head, series))
        if completed:
            await self._store.carry(completed)
