"""The embedded store: one file, opened only through apsw, safe against power cuts.

Two SQLite libraries in one process break each other's locks on a file, so no other library may open it.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import apsw

from duly.decide.checks import name_problems
from duly.errors import Invalid, Misuse, StoreError, StoreUnavailable
from duly.ids import new_id
from duly.ports import Clock, CreatedEvent, Store
from duly.stores.creations import CreatedEvents
from duly.stores.migrations import migrations, pending, require_current
from duly.stores.queries import Query
from duly.stores.sqlite.codec import SqliteQueries, from_micros
from duly.stores.sqlite.driver import (
    back_to_savepoint,
    commit,
    execute,
    execute_plain,
    full_disk_told,
    in_transaction,
    persist,
    rollback,
    translated,
)
from duly.stores.sqlite.locks import LockWait
from duly.stores.sqlite.tenant_session import SqliteTenantSession
from duly.stores.sqlite.waker import SqliteWaker
from duly.stores.statements.statements import Autocommit
from duly.stores.undone import rolled_back
from duly.values.instants import write_instant

T = TypeVar("T")

MIGRATIONS_TABLE = """\
CREATE TABLE IF NOT EXISTS migrations (
    version integer PRIMARY KEY,
    name    text NOT NULL,
    applied integer NOT NULL
) STRICT;
"""

CLOSING_LIMIT_S = 1.0
"""Seconds that a closing store still waits for a lock."""

_WAKING = frozenset(
    "add put put_again plant change reshape release let_go replan release_parked replay_found request_stop "
    "tell_pause".split()
)

_open_transaction: ContextVar["SqliteTransaction | None"] = ContextVar("duly_sqlite_transaction", default=None)


class SqliteStore(SqliteQueries, Autocommit):
    """The store on SQLite. All writes run on one connection in one thread, so they are in order and need no further
    locks."""

    def __init__(
        self,
        path: str,
        *,
        clock: Clock | None = None,
        soon: timedelta = timedelta(seconds=5),
        timeout: timedelta = timedelta(seconds=10),
        key_memory: timedelta = timedelta(days=365),
        vfs: str | None = None,
    ) -> None:
        self.path = path
        self._vfs = vfs  # tests simulate disks with it; apsw's VFS has no shared memory: only one connection
        self.clock = clock
        self.soon = soon
        self.key_memory = key_memory
        self.timeout = timeout  # how long to wait for a lock that another process holds
        self._patience = LockWait(timeout)
        self.made: Path | None = None  # the file, if this store has created it
        self._connection: apsw.Connection | None = None
        self._reader: apsw.Connection | None = None
        self._writing = asyncio.Lock()
        self._at_work = 0  # the number of unfinished calls in the writing thread
        self._wakers: list[SqliteWaker] = []

    async def connect(self) -> None:
        """Opens the file, regardless of its tables; ``open`` also requires them."""
        self._writing = asyncio.Lock()
        self._patience = LockWait(self.timeout)
        self._writer_thread = ThreadPoolExecutor(1, "duly-sqlite-write")
        self._reader_thread = ThreadPoolExecutor(1, "duly-sqlite-read")
        try:
            self._connection = await self._on_writer(self._connect)
            if self.path != ":memory:" and self._vfs is None:
                self._reader = await self._on_reader(self._connect)
        except BaseException:
            await self.close()
            raise

    async def open(self, *, migrate: bool = True) -> None:
        await self.connect()
        try:
            require_current(self.dialect, await self._on_writer(self._migrate if migrate else self._applied))
        except BaseException:
            await self.close()
            raise

    def stop_waiting(self, within: float = 0.0) -> None:
        """Limits waits for a lock of another process to *within* seconds, until this store is opened again. A call that
        fails because of this has stored nothing. Any thread may call it."""
        self._patience.end(within)

    async def close(self) -> None:
        self.stop_waiting(CLOSING_LIMIT_S)
        if self._reader is not None:
            await self._on_reader(self._reader.close)
        if self._connection is not None:
            await self._on_writer(self._connection.close)
        self._writer_thread.shutdown()
        self._reader_thread.shutdown()
        self._connection = self._reader = None

    def _connect(self) -> apsw.Connection:
        try:
            if self.path != ":memory:" and self._vfs is None:
                self._look_at_the_file()
                _create_for_owner(self.path)
            connection = apsw.Connection(self.path, vfs=self._vfs)
            wait = self._patience.handler()
            connection.set_busy_handler(wait)
            if self._vfs is not None:
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.create_scalar_function("iso", _iso, 1, deterministic=True)
            connection.create_scalar_function("new_id", _new_id, 0)
            with full_disk_told(self.path, connection):
                persist(connection, wait)
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise StoreError(f"{self.path} is not a Duly database: {error}. Give another file.") from error
        except (apsw.CantOpenError, OSError) as error:
            raise StoreError(
                f"cannot open {self.path}: {error}. Check that its folder exists and is writable."
            ) from error
        return connection

    def _look_at_the_file(self) -> None:
        """Notes that a new file will be created, and requires its folder to exist. A missing folder is not created:
        after a typing error in the path, all timers would seem to be lost."""
        file = Path(self.path).absolute()
        if not file.parent.is_dir():
            folder = file.parent
            raise StoreError(
                f"there is no folder {folder} for the database {file.name}: create it, or correct the path"
            )
        if not file.exists():
            self.made = file

    # -- running queries

    @property
    def writer(self) -> apsw.Connection:
        if self._connection is None:
            raise Misuse("this Duly is not open: use `async with duly:` around your calls")
        return self._connection

    async def run(self, query: Query, parameters: dict[str, Any]) -> list[Any]:
        connection = self.writer
        if query.reads:
            if self._reader is None:
                return await self._on_writer(execute, connection, query, parameters)
            return await self._on_reader(execute, self._reader, query, parameters)
        self._refuse_own_deadlock()
        async with self._writing:
            rows = await self._on_writer(in_transaction, connection, query, parameters)
        if query.name in _WAKING:
            self.wake()
        return rows

    @asynccontextmanager
    async def begin(self) -> AsyncIterator["SqliteTransaction"]:
        self._refuse_own_deadlock()
        await self._writing.acquire()
        transaction = SqliteTransaction(self)
        try:
            await self._on_writer(execute_plain, self.writer, "BEGIN IMMEDIATE")
        except BaseException:
            transaction.abandon()  # the thread may still begin it later: its next task is the rollback
            raise
        token = _open_transaction.set(transaction)
        try:
            yield transaction
        except BaseException:
            if not transaction.ended:
                await asyncio.shield(self._on_writer(rollback, self.writer))
            raise
        else:
            if transaction.ended:
                raise Misuse("this transaction was rolled back while it was in use: its deadline had passed")
            await asyncio.shield(self._on_writer(commit, self.writer))
        finally:
            if not transaction.ended:
                transaction.ended = True
                self._writing.release()
            with suppress(ValueError):  # it was begun in another task, as duly.sync does
                _open_transaction.reset(token)
        if transaction.wakes:
            self.wake()
        transaction.creations.committed(self.on_created)

    def roll_back_soon(self) -> None:
        """Queues a rollback in the writing thread: later calls there are no longer in the same transaction."""
        self._hop(self._writer_thread, rollback, self.writer).add_done_callback(_nobody_waits)
        self._writing.release()

    def lend(self) -> AbstractAsyncContextManager["SqliteTransaction"]:
        # Differs from PostgreSQL: there is one writer, so the engine waits while it is lent.
        return self.begin()

    @asynccontextmanager
    async def tenant_session(self, tenant: str, *, writes: bool, one_statement: bool = False) -> AsyncIterator[Store]:
        """A store for one request. A request that only reads does not wait for the single writer: each query sees the
        last commit."""
        if problems := name_problems("tenant", tenant):
            raise Invalid(problems)
        if not writes:
            yield self
            return
        async with self.begin() as transaction:
            yield SqliteTenantSession(transaction, tenant)

    async def prepare_rls_role(self) -> bool:
        """Does nothing: SQLite has no roles."""
        return False

    async def require_rls_role(self) -> None:
        """Does nothing either."""

    def rls_role_script(self, login: str) -> str:
        return ""

    async def lacking_rights(self) -> tuple[Sequence[str], tuple[str, ...]]:
        """Nothing: SQLite has no users."""
        return (), ()

    def _refuse_own_deadlock(self) -> None:
        """Raises Misuse instead of a deadlock: SQLite has one writer, and code that waits for it while holding it would
        wait for ever."""
        current = _open_transaction.get()
        if current is not None and current.store is self and not current.ended:
            raise Misuse("a transaction is already open here, and SQLite has only one writer: pass transaction=tx")

    async def _on_writer(self, call: Callable[..., T], *args: Any) -> T:
        self._at_work += 1
        future = self._hop(self._writer_thread, call, *args)
        future.add_done_callback(self._back_from_work)
        return await future

    def _back_from_work(self, _future: Any) -> None:
        self._at_work -= 1

    async def _on_reader(self, call: Callable[..., T], *args: Any) -> T:
        return await self._hop(self._reader_thread, call, *args)

    def _hop(self, thread: ThreadPoolExecutor, call: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(thread, partial(self._guarded, thread, call, *args))

    def _guarded(self, thread: ThreadPoolExecutor, call: Callable[..., T], *args: Any) -> T:
        connection = self._connection if thread is self._writer_thread else self._reader
        with translated(self.path, connection, self._patience):
            return call(*args)

    # -- waking

    @asynccontextmanager
    async def listen(self, lanes: Sequence[str]) -> AsyncIterator[SqliteWaker]:
        waker = SqliteWaker(self.data_version)
        self._wakers.append(waker)
        try:
            yield waker
        finally:
            self._wakers.remove(waker)

    def wake(self) -> None:
        for waker in self._wakers:
            waker.wake()

    def data_version(self) -> int | None:
        """A number that changes when another connection has committed; None while this connection is busy. The query
        takes 2 µs, so it runs in the thread of the event loop."""
        if self._at_work or self._connection is None:
            return None
        try:
            return cast(int, self._connection.pragma("data_version"))
        except apsw.Error:
            return None

    # -- migrations

    def _applied(self) -> int:
        if not self.writer.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchall():
            return 0
        [row] = self.writer.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchall()
        return cast(int, row[0])

    def _migrate(self) -> int:
        if pending(self.dialect, self._applied()):
            # A process that starts at the same time waits here, then finds nothing to do.
            self.writer.execute("BEGIN IMMEDIATE")
            try:
                self.writer.execute(MIGRATIONS_TABLE)
                for migration in pending(self.dialect, self._applied()):
                    self.writer.execute(migration.sql)
                    self.writer.execute(
                        "INSERT INTO migrations VALUES (?, ?, ?)",
                        (migration.version, migration.name, time.time_ns() // 1000),
                    )
                self.writer.execute("COMMIT")
            finally:
                rollback(self.writer)
        return self._applied()

    async def migrate(self) -> list[str]:
        """Applies missing migrations; returns their names."""
        before = await self._on_writer(self._applied)
        after = await self._on_writer(self._migrate)
        return [f"{m.version:04}_{m.name}" for m in migrations(self.dialect) if before < m.version <= after]

    async def applied(self) -> int:
        return await self._on_writer(self._applied)


class SqliteTransaction(SqliteQueries):
    """One open transaction: Duly's statements and the user's, in the writing thread."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.clock = store.clock
        self.soon = store.soon
        self.key_memory = store.key_memory
        self.ended = False
        self.wakes = False
        self.outage: str | None = None  # why it cannot continue, if the cause is the file or the disk
        self.creations = CreatedEvents()

    @property
    def connection(self) -> apsw.Connection:
        return self.store.writer

    def abandon(self) -> None:
        if not self.ended:
            self.ended = True
            self.store.roll_back_soon()

    def tell_created(self, events: Iterable[CreatedEvent]) -> None:
        self.creations.add(events)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Undoes the statements inside it if it fails, and only those."""
        await self._call(execute_plain, "SAVEPOINT duly")
        try:
            with self.creations.undone_together():
                yield
        except BaseException:
            if not self.ended:
                await asyncio.shield(self._call(back_to_savepoint))
            raise
        else:
            await self._call(execute_plain, "RELEASE duly")

    @asynccontextmanager
    async def undone(self) -> AsyncIterator["SqliteTransaction"]:
        wakes = self.wakes
        async with rolled_back(self.savepoint()):
            yield self
        self.wakes = wakes

    async def run(self, query: Query, parameters: dict[str, Any]) -> list[Any]:
        self.wakes |= query.name in _WAKING
        return await self._call(execute, query, parameters)

    async def execute(self, sql: str, *args: Any) -> None:
        await self._call(execute_plain, sql, args)

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        return await self._call(execute_plain, sql, args)

    async def fetchrow(self, sql: str, *args: Any) -> Any:
        rows = await self.fetch(sql, *args)
        return rows[0] if rows else None

    async def fetchval(self, sql: str, *args: Any) -> Any:
        row = await self.fetchrow(sql, *args)
        return None if row is None else row[0]

    async def _call(self, call: Callable[..., T], *args: Any) -> T:
        if self.ended:
            raise Misuse("this transaction has ended: begin another one")
        try:
            return await self.store._on_writer(call, self.connection, *args)
        except StoreUnavailable:
            self.outage = "the database file could not be used"  # the path and the cause are only in the log
            raise


def _nobody_waits(future: "asyncio.Future[None]") -> None:
    if not future.cancelled():
        future.exception()


def _create_for_owner(path: str) -> None:
    """Creates a missing file so that only its owner can read it: payloads may be secret, and SQLite would let all users
    of the machine read them. SQLite gives its -wal and -shm files the same mode."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _new_id(*_: Any) -> str:
    return new_id()


def _iso(*values: Any) -> str:
    return write_instant(from_micros(values[0]))
