"""The client's end of a connection to the hostile receiver: what can be read from it, and done to it."""

import asyncio
import http
import socket
import struct
from collections.abc import Iterable, Mapping

from tests.receivers.asked import Record, Request, read_body, read_head

AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: closing throws away what is unsent, and sends RST instead of FIN
PATIENCE = 5.0
NONE: Mapping[str, str] = {}
REASONS = {str(status.value): status.phrase for status in http.HTTPStatus}


class Caller:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, door: str, number: int, record: Record
    ) -> None:
        self._reader, self._writer, self._door, self._number = reader, writer, door, number
        self.record = record
        self._read = 0

    @property
    def is_gone(self) -> bool:
        return self._writer.is_closing()

    # -- hearing

    async def next_head(self) -> tuple[Request, int] | None:
        """The next request without its body, and its place in the record; None when no other follows."""
        request = await read_head(self._reader, self._door, self._number, self._read + 1)
        if request is None:
            return None
        self._read += 1
        return request, self.record.add(request)

    async def read_body(self, request: Request, place: int) -> None:
        self.record.complete(place, await read_body(self._reader, request))

    async def next_request(self) -> Request | None:
        """The next one, whole."""
        if (arrived := await self.next_head()) is None:
            return None
        await self.read_body(*arrived)
        return arrived[0]

    async def first_bytes(self) -> bytes:
        return await self._reader.read(2**16)

    def stop_reading(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**12)
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    async def outlast(self) -> None:
        """Whatever the client still sends is ignored, until it gives up."""
        while await self._reader.read(2**16):
            pass

    # -- saying

    async def say(self, words: bytes) -> None:
        self._writer.write(words)
        self.record.sent += len(words)
        await self._writer.drain()

    async def answer(self, status: str = "200", body: bytes = b"", headers: Mapping[str, str] = NONE) -> None:
        """As it should be: a whole answer, after which the connection can be used again."""
        await self.say(head(status, {"content-length": str(len(body)), **headers}) + body)

    async def drip(self, words: Iterable[int], every: float) -> None:
        """A byte at a time."""
        for byte in words:
            await self.say(bytes([byte]))
            await asyncio.sleep(every)

    # -- leaving

    @property
    def socket(self) -> socket.socket:
        found: socket.socket = self._writer.get_extra_info("socket")
        return found

    def reset(self) -> None:
        """RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self._writer.transport.abort()

    async def close(self) -> None:
        """FIN. What the client still sends is read first: with unread bytes, the system would send RST."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
            async with asyncio.timeout(PATIENCE):
                await self.outlast()
        self._writer.close()


def head(status: str, headers: Mapping[str, str]) -> bytes:
    first = f"HTTP/1.1 {status} {REASONS.get(status, 'Strange')}"
    lines = [first, *(f"{name}: {value}" for name, value in headers.items()), ""]
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")
