"""The ids of received deliveries, in a table of the receiver's own database.

Recording an id is one INSERT that does nothing if the id exists already. Of two concurrent deliveries, the database
makes the second wait for the first: if the first commits, the second finds the id; if the first rolls back, the second
records the id and does the work.
"""

import re
from collections.abc import Awaitable, Callable, Coroutine, Generator
from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

from duly.errors import Misuse
from duly.inbox.connections import AwaitedConnection, Statement, change, change_awaited, is_awaited

TABLE = "duly_inbox"
T = TypeVar("T")

_DDL = {
    "sqlite": "CREATE TABLE IF NOT EXISTS {table} "
    "(id text PRIMARY KEY, received_at text NOT NULL DEFAULT CURRENT_TIMESTAMP)",
    "postgresql": "CREATE TABLE IF NOT EXISTS {table} "
    "(id text PRIMARY KEY, received_at timestamptz NOT NULL DEFAULT now())",
}
_RECORD = dict.fromkeys(_DDL, "INSERT INTO {table} (id) VALUES ({value}) ON CONFLICT (id) DO NOTHING")
_FORGET = {
    "sqlite": "DELETE FROM {table} WHERE received_at < datetime('now', '-' || {value} || ' seconds')",
    "postgresql": "DELETE FROM {table} WHERE received_at < now() - make_interval(secs => {value})",
}


def ddl(dialect: str, *, table: str = TABLE) -> str:
    """The statement that creates the table, for a migration. *dialect* is ``sqlite`` or ``postgresql``."""
    if dialect not in _DDL:
        raise Misuse(f"there is no table for {dialect!r}: expected {' or '.join(_DDL)}")
    return _DDL[dialect].format(table=_checked(table))


@overload
def record(connection: AwaitedConnection, id: str, *, table: str = ...) -> Awaitable[bool]: ...
@overload
def record(connection: Any, id: str, *, table: str = ...) -> bool: ...
def record(connection: Any, id: str, *, table: str = TABLE) -> bool | Awaitable[bool]:
    """Records an id in the connection's open transaction. Returns True the first time: apply the effect in that
    transaction, and commit. On False, answer as for a success. On an asynchronous connection, await the result."""
    return _run(connection, _RECORD, table, id, bool)


@overload
def forget(connection: AwaitedConnection, older_than: timedelta, *, table: str = ...) -> Awaitable[int]: ...
@overload
def forget(connection: Any, older_than: timedelta, *, table: str = ...) -> int: ...
def forget(connection: Any, older_than: timedelta, *, table: str = TABLE) -> int | Awaitable[int]:
    """Deletes ids recorded longer ago than *older_than*, and returns their number. A delivery repeated after that has
    its effect again, so keep ids for as long as a dead letter may still be replayed."""
    if older_than <= timedelta():
        raise Misuse(
            f"forget got older_than={older_than}, which would delete every id: give the time for which to keep them"
        )
    return _run(connection, _FORGET, table, int(older_than.total_seconds()), int)


class Later(Generic[T]):
    """A result to be awaited. Its truth value raises `Misuse`: in an ``if`` without ``await`` it would always be true,
    and every effect would be repeated."""

    def __init__(self, changed: Coroutine[Any, Any, int], shape: Callable[[int], T]) -> None:
        self._changed, self._shape = changed, shape

    def __await__(self) -> Generator[Any, None, T]:
        return self._shape((yield from self._changed.__await__()))

    def __bool__(self) -> bool:
        self._changed.close()
        raise Misuse("the connection is asynchronous: use `await record(…)`, otherwise the id is not recorded")


def _run(connection: Any, statements: Statement, table: str, value: Any, shape: Callable[[int], T]) -> T | Later[T]:
    table = _checked(table)
    here = {dialect: sql.format(table=table, value="{value}") for dialect, sql in statements.items()}
    if is_awaited(connection):
        return Later(change_awaited(connection, here, value), shape)
    return shape(change(connection, here, value))


def _checked(table: str) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", table, re.ASCII):
        raise Misuse(f"{table!r} is not a valid table name: use letters, digits and _, optionally with a schema")
    return table
