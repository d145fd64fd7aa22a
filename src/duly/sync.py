"""``duly.sync``: the same calls for synchronous code. A façade: each call runs the asynchronous one in the loop where
its Duly is open, or in one of its own; on a caller's own connection it runs right here, in the caller's thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar

from duly.core.model import Entry, Event, Schedule, Timer
from duly.core.rules import Rule
from duly.core.specs import Spec
from duly.errors import Misuse

if TYPE_CHECKING:
    from duly.wiring import Duly

T = TypeVar("T")


class Sync:
    """Open it with ``with duly.sync:`` once for the life of the program, or around a few calls. In a plain ``def``
    handler it is open already: the worker's own Duly is."""

    def __init__(self, duly: "Duly") -> None:
        self._duly = duly
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened = 0
        self._holding = threading.local()  # whether this thread has a transaction open
        self.events = SyncEvents(self)

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

    def at(self, due: datetime, type: str, payload: Any = None, **options: Any) -> Event:
        return self._call(self._duly.at, due, type, payload, **options)

    def after(self, delay: timedelta, type: str, payload: Any = None, **options: Any) -> Event:
        return self._call(self._duly.after, delay, type, payload, **options)

    def add_many(self, timers: Iterable[Timer], *, transaction: Any = None) -> list[str]:
        return self._call(self._duly.add_many, timers, transaction=transaction)

    def every(self, name: str, rule: Rule, type: str, payload: Any = None, **options: Any) -> Schedule:
        return self._call(self._duly.every, name, rule, type, payload, **options)

    def tick(self) -> None:
        self._call(self._duly.tick)

    @contextmanager
    def transaction(self) -> Iterator["SyncTransaction"]:
        self.refuse_own_deadlock()
        manager = self._duly.store.lend()
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
        loop = self._home()
        if loop is None or _running_here(loop):
            work.close()
            if loop is None:
                raise Misuse("duly.sync is not open: use `with duly.sync:` around your calls")
            raise Misuse("duly.sync would block the event loop that it waits for: await the same call of duly instead")
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def refuse_own_deadlock(self) -> None:
        if getattr(self._holding, "transaction", False) and self._duly.one_writer:
            raise Misuse("a transaction is open here already, and SQLite has only one writer: pass transaction=tx")

    def _home(self) -> asyncio.AbstractEventLoop | None:
        """The loop that this Duly is open in."""
        return self._loop or self._duly.loop

    def _call(
        self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, transaction: Any = None, **options: Any
    ) -> T:
        if transaction is None:
            self.refuse_own_deadlock()
            return self.wait_for(function(*args, **options))
        if isinstance(transaction, SyncTransaction):
            return self.wait_for(function(*args, transaction=transaction.inner, **options))
        self._duly.refuse_foreign_on_sqlite(transaction)
        from duly.stores.postgres.foreign import SyncForeignTransaction

        foreign = SyncForeignTransaction(self._duly.store, transaction)
        return _run_here(function(*args, transaction=foreign, **options))

    def _close(self) -> None:
        if self._opened == 0 and self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = None


class SyncEvents:
    """``duly.sync.events``."""

    def __init__(self, sync: Sync) -> None:
        self._sync = sync

    def get(self, id: str, *, tenant: str | None = None) -> Event:
        return self._sync.wait_for(self._sync._duly.events.get(id, tenant=tenant))

    def by_key(self, key: str, *, tenant: str = "default") -> Event:
        return self._sync.wait_for(self._sync._duly.events.by_key(key, tenant=tenant))

    def find(self, spec: Spec | None = None, **options: Any) -> list[Event]:
        return self._sync.wait_for(self._sync._duly.events.find(spec, **options))

    def history(self, id: str, *, tenant: str | None = None) -> list[Entry]:
        return self._sync.wait_for(self._sync._duly.events.history(id, tenant=tenant))

    def cancel(self, id: str, **options: Any) -> Event:
        return self._change(self._sync._duly.events.cancel, id, **options)

    def reschedule(self, id: str, due: datetime, **options: Any) -> Event:
        return self._change(self._sync._duly.events.reschedule, id, due, **options)

    def replay(self, id: str, **options: Any) -> Event:
        return self._change(self._sync._duly.events.replay, id, **options)

    def discard(self, id: str, **options: Any) -> Event:
        return self._change(self._sync._duly.events.discard, id, **options)

    def _change(self, act: Callable[..., Coroutine[Any, Any, Event]], *args: Any, **options: Any) -> Event:
        self._sync.refuse_own_deadlock()
        return self._sync.wait_for(act(*args, **options))


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


def _running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _run_here(work: Coroutine[Any, Any, T]) -> T:
    """Run to its end a coroutine that never waits: on a synchronous connection, a step is done when it returns."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    work.close()
    raise AssertionError("a synchronous statement tried to wait")
