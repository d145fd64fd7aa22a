"""``duly.sync``: the same calls for synchronous code, for a Duly or a Client. A proxy: each call runs the asynchronous
verb in the event loop in which the Duly or Client is open, or in a loop of its own; with a caller's own connection it
runs in the caller's thread. Type checkers read ``sync.pyi``, which ``make stubs`` generates."""

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import copy_context
from typing import Any, ClassVar, Protocol, Self, TypeVar

from duly.engine.series.rule_threads import IN_CALLERS_THREAD
from duly.errors import Misuse
from duly.verbs.marks import is_for_doors, only_reads

T = TypeVar("T")
END: Any = object()


class Asynchronous(Protocol):
    """The interface of a Duly or Client that ``sync`` needs."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop in which it is open."""

    @property
    def one_writer(self) -> bool:
        """Whether a second transaction in the same thread would wait forever for the first one."""

    def lend(self) -> AbstractAsyncContextManager[Any]:
        """A transaction of its own."""

    def foreign(self, connection: Any) -> Any:
        """A wrapper of a caller's synchronous connection, in which Duly can run its statements."""


class Sync:
    """Synchronous verbs. Open it with ``with duly.sync:`` once for the life of the program, or around a few calls. In a
    plain ``def`` handler it is open already, because the worker's Duly is."""

    VERBS: ClassVar[tuple[str, ...]] = (
        "at",
        "after",
        "put",
        "add_many",
        "every",
        "cancel",
        "forecast",
        "stats",
        "search",
        "prune",
        "tick",
    )
    GROUPS: ClassVar[tuple[str, ...]] = (
        "events",
        "schedules",
        "templates",
        "users",
        "event_types",
        "targets",
        "keys",
        "workers",
    )

    def __init__(self, duly: Asynchronous) -> None:
        self._duly = duly
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened = 0
        self._holding = threading.local()  # whether this thread has a transaction open

    def __enter__(self) -> Self:
        if self._home() is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="duly-sync", daemon=True)
            self._thread.start()
        try:
            self.wait_for(self._duly.__aenter__())
        except BaseException:
            self._close()
            raise
        self._opened += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.wait_for(self._duly.__aexit__())
        self._opened -= 1
        self._close()

    def __getattr__(self, name: str) -> Any:
        """A verb of the asynchronous object that blocks until its result is there, or a group of verbs."""
        if name in self.GROUPS:
            return SyncGroup(self, getattr(self._duly, name))
        if name in self.VERBS:
            return self._waiting(getattr(self._duly, name))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.VERBS, *self.GROUPS})

    @contextmanager
    def transaction(self) -> Iterator["SyncTransaction"]:
        """A database transaction: ``tx.execute(…)`` for your own writes, ``transaction=tx`` for Duly's."""
        self._refuse_own_deadlock()
        manager = self._duly.lend()
        tx = self.wait_for(manager.__aenter__())
        self._holding.transaction = True
        try:
            yield SyncTransaction(self, tx)
        except BaseException as error:
            self.wait_for(manager.__aexit__(type(error), error, error.__traceback__))
            raise
        else:
            self.wait_for(manager.__aexit__(None, None, None))
        finally:
            self._holding.transaction = False

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the loop in which the asynchronous object is open; returns its result."""
        loop = self._home()
        if loop is None or _running_here(loop):
            work.close()
            if loop is None:
                raise Misuse("duly.sync is not open: use `with duly.sync:` around your calls")
            raise Misuse("duly.sync would block the running event loop: use `await` with the same call of duly instead")
        under_way = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return under_way.result()
        except BaseException:
            under_way.cancel()  # if the wait itself was interrupted, such as by Ctrl-C
            raise

    def _waiting(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        """A verb for synchronous code. A verb that is synchronous already is returned unchanged."""
        if inspect.isasyncgenfunction(verb):
            wait: Callable[..., Any] = self._iterate
        elif inspect.iscoroutinefunction(verb):
            wait = self._read if only_reads(verb) else self._write
        else:
            return verb

        @functools.wraps(verb)
        def waits(*args: Any, **options: Any) -> Any:
            return wait(verb, *args, **options)

        return waits

    def _read(self, verb: Callable[..., Coroutine[Any, Any, T]], *args: Any, **options: Any) -> T:
        return self.wait_for(verb(*args, **options))

    def _write(
        self, verb: Callable[..., Coroutine[Any, Any, T]], *args: Any, transaction: Any = None, **options: Any
    ) -> T:
        if transaction is None:
            self._refuse_own_deadlock()
            return self.wait_for(verb(*args, **options))
        if isinstance(transaction, SyncTransaction):
            return self.wait_for(verb(*args, transaction=transaction.inner, **options))
        return _run_here(verb(*args, transaction=self._duly.foreign(transaction), **options))

    def _iterate(self, verb: Callable[..., AsyncIterator[T]], *args: Any, **options: Any) -> Iterator[T]:
        found = verb(*args, **options)
        while (one := self.wait_for(_next(found))) is not END:
            yield one

    def _refuse_own_deadlock(self) -> None:
        if getattr(self._holding, "transaction", False) and self._duly.one_writer:
            raise Misuse("a transaction is already open here, and SQLite has only one writer: pass transaction=tx")

    def _home(self) -> asyncio.AbstractEventLoop | None:
        """The event loop in which this Duly is open."""
        return self._loop or self._duly.loop

    def _close(self) -> None:
        if self._opened == 0 and self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None


class SyncClient(Sync):
    """``Client(…).sync``: adds the refusals of a Client."""

    VERBS = (*Sync.VERBS, "on", "schedule", "observe", "run", "stop")


class SyncGroup:
    """The verbs of one noun, such as ``duly.sync.events``."""

    def __init__(self, sync: Sync, group: object) -> None:
        self._sync, self._group = sync, group

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        verb = getattr(self._group, name)
        if is_for_doors(verb):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return self._sync._waiting(verb)

    def __dir__(self) -> list[str]:
        names = (name for name in dir(self._group) if not name.startswith("_"))
        return [name for name in names if not is_for_doors(getattr(self._group, name))]


class SyncTransaction:
    """An open transaction; pass it as ``transaction=`` to the calls of ``duly.sync``."""

    def __init__(self, sync: Sync, inner: Any) -> None:
        self._sync, self.inner = sync, inner

    def execute(self, sql: str, *args: Any) -> None:
        self._sync.wait_for(self.inner.execute(sql, *args))

    def fetch(self, sql: str, *args: Any) -> list[Any]:
        return self._sync.wait_for(self.inner.fetch(sql, *args))

    def fetchrow(self, sql: str, *args: Any) -> Any:
        return self._sync.wait_for(self.inner.fetchrow(sql, *args))

    def fetchval(self, sql: str, *args: Any) -> Any:
        return self._sync.wait_for(self.inner.fetchval(sql, *args))


async def _next(found: AsyncIterator[T]) -> T:
    """The next item, END after the last one. An iteration that is abandoned is closed by the loop, as soon as nothing
    refers to it."""
    return await anext(found, END)


def _running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _run_here(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never waits: on a synchronous connection, each step is complete when it returns."""
    context = copy_context()
    context.run(IN_CALLERS_THREAD.set, True)
    try:
        while context.run(work.send, None) is None:  # it lets others go on, and there are none
            pass
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    work.close()
    raise AssertionError("a synchronous statement tried to wait")
