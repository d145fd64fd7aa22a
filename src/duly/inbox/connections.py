"""Runs a statement on the receiver's own connection, in the receiver's transaction. The receiver commits."""

import inspect
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from duly.errors import Misuse

KNOWN = {
    "sqlite3": "in_transaction",
    "asyncpg": "is_in_transaction",
    "psycopg": "info",
    "sqlalchemy": "execute",
    "django": "in_atomic_block",
}
"""By library, an attribute that its connections have, and its pools, engines and session factories lack."""

SUPPORTED = "sqlite3, asyncpg, psycopg (3), SQLAlchemy (Core or ORM, sync or async) or Django"

Statement = Mapping[str, str]
"""A statement by dialect. ``{value}`` stands for its one parameter, and becomes the driver's placeholder."""


class AwaitedConnection(Protocol):
    """A connection, or a session, whose calls are awaited."""

    def execute(self, *args: Any, **kwargs: Any) -> Awaitable[Any]: ...


def is_awaited(connection: Any) -> bool:
    connection = _whole(connection)
    return _library(connection) == "asyncpg" or inspect.iscoroutinefunction(getattr(connection, "execute", None))


def change(connection: Any, statement: Statement, value: Any) -> int:
    """Runs a statement and returns the number of rows it changed."""
    connection = _whole(connection)
    match _library(connection):
        case "sqlite3":
            _refuse_autocommit(_sqlite_commits_at_once(connection))
            return int(connection.execute(statement["sqlite"].format(value="?"), (value,)).rowcount)
        case "psycopg":
            _refuse_autocommit(_psycopg_commits_at_once(connection))
            return int(connection.execute(statement["postgresql"].format(value="%s"), (value,)).rowcount)
        case "django":
            _refuse_autocommit(not connection.in_atomic_block and connection.get_autocommit())
            with connection.cursor() as cursor:
                cursor.execute(_of(connection.vendor, statement).format(value="%s"), (value,))
                return int(cursor.rowcount)
        case _:
            return _change_with_sqlalchemy(connection, statement, value)


async def change_awaited(connection: Any, statement: Statement, value: Any) -> int:
    connection = _whole(connection)
    match _library(connection):
        case "asyncpg":
            _refuse_autocommit(not connection.is_in_transaction())
            status: str = await connection.execute(statement["postgresql"].format(value="$1"), value)
            return int(status.rpartition(" ")[2])  # as in INSERT 0 1
        case "psycopg":
            _refuse_autocommit(_psycopg_commits_at_once(connection))
            return int((await connection.execute(statement["postgresql"].format(value="%s"), (value,))).rowcount)
        case _:
            return int(await connection.run_sync(_change_with_sqlalchemy, statement, value))


def _change_with_sqlalchemy(connection: Any, statement: Statement, value: Any) -> int:
    from sqlalchemy import text

    if hasattr(connection, "flush"):
        connection = connection.connection()  # the session's
    if not connection.in_transaction():
        connection.begin()  # as executing would do; only then does the driver show whether it autocommits
    driver, dialect = connection.connection.dbapi_connection, connection.dialect.name
    sql = _of(dialect, statement)
    _refuse_autocommit(_sqlite_commits_at_once(driver) if dialect == "sqlite" else bool(driver.autocommit))
    return int(connection.execute(text(sql.format(value=":value")), {"value": value}).rowcount)


def _whole(connection: Any) -> Any:
    """The connection of a cursor, or the session of a scoped session; any other object unchanged."""
    if hasattr(connection, "fetchone"):
        return getattr(connection, "db", None) or getattr(connection, "connection", connection)
    scoped = type(connection).__name__ in ("scoped_session", "async_scoped_session")
    return connection() if scoped else connection


def _library(connection: Any) -> str:
    roots = [cls.__module__.partition(".")[0] for cls in type(connection).__mro__]
    for known, mark in KNOWN.items():
        if known in roots and hasattr(connection, mark):
            return known
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise Misuse(
        f"a {kind} is not a connection on which an id can be recorded. Supported: a connection or session "
        f"of {SUPPORTED}. "
        "With any other, run INSERT … ON CONFLICT DO NOTHING yourself, and check whether it inserted a row."
    )


def _of(dialect: str, statement: Statement) -> str:
    if dialect not in statement:
        raise Misuse(f"ids can be recorded in {' or '.join(statement)}, but this connection is to {dialect}")
    return statement[dialect]


def _sqlite_commits_at_once(connection: Any) -> bool:
    if connection.in_transaction:
        return False
    mode = getattr(connection, "autocommit", None)  # from Python 3.12 on: True, False, or -1 for isolation_level
    return mode is True or (mode is not False and connection.isolation_level is None)


def _psycopg_commits_at_once(connection: Any) -> bool:
    return bool(connection.autocommit) and connection.info.transaction_status.name == "IDLE"


def _refuse_autocommit(commits_at_once: bool) -> None:
    if commits_at_once:
        raise Misuse(
            "the connection has no transaction open: the id would be committed at once, and the effect lost if it "
            "fails. Begin a transaction around both."
        )
