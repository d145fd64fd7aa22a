"""A receiver in the test's own loop, which answers what the test says and keeps what it was sent.

async with Obedient() as receiver:
    receiver.answer = Answer(503, {"Retry-After": "7"})
    ...                                                     # deliver to receiver.url("/in")
    [request] = receiver.requests
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Self

from tests.receivers.asked import Record, Request
from tests.receivers.caller import Caller
from tests.receivers.own_process import HERE, port_of


class Answer(NamedTuple):
    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Obedient:
    def __init__(self) -> None:
        self.answer: Answer | Callable[[Request], Answer] = Answer()
        self.pause: Callable[[], Awaitable[Any]] | None = None  # awaited before it answers
        self._record = Record()
        self._connections = 0
        self._callers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._meet, HERE, 0)
        self._port = port_of(self._server)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for caller in self._callers:
            caller.cancel()
        await asyncio.gather(*self._callers, return_exceptions=True)

    def url(self, path: str = "/in") -> str:
        return f"{self.origin}{path}"

    @property
    def origin(self) -> str:
        return f"http://{HERE}:{self._port}"

    @property
    def requests(self) -> list[Request]:
        return self._record.requests

    @property
    def ids(self) -> list[str | None]:
        """Whose events the requests were, in order."""
        return [request.header("webhook-id") for request in self.requests]

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._callers.add(task)
        try:
            caller = Caller(reader, writer, "obedient", self._connections, self._record)
            while (request := await caller.next_request()) is not None:
                if self.pause is not None:
                    await self.pause()
                answer = self.answer(request) if callable(self.answer) else self.answer
                await caller.answer(str(answer.status), answer.body, answer.headers)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # whoever hangs up, and the end of the test
        finally:
            self._callers.discard(task)
            writer.close()
