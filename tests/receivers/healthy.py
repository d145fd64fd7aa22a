"""A receiver that takes every post at once and counts the ids: for throughput, crashes and lateness.

    with Healthy() as healthy:
        ...                                 # deliver to healthy.url
        stats = healthy.wait_for(1000)      # until so many different ids have arrived
        assert stats.duplicates == 0

It speaks only what clients of webhooks do: requests with a Content-Length, pipelined or not.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Self

import msgspec

from tests.receivers.own_process import HERE, OwnProcess, live, port_of

TAKEN = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
REFUSED = b"HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
NAMED_BY = (b"\r\nwebhook-id:", b"\r\nidempotency-key:")


class Stats(msgspec.Struct, frozen=True):
    posts: int
    distinct: int  # ids
    duplicates: int  # posts with an id that had arrived before
    nameless: int  # posts without an id


class Arrival(msgspec.Struct, frozen=True):
    at: float  # when its first post had arrived, in seconds since 1970
    posts: int


class Healthy:
    def __init__(self, *, delay: float = 0) -> None:
        """It answers *delay* seconds after the whole request has arrived."""
        self._process = OwnProcess(__name__, str(delay))
        self.url = f"http://{HERE}:{self._process.ports['http']}/"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stats(self) -> Stats:
        return self._process.ask("stats", Stats)

    def arrivals(self) -> dict[str, Arrival]:
        return self._process.ask("arrivals", dict[str, Arrival])

    def reset(self) -> None:
        self._process.ask("reset", type(None))

    def wait_for(self, distinct: int, patience: float = 60) -> Stats:
        """Until so many different ids have arrived. It blocks: in a loop, ``await asyncio.to_thread(…)``."""
        stats = self._process.ask("wait_for", Stats, patience=patience + 10, distinct=distinct, seconds=patience)
        if stats.distinct < distinct:
            raise TimeoutError(f"waited {patience:g} s in vain for {distinct:,} ids: {stats}")
        return stats


class Counted:
    """What has arrived."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._first: dict[bytes, float] = {}
        self._again: dict[bytes, int] = {}
        self._nameless = 0

    def add(self, id: bytes | None) -> None:
        if id is None:
            self._nameless += 1
        elif id in self._first:
            self._again[id] = self._again.get(id, 0) + 1
        else:
            self._first[id] = time.time()

    def stats(self) -> Stats:
        distinct, duplicates = len(self._first), sum(self._again.values())
        return Stats(distinct + duplicates + self._nameless, distinct, duplicates, self._nameless)

    def arrivals(self) -> dict[str, Arrival]:
        return {id.decode(): Arrival(at, 1 + self._again.get(id, 0)) for id, at in self._first.items()}

    async def wait_for(self, distinct: int, seconds: float) -> Stats:
        deadline = time.monotonic() + seconds
        # An event would have to be set by each of many thousand posts a second.
        while len(self._first) < distinct and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return self.stats()


class Connection(asyncio.Protocol):
    """Reads requests out of whatever pieces arrive."""

    def __init__(self, count: Callable[[bytes | None], None], delay: float) -> None:
        self._count, self._delay = count, delay
        self._rest = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        start = taken = 0
        while (end := data.find(b"\r\n\r\n", start)) >= 0:
            head = data[start:end]
            lowered = head.lower()
            length = _value(head, lowered, b"\r\ncontent-length:")
            if length is None and b"\r\ntransfer-encoding:" in lowered:
                self._transport.write(TAKEN * taken + REFUSED)
                self._transport.close()
                return
            after = end + 4 + int(length or 0)
            if len(data) < after:
                break
            self._count(_id(head, lowered))
            start, taken = after, taken + 1
        self._rest = data[start:]
        if taken:
            self._answer(TAKEN * taken)

    def _answer(self, answer: bytes) -> None:
        if self._delay:
            asyncio.get_running_loop().call_later(self._delay, self._transport.write, answer)
        else:
            self._transport.write(answer)


def _id(head: bytes, lowered: bytes) -> bytes | None:
    for name in NAMED_BY:
        if (value := _value(head, lowered, name)) is not None:
            return value
    return None


def _value(head: bytes, lowered: bytes, name: bytes) -> bytes | None:
    """The value of the header *name*, which is written as it stands between two lines."""
    at = lowered.find(name)
    if at < 0:
        return None
    at += len(name)
    end = head.find(b"\r\n", at)
    return head[at : end if end >= 0 else None].strip()


async def main(delay: float) -> None:
    counted, loop = Counted(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(counted.add, delay), HERE, 0, backlog=1024)
    questions = {name: getattr(counted, name) for name in ("stats", "arrivals", "reset", "wait_for")}
    await live({"http": port_of(server)}, questions)


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
