"""``duly.sync``: the same calls for synchronous code, of a Duly or of a Client. A façade: each call runs the
asynchronous one in the loop where that is open, or in one of its own; on a caller's own connection it runs right here,
in the caller's thread."""

import asyncio
import builtins
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

from duly.decide.preview import Preview
from duly.errors import Misuse
from duly.ports import Added, Page
from duly.records.api_key import ApiKey, MadeKey
from duly.records.event import Event, Timer
from duly.records.history import Entry
from duly.records.results import (
    Backfilled,
    DeadLetters,
    Discarded,
    Imported,
    Refreshed,
    ReplannedHead,
    Replayed,
    Resumed,
)
from duly.records.schedule import Schedule
from duly.records.specs import Spec
from duly.records.target import Known, Resealed, Target
from duly.records.user import User
from duly.rules.recurrence import Rule
from duly.signals import PassEnded
from duly.verbs.import_users import Lines
from duly.verbs.protocols import KeyVerbs, ScheduleVerbs, TargetVerbs, UserVerbs, Verbs

T = TypeVar("T")


class Sync:
    """Open it with ``with duly.sync:`` once for the life of the program, or around a few calls. In a plain ``def``
    handler it is open already: the worker's own Duly is."""

    def __init__(self, duly: Verbs) -> None:
        self.duly = duly
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened = 0
        self._holding = threading.local()  # whether this thread has a transaction open
        self.events = SyncEvents(self)
        self.schedules = SyncSchedules(self)
        self.users = SyncUsers(self)
        self.targets = SyncTargets(self)
        self.keys = SyncKeys(self)

    def __enter__(self) -> Self:
        if self._home() is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="duly-sync", daemon=True)
            self._thread.start()
        try:
            self.wait_for(self.duly.__aenter__())
        except BaseException:
            self._close()
            raise
        self._opened += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.wait_for(self.duly.__aexit__())
        self._opened -= 1
        self._close()

    def at(self, due: datetime, type: str, payload: Any = None, **options: Any) -> Event:
        return self.call(self.duly.at, due, type, payload, **options)

    def after(self, delay: timedelta, type: str, payload: Any = None, **options: Any) -> Event:
        return self.call(self.duly.after, delay, type, payload, **options)

    def put(self, due: datetime | timedelta, type: str, payload: Any = None, **options: Any) -> Added:
        return self.call(self.duly.put, due, type, payload, **options)

    def add_many(self, timers: Iterable[Timer], *, transaction: Any = None) -> list[str]:
        return self.call(self.duly.add_many, timers, transaction=transaction)

    def every(self, name: str, rule: Rule, type: str, payload: Any = None, **options: Any) -> Schedule:
        return self.call(self.duly.every, name, rule, type, payload, **options)

    def tick(self, *, within: timedelta | str | None = None) -> PassEnded:
        return self.call(self.duly.tick, within=within)

    @contextmanager
    def transaction(self) -> Iterator["SyncTransaction"]:
        self.refuse_own_deadlock()
        manager = self.duly.lend()
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
        under_way = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return under_way.result()
        except BaseException:
            under_way.cancel()  # if it was the waiting that ended, such as by Ctrl-C
            raise

    def refuse_own_deadlock(self) -> None:
        if getattr(self._holding, "transaction", False) and self.duly.one_writer:
            raise Misuse("a transaction is open here already, and SQLite has only one writer: pass transaction=tx")

    def _home(self) -> asyncio.AbstractEventLoop | None:
        """The loop that this Duly is open in."""
        return self._loop or self.duly.loop

    def call(
        self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, transaction: Any = None, **options: Any
    ) -> T:
        if transaction is None:
            self.refuse_own_deadlock()
            return self.wait_for(function(*args, **options))
        if isinstance(transaction, SyncTransaction):
            return self.wait_for(function(*args, transaction=transaction.inner, **options))
        return _run_here(function(*args, transaction=self.duly.foreign(transaction), **options))

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
        return self._sync.wait_for(self._sync.duly.events.get(id, tenant=tenant))

    def by_key(self, key: str, **options: Any) -> Event:
        return self._sync.wait_for(self._sync.duly.events.by_key(key, **options))

    def find(self, spec: Spec | None = None, **options: Any) -> list[Event]:
        return self._sync.wait_for(self._sync.duly.events.find(spec, **options))

    def page(self, spec: Spec | None = None, **options: Any) -> Page:
        return self._sync.wait_for(self._sync.duly.events.page(spec, **options))

    def schedules_of(self, events: Iterable[Event]) -> dict[str, str]:
        return self._sync.wait_for(self._sync.duly.events.schedules_of(events))

    def history(self, id: str, *, tenant: str | None = None) -> list[Entry]:
        return self._sync.wait_for(self._sync.duly.events.history(id, tenant=tenant))

    def cancel(self, id: str, **options: Any) -> Event:
        return self._change(self._sync.duly.events.cancel, id, **options)

    def reschedule(self, id: str, due: datetime, **options: Any) -> Event:
        return self._change(self._sync.duly.events.reschedule, id, due, **options)

    def replay(self, id: str, **options: Any) -> Event:
        return self._change(self._sync.duly.events.replay, id, **options)

    def discard(self, id: str, **options: Any) -> Event:
        return self._change(self._sync.duly.events.discard, id, **options)

    def dead_letters(self, spec: Spec | None = None, *, tenant: str | None = None) -> DeadLetters:
        return self._sync.wait_for(self._sync.duly.events.dead_letters(spec, tenant=tenant))

    def replay_all(self, spec: Spec | None = None, **options: Any) -> Replayed:
        """*progress* is called in the thread of the loop."""
        return self._change(self._sync.duly.events.replay_all, spec, **options)

    def discard_all(self, spec: Spec | None = None, **options: Any) -> Discarded:
        return self._change(self._sync.duly.events.discard_all, spec, **options)

    def _change(self, act: Callable[..., Coroutine[Any, Any, T]], *args: Any, **options: Any) -> T:
        self._sync.refuse_own_deadlock()
        return self._sync.wait_for(act(*args, **options))


