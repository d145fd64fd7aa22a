"""A worker at work, and what it tells."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from duly import Duly


class Heard:
    """All signals, in order."""

    def __init__(self, app: Duly) -> None:
        self.all: list[Any] = []
        self._changed = asyncio.Event()
        app.observe(self._hear)

    def _hear(self, signal: Any) -> None:
        self.all.append(signal)
        self._changed.set()

    def of(self, *kinds: type) -> list[Any]:
        return [signal for signal in self.all if isinstance(signal, kinds)]

    async def until(self, happened: Callable[[], bool], within: float = 60) -> None:
        """Looks again after each signal."""
        async with asyncio.timeout(within):
            while not happened():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def working(app: Duly) -> AsyncIterator[None]:
    """While a worker runs. What kills it fails the test."""
    running = asyncio.create_task(app.run(signals=False))
    try:
        yield
    finally:
        app.stop()
        await running
