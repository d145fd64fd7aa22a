"""Behaviours that take their time, or all the time there is."""

import asyncio
import itertools

from tests.receivers.asked import Request
from tests.receivers.caller import Caller, head


async def no_answer(caller: Caller, _: Request) -> None:
    """Reads the request, and says nothing until the client hangs up."""
    await caller.outlast()


async def never_reads(caller: Caller, _: Request) -> None:
    """Leaves the body where it is, so that a big one fills the client's buffers."""
    caller.stop_reading()
    await asyncio.Event().wait()


async def slow_headers(caller: Caller, request: Request) -> None:
    """``/slow-headers?drip=0.2``: a byte of the head every so often, without an end."""
    beginning = f"HTTP/1.1 {request.status} Slow\r\nx-slow: ".encode()
    await caller.drip(itertools.chain(beginning, itertools.repeat(ord("z"))), request.number("drip", 0.2))


async def slow_body(caller: Caller, request: Request) -> None:
    """``/slow-body?status=500&drip=0.2``: a head at once, then a byte of the body every so often."""
    await caller.say(head(request.status, {"content-length": "1000000000"}))
    await caller.drip(itertools.repeat(ord("z")), request.number("drip", 0.2))


async def half_open(caller: Caller, _: Request) -> None:
    """Answers the first request; from then on the connection is dead, and nobody says so. The client's FIN changes
    nothing."""
    await caller.answer()
    while await caller.next_request():
        pass
    await asyncio.Event().wait()


WHOLE = {
    "no-answer": no_answer,
    "slow-headers": slow_headers,
    "slow-body": slow_body,
    "half-open": half_open,
}
HEAD = {"never-reads": never_reads}
