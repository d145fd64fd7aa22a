"""Reads rows from the database of another scheduler, SQLite or PostgreSQL, and never writes to it."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import apsw

from duly.config import plain_database_url, redacted, without_login
from duly.errors import Misuse, NotFound, StoreUnavailable
from duly.extras import install

CONNECT_TIMEOUT = 10
"""Seconds to wait for a connection."""

BUSY_TIMEOUT = 5_000
"""Milliseconds to wait for a writer of an SQLite file."""


class Query(NamedTuple):
    """A SELECT in the dialect of each database, and the table without which it makes no sense."""

    table: str
    sql: str
    of: str  # what the table belongs to, for messages


async def read_rows(url: str, queries: Sequence[Query]) -> list[list[Mapping[str, Any]]]:
    """The rows of each query, all as of one moment."""
    plain = plain_database_url(url)
    if plain.startswith("sqlite:"):
        return await asyncio.to_thread(_from_sqlite, plain, queries)
    if plain.startswith(("postgresql:", "postgres:")):
        return await _from_postgres(plain, queries)
    raise Misuse(
        f"{redacted(url)!r:.100} cannot be read: expected sqlite:///file.db or postgresql://user@host/database; "
        "schedule the jobs of other databases with `duly schedules put --file`"
    )


def place_of(url: str) -> str:
    """The URL by which a database is remembered: without a login, which may change, and of a file in whichever folder
    this runs."""
    plain = plain_database_url(url).partition("?")[0]
    return f"sqlite:///{Path(_path(plain)).absolute()}" if plain.startswith("sqlite:") else without_login(plain)


def _path(url: str) -> str:
    """The path of an SQLite file."""
    return unquote(url.partition("?")[0].removeprefix("sqlite:").removeprefix("//").removeprefix("/") or ":memory:")


def _from_sqlite(url: str, queries: Sequence[Query]) -> list[list[Mapping[str, Any]]]:
    path = _path(url)
    if not Path(path).is_file():
        raise NotFound(
            f"there is no database file {path}: an absolute path has four slashes, as in sqlite:////srv/a.db"
        )
    try:
        database = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.Error as error:
        raise StoreUnavailable(f"the database file {path} cannot be opened: {error}") from error
    try:
        database.set_busy_timeout(BUSY_TIMEOUT)
        with database:
            rows = [_ask_sqlite(database, query) for query in queries]
    except apsw.Error as error:
        raise _unreadable(error, "no such table" in str(error), queries) from error
    finally:
        database.close()
    return rows


def _ask_sqlite(database: apsw.Connection, query: Query) -> list[Mapping[str, Any]]:
    cursor = database.execute(query.sql)
    rows: list[Mapping[str, Any]] = []
    for row in cursor:
        names = [name for name, *_ in cursor.get_description()]
        rows.append(dict(zip(names, row, strict=True)))
    return rows


async def _from_postgres(url: str, queries: Sequence[Query]) -> list[list[Mapping[str, Any]]]:
    try:
        import asyncpg
    except ImportError:
        raise Misuse(f"reading PostgreSQL needs a library: {install('postgres')}") from None
    try:
        connection = await asyncpg.connect(url, timeout=CONNECT_TIMEOUT)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        raise StoreUnavailable(f"cannot connect to {redacted(url)}: {error or type(error).__name__}") from error
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            return [[dict(row) for row in await connection.fetch(query.sql)] for query in queries]
    except asyncpg.PostgresError as error:
        raise _unreadable(error, isinstance(error, asyncpg.UndefinedTableError), queries) from error
    finally:
        await connection.close(timeout=CONNECT_TIMEOUT)


def _unreadable(error: Exception, missing: bool, queries: Sequence[Query]) -> Exception:
    first = queries[0]
    if missing:
        return NotFound(f"the database has no table {first.table}: is it the database of {first.of}?")
    return Misuse(f"the tables of {first.of} cannot be read: {error}")
