"""Pages of lists as answers: encoded and sent in pieces, between which other tasks of the event loop get their turn.

A page of a thousand events takes 20 ms to encode, and one of 9 MB takes 10 ms to encode and send: in one stretch, all
other requests of the process would wait for that.
"""

from asyncio import sleep
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from duly.engine.series.rule_threads import Slices

PIECE_BYTES = 65_536
"""Bytes; a piece is sent once it has this size."""

_encode = msgspec.json.Encoder().encode


class Listed(NamedTuple):
    """The body of a page; its items are converted to JSON when it is written."""

    name: str
    items: Sequence[Any]
    show: Callable[[Any], Any]
    beside: Mapping[str, Any]  # other fields, such as the cursor of the next page

    async def written(self) -> list[bytes]:
        """The JSON of the page, in pieces."""
        pieces, parts, size = list[bytes](), [b'{"', self.name.encode(), b'":['], 0
        slices = Slices()
        for place, item in enumerate(self.items):
            if place:
                parts.append(b",")
            parts.append(_encode(self.show(item)))
            size += len(parts[-1])
            if size >= PIECE_BYTES:
                pieces.append(b"".join(parts))
                parts, size = [], 0
            await slices.between()
        parts += [b"],", _encode(self.beside)[1:]]
        return [*pieces, b"".join(parts)]


class InPieces(Response):
    """An answer whose pieces are sent one after another, each when the one before has been accepted by the
    transport."""

    def __init__(self, pieces: Sequence[bytes], status: int, headers: Mapping[str, str]) -> None:
        self._pieces = pieces
        self.size = sum(map(len, pieces))
        super().__init__(None, status, {**headers, "Content-Length": str(self.size)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await sleep(0)
        await send({"type": "http.response.body", "body": b""})
        if self.background is not None:
            await self.background()
