"""Work that takes long beside others in one event loop: rules are evaluated in a thread, and whose processor time that
takes is added up; a long row of short steps gives way between them."""

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


SLICE_S = 0.001
"""Seconds for which a row of short steps goes on without letting the event loop do anything else. A request passes
through the loop some ten times, and may wait for a slice each time."""


class Spent:
    """Seconds of processor time that evaluations have taken."""

    seconds = 0.0


SPENT: ContextVar[Spent | None] = ContextVar("duly_spent", default=None)
"""Whose account it is; the HTTP API sets one for each request."""


async def evaluated(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function returns that may take long."""

    def timed() -> T:
        began = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            if (spent := SPENT.get()) is not None:
                spent.seconds += time.thread_time() - began

    return await asyncio.to_thread(timed)


class Slices:
    """A row of short steps in the event loop, cut into slices of SLICE_S."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + SLICE_S

    async def between(self) -> None:
        """To be called between two steps: when a slice is over, others have their turn."""
        if time.monotonic() >= self._ends:
            await asyncio.sleep(0)
            self._ends = time.monotonic() + SLICE_S
