"""Many rows at once: COPY, in its binary form, written here and not by a driver.

A driver takes three times as long to write these rows, for it looks up each value's codec and spends 1 µs on an
instant. And what is written here is the same whoever's connection sends it, whatever codecs that has.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from struct import Struct
from typing import Any, NamedTuple, TypeVar

from duly.errors import Conflict
from duly.records.event import NewEvent
from duly.records.user import User
from duly.stores.columns import readers
from duly.stores.postgres.codec import PostgresQueries, micros

WORTH_COPYING = 200
"""So many rows are inserted by COPY, which takes half of the time for each, but up to three more round trips."""

BLOCK = 1000
"""Rows that are sent together: while the server reads them, the next ones are written."""

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # PostgreSQL's own; instants are microseconds from there, and dates days
FIRST_DAY = EPOCH.date().toordinal()
UTF8 = "UTF8"  # as servers call it
UNIQUE_VIOLATION = "23505"
SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, no extension of the header
NULL = b"\xff\xff\xff\xff"
TRUE = b"\0\0\0\1\1"
END = b"\xff\xff"

_pack_width = Struct(">h").pack
_pack_length = Struct(">i").pack
_pack_instant = Struct(">iq").pack
_pack_id = Struct(">i16s").pack
_pack_day = Struct(">ii").pack
_pack_times = Struct(">i16s iq iq").pack
_pack_head = Struct(">i16s iq iq iq").pack

Row = TypeVar("Row")
Kind = tuple[str | None, ...]


class Table(NamedTuple):
    """Where a COPY goes, and which columns it has, in order."""

    name: str
    columns: list[str]

    @property
    def copy(self) -> str:
        return f"COPY duly.{self.name} ({', '.join(self.columns)}) FROM STDIN (FORMAT binary)"


TIMERS = Table(
    "events", "tenant type lane target retry destination via created id due ready correlation_id payload".split()
)
HEADS = Table(
    "events",
    "tenant type lane target retry destination via zone_data head created id due ready scheduled series occurrence "
    "timezone rule payload".split(),
)
USERS = Table(
    "users",
    "tenant target via created_by created updated id key first_name last_name date_of_birth timezone anniversary "
    "delivery_time leap attributes usual_time".split(),
)


class BulkCopyQueries(PostgresQueries):
    """Statements in a transaction, on a connection that can COPY."""

    @abstractmethod
    def copies(self) -> bool:
        """Whether the connection takes COPY just now, with text in UTF-8."""

    @abstractmethod
    async def copy(self, table: Table, blocks: Iterator[bytes]) -> None:
        """Send blocks as the data of a COPY into a table."""

    async def add(self, events: Sequence[NewEvent]) -> list[str]:
        if len(events) < WORTH_COPYING or (now := await self._copying()) is None:
            return await super().add(events)
        dues = [now + (event.delay or timedelta()) if event.due is None else event.due for event in events]
        await self.copy(TIMERS, in_blocks(list(zip(events, dues, strict=True)), TimerRows(now).row))
        await self._tell(events, dues, now)
        return [event.id for event in events]

    async def add_users(self, users: Sequence[User], heads: Sequence[NewEvent], by: str) -> set[str]:
        if len(users) < WORTH_COPYING or (now := await self._copying()) is None:
            return await super().add_users(users, heads, by)
        with _conflict_of_keys():
            await self.copy(USERS, in_blocks(users, UserRows(now, by).row))
        await self.copy(HEADS, in_blocks(heads, HeadRows(now).row))
        await self._tell(heads, [head.due or now for head in heads], now)
        return {user.id for user in users}

    async def change_users(self, users: Sequence[User]) -> None:
        with _conflict_of_keys():
            await super().change_users(users)

    async def _copying(self) -> datetime | None:
        """The store's clock; None where nothing can be copied. PostgreSQL refuses COPY to everybody whom row-level
        security might bind, and that is all but the owner of the tables."""
        if not self.copies():
            return None
        [(micros, refused)] = await self.ask("copying")
        return None if refused else readers.EPOCH + timedelta(microseconds=micros)

    async def _tell(self, events: Sequence[NewEvent], dues: Sequence[datetime], now: datetime) -> None:
        """Sleeping workers, of what becomes ready before their next poll."""
        horizon = now + self.soon
        if soon := sorted({event.lane for event, due in zip(events, dues, strict=True) if due <= horizon}):
            await self.ask("notify", lanes=self.listed(soon))


@contextmanager
def _conflict_of_keys() -> Iterator[None]:
    """Between our look at the keys and our write, somebody else has taken one; whichever driver says so."""
    try:
        yield
    except Exception as error:
        if sqlstate_of(error) == UNIQUE_VIOLATION:
            raise Conflict("another user has just got one of these keys: try again") from error
        raise


def sqlstate_of(error: BaseException) -> str | None:
    """What the server said, whichever driver or layer above it tells that."""
    inner: Any = getattr(error, "orig", error)
    return getattr(inner, "sqlstate", None) or getattr(inner.__cause__, "sqlstate", None)


def in_blocks(rows: Sequence[Row], write: Callable[[Row], Sequence[bytes]]) -> Iterator[bytes]:
    """The data of a COPY, block by block."""
    yield SIGNATURE
    for start in range(0, len(rows), BLOCK):
        yield b"".join([part for row in rows[start : start + BLOCK] for part in write(row)])
    yield END


class TimerRows:
    """Writes one-shot events. Each has two parts: what it has in common with others, which is written once, and what is
    its own."""

    def __init__(self, created: datetime) -> None:
        self._created = _pack_instant(8, micros(created - EPOCH))
        self._shared: dict[Kind, bytes] = {}

    def row(self, timed: tuple[NewEvent, datetime]) -> Sequence[bytes]:
        event, due = timed
        kind = (
            event.tenant, event.type, event.lane, event.target_json, event.retry_json, event.destination, event.via,
        )  # fmt: skip
        common = self._shared.get(kind)
        if common is None:
            common = self._shared[kind] = b"".join((_pack_width(len(TIMERS.columns)), *map(_text, kind), self._created))
        at = micros(due - EPOCH)
        return (
            common,
            _pack_times(16, _id(event.id), 8, at, 8, at),
            _text(event.correlation_id),
            _text(event.payload_json),
        )


class HeadRows:
    """Writes the heads of series that are new."""

    def __init__(self, created: datetime) -> None:
        self._now, self._created = created, _pack_instant(8, micros(created - EPOCH))
        self._shared: dict[Kind, bytes] = {}

    def row(self, head: NewEvent) -> Sequence[bytes]:
        kind = (
            head.tenant, head.type, head.lane, head.target_json, head.retry_json, head.destination, head.via,
            head.zone_data,
        )  # fmt: skip
        common = self._shared.get(kind)
        if common is None:
            width = _pack_width(len(HEADS.columns))
            common = self._shared[kind] = b"".join((width, *map(_text, kind), TRUE, self._created))
        due = head.due or self._now
        at, scheduled = micros(due - EPOCH), micros((head.scheduled or due) - EPOCH)
        return (
            common,
            _pack_head(16, _id(head.id), 8, at, 8, at, 8, scheduled),
            _text(head.series),
            _text(head.occurrence),
            _text(head.timezone),
            _text(head.rule_json),
            _text(head.payload_json),
        )


class UserRows:
    """Writes users."""

    def __init__(self, created: datetime, by: str) -> None:
        at = _pack_instant(8, micros(created - EPOCH))
        self._created = b"".join((_text(by), at, at))
        self._shared: dict[Kind, bytes] = {}

    def row(self, user: User) -> Sequence[bytes]:
        kind = (user.tenant, user.target_json, user.via)
        common = self._shared.get(kind)
        if common is None:
            width = _pack_width(len(USERS.columns))
            common = self._shared[kind] = b"".join((width, *map(_text, kind), self._created))
        return (
            common,
            _pack_id(16, _id(user.id)),
            _text(user.key),
            _text(user.first_name),
            _text(user.last_name),
            _day(user.date_of_birth),
            _text(user.timezone),
            _day(user.anniversary),
            _text(None if user.delivery_time is None else user.delivery_time.isoformat()),
            _text(user.leap),
            _text(user.attributes_json),
            _text(None if user.usual_time is None else user.usual_time.isoformat()),
        )


def _id(id: str) -> bytes:
    return bytes.fromhex(id.replace("-", ""))


def _day(day: date | None) -> bytes:
    return NULL if day is None else _pack_day(4, day.toordinal() - FIRST_DAY)


def _text(value: str | None) -> bytes:
    if value is None:
        return NULL
    text = value.encode()
    return _pack_length(len(text)) + text


def asyncpg_copies(connection: Any) -> bool:
    return bool(connection.get_settings().client_encoding == UTF8)


async def asyncpg_copy(
    connection: Any, table: Table, blocks: Iterator[bytes], goes_on: Callable[[], None] = lambda: None
) -> None:
    """*goes_on* is called for each block that the server is ready for."""

    async def source() -> AsyncIterator[bytes]:
        for block in blocks:
            yield block
            goes_on()

    await connection.copy_to_table(
        table.name, schema_name="duly", columns=table.columns, source=source(), format="binary"
    )
