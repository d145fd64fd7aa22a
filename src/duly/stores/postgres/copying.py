"""Many events at once: COPY, in its binary form, written here and not by a driver.

A driver takes three times as long to write these rows, for it looks up each value's codec and spends 1 µs on an
instant. And what is written here is the same whoever's connection sends it, whatever codecs that has.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any

from duly.core.model import NewEvent
from duly.stores.postgres.values import PostgresStatements, micros

WORTH_COPYING = 200
"""So many events are inserted by COPY, which takes half of the time for each, but up to three more round trips."""

COLUMNS = "tenant type lane target retry created id due ready correlation_id payload".split()
COPY = f"COPY duly.events ({', '.join(COLUMNS)}) FROM STDIN (FORMAT binary)"

BLOCK = 1000
"""Rows that are sent together: while the server reads them, the next ones are written."""

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # PostgreSQL's own; instants are microseconds from there
UTF8 = "UTF8"  # as servers call it
SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, no extension of the header
NULL = b"\xff\xff\xff\xff"
END = b"\xff\xff"

_pack_width = Struct(">h").pack
_pack_length = Struct(">i").pack
_pack_instant = Struct(">iq").pack
_pack_times = Struct(">i16s iq iq").pack


class CopyingStatements(PostgresStatements):
    """Statements in a transaction, on a connection that can COPY."""

    @abstractmethod
    def copies(self) -> bool:
        """Whether the connection takes COPY just now, with text in UTF-8."""

    @abstractmethod
    async def copy(self, blocks: Iterator[bytes]) -> None:
        """Send blocks as the data of a COPY into the columns of events."""

    async def add(self, events: Sequence[NewEvent]) -> list[str]:
        if len(events) < WORTH_COPYING or not self.copies():
            return await super().add(events)
        now = await self.now()
        dues = [now + (event.delay or timedelta()) if event.due is None else event.due for event in events]
        await self.copy(written(events, dues, now))
        horizon = now + self.soon
        if soon := sorted({event.lane for event, due in zip(events, dues, strict=True) if due <= horizon}):
            await self.ask("notify", lanes=self.listed(soon))
        return [event.id for event in events]


def written(events: Sequence[NewEvent], dues: Sequence[datetime], created: datetime) -> Iterator[bytes]:
    """The rows, block by block."""
    shared: dict[tuple[str | None, ...], bytes] = {}
    yield SIGNATURE
    for start in range(0, len(events), BLOCK):
        stop = start + BLOCK
        yield b"".join(_rows(events[start:stop], dues[start:stop], created, shared))
    yield END


def _rows(
    events: Sequence[NewEvent], dues: Sequence[datetime], created: datetime, shared: dict[tuple[str | None, ...], bytes]
) -> Iterator[bytes]:
    """Each in two parts: what it has in common with others, which is written once, and what is its own."""
    for event, due in zip(events, dues, strict=True):
        kind = (event.tenant, event.type, event.lane, event.target_json, event.retry_json)
        common = shared.get(kind)
        if common is None:
            instant = _pack_instant(8, micros(created - EPOCH))
            common = shared[kind] = b"".join((_pack_width(len(COLUMNS)), *map(_text, kind), instant))
        at = micros(due - EPOCH)
        yield common
        yield _pack_times(16, bytes.fromhex(event.id.replace("-", "")), 8, at, 8, at)
        yield _text(event.correlation_id)
        yield _text(event.payload_json)


def _text(value: str | None) -> bytes:
    if value is None:
        return NULL
    text = value.encode()
    return _pack_length(len(text)) + text


def asyncpg_copies(connection: Any) -> bool:
    return bool(connection.get_settings().client_encoding == UTF8)


async def asyncpg_copy(connection: Any, blocks: Iterator[bytes]) -> None:
    async def source() -> AsyncIterator[bytes]:
        for block in blocks:
            yield block

    await connection.copy_to_table("events", schema_name="duly", columns=COLUMNS, source=source(), format="binary")
