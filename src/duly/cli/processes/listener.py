"""A small HTTP listener of a process that is no server, for probes. It needs none of the server's libraries."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from duly.errors import Misuse

LOOPBACK = "127.0.0.1"

REQUEST_WITHIN_S = 5.0
"""Seconds in which a request must have arrived."""

LARGEST_HEAD_BYTES = 8192
"""Bytes of a request without its body, which is never read."""

MOST_CONNECTIONS = 100
"""Connections at once: probes come one by one, and a flood must not take the file descriptors of the worker."""

JSON = "application/json"


class Page(NamedTuple):
    """The answer to a request."""

    status: HTTPStatus
    body: bytes
    media_type: str = JSON


Pages = Mapping[str, Callable[[], Awaitable[Page]]]
"""What is answered at each path."""


def page(status: HTTPStatus, /, **told: str) -> Page:
    return Page(status, msgspec.json.encode(told))


def read_place(written: str, option: str) -> tuple[str, int]:
    """The host and port of ``8081``, ``0.0.0.0:8081`` or ``[::]:8081``; loopback if no host is given.

    >>> read_place("[::]:8081", "--health")
    ('::', 8081)
    """
    host, colon, port = written.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else LOOPBACK
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise Misuse(f"{option} {written!r:.60} cannot be used: expected a port, or host:port such as 0.0.0.0:8081")
    return host, int(port)


class Listener:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._open = 0

    @contextlib.asynccontextmanager
    async def listening(self, host: str, port: int, option: str) -> AsyncIterator[str]:
        """Answers requests within this context. Yields its address."""
        try:
            server = await asyncio.start_server(self._connected, host, port, limit=LARGEST_HEAD_BYTES)
        except OSError as error:
            raise Misuse(f"{option}: cannot listen on {host}, port {port}: {error.strerror or error}") from None
        try:
            yield _address(server.sockets[0])
        finally:
            server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MOST_CONNECTIONS:
                await self._respond(reader, writer)
        except (OSError, TimeoutError):
            pass  # the client has gone, or sends nothing
        finally:
            self._open -= 1
            writer.close()

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(REQUEST_WITHIN_S):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                head = b""
        method, _, rest = head.decode("latin-1").partition(" ")
        path = rest.partition("\r\n")[0].partition(" ")[0].partition("?")[0]
        writer.write(_written(await self._page(method, path), bare=method == "HEAD"))
        async with asyncio.timeout(REQUEST_WITHIN_S):
            await writer.drain()

    async def _page(self, method: str, path: str) -> Page:
        if not path.startswith("/"):
            return page(HTTPStatus.BAD_REQUEST, error="this is no HTTP request, or its head is too long")
        if path not in self._pages:
            return page(HTTPStatus.NOT_FOUND, error=f"there is nothing here; there is {', '.join(self._pages)}")
        if method not in ("GET", "HEAD"):
            return page(HTTPStatus.METHOD_NOT_ALLOWED, error="only GET and HEAD are supported")
        return await self._pages[path]()


def _written(page: Page, *, bare: bool) -> bytes:
    allow = "Allow: GET, HEAD\r\n" if page.status is HTTPStatus.METHOD_NOT_ALLOWED else ""
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\nContent-Type: {page.media_type}\r\n"
        f"Content-Length: {len(page.body)}\r\nCache-Control: no-store\r\n{allow}Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if bare else page.body)


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
