"""A real server of a Duly's API, in the loop of the test or in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette

from duly import Duly
from duly.api.app import create_api
from duly.api.server.server import address_of, http_server, listen


def without_via(one: Any) -> Any:
    """What is told over HTTP: not how it came, which only the engine needs."""
    return msgspec.structs.replace(one, via=None)


@asynccontextmanager
async def serving(app: Duly, api: Starlette | None = None, *, keyless: bool = True) -> AsyncIterator[str]:
    """The address of a server on a free port, here in this loop. The Duly is open already."""
    listening = listen("127.0.0.1", 0)
    server = http_server(api or create_api(app, keyless=keyless), app.settings.shutdown_grace)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield address_of(listening)
    finally:
        server.should_exit = True
        await task


@contextmanager
def serving_in_a_thread(app: Duly) -> Iterator[str]:
    """The same in a thread, which opens the Duly, for tests without a loop."""
    listening = listen("127.0.0.1", 0)
    server = http_server(create_api(app, keyless=True), app.settings.shutdown_grace)

    async def serve() -> None:
        async with app:
            await server.serve(sockets=[listening])

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield address_of(listening)
    finally:
        server.should_exit = True
        thread.join()


class Between:
    """Stands between clients and a server, and does to each connection what it is told: ``pass`` it on, ``cut`` it
    before the request has been passed on, ``lose`` the answer after that, or ``hang``. Or it answers itself, with what
    bytes it is told."""

    def __init__(self, server: str) -> None:
        host, _, port = server.removeprefix("http://").partition(":")
        self._behind = (host, int(port))
        self.plan: list[str | bytes] = []  # for the next requests; after that, all pass
        self.requests: list[bytes] = []
        self.asked = asyncio.Event()

    async def __aenter__(self) -> "Between":
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = address_of(self._server.sockets[0])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request for each connection."""
        request = await _message(reader)
        self.requests.append(request)
        self.asked.set()
        act = self.plan.pop(0) if self.plan else "pass"
        if act == "hang":
            await asyncio.Event().wait()
        if isinstance(act, bytes):
            writer.write(act)
            await writer.drain()
        elif act != "cut":
            back, on = await asyncio.open_connection(*self._behind)
            try:
                on.write(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
                answer = await back.read()
            finally:
                on.close()
            if act == "half":
                answer = answer[: len(answer) - 20]
            if act != "lose":
                writer.write(answer)
                await writer.drain()


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return head + await reader.readexactly(int(line.partition(b":")[2]))
    return head


def answering(status: str, body: str = "", **headers: str) -> bytes:
    named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{named}\r\n{body}".encode()
