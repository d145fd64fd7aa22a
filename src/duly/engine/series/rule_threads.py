"""Slow work in a shared event loop. Rules are evaluated in a thread, and their processor time is added up for the
request that caused it; a long series of short steps yields to the event loop between steps."""

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


SLICE_S = 0.001
"""Seconds for which a series of short steps may keep the event loop to itself. A request passes through the loop some
ten times, and may wait for a slice each time."""


class Spent:
    """The processor time that evaluations have taken, in seconds."""

    seconds = 0.0


SPENT: ContextVar[Spent | None] = ContextVar("duly_spent", default=None)
"""The account to which evaluations add their time; the HTTP API sets one for each request."""


IN_CALLERS_THREAD: ContextVar[bool] = ContextVar("duly_in_callers_thread", default=False)
"""Whether the caller waits in a thread of its own, as in ``duly.sync`` with a connection: rules are evaluated
there then."""


async def evaluated(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a slow function in a thread and returns its result."""

    def timed() -> T:
        began = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            if (spent := SPENT.get()) is not None:
                spent.seconds += time.thread_time() - began

    return timed() if IN_CALLERS_THREAD.get() else await asyncio.to_thread(timed)


class Slices:
    """A series of short steps in the event loop, cut into slices of SLICE_S."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + SLICE_S

    async def between(self) -> None:
        """Yields to the event loop if the slice is over. To be called between two steps."""
        if time.monotonic() >= self._ends:
            await asyncio.sleep(0)
            self._ends = time.monotonic() + SLICE_S
