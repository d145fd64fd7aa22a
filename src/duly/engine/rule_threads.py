"""Evaluates rules in a thread, so that nobody else waits for them, and adds up whose processor time that takes."""

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


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
