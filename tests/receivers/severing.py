"""Behaviours that end the connection when one does not expect it."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.receivers.asked import Request
from tests.receivers.caller import Caller, head


async def reset(caller: Caller, request: Request) -> None:
    """``/reset?when=body&status=500``: RST, at one of the moments below."""
    await _say_until(request, caller)
    caller.reset()


async def close(caller: Caller, request: Request) -> None:
    """``/close?when=headers``: FIN, at one of the moments below."""
    await _say_until(request, caller)
    await caller.close()


async def short_body(caller: Caller, request: Request) -> None:
    """Says that more will follow than does."""
    await caller.say(head(request.status, {"content-length": "1000"}) + b"only this")
    await caller.close()


async def close_after_one(caller: Caller, request: Request) -> None:
    """``/close-after-one?how=reset``: the connection stays open after the answer, and ends when it is used again, or
    ``wait=0.5`` seconds after that."""
    await caller.answer(request.status, headers={"connection": "keep-alive"})
    if await caller.next_head():
        await asyncio.sleep(request.number("wait", 0))
        if request.text("how") == "reset":
            caller.reset()
        else:
            await caller.close()


async def _say_until(request: Request, caller: Caller) -> None:
    await MOMENTS[request.text("when", "head")](request, caller)


async def _head(_: Request, __: Caller) -> None:
    """When the head of the request has arrived, whatever of its body has."""


async def _headers(request: Request, caller: Caller) -> None:
    """In the middle of the answer's head."""
    await caller.say(head(request.status, {"content-length": "1000"})[:-10])


async def _body(request: Request, caller: Caller) -> None:
    """In the middle of the answer's body."""
    await caller.say(head(request.status, {"content-length": "1000"}) + b"only this")


MOMENTS: dict[str, Callable[[Request, Caller], Awaitable[None]]] = {"head": _head, "headers": _headers, "body": _body}

WHOLE = {"short-body": short_body, "close-after-one": close_after_one}
HEAD = {"reset": reset, "close": close}
