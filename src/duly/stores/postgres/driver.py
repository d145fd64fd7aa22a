"""Runs queries on asyncpg connections, each within a time limit, and translates the driver's errors to Duly's."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

import asyncpg

from duly.errors import (
    Conflict,
    Misuse,
    NotWritable,
    RightsMissing,
    RowLocked,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
)
from duly.ports import CutShort
from duly.stores.queries import Query, load
from duly.stores.query_base import TIMED, WITHIN, TimedRows, row_bytes

TRANSIENT = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the driver's protocol state was broken by a lost connection
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # shutdown, crash of another server process, start of the server
    asyncpg.InsufficientResourcesError,  # too many connections
    asyncpg.TransactionRollbackError,  # deadlock, serialisation
    asyncpg.LockNotAvailableError,
    asyncpg.ObjectNotInPrerequisiteStateError,  # a database that temporarily accepts no connections
)

PASSING = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.ReadOnlySQLTransactionError,
)
"""The errors of a user's statement that are outages, and not the user's own fault. A limit that users set themselves is
not among them, nor is a wrong argument, which asyncpg calls InterfaceError."""

SEARCHES = frozenset(
    {
        *("find", "page_bound", "page_bound_of_all", "find_dead", "count_dead", "lanes_of", "find_users"),
        *("waiting", "waiting_bound", "count_waiting", "count_events", "count_users"),
        *("estimate_events", "estimate_users"),
        *("count_due", "repeating_heads", "scheduled_heads"),
    }
)
"""Queries whose best index depends on the values, so they are planned each time."""


class AccessDenied(StoreUnavailable):
    """The database does not exist, or this user has no access. At start, people must fix it; later it is temporary: a
    database is renamed for a moment, or a password is changed."""


def opened(pool: asyncpg.Pool | None) -> asyncpg.Pool:
    if pool is None:
        raise Misuse("this Duly is not open: use `async with duly:` around your calls")
    return pool


async def run_query(connection: Any, query: Query, parameters: dict[str, Any]) -> list[Any]:
    sql, names = _prepared(query)
    values = [parameters[name] for name in names]
    if query.name in TIMED:
        began = time.monotonic()
        return TimedRows(await connection.fetch(sql, *values), time.monotonic() - began)
    if (within := parameters.get(WITHIN)) is None:
        return await connection.fetch(sql, *values)  # type: ignore[no-any-return]
    if connection.is_in_transaction():
        return await _fetch_within(connection, query.name, sql, values, within)
    async with connection.transaction():
        return await _fetch_within(connection, query.name, sql, values, within)


FETCHED_AT_ONCE = 16
"""Rows that may be read beyond the limit of bytes: a row may have 2 MB."""


async def _fetch_within(connection: Any, name: str, sql: str, values: list[Any], within: int) -> list[Any]:
    """Reads rows through a cursor of the server, because asyncpg's own cursors require a transaction that asyncpg has
    begun. The cursor is named after the query, so that the driver's cached FETCH statement has the right columns."""
    rows: list[Any] = []
    await connection.execute(f"DECLARE duly_{name} NO SCROLL CURSOR FOR {sql}", *values)
    cut, some = False, [None]
    while some and not cut:
        some = await connection.fetch(f"FETCH {FETCHED_AT_ONCE if within > 0 else 1} FROM duly_{name}")
        for row in some:
            if cut := within <= 0:
                break
            rows.append(row)
            within -= row_bytes(row)
    await connection.execute(f"CLOSE duly_{name}")
    return CutShort(rows) if cut else rows


_cache: dict[str, tuple[str, tuple[str, ...]]] = {}


def _prepared(query: Query) -> tuple[str, tuple[str, ...]]:
    found = _cache.get(query.name)
    if found is None:
        found = query.numbered(), query.parameters
        if load("postgres").get(query.name) is query:  # not a query that was built for a spec
            _cache[query.name] = found
    return found


def is_open(connection: Any) -> bool:
    try:
        return connection is not None and not connection.is_closed()
    except asyncpg.InterfaceError:  # it is already back in the pool
        return False


def terminate(connection: Any) -> None:
    with suppress(asyncpg.InterfaceError):  # it is already back in the pool
        connection.terminate()


class PostgresConnection(asyncpg.Connection):
    """A connection whose kernel detects that the other host is gone, even while no query runs."""

    def __init__(self, protocol: Any, transport: Any, *args: Any, **options: Any) -> None:
        super().__init__(protocol, transport, *args, **options)
        if (raw := transport.get_extra_info("socket")) is not None and raw.family != socket.AF_UNIX:
            for level, option, value in _keepalive():
                raw.setsockopt(level, option, value)


