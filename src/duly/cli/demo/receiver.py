"""The demo's receiver: it stands for another company's server, which accepts webhooks and checks their signatures."""

import secrets
from collections.abc import Callable
from typing import NamedTuple, Self

from aiohttp import web

from duly.decide.targets.secrets import written
from duly.inbox import Inbox, Refused

HOST = "127.0.0.1"
BUSY = "order 8"
"""The order that the receiver refuses as busy at the first attempt."""


class Arrival(NamedTuple):
    """A received webhook, and how it was answered."""

    id: str
    type: str
    text: str


class Receiver:
    """An HTTP server on a free port of this host, while this context is open."""

    def __init__(self, hear: Callable[[Arrival], None]) -> None:
        self._hear = hear
        self.secret = written(secrets.token_bytes(32))
        self._inbox = Inbox(self.secret)
        self._seen: set[str] = set()
        self._put_off: set[str] = set()

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/orders", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0).start()
        self.url = f"http://{HOST}:{self._runner.addresses[0][1]}/orders"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        try:
            order = self._inbox.verify(request.headers, await request.read())
        except Refused as refused:
            return web.Response(status=refused.status, text=str(refused))
        if order.data == BUSY and order.id not in self._put_off:
            self._put_off.add(order.id)
            self._hear(Arrival(order.id, order.type, f"{order.data}, signature good; answered 503"))
            return web.Response(status=503, text="too busy just now")
        again = ", again: dropped, as its id is known" if order.id in self._seen else ""
        self._seen.add(order.id)
        self._hear(Arrival(order.id, order.type, f"{order.data}, signature good{again}"))
        return web.Response(status=204)
