"""Previews of rules: some of them take long to evaluate, and a server has others to answer."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from duly.edges.http.asking import Ask
from duly.edges.http.problems import RETRY_AFTER, Refused

BUDGET = 0.5
"""Seconds for one preview, after which it has no more occurrences than it has found."""

AT_ONCE = 2
PATIENCE = 10.0
"""Seconds until it is one's turn."""


class Budget:
    """Asked after each occurrence whether the time is spent; then the preview is not complete."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + BUDGET
        self.spent = False

    def __call__(self) -> bool:
        self.spent = time.monotonic() >= self._ends
        return self.spent


@asynccontextmanager
async def a_turn(ask: Ask) -> AsyncIterator[Budget]:
    """Before anything is asked of the database: who waits here keeps no connection."""
    turns: asyncio.Semaphore = ask.request.app.state.previews
    try:
        async with asyncio.timeout(PATIENCE):
            await turns.acquire()
    except TimeoutError:
        told = "too many rules are being previewed just now: try again in a moment"
        raise Refused(503, told, headers={"Retry-After": RETRY_AFTER}) from None
    try:
        yield Budget()
    finally:
        turns.release()