KEEPALIVE_IDLE_S = 10
"""Seconds without a packet after which the kernel sends a keepalive probe to the other host."""

KEEPALIVE_INTERVAL_S = 5
"""Seconds between keepalive probes that get no answer."""

KEEPALIVE_COUNT = 3
"""The number of unanswered keepalive probes after which the kernel closes the connection."""

UNACKNOWLEDGED_MS = 15_000
"""Milliseconds that sent data may stay unacknowledged."""

SERVER_KEEPALIVE = {
    "tcp_keepalives_idle": str(KEEPALIVE_IDLE_S),
    "tcp_keepalives_interval": str(KEEPALIVE_INTERVAL_S),
    "tcp_keepalives_count": str(KEEPALIVE_COUNT),
    "tcp_user_timeout": str(UNACKNOWLEDGED_MS),
}
"""The same settings for the server, which would otherwise keep the locks of a vanished client for two hours."""


def _keepalive() -> Iterator[tuple[int, int, int]]:
    yield socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1
    for name, value in (  # not every system has all of these options
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_COUNT),
        ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS),
    ):
        if (option := getattr(socket, name, None)) is not None:
            yield socket.IPPROTO_TCP, option, value


class QueryTimeout:
    """A time limit for the statements inside it, which also translates the driver's errors to Duly's.

    When the time is over, the connection is closed, and the caller gets an error. asyncpg's own limit would ask the
    server over another connection to cancel the query, and wait for the answer: for ever, if the server is silent. For
    the same reason the connection is closed when the caller is cancelled. A query that then still runs on the server is
    ended by its ``statement_timeout``.
    """

    __slots__ = ("_connection", "_handle", "_over", "_seconds")

    def __init__(self, connection: Any, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self._over = False

    def __enter__(self) -> "QueryTimeout":
        self._handle = asyncio.get_running_loop().call_later(self._seconds, self._give_up)
        return self

    def goes_on(self) -> None:
        """Restarts the time limit, because there is progress."""
        self._handle.cancel()
        self.__enter__()

    def _give_up(self) -> None:
        self._over = True
        terminate(self._connection)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._handle.cancel()
        if error is None:
            return
        if not isinstance(error, Exception):
            terminate(self._connection)
        elif self._over:
            raise StoreUnavailable(f"PostgreSQL: no answer within {self._seconds:g} s") from error
        elif (known := translation_of(error)) is not None:
            raise known from error


def passes(error: BaseException) -> bool:
    """Whether an error of a user's own statement is an outage."""
    return isinstance(error, PASSING) and not isinstance(error, asyncpg.QueryCanceledError)


@contextmanager
def translated() -> Iterator[None]:
    """Translates the driver's errors to Duly's, without a time limit."""
    try:
        yield
    except Exception as error:
        if (known := translation_of(error)) is not None:
            raise known from error
        raise


def translation_of(error: Exception) -> StoreError | Conflict | None:
    """The Duly error for an error of the driver; None for errors that are not the driver's."""
    match error:
        case StoreError() | Misuse():
            return None
        case asyncpg.UndefinedTableError() | asyncpg.InvalidSchemaNameError():
            return SchemaMismatch(f"{error}: this database has no (or older) Duly tables; run `duly migrate`")
        case asyncpg.InvalidCatalogNameError():
            return AccessDenied(f"{error}: create the database first")
        case asyncpg.InvalidAuthorizationSpecificationError():
            return AccessDenied(f"{error}: check the user and password in the database URL")
        case asyncpg.InsufficientPrivilegeError() | asyncpg.InvalidGrantOperationError():
            return RightsMissing(f"{error}: grant it to the user in the database URL, or name another user")
        case asyncpg.UndefinedObjectError() if str(error).startswith("role "):
            return RightsMissing(f"{error}: create it, or name another one")
        case asyncpg.UniqueViolationError():
            return Conflict(f"{error}: another request has just stored the same; try again")
        case asyncpg.DiskFullError():
            return NotWritable(f"PostgreSQL: {error.args[0]}: free some space on the server's disk")
        case asyncpg.ReadOnlySQLTransactionError():
            return NotWritable(f"PostgreSQL: {error}: this server is a standby, or is set to read only")
        case asyncpg.LockNotAvailableError():
            return RowLocked(f"PostgreSQL: {error}")
        case asyncpg.QueryCanceledError():
            return StoreUnavailable(
                f"PostgreSQL: {error}: it is too busy, or another transaction holds a lock; try again"
            )
    if isinstance(error, (TimeoutError, *TRANSIENT)):
        return StoreUnavailable(f"PostgreSQL: {str(error) or type(error).__name__}")
    return None
