"""Wakes a sleeping worker when NOTIFY tells of work in one of its lanes."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg

RECONNECT_AFTER = (0.1, 0.5, 1.0, 5.0)


class PostgresWaker:
    """Listens on a connection of its own. While that is lost, polling is the safety net."""

    def __init__(self, url: str, lanes: Sequence[str]) -> None:
        self._url = url
        self._lanes = frozenset(lanes)
        self._woken = asyncio.Event()
        self._lost = asyncio.Event()
        self._connection: asyncpg.Connection | None = None
        self._listening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        connected = asyncio.Event()
        self._listening = asyncio.create_task(self._listen(connected))
        await connected.wait()

    async def stop(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        if self._connection is not None:
            self._connection.terminate()

    def wake(self) -> None:
        self._woken.set()

    async def wait(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()

    async def _listen(self, connected: asyncio.Event) -> None:
        tries = 0
        while True:
            try:
                self._lost.clear()
                self._connection = await asyncpg.connect(
                    self._url, timeout=10, server_settings={"application_name": "duly listen"}
                )
                self._connection.add_termination_listener(self._on_lost)
                await self._connection.add_listener("duly", self._on_notice)
                tries = 0
                self.wake()  # whatever came while nobody listened
                connected.set()
                await self._lost.wait()
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connected.set()  # polling works without it
                await asyncio.sleep(RECONNECT_AFTER[min(tries, len(RECONNECT_AFTER) - 1)])
                tries += 1

    def _on_notice(self, _connection: Any, _pid: int, _channel: str, lane: object) -> None:
        if lane in self._lanes:
            self.wake()

    def _on_lost(self, _connection: Any) -> None:
        self._lost.set()
