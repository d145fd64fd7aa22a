"""Reads what a request brings, within limits: of size, of depth and of time."""

import asyncio
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from duly.core.checks import MAX_DEPTH
from duly.edges.http.problems import Refused
from duly.errors import Invalid, Problem

MEGABYTE = 1024 * 1024
LARGE = 2 * MEGABYTE
"""Bytes of a body: a payload may have one megabyte."""

BULKY = 16 * MEGABYTE
DEEP = MAX_DEPTH + 10
PATIENCE = 30.0
"""Seconds in which a body has to arrive."""

_decode = msgspec.json.Decoder().decode
_OPENING, _CLOSING = frozenset(b"[{"), frozenset(b"]}")


async def read_body(request: Request, most: int) -> bytes:
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > most:
        raise _too_large(most)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise _too_large(most)
                parts.append(part)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {PATIENCE:g} s", headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise Refused(400, "the connection ended before the body did") from None
    return b"".join(parts)


def read_json(request: Request, body: bytes, required: bool) -> Any:
    """What a body says; nothing at all is an empty object, where it may be nothing: one that was forgotten must not
    mean that all is to have its default."""
    if not body.strip():
        if required:
            raise Invalid([Problem("body", "is missing")])
        return {}
    written = request.headers.get("content-type", "")
    kind = written.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Refused(415, f"expected Content-Type: application/json, not {written[:100] or 'none'}")
    if _too_deep(body):
        raise Refused(400, f"the body is nested more than {DEEP} levels deep")
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {error}", [Problem("body", str(error))]) from None


def _too_deep(body: bytes) -> bool:
    """Looking closer takes Python, so it happens only where there is something to find."""
    if body.count(b"[") + body.count(b"{") <= DEEP:
        return False
    depth, quoted, escaped = 0, False, False
    for byte in body:
        if quoted:
            quoted, escaped = escaped or byte != ord('"'), byte == ord("\\") and not escaped
        elif byte == ord('"'):
            quoted = True
        elif byte in _OPENING:
            depth += 1
            if depth > DEEP:
                return True
        elif byte in _CLOSING:
            depth -= 1
    return False


def _too_large(most: int) -> Refused:
    # What is left of it is not read: the connection ends.
    told = f"the body is larger than {most // MEGABYTE} MB: send less, or in several requests"
    return Refused(413, told, headers={"Connection": "close"})
