"""Reads request bodies, within limits of size, nesting and time."""

import asyncio
import gc
import re
from array import array
from itertools import accumulate
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from duly.api.protocol.problems import RefusedRequest
from duly.decide.checks import MAX_DEPTH
from duly.errors import Invalid, Problem

MEGABYTE = 1024 * 1024
ORDINARY_BODY_BYTES = 2 * MEGABYTE
"""Bytes of an ordinary body: a payload may have one megabyte."""

BULK_BODY_BYTES = 16 * MEGABYTE
"""Bytes of a body with many timers or users."""

MOST_LEVELS = MAX_DEPTH + 10
"""Nesting of a body: that of a payload, and the levels around it."""

MOST_VALUES = 1_000_000
"""Values in a body: parsing this many takes as long as a few requests, and other requests wait meanwhile."""

SLICE_BYTES = 16 * 1024
"""Bytes that are scanned before other tasks of the event loop get their turn."""

HALF_A_CHARACTER = (
    "has half of a surrogate pair, such as \\ud800 without the second half: write both halves, or the character itself"
)

BODY_TIMEOUT_S = 30.0
"""Seconds within which a body has to arrive."""

_FIRST_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")
_decode = msgspec.json.Decoder().decode
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_ALL_ELSE = bytes(set(range(256)) - set(b"[{]}"))


async def read_body(request: Request, most: int) -> bytes:
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > most:
        raise _too_large(most)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise _too_large(most)
                parts.append(part)
    except TimeoutError:
        raise RefusedRequest(
            408, f"the body did not arrive within {BODY_TIMEOUT_S:g} s", headers={"Connection": "close"}
        ) from None
    except ClientDisconnect:
        raise RefusedRequest(400, "the connection ended before the whole body arrived") from None
    return b"".join(parts)


async def read_json(request: Request, body: bytes, required: bool) -> Any:
    """The JSON of a body. An empty body is an empty object, unless a body is *required*: a forgotten body must not
    reset every field to its default."""
    if not body.strip():
        if required:
            raise Invalid([Problem("body", "is missing")])
        return {}
    written = request.headers.get("content-type", "")
    kind = written.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise RefusedRequest(415, f"expected Content-Type: application/json, not {written[:100] or 'none'}")
    await _check_shape(body)
    try:
        return _decoded(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        told = _told(error, body)
        raise RefusedRequest(400, f"the body is not valid JSON: {told}", [Problem("body", told)]) from None


def _told(error: Exception, body: bytes) -> str:
    """The description of a parse error. The parser sometimes reports half a surrogate pair as the end of the body."""
    told = str(error)
    return HALF_A_CHARACTER if "surrogate" in told or ("truncated" in told and _FIRST_HALF.search(body)) else told


async def _check_shape(body: bytes) -> None:
    """Checks nesting and number of values before any objects are created. Scans the body only if a count of its
    brackets and commas could exceed a limit; for a body that is not JSON, the result has no meaning."""
    if body.count(b"[") + body.count(b"{") <= MOST_LEVELS and body.count(b",") < MOST_VALUES:
        return
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    depth, values, quoted = 0, 0, False
    for place in range(0, len(plain), SLICE_BYTES):
        parts = plain[place : place + SLICE_BYTES].split(b'"')
        outside = b"".join(parts[quoted::2])
        quoted ^= len(parts) % 2 == 0
        steps = array("b", outside.translate(_STEPS, _ALL_ELSE))  # 1 for each opening bracket, -1 for each closing one
        values += steps.count(1) + outside.count(b",")
        if values > MOST_VALUES:
            told = f"the body has more than {MOST_VALUES:,} values: send less, or in several requests"
            raise RefusedRequest(413, told)
        if depth + max(accumulate(steps), default=0) > MOST_LEVELS:
            raise RefusedRequest(400, f"the body is nested more than {MOST_LEVELS} levels deep")
        depth += sum(steps)
        await asyncio.sleep(0)


def _decoded(body: bytes) -> Any:
    """The parsed body. The garbage collector is paused: there is no garbage yet, and its repeated runs take longer than
    parsing."""
    paused = gc.isenabled()
    gc.disable()
    try:
        return _decode(body)
    finally:
        if paused:
            gc.enable()


def _too_large(most: int) -> RefusedRequest:
    # The rest of the body is not read, so the connection has to be closed.
    told = f"the body is larger than {most // MEGABYTE} MB: send less, or in several requests"
    return RefusedRequest(413, told, headers={"Connection": "close"})
