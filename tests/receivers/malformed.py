"""Behaviours that answer what is not HTTP, or nearly."""

import asyncio
import random

from tests.receivers.asked import Request
from tests.receivers.caller import Caller, head

CHUNKS = {
    "size": b"5\r\nhello\r\nZZZ\r\nworld\r\n0\r\n\r\n",
    "negative": b"-5\r\nhello\r\n0\r\n\r\n",
    "length": b"5\r\nhello, world\r\n0\r\n\r\n",
    "huge": b"ffffffffffffffffff\r\nhello",
}


async def garbage(caller: Caller, request: Request) -> None:
    """``/garbage?bytes=1000``: the same noise each time."""
    await caller.say(random.Random(7).randbytes(int(request.number("bytes", 1000))))
    await caller.close()


async def not_http_version(caller: Caller, request: Request) -> None:
    """``/not-http-version?version=ICY``"""
    version = request.text("version", "HTTP/9.9")
    await caller.say(f"{version} {request.status} OK\r\ncontent-length: 0\r\n\r\n".encode())
    await caller.outlast()


async def bad_chunks(caller: Caller, request: Request) -> None:
    """``/bad-chunks?how=size``, or another of the above; ``pause=0.1`` lets the head arrive alone."""
    start, chunks = head(request.status, {"transfer-encoding": "chunked"}), CHUNKS[request.text("how", "size")]
    if pause := request.number("pause", 0):
        await caller.say(start)
        await asyncio.sleep(pause)
        await caller.say(chunks)
    else:
        await caller.say(start + chunks)
    await caller.outlast()


async def bad_gzip(caller: Caller, request: Request) -> None:
    """Noise that is said to be gzip."""
    await caller.answer(request.status, random.Random(7).randbytes(1000), {"content-encoding": "gzip"})


async def two_answers(caller: Caller, request: Request) -> None:
    """``/two-answers?second=500``: the second is for the next request, if the client lets it be."""
    statuses = (request.status, request.text("second", "500"))
    await caller.say(b"".join(head(status, {"content-length": "0"}) for status in statuses))


WHOLE = {
    "garbage": garbage,
    "not-http-version": not_http_version,
    "bad-chunks": bad_chunks,
    "bad-gzip": bad_gzip,
    "two-answers": two_answers,
}
