"""The API behind a real socket, as ``duly serve`` runs it, in a thread with a loop of its own."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from duly import Duly
from duly.api.app import Api, create_api
from duly.api.server.connections import Connections
from duly.api.server.server import http_server, listen

Result = TypeVar("Result")


class Served:
    """A server that runs, and the Duly behind it."""

    def __init__(
        self, app: Duly, api: Api, port: int, loop: asyncio.AbstractEventLoop, connections: Connections
    ) -> None:
        self.app, self.api, self.port, self.loop, self.connections = app, api, port, loop, connections
        self.url = f"http://127.0.0.1:{port}"

    @property
    def document(self) -> dict[str, Any]:
        return self.api.openapi()

    def do(self, act: Callable[[Duly], Awaitable[Result]]) -> Result:
        """Something with its Duly, where that lives."""

        async def done() -> Result:
            return await act(self.app)

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result(60)


@contextmanager
def served(url: str, *, keyless: bool = True, **options: Any) -> Iterator[Served]:
    ready: list[Served] = []
    started = threading.Event()
    stop = asyncio.Event()

    async def run() -> None:
        async with Duly(url, **options) as app:
            listening = listen("127.0.0.1", 0)
            api = create_api(app, keyless=keyless)
            settings = app.settings
            server = http_server(
                api, settings.shutdown_grace, most=settings.max_connections, trusted=settings.trusted_proxies
            )
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            port, loop = listening.getsockname()[1], asyncio.get_running_loop()
            ready.append(Served(app, api, port, loop, server.connections))
            started.set()
            await stop.wait()
            server.should_exit = True
            await serving

    def go() -> None:
        try:
            asyncio.run(run())
        finally:
            started.set()

    thread = threading.Thread(target=go, name="served")
    thread.start()
    started.wait(60)
    [one] = ready
    try:
        yield one
    finally:
        one.loop.call_soon_threadsafe(stop.set)
        thread.join(60)
