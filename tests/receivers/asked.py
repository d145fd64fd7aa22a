"""What was asked of the hostile receiver: requests as they arrived, and the record of them."""

import asyncio
import time
from collections import Counter
from urllib.parse import parse_qs, urlsplit

import msgspec


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Its target chooses what becomes of it: the first segment of the path names the behaviour."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes | None = None  # None where it was not read
    at: float  # when its head had arrived, in seconds since 1970
    door: str
    connection: int  # counted over all doors, from 1
    nth: int  # on its connection, from 1

    @property
    def reused(self) -> bool:
        """Whether its connection had carried another request."""
        return self.nth > 1

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    def header(self, name: str) -> str | None:
        return next((value for own, value in self.headers if own.lower() == name.lower()), None)

    @property
    def behaviour(self) -> str:
        return self.path.split("/")[1]

    @property
    def detail(self) -> str:
        """The second segment: the status of ``/status/503``."""
        return self.path.partition("/")[2].partition("/")[2]

    def text(self, name: str, default: str = "") -> str:
        """What the query says."""
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True).get(name, [default])[-1]

    def number(self, name: str, default: float) -> float:
        return float(self.text(name, str(default)))

    @property
    def status(self) -> str:
        """The status that the query asks for; any three letters will do."""
        return self.text("status", "200")


class Record:
    """All requests, in the order in which their heads arrived, and how much was said in return."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.sent = 0  # bytes, to everybody
        self._attempts: Counter[tuple[str, str | None]] = Counter()

    def add(self, request: Request) -> int:
        """Its place, for its body."""
        self.requests.append(request)
        self._attempts[request.target, request.header("webhook-id")] += 1
        return len(self.requests) - 1

    def complete(self, place: int, body: bytes) -> None:
        self.requests[place] = msgspec.structs.replace(self.requests[place], body=body)

    def attempts(self, request: Request) -> int:
        """How often this event has asked for this target, this time included."""
        return self._attempts[request.target, request.header("webhook-id")]


async def read_head(reader: asyncio.StreamReader, door: str, connection: int, nth: int) -> Request | None:
    """None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return Request(
        method=method, target=target, headers=headers, at=time.time(), door=door, connection=connection, nth=nth
    )


async def read_body(reader: asyncio.StreamReader, request: Request) -> bytes:
    if (request.header("transfer-encoding") or "").lower() != "chunked":
        return await reader.readexactly(int(request.header("content-length") or 0))
    body = b""
    while size := int((await reader.readline()).partition(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    while (await reader.readline()).strip():  # trailers
        pass
    return body
