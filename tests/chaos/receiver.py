"""A receiver of webhooks that remembers each post, and now and then refuses one."""

import asyncio
import random
import sys
import time
import zlib
from typing import Self

import msgspec

from tests.receivers.own_process import OwnProcess, live, port_of

ANSWERS_AFTER_SECONDS = 0, 0.3

REFUSED_OF_HUNDRED = 5
"""How many events it refuses at their first post."""


class Post(msgspec.Struct, frozen=True):
    id: str
    fired_at: str  # which claim it is from: the instant at which that began
    at: float  # when it had arrived, in seconds since 1970
    taken: bool


class _Fired(msgspec.Struct):
    fired_at: str


class _Body(msgspec.Struct):
    event: _Fired


class Receiver:
    """Listens at *host*, by which the senders must be able to reach it."""

    def __init__(self, host: str) -> None:
        self._process = OwnProcess(__name__, host)
        self.url = f"http://{host}:{self._process.ports['http']}/"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()

    def posts(self) -> list[Post]:
        return self._process.ask("posts", list[Post])


class _Received:
    def __init__(self) -> None:
        self._posts: list[Post] = []
        self._seen: set[str] = set()

    def posts(self) -> list[Post]:
        return self._posts

    async def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
                headers = dict(line.lower().split(": ", 1) for line in head)
                body = msgspec.json.decode(await reader.readexactly(int(headers["content-length"])), type=_Body)
                post = self._add(headers["webhook-id"], body.event.fired_at)
                status = "200 OK" if post.taken else "503 Service Unavailable"
                await asyncio.sleep(random.uniform(*ANSWERS_AFTER_SECONDS))
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):  # the sender has gone
            pass
        finally:
            writer.close()

    def _add(self, id: str, fired_at: str) -> Post:
        first = id not in self._seen
        self._seen.add(id)
        refused = first and zlib.crc32(id.encode()) % 100 < REFUSED_OF_HUNDRED
        self._posts.append(Post(id, fired_at, time.time(), not refused))
        return self._posts[-1]


async def main(host: str) -> None:
    received = _Received()
    server = await asyncio.start_server(received.receive, host, 0)
    await live({"http": port_of(server)}, {"posts": received.posts})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
