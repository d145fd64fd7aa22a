"""Behaviours that say more than anybody wants to hear."""

import asyncio
import functools
import itertools
import struct
import zlib

from tests.receivers.asked import Request
from tests.receivers.caller import Caller, head

PIECE = b"z" * 2**16
ZEROS = bytes(2**24)


async def big(caller: Caller, request: Request) -> None:
    """``/big?bytes=100000000``"""
    left = int(request.number("bytes", 100_000_000))
    await caller.say(head(request.status, {"content-length": str(left)}))
    while left:
        piece = PIECE[:left]
        await caller.say(piece)
        left -= len(piece)


async def endless_body(caller: Caller, request: Request) -> None:
    await caller.say(head(request.status, {"transfer-encoding": "chunked"}))
    while True:
        await caller.say(b"%x\r\n%b\r\n" % (len(PIECE), PIECE))


async def long_header(caller: Caller, request: Request) -> None:
    """``/long-header?bytes=1000000``: in one line."""
    await caller.answer(request.status, headers={"x-long": "z" * int(request.number("bytes", 1_000_000))})


async def many_headers(caller: Caller, request: Request) -> None:
    """``/many-headers?count=100000``"""
    count = int(request.number("count", 100_000))
    await caller.answer(request.status, headers={f"x-{number}": "z" for number in range(count)})


async def gzip_bomb(caller: Caller, request: Request) -> None:
    """``/gzip-bomb``: a gigabyte of zeros, in a megabyte."""
    bomb = await asyncio.to_thread(zipped_zeros, int(request.number("pieces", 64)))
    await caller.answer(request.status, bomb, {"content-encoding": "gzip"})


@functools.cache
def zipped_zeros(pieces: int) -> bytes:
    """So many times 16 MiB, zipped once: after a full flush, the same bytes can be said again."""
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    piece = packer.compress(ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)
    end = packer.flush()
    checksum = functools.reduce(lambda sum, zeros: zlib.crc32(zeros, sum), itertools.repeat(ZEROS, pieces), 0)
    trailer = struct.pack("<II", checksum, pieces * len(ZEROS))
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + piece * pieces + end + trailer


WHOLE = {
    "big": big,
    "endless-body": endless_body,
    "long-header": long_header,
    "many-headers": many_headers,
    "gzip-bomb": gzip_bomb,
}
