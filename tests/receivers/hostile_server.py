"""The process behind `Hostile`: ``python -m tests.receivers.hostile_server FOLDER``, with the certificates there."""

import asyncio
import itertools
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

from tests.receivers import answering, flooding, malformed, severing, stalling
from tests.receivers.asked import Record, Request
from tests.receivers.caller import Caller
from tests.receivers.doors import AT_ONCE, OPEN, TLS, Greeting, Unheard, certified
from tests.receivers.own_process import HERE, live, port_of

Behaviour = Callable[[Caller, Request], Awaitable[None]]

LIMIT = 2**20  # bytes of a head

WHOLE: Mapping[str, Behaviour] = {
    **answering.WHOLE,
    **stalling.WHOLE,
    **flooding.WHOLE,
    **malformed.WHOLE,
    **severing.WHOLE,
}
"""What a path chooses, once the whole request has been read."""

HEAD: Mapping[str, Behaviour] = {**answering.HEAD, **stalling.HEAD, **severing.HEAD}
"""What it chooses once the head has been read, and leaves the body alone."""


class Server:
    def __init__(self) -> None:
        self._conversations: set[asyncio.Task[None]] = set()
        self._start_anew()

    def _start_anew(self) -> None:
        self._numbers, self._accepted = itertools.count(1), 0
        self._record = Record()

    # -- what the owner asks

    def requests(self) -> list[Request]:
        return self._record.requests

    def connections(self) -> dict[str, int]:
        return {"open": len(self._conversations), "accepted": self._accepted, "sent": self._record.sent}

    async def forget(self) -> None:
        for conversation in self._conversations:
            conversation.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)
        self._start_anew()

    # -- what clients meet

    async def open(self, folder: Path) -> dict[str, int]:
        """Listen; the port of each door."""
        ports = {OPEN: await self._listen(OPEN, self._converse)}
        for door in TLS:
            ports[door] = await self._listen(door, self._converse, certified(door, folder))
        for door, greeting in AT_ONCE.items():
            ports[door] = await self._listen(door, greeting)
        return ports

    async def _listen(self, door: str, greeting: Greeting, certificate: ssl.SSLContext | None = None) -> int:
        meet = partial(self._meet, door, greeting)
        return port_of(await asyncio.start_server(meet, HERE, 0, limit=LIMIT, backlog=1024, ssl=certificate))

    async def _meet(
        self, door: str, greeting: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        conversation = asyncio.current_task()
        assert conversation
        self._conversations.add(conversation)
        self._accepted += 1
        try:
            await greeting(Caller(reader, writer, door, next(self._numbers), self._record))
        except (OSError, EOFError, asyncio.CancelledError):  # the client has gone, or is to be forgotten
            writer.transport.abort()
        finally:
            self._conversations.discard(conversation)
            writer.close()

    async def _converse(self, caller: Caller) -> None:
        while not caller.is_gone and (arrived := await caller.next_head()):
            request, place = arrived
            if behaviour := HEAD.get(request.behaviour):
                await behaviour(caller, request)
                return
            await caller.read_body(request, place)
            await WHOLE.get(request.behaviour, unknown)(caller, request)


async def unknown(caller: Caller, _: Request) -> None:
    await caller.answer("404", f"paths begin with one of: {', '.join(sorted({**WHOLE, **HEAD}))}".encode())


async def main(folder: Path) -> None:
    server, unheard = Server(), Unheard()
    questions = {name: getattr(server, name) for name in ("requests", "connections", "forget")}
    await live(await server.open(folder) | unheard.ports(), questions)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