class SyncSchedules:
    """``duly.sync.schedules``: every verb of ``duly.schedules``, with the same arguments."""

    def __init__(self, sync: Sync) -> None:
        self._sync = sync

    def put(self, name: str, rule: Any, type: str, payload: Any = None, **options: Any) -> Schedule:
        return self._sync.call(self._verbs.put, name, rule, type, payload, **options)

    def get(self, name: str, **options: Any) -> Schedule:
        return self._sync.wait_for(self._verbs.get(name, **options))

    def list(self, **options: Any) -> "builtins.list[Schedule]":
        return self._sync.wait_for(self._verbs.list(**options))

    def history(self, name: str, **options: Any) -> "builtins.list[Entry]":
        return self._sync.wait_for(self._verbs.history(name, **options))

    def preview(self, what: Any, **options: Any) -> "builtins.list[Preview]":
        return self._sync.wait_for(self._verbs.preview(what, **options))

    def pause(self, name: str, **options: Any) -> Schedule:
        return self._sync.call(self._verbs.pause, name, **options)

    def resume(self, name: str, **options: Any) -> Resumed:
        return self._sync.call(self._verbs.resume, name, **options)

    def trigger(self, name: str, **options: Any) -> Event:
        return self._sync.call(self._verbs.trigger, name, **options)

    def reschedule(self, name: str, due: datetime, **options: Any) -> Schedule:
        return self._sync.call(self._verbs.reschedule, name, due, **options)

    def skip(self, name: str, **options: Any) -> Schedule:
        return self._sync.call(self._verbs.skip, name, **options)

    def backfill(self, name: str, start: datetime, end: datetime, **options: Any) -> Backfilled:
        return self._sync.call(self._verbs.backfill, name, start, end, **options)

    def delete(self, name: str, **options: Any) -> int:
        return self._sync.call(self._verbs.delete, name, **options)

    def replan(self, **options: Any) -> "builtins.list[ReplannedHead]":
        return self._sync.call(self._verbs.replan, **options)

    @property
    def _verbs(self) -> ScheduleVerbs:
        return self._sync.duly.schedules


