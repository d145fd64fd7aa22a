"""SQLite in memory for tests."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar

import apsw

from duly.stores.sqlite.store import SqliteStore

T = TypeVar("T")


class MemoryStore(SqliteStore):
    """A database in memory, kept from one opening of its Duly to the next. It works in the thread of the event loop: no
    disk can keep it waiting, and a hop to another thread takes longer than most statements."""

    _empty: ClassVar[bytes | None] = None
    """A database without rows: to copy it takes less than a tenth of what migrating anew does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(":memory:", **options)
        self._kept: bytes | None = None

    async def open(self, *, migrate: bool = True) -> None:
        self._kept = self._kept or MemoryStore._empty
        await super().open(migrate=True)  # there is no older database to be careful with
        if MemoryStore._empty is None:
            MemoryStore._empty = self.writer.serialize("main")

    async def close(self) -> None:
        if self._connection is not None:
            self._kept = self._connection.serialize("main")
        await super().close()

    def _connect(self) -> apsw.Connection:
        connection = super()._connect()
        if self._kept is not None:
            connection.deserialize("main", self._kept)
        return connection

    def _hop(self, thread: ThreadPoolExecutor, call: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            done.set_result(self._guarded(thread, call, *args))
        except Exception as error:
            done.set_exception(error)
        return done
