"""Runs statements on apsw connections, and translates its errors to Duly's."""

import errno
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

import apsw

from duly.errors import NotWritable, StoreError, StoreUnavailable
from duly.ports import CutShort
from duly.stores.queries import Query
from duly.stores.query_base import THEN, TIMED, WITHIN, TimedRows, row_bytes
from duly.stores.sqlite.locks import LockWait, who_holds

TRANSIENT = (apsw.LockedError, apsw.IOError, apsw.NoMemError)
"""Errors that may be gone at the next attempt."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""System errors for a full disk, a quota and ulimit -f."""

SYNC_ERRORS = (apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC)
"""SQLite errors after which the data may be stored, or not."""

NOT_SYNCED = ("start", "beat")
"""The queries that need not wait for the disk. A start has its events reserved there, and the next commit syncs both; a
beat is followed by another one."""


def persist(connection: apsw.Connection, wait: Callable[[int], bool]) -> None:
    """Sets WAL mode and synchronous = FULL: acknowledged data survives a power cut. NORMAL would lose it."""
    connection.execute("PRAGMA synchronous = FULL; PRAGMA cache_size = -16000")
    for tried in count():
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except apsw.BusyError:  # the switch to WAL does not use the busy handler when several processes start at once
            if not wait(tried):
                raise


def execute(connection: apsw.Connection, query: Query, parameters: dict[str, Any]) -> list[Any]:
    if (within := parameters.pop(WITHIN, None)) is not None:
        return _execute_within(connection, query, parameters, within)
    then = parameters.pop(THEN, None)
    began = time.monotonic()
    if (each := parameters.pop("each", None)) is not None:
        rows = [row for one in each for row in connection.execute(query.sql, parameters | one)]
    else:
        rows = list(connection.execute(query.sql, parameters))
    if then is not None and (following := then(rows, parameters)) is not None:
        connection.execute(*following)
    return TimedRows(rows, time.monotonic() - began) if query.name in TIMED else rows


def _execute_within(connection: apsw.Connection, query: Query, parameters: dict[str, Any], within: int) -> list[Any]:
    """Reads rows one by one: SQLite produces them as they are read, so rows beyond the limit are never in memory."""
    rows: list[Any] = []
    with closing(connection.execute(query.sql, parameters)) as cursor:
        for row in cursor:
            if within <= 0:
                return CutShort(rows)
            rows.append(row)
            within -= row_bytes(row)
    return rows


def execute_plain(connection: apsw.Connection, sql: str, args: Sequence[Any] = ()) -> list[Any]:
    return list(connection.execute(sql, args))


def in_transaction(connection: apsw.Connection, query: Query, parameters: dict[str, Any]) -> list[Any]:
    try:
        if query.name in NOT_SYNCED:
            connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        rows = execute(connection, query, parameters)
        connection.execute("COMMIT")
    except BaseException:
        rollback(connection)
        raise
    finally:
        if query.name in NOT_SYNCED:
            connection.execute("PRAGMA synchronous = FULL")
    return rows


def commit(connection: apsw.Connection) -> None:
    try:
        connection.execute("COMMIT")
    except BaseException:
        rollback(connection)
        raise


def back_to_savepoint(connection: apsw.Connection) -> None:
    if connection.in_transaction:  # otherwise nothing is left to undo or to commit
        connection.execute("ROLLBACK TO duly; RELEASE duly")


def rollback(connection: apsw.Connection) -> None:
    if connection.in_transaction:  # some errors have already rolled back
        connection.execute("ROLLBACK")


@contextmanager
def translated(path: str, connection: apsw.Connection | None, patience: LockWait) -> Iterator[None]:
    try:
        with full_disk_told(path, connection):
            yield
    except apsw.BusyError as error:
        raise NotWritable(
            f"{who_holds(path)} has held the write lock on {path} for {round(patience.waited, 2):g} s: end "
            "its transaction or, if it hangs, end the process"
        ) from error
    except TRANSIENT as error:
        raise StoreUnavailable(f"{path}: {error}") from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreError(
            f"{path} is damaged: {error}. Restore a backup, or recover what is left with .recover of sqlite3."
        ) from error
    except apsw.ReadOnlyError as error:
        raise StoreError(
            f"{path} cannot be written: {error}. Check the permissions of the file and its folder."
        ) from error


@contextmanager
def full_disk_told(path: str, connection: apsw.Connection | None) -> Iterator[None]:
    """Raises NotWritable if there is no space. An error while syncing is raised unchanged, because the data may be
    stored."""
    try:
        yield
    except (apsw.FullError, apsw.IOError) as error:
        out_of_space = connection is not None and connection.system_errno in NO_SPACE
        syncing = getattr(error, "extendedresult", 0) in SYNC_ERRORS
        if isinstance(error, apsw.FullError) or (out_of_space and not syncing):
            raise NotWritable(f"the disk of {path} is full: free some space") from error
        raise
