"""Inserts many rows with COPY, in its binary form, which is written here and not by a driver.

A driver takes three times as long to write these rows, because it looks up the codec of each value and spends 1 µs on
an instant. And the bytes written here do not depend on the codecs of the connection that sends them.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from duly.errors import Conflict
from duly.records.columns import columns_of, only, without
from duly.records.event import Event, NewEvent
from duly.records.user import User
from duly.stores.columns import readers
from duly.stores.columns.lists import ADD, PLANT, USERS
from duly.stores.postgres.codec import PostgresQueries
from duly.stores.postgres.copy_rows import Table, in_blocks, micros_of, table_of

WORTH_COPYING = 200
"""The number of rows from which COPY is used: it takes half the time per row, but up to three more round trips."""

UTF8 = "UTF8"  # the server's name for the encoding
UNIQUE_VIOLATION = "23505"


CREATED = only(columns_of(Event), "created")
COPIED_TIMERS = table_of("events", ADD.inserted, always=CREATED, instants=("due", "ready"))
COPIED_HEADS = table_of(
    "events",
    without(
        PLANT.inserted, "held", "hold_kind", "gated", "correlation_id"
    ),  # never set for the first event of a new user
    always=CREATED,
    instants=("due", "ready", "scheduled"),
)
COPIED_USERS = table_of("users", USERS.inserted, always=only(columns_of(User), "created", "created_by", "updated"))


class BulkCopyQueries(PostgresQueries):
    """Statements in a transaction, on a connection that can COPY."""

    @abstractmethod
    def copies(self) -> bool:
        """Whether the connection currently accepts COPY, with text in UTF-8."""

    @abstractmethod
    async def copy(self, table: Table, blocks: Iterator[bytes]) -> None:
        """Sends blocks as the data of a COPY into a table."""

    async def add(self, events: Sequence[NewEvent]) -> list[str]:
        if len(events) < WORTH_COPYING or (now := await self._copying()) is None:
            return await super().add(events)
        dues = [now + (event.delay or timedelta()) if event.due is None else event.due for event in events]
        await self.copy(COPIED_TIMERS, timer_blocks(events, dues, now))
        await self._tell(events, dues, now)
        return [event.id for event in events]

    async def add_users(self, users: Sequence[User], heads: Sequence[NewEvent], by: str) -> set[str]:
        if len(users) < WORTH_COPYING or (now := await self._copying()) is None:
            return await super().add_users(users, heads, by)
        with _conflict_of_keys():
            await self.copy(COPIED_USERS, user_blocks(users, now, by))
        await self.copy(COPIED_HEADS, head_blocks(heads, now))
        await self._tell(heads, [head.due or now for head in heads], now)
        return {user.id for user in users}

    async def change_users(self, users: Sequence[User]) -> None:
        with _conflict_of_keys():
            await super().change_users(users)

    async def _copying(self) -> datetime | None:
        """The store's clock; None if COPY is not possible. PostgreSQL refuses COPY to roles that row-level security may
        restrict, which are all but the owner of the tables."""
        if not self.copies():
            return None
        [(micros, refused)] = await self.ask("copying")
        return None if refused else readers.EPOCH + timedelta(microseconds=micros)

    async def _tell(self, events: Sequence[NewEvent], dues: Sequence[datetime], now: datetime) -> None:
        """Notifies sleeping workers of events that become ready before their next poll."""
        horizon = now + self.soon
        if soon := sorted({event.lane for event, due in zip(events, dues, strict=True) if due <= horizon}):
            await self.ask("notify", lanes=self.listed(soon))


@contextmanager
def _conflict_of_keys() -> Iterator[None]:
    """Raises Conflict if somebody else has taken a key between the check of the keys and the write, with any driver."""
    try:
        yield
    except Exception as error:
        if sqlstate_of(error) == UNIQUE_VIOLATION:
            raise Conflict("another request has just created a user with one of these keys: try again") from error
        raise


def sqlstate_of(error: BaseException) -> str | None:
    """The SQLSTATE of an error, from any driver or a layer above it."""
    inner: Any = getattr(error, "orig", error)
    return getattr(inner, "sqlstate", None) or getattr(inner.__cause__, "sqlstate", None)


def timer_blocks(events: Sequence[NewEvent], dues: Sequence[datetime], now: datetime) -> Iterator[bytes]:
    at = [micros_of(due) for due in dues]
    return in_blocks(zip(events, at, at, strict=True), COPIED_TIMERS.writer(created=now))


def head_blocks(heads: Sequence[NewEvent], now: datetime) -> Iterator[bytes]:
    at = [micros_of(head.due or now) for head in heads]
    scheduled = [micros_of(head.scheduled or now) for head in heads]
    return in_blocks(zip(heads, at, at, scheduled, strict=True), COPIED_HEADS.writer(created=now))


def user_blocks(users: Sequence[User], now: datetime, by: str) -> Iterator[bytes]:
    return in_blocks(zip(users, strict=True), COPIED_USERS.writer(created=now, created_by=by, updated=now))


def asyncpg_copies(connection: Any) -> bool:
    return bool(connection.get_settings().client_encoding == UTF8)


async def asyncpg_copy(
    connection: Any, table: Table, blocks: Iterator[bytes], goes_on: Callable[[], None] = lambda: None
) -> None:
    """Runs a COPY on an asyncpg connection; *goes_on* is called for each block that the server accepts."""

    async def source() -> AsyncIterator[bytes]:
        for block in blocks:
            yield block
            goes_on()

    await connection.copy_to_table(
        table.name, schema_name="duly", columns=table.columns, source=source(), format="binary"
    )
