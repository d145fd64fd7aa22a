"""Wakes a sleeping worker when a NOTIFY reports work in one of its lanes."""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg

from duly.backoff import Backoff
from duly.errors import StoreError
from duly.stores.postgres.driver import SERVER_KEEPALIVE, PostgresConnection, QueryTimeout, terminate

SHORTEST_RECONNECT_S = 0.1
"""Seconds before the second attempt to connect."""

LONGEST_RECONNECT_S = 5.0
"""Seconds between attempts to connect, at most: workers poll meanwhile."""


class PostgresWaker:
    """Listens on a separate connection. While that is lost, workers find events by polling."""

    def __init__(self, url: str, lanes: Sequence[str], timeout: float) -> None:
        self._url = url
        self._timeout = timeout  # seconds to wait for an answer of the server
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
        backoff = Backoff(SHORTEST_RECONNECT_S, LONGEST_RECONNECT_S)
        while True:
            try:
                self._lost.clear()
                self._connection = await asyncpg.connect(
                    self._url,
                    timeout=self._timeout,
                    connection_class=PostgresConnection,
                    server_settings={"application_name": "duly listen"} | SERVER_KEEPALIVE,
                )
                self._connection.add_termination_listener(self._on_lost)
                with QueryTimeout(self._connection, self._timeout):
                    await self._connection.add_listener("duly", self._on_notice)
                backoff.reset()
                self.wake()  # events may have arrived while nobody listened
                connected.set()
                await self._until_lost(self._connection)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, StoreError):
                connected.set()  # workers can poll without it
                if self._connection is not None:
                    terminate(self._connection)
                await asyncio.sleep(backoff.next())

    async def _until_lost(self, connection: asyncpg.Connection) -> None:
        """Waits until the connection is lost. A connection that only listens would not detect a silent server, so it
        sends a query regularly."""
        while not self._lost.is_set():
            try:
                async with asyncio.timeout(self._timeout):
                    await self._lost.wait()
            except TimeoutError:
                with QueryTimeout(connection, self._timeout):
                    await connection.execute("SELECT 1")

    def _on_notice(self, _connection: Any, _pid: int, _channel: str, lane: object) -> None:
        if lane in self._lanes:
            self.wake()

    def _on_lost(self, _connection: Any) -> None:
        self._lost.set()
