"""The stop of a worker: whether somebody has asked for it, and how much time its last steps have."""

import asyncio
import contextlib
import math
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any

from duly.errors import StoreUnavailable

LAST_CYCLE_S = 1.0
"""Seconds that a stopping worker gives the work under way to end, such as a claim that waits for the store."""

FINAL_SETTLE_S = 3.0
"""Seconds after the grace in which a stopping worker settles its last events. If the store does not answer by then, it
finds those events interrupted when their leases end."""

SHORTEST_STEP_S = 0.1
"""Seconds that each of the last steps of a stop gets at least, even if the stop is already over time."""


SECOND_CTRL_C_AFTER_S = 0.5
"""Seconds after the first signal from which on Ctrl-C counts as a second one: a shell or a process manager may pass on
the first a second time."""


class Stopping:
    def __init__(self, grace: timedelta) -> None:
        self._grace = grace.total_seconds()
        self._asked = asyncio.Event()
        self._at_once = asyncio.Event()
        self._gone_by = math.inf  # by when the worker ends, even without the store, by time.monotonic

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    def ask(self, *, now: bool = False) -> None:
        """Asks for the stop; with *now*, without any grace, even if a stop within the grace was asked for before."""
        if not self.is_asked:
            self._gone_by = time.monotonic() + self._grace + FINAL_SETTLE_S
        if now:
            self._gone_by = min(self._gone_by, time.monotonic() + FINAL_SETTLE_S)
            self._at_once.set()
        self._asked.set()

    async def unless_at_once(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs the work to its end, or until somebody asks for the stop without any grace."""
        working, asking = asyncio.create_task(work), asyncio.create_task(self._at_once.wait())
        try:
            await asyncio.wait({working, asking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(working, asking)

    async def wait(self, seconds: float = math.inf) -> bool:
        """Waits until somebody asks for the stop, that many seconds at most; returns whether somebody has."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == math.inf else seconds):
                await self._asked.wait()
        return self.is_asked

    async def comes_before(self, task: "asyncio.Task[Any]") -> bool:
        """Waits for a task, or for the stop. Returns True if the stop came first; the task is then cancelled."""
        stopping = asyncio.create_task(self.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if task.done():
            return False
        await end_tasks(task)
        return True

    async def limits(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the work to its end, or until the stop. After that the work gets LAST_CYCLE_S to end by itself: events
        of a claim that is cancelled before its answer arrives would wait until their leases end."""
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(self.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({working}, timeout=LAST_CYCLE_S)
        finally:
            await end_tasks(working, stopping)
        if not working.cancelled():
            working.result()

    async def last_step(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs one of the last steps of a stop, which an outage of the store ends, and the end of the time for it."""
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(self.settling_left):
                await work

    def grace_left(self, grace: timedelta) -> float:
        """Seconds that running events have to end: at most *grace* from now, and the grace counts from the stop."""
        return min(self._gone_by - FINAL_SETTLE_S - time.monotonic(), grace.total_seconds())

    @property
    def settling_left(self) -> float:
        """Seconds for the last settlements, from SHORTEST_STEP_S to FINAL_SETTLE_S."""
        return min(max(self._gone_by - time.monotonic(), SHORTEST_STEP_S), FINAL_SETTLE_S)


async def end_tasks(*tasks: "asyncio.Task[Any]") -> None:
    """Cancels tasks and waits until they have ended, at most LAST_CYCLE_S: a task may ignore its cancellation."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=LAST_CYCLE_S)


def signal_handlers(stop: Callable[[bool], None]) -> Mapping[signal.Signals, Callable[[], None]]:
    """What a process does at SIGTERM and SIGINT: it calls *stop*. The argument is True at a second Ctrl-C: then nothing
    is waited for."""
    first: list[float] = []

    def handle(number: signal.Signals) -> None:
        now = time.monotonic()
        again = number is signal.SIGINT and bool(first) and now - first[0] >= SECOND_CTRL_C_AFTER_S
        first.append(now)
        stop(again)

    return {number: lambda number=number: handle(number) for number in (signal.SIGTERM, signal.SIGINT)}  # type: ignore[misc]
