"""Reads and answers a request with plain ASGI, without a framework."""

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from duly.inbox.message import Message
from duly.inbox.refusals import Malformed, Refused

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Handle = Callable[[Message], Awaitable[None] | None]


def endpoint(
    read: Callable[[list[tuple[bytes, bytes]], AsyncIterable[bytes]], Awaitable[Message]], handle: Handle
) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # servers send "lifespan" too, and accept that an app does not support it
            raise NotImplementedError(f"an inbox handles http, not {scope['type']}")
        if scope["method"] != "POST":
            return await _answer(send, 405, "Duly's webhooks are POST requests", (b"allow", b"POST"))
        try:
            message = await read(list(scope["headers"]), _parts(receive))
        except Refused as refused:
            return await _answer(send, refused.status, str(refused))
        await _call(handle, message)
        return await _answer(send, 204, "")

    return app


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        part = await receive()
        if part["type"] == "http.disconnect":
            raise Malformed("the sender disconnected before the whole body arrived")
        yield part.get("body", b"")
        more = part.get("more_body", False)


async def _call(handle: Handle, message: Message) -> None:
    if inspect.iscoroutinefunction(handle):
        answer: Any = handle(message)
    else:
        import asyncio  # here, because this import is slow and receivers without ASGI do not need it

        answer = await asyncio.to_thread(handle, message)
    if inspect.isawaitable(answer):
        await answer


async def _answer(send: Send, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
    body = text.encode()
    about = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))] if body else []
    await send({"type": "http.response.start", "status": status, "headers": [*about, *headers]})
    await send({"type": "http.response.body", "body": body})