class SyncUsers:
    """``duly.sync.users``: every verb of ``duly.users``, with the same arguments."""

    def __init__(self, sync: Sync) -> None:
        self._sync = sync

    def add(self, **fields: Any) -> User:
        return self._sync.call(self._verbs.add, **fields)

    def get(self, id: str, **options: Any) -> User:
        return self._sync.wait_for(self._verbs.get(id, **options))

    def by_key(self, key: str, **options: Any) -> User:
        return self._sync.wait_for(self._verbs.by_key(key, **options))

    def list(self, **options: Any) -> "builtins.list[User]":
        return self._sync.wait_for(self._verbs.list(**options))

    def update(self, id: str, **changes: Any) -> User:
        return self._sync.call(self._verbs.update, id, **changes)

    def delete(self, id: str, **options: Any) -> User:
        return self._sync.call(self._verbs.delete, id, **options)

    def events(self, id: str, **options: Any) -> "builtins.list[Event]":
        return self._sync.wait_for(self._verbs.events(id, **options))

    def ahead(self, id: str, **options: Any) -> "builtins.list[Event]":
        return self._sync.wait_for(self._verbs.ahead(id, **options))

    def history(self, id: str, **options: Any) -> "builtins.list[Entry]":
        return self._sync.wait_for(self._verbs.history(id, **options))

    def import_(self, rows: Lines, **options: Any) -> Imported:
        return self._sync.call(self._verbs.import_, rows, **options)

    def refresh(self, **options: Any) -> Refreshed:
        return self._sync.call(self._verbs.refresh, **options)

    @property
    def _verbs(self) -> UserVerbs:
        return self._sync.duly.users


class SyncTargets:
    """``duly.sync.targets``: every verb of ``duly.targets``, with the same arguments."""

    def __init__(self, sync: Sync) -> None:
        self._sync = sync

    def put(self, name: str, url: str, **options: Any) -> Target:
        return self._sync.call(self._verbs.put, name, url, **options)

    def rotate(self, name: str, **options: Any) -> Target:
        return self._sync.call(self._verbs.rotate, name, **options)

    def reseal(self, **options: Any) -> Resealed:
        return self._sync.wait_for(self._verbs.reseal(**options))

    def get(self, name: str, **options: Any) -> Target:
        return self._sync.call(self._verbs.get, name, **options)

    def list(self, **options: Any) -> "builtins.list[Target]":
        return self._sync.wait_for(self._verbs.list(**options))

    def delete(self, name: str, **options: Any) -> Target:
        return self._sync.call(self._verbs.delete, name, **options)

    def history(self, name: str, **options: Any) -> "builtins.list[Entry]":
        return self._sync.call(self._verbs.history, name, **options)

    def disable(self, destination: str, **options: Any) -> None:
        self._sync.call(self._verbs.disable, destination, **options)

    def enable(self, destination: str, **options: Any) -> int:
        return self._sync.call(self._verbs.enable, destination, **options)

    def probe(self, destination: str, **options: Any) -> None:
        self._sync.call(self._verbs.probe, destination, **options)

    def limit(self, destination: str | None = None, **options: Any) -> Known:
        return self._sync.call(self._verbs.limit, destination, **options)

    def known(self, destination: str, **options: Any) -> Known:
        return self._sync.call(self._verbs.known, destination, **options)

    def destinations(self, **options: Any) -> "builtins.list[Known]":
        return self._sync.wait_for(self._verbs.destinations(**options))

    def waiting(self, destination: str, **options: Any) -> int:
        return self._sync.call(self._verbs.waiting, destination, **options)

    def signing_secret(self, url: str, **options: Any) -> str:
        return self._verbs.signing_secret(url, **options)

    @property
    def _verbs(self) -> TargetVerbs:
        return self._sync.duly.targets


class SyncKeys:
    """``duly.sync.keys``: every verb of ``duly.keys``, with the same arguments."""

    def __init__(self, sync: Sync) -> None:
        self._sync = sync

    def create(self, name: str, **options: Any) -> MadeKey:
        return self._sync.call(self._verbs.create, name, **options)

    def get(self, id: str, **options: Any) -> ApiKey:
        return self._sync.wait_for(self._verbs.get(id, **options))

    def list(self, **options: Any) -> "builtins.list[ApiKey]":
        return self._sync.wait_for(self._verbs.list(**options))

    def named(self, name: str, **options: Any) -> ApiKey:
        return self._sync.wait_for(self._verbs.named(name, **options))

    def revoke(self, id: str, **options: Any) -> ApiKey:
        return self._sync.call(self._verbs.revoke, id, **options)

    def recognise(self, secret: str) -> ApiKey:
        return self._sync.wait_for(self._verbs.recognise(secret))

    def known(self, secrets: "builtins.list[str]") -> set[str]:
        return self._sync.wait_for(self._verbs.known(secrets))

    def used(self, ids: "builtins.list[str]") -> None:
        self._sync.call(self._verbs.used, ids)

    def made_any(self) -> bool:
        return self._sync.wait_for(self._verbs.made_any())

    @property
    def _verbs(self) -> KeyVerbs:
        return self._sync.duly.keys


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
