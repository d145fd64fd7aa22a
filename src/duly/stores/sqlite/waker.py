"""Wakes a sleeping worker when this process or another one has written to the file."""

import asyncio
from collections.abc import Callable

VERSION_CHECK_INTERVAL_S = 0.1
"""Seconds between checks of the file's version while idle. A check costs 10 µs, but waking up for it costs up to 200
µs."""


class SqliteWaker:
    def __init__(self, version: Callable[[], int | None]) -> None:
        self._version = version
        self._seen: int | None = None
        self._woken: asyncio.Future[None] | None = None
        self._pending = False

    def wake(self) -> None:
        self._pending = True
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def wait(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        if not self._pending:
            self._woken = loop.create_future()
            ticking = self._tick(loop, deadline)
            try:
                await self._woken
            finally:
                self._woken = None
                ticking[0].cancel()
        self._pending = False

    def _tick(self, loop: asyncio.AbstractEventLoop, deadline: float) -> list[asyncio.TimerHandle]:
        """Checks the version repeatedly, in callbacks: a task for each check would cost more."""
        handle: list[asyncio.TimerHandle] = []

        def look() -> None:
            if self._woken is None or self._woken.done():
                return
            version = self._version()
            changed = version is not None and version != self._seen
            if version is not None:
                self._seen = version
            left = deadline - loop.time()
            if changed or left <= 0:
                self._woken.set_result(None)
            else:
                handle[:] = [loop.call_later(min(VERSION_CHECK_INTERVAL_S, left), look)]

        handle.append(loop.call_soon(look))  # type: ignore[arg-type]
        return handle
