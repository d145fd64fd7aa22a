"""Accepts connections in place of asyncio's server.

asyncio's server calls accept() 2,048 times in a row. When the process has no file descriptor left, each call fails, is
logged with a traceback, and is repeated a second later: 400 idle connections wrote 94,000 tracebacks in seconds.
"""

import asyncio
import logging
import socket
from collections.abc import Callable

from duly.api.server.connections import Connections, RateLimitedLog
from duly.api.server.http_protocol import HttpProtocol
from duly.observers.logs import Line

log = logging.getLogger("duly.http")

ACCEPTED_PER_TURN = 32
"""Connections that are accepted before other tasks of the event loop get their turn."""

PAUSE_S = 1.0
"""Seconds without accepting, after the operating system has refused a connection."""


class Acceptor:
    """A listening socket, with the methods of asyncio's server that uvicorn calls."""

    def __init__(self, listening: socket.socket, make: Callable[[], HttpProtocol], connections: Connections) -> None:
        self._listening, self._make, self._connections = listening, make, connections
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pausing: asyncio.TimerHandle | None = None
        self._told = RateLimitedLog()
        listening.setblocking(False)
        self._start()

    def close(self) -> None:
        if self._pausing is not None:
            self._pausing.cancel()
        self._loop.remove_reader(self._listening)

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._tasks)

    def _start(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            if not self._connections.room_for(address[0]):
                accepted.close()
                continue
            accepted.setblocking(False)
            wire = self._make()
            self._connections.opened(wire, address[0])
            task = self._loop.create_task(self._connect(wire, accepted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self, wire: HttpProtocol, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: wire, accepted)
        except OSError:  # the connection has ended already
            self._connections.closed(wire)
            accepted.close()

    def _pause(self, error: OSError) -> None:
        """Stops accepting for PAUSE_S, for example after EMFILE: no file descriptor is left. Meanwhile the
        connection waits in the kernel's queue."""
        self._loop.remove_reader(self._listening)
        self._pausing = self._loop.call_later(PAUSE_S, self._start)
        self._connections.end_some(ACCEPTED_PER_TURN)
        if self._told.may_tell():
            facts = {"error": error.strerror or str(error), "open": len(self._connections), "wait": PAUSE_S}
            log.error(Line("connections.not_accepted", facts))
