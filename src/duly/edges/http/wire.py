"""How requests are read from connections: what uvicorn leaves open, a limit to their heads, in size and in time."""

import asyncio
from typing import Any

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from duly.edges.http.problems import MEDIA_TYPE, problem
from duly.edges.http.surroundings import SAFETY
from duly.flow.ids import new_id

LARGEST_HEAD = 64 * 1024
"""Bytes of a request's first line and its headers."""

TOO_LARGE = f"the request's head is larger than {LARGEST_HEAD // 1024} KB: send less in its address and its headers"
AROUND = len(": \r\n")

PATIENCE = 30.0
"""Seconds in which a head has to arrive; a connection that says nothing at all is closed as well."""


class Wire(HttpToolsProtocol):
    """Answers what is no HTTP with a problem, too."""

    _head = 0  # bytes of the head that is being read
    _fields = 0  # bytes of its headers so far
    _too_large = False
    _reading_head = True
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._reading_head:  # still: what has come is no more than a part of it
            self._head += len(data)
            if self._head > LARGEST_HEAD and not self.transport.is_closing():
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
        self._fields += len(name) + len(value) + AROUND
        self._check_size(len(self.url) + self._fields)
        super().on_header(name, value)

    def _check_size(self, size: int) -> None:
        if size > LARGEST_HEAD:
            self._too_large = True
            raise httptools.HttpParserError(TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._reading_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            self._refuse(*((431, TOO_LARGE) if self._too_large else (400, "this is no HTTP request")))

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(PATIENCE, self._end)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _end(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self._refuse(408, f"the request did not arrive within {PATIENCE:g} s")

    def _refuse(self, status: int, detail: str) -> None:
        """Past the application, which has not seen the request."""
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
