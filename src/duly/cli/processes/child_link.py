"""The socket over which a parent process asks one of its workers how it is. Questions and answers are lines of JSON,
each with the number of its question, and may overlap: a slow answer delays no other."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any

import msgspec

from duly.cli.processes.health import ANSWER_WITHIN_S

LARGEST_LINE_BYTES = 16 * 2**20
"""Bytes of one answer: the metrics of a hundred event types are some 100 kB."""

Answers = Mapping[str, Callable[[], Awaitable[Any]]]
"""What a process can be asked, and what answers it."""

NO_ANSWER = (TimeoutError, OSError, msgspec.DecodeError, asyncio.InvalidStateError)
"""The errors of a question to a process that is frozen, or has ended."""


async def answer_parent(asked: int, answers: Answers) -> None:
    """Answers the questions of the parent. *asked*: the file descriptor of the socket between them."""
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=asked))
    with contextlib.suppress(OSError):
        async with asyncio.TaskGroup() as group:
            while question := await reader.readline():
                number, what = msgspec.json.decode(question, type=tuple[int, str])
                group.create_task(_answer(writer, number, answers[what]()))


async def _answer(writer: asyncio.StreamWriter, number: int, answer: Awaitable[Any]) -> None:
    writer.write(msgspec.json.encode((number, await answer)) + b"\n")
    with contextlib.suppress(OSError):  # the parent has gone
        await writer.drain()


class ChildLink:
    """The parent's end of that socket."""

    def __init__(self) -> None:
        self._socket, self.childs = socket.socketpair()
        self._numbers = count(1)
        self._awaited: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        if self._writer is None:
            self._socket.close()
        else:
            self._writer.close()

    async def ask(self, what: str, within: float = ANSWER_WITHIN_S) -> msgspec.Raw:
        """The answer to a question. Raises one of NO_ANSWER."""
        number = next(self._numbers)
        answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._awaited[number] = answer
        try:
            async with asyncio.timeout(within):
                writer = await self._connected()
                writer.write(msgspec.json.encode((number, what)) + b"\n")
                await writer.drain()
                return await answer
        finally:
            del self._awaited[number]

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._connecting:
            if self._writer is None:
                reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=LARGEST_LINE_BYTES)
                self._reading = asyncio.create_task(self._read(reader))
            return self._writer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Hands each answer to who waits for it; some have come too late."""
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                number, answer = msgspec.json.decode(line, type=tuple[int, msgspec.Raw])
                if (waiting := self._awaited.get(number)) is not None and not waiting.done():
                    waiting.set_result(msgspec.Raw(bytes(answer)))

    async def reason(self) -> str | None:
        """Why the child is not ready; a child that does not answer in time is not."""
        try:
            reason: str | None = msgspec.json.decode(await self.ask("reason"), type=str | None)
            return reason
        except NO_ANSWER:
            return "it does not answer"
