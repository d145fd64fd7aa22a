"""Reads requests from connections, with limits that uvicorn lacks: on the size of a request's head, and on how slowly a
client may read its answer."""

import asyncio
from typing import Any

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from duly.api.protocol.middleware import SAFETY
from duly.api.protocol.problems import MEDIA_TYPE, problem
from duly.api.server.connections import Connections
from duly.ids import new_id

LARGEST_HEAD_BYTES = 64 * 1024
"""Bytes of a request's first line and headers."""

TOO_LARGE = f"the request's head is larger than {LARGEST_HEAD_BYTES // 1024} KB: shorten the address or the headers"
NO_HOST = "the request has no Host header: HTTP/1.1 requires one"
TWO_HOSTS = "the request has more than one Host header: send one"
HEADER_SEPARATOR_BYTES = len(": \r\n")
"""Bytes around a header's name and value."""

SLOW_CLIENT_TIMEOUT_S = 30.0
"""Seconds within which a head has to arrive, and within which a client has to read some of its answer; a connection
that sends nothing at all is closed after the same time."""


class HttpProtocol(HttpToolsProtocol):
    """An HTTP connection. Malformed requests are answered with a problem document, too."""

    _head = 0  # bytes of the head so far
    _fields = 0  # bytes of its headers so far
    _problem: str | None = None  # why the head is refused
    _reading_head = True
    _waiting: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None
    _not_taken = 0  # bytes of answers that were unsent at the last check
    _taken_some = False  # the client has read something since then
    _ended = False  # closed to make room for another connection

    def __init__(self, *args: Any, connections: Connections) -> None:
        super().__init__(*args)
        self._connections = connections

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self._ended:  # closed to make room before it was set up
            transport.abort()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.closed(self)
        self._stop_waiting()
        if self._taking is not None:
            self._taking.cancel()
        super().connection_lost(exc)

    def end(self) -> None:
        self._ended = True
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._reading_head:  # what has arrived is only a part of the head
            self._head += len(data)
            if self._head > LARGEST_HEAD_BYTES and not self.transport.is_closing():
                self._refuse(431, TOO_LARGE)

    def on_message_begin(self) -> None:
        self._reading_head, self._head, self._fields = True, 0, 0
        if self._waiting is None:
            self._wait()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._check_size(len(self.url) + len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += len(name) + len(value) + HEADER_SEPARATOR_BYTES
        self._check_size(len(self.url) + self._fields)
        super().on_header(name, value)

    def _check_size(self, size: int) -> None:
        if size > LARGEST_HEAD_BYTES:
            self._problem = TOO_LARGE
            raise httptools.HttpParserError(TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._check_host()
        self._reading_head = False
        self._stop_waiting()
        self._connections.busy(self)
        super().on_headers_complete()

    def _check_host(self) -> None:
        """Requires exactly one Host header (RFC 9112): with two, a proxy and this server could each use a different
        one, and decide for different hosts."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            self._problem = TWO_HOSTS if hosts else NO_HOST
            raise httptools.HttpParserError(self._problem)

    def on_response_complete(self) -> None:
        self._look_what_is_taken()
        if not self.pipeline:
            self._connections.idle(self)
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._look_what_is_taken()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._taken_some = True
        super().resume_writing()

    def _look_what_is_taken(self) -> None:
        """Schedules a check after SLOW_CLIENT_TIMEOUT_S, as long as the client has not read all of an answer."""
        if self._taking is None and (left := self.transport.get_write_buffer_size()):
            self._not_taken, self._taken_some = left, False
            self._taking = self.loop.call_later(SLOW_CLIENT_TIMEOUT_S, self._end_unless_taken)

    def _end_unless_taken(self) -> None:
        self._taking = None
        if self.transport.get_write_buffer_size() >= self._not_taken and not self._taken_some:
            self.end()
        else:
            self._look_what_is_taken()

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            self._refuse(
                431 if self._problem == TOO_LARGE else 400, self._problem or "this is not a valid HTTP request"
            )

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(SLOW_CLIENT_TIMEOUT_S, self._end)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _end(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self._refuse(408, f"the request did not arrive within {SLOW_CLIENT_TIMEOUT_S:g} s")

    def _refuse(self, status: int, detail: str) -> None:
        """Answers with a problem directly, because the application has not seen the request."""
        id = new_id()
        body = msgspec.json.encode({**problem(status, detail).body, "request_id": id})
        headers = {
            "Content-Type": MEDIA_TYPE,
            "Content-Length": str(len(body)),
            "Connection": "close",
            "X-Request-Id": id,
            **SAFETY,
        }
        lines = [f"{name}: {value}\r\n".encode() for name, value in headers.items()]
        self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", body]))
        self.transport.close()
