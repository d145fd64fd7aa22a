"""A function made an ASGI application, and bodies that are still coming in."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import httpx
import pytest

from duly.inbox import BadSignature, Inbox, Message, TooLarge
from tests.inbox.signing import ID, SECRET, make_body, sign

INBOX = Inbox(SECRET)


async def post(app: Any, body: Any, headers: dict[str, str], method: str = "POST") -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://receiver") as client:
        return await client.request(method, "/", content=body, headers=headers)


class Kept:
    """Handlers of each kind, which keep what they are given."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.threads: list[int] = []

    def plain(self, message: Message) -> None:
        self.ids.append(message.id)
        self.threads.append(threading.get_ident())

    async def awaited(self, message: Message) -> None:
        await asyncio.sleep(0)
        self.plain(message)

    async def __call__(self, message: Message) -> None:
        await self.awaited(message)


@pytest.mark.parametrize(
    "handler",
    [
        lambda kept: kept.plain,
        lambda kept: kept.awaited,
        lambda kept: kept,
        lambda kept: partial(kept.awaited),
        lambda kept: lambda message: kept.awaited(message),
    ],
    ids=["def", "async def", "a callable object", "a partial", "a lambda"],
)
async def test_a_function_of_any_kind_has_done_its_work_when_it_is_answered(
    handler: Callable[[Kept], Callable[[Message], Awaitable[None] | None]],
) -> None:
    kept = Kept()
    answer = await post(INBOX.asgi(handler(kept)), make_body(), sign(make_body()))
    assert (answer.status_code, answer.content, kept.ids) == (204, b"", [ID])


async def test_a_plain_function_does_not_hold_up_other_deliveries() -> None:
    kept = Kept()
    await post(INBOX.asgi(kept.plain), make_body(), sign(make_body()))
    assert kept.threads != [threading.get_ident()]


async def test_an_exception_of_the_function_is_left_to_the_server() -> None:
    async def fail(message: Message) -> None:
        raise ConnectionError("the database is away")

    with pytest.raises(ConnectionError, match="the database is away"):
        await post(INBOX.asgi(fail), make_body(), sign(make_body()))


async def test_a_refusal_is_answered_in_words_and_the_function_is_not_called() -> None:
    kept = Kept()
    answer = await post(INBOX.asgi(kept.plain), make_body("Eve"), sign(make_body()))
    assert (answer.status_code, answer.headers["content-type"]) == (401, "text/plain; charset=utf-8")
    assert answer.text.startswith("no signature matches")
    assert kept.ids == []


async def test_an_asgi_inbox_answers_only_posts() -> None:
    answer = await post(INBOX.asgi(Kept().plain), b"", {}, "GET")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_a_sender_who_goes_away_is_no_error() -> None:
    parts = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
    said: list[Any] = []
    headers = [(name.encode(), value.encode()) for name, value in sign(make_body()).items()]
    kept = Kept()

    async def receive() -> Any:
        return next(parts)

    async def send(part: Any) -> None:
        said.append(part)

    await INBOX.asgi(kept.plain)({"type": "http", "method": "POST", "headers": headers}, receive, send)
    assert (said[0]["status"], kept.ids) == (400, [])


# -- a body that is still coming in


class Parts:
    """A body in parts of a hundred bytes, without an end, that counts how far it was read."""

    def __init__(self, whole: bytes | None = None) -> None:
        self.whole, self.read = whole, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.whole is None or self.read < len(self.whole):
            part = b" " * 100 if self.whole is None else self.whole[self.read : self.read + 100]
            self.read += len(part)
            yield part


async def test_a_body_in_parts_is_put_together() -> None:
    assert (await INBOX.receive(sign(make_body()), Parts(make_body()))).id == ID


async def test_a_body_is_read_no_further_than_its_limit() -> None:
    parts = Parts()
    with pytest.raises(TooLarge):
        await Inbox(SECRET, max_body=1000).receive(sign(make_body()), parts)
    assert parts.read == 1100


@pytest.mark.parametrize("length", ["1001", "999999999999"])
async def test_a_body_that_says_it_is_too_large_is_not_read(length: str) -> None:
    parts = Parts()
    with pytest.raises(TooLarge):
        await Inbox(SECRET, max_body=1000).receive(sign(make_body()) | {"Content-Length": length}, parts)
    assert parts.read == 0


@pytest.mark.parametrize("length", ["", "-1", "many", "9" * 10_000, "²"])
async def test_a_content_length_that_is_no_number_is_ignored(length: str) -> None:
    headers = sign(make_body()) | {"content-length": length}
    assert (await INBOX.receive(headers, Parts(make_body()))).id == ID


async def test_a_body_that_nobody_signed_is_not_read() -> None:
    parts = Parts()
    with pytest.raises(BadSignature):
        await INBOX.receive({}, parts)
    assert parts.read == 0
