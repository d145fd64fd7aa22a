"""Runs a worker beside the test, and tells what it does."""

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

from duly import Duly
from duly.signals import WorkerStarted
from tests.conftest import AnyStore

PATIENCE = 30.0
Kind = TypeVar("Kind")


async def until(condition: Callable[..., Any], wanted: str, patience: float = PATIENCE) -> Any:
    """What the condition, plain or awaitable, says when it holds at last. It is called with nothing; a lambda in a loop
    keeps the loop's variable as a default."""
    deadline = time.monotonic() + patience
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {patience:g} s in vain until {wanted}"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def running(duly: Duly) -> AsyncIterator[None]:
    """A worker that runs beside what follows, and is stopped in good order after it. If it fails, so does that."""
    async with asyncio.TaskGroup() as group:
        worker = group.create_task(duly.run(signals=False))
        try:
            yield
        finally:
            duly.stop()
            await asyncio.wait([worker], timeout=PATIENCE)
            assert worker.done(), f"the worker did not stop within {PATIENCE:g} s"


@asynccontextmanager
async def working(duly: Duly) -> AsyncIterator[None]:
    """The same, once it has started."""
    told = Told(duly)
    async with running(duly):
        await until(lambda: told.of(WorkerStarted), "the worker has started")
        yield


class Told:
    """The signals of one Duly, in order."""

    def __init__(self, duly: Duly) -> None:
        self.all: list[Any] = []
        duly.observe(self.all.append)

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [signal for signal in self.all if type(signal) is kind]


class Logged(logging.Handler):
    """The acts that Duly and its driver log as a warning or worse, without their facts."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.acts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.acts.append(record.getMessage().partition(" ")[0])

    def __enter__(self) -> Self:
        for name in ("duly", "asyncpg"):
            logging.getLogger(name).addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        for name in ("duly", "asyncpg"):
            logging.getLogger(name).removeHandler(self)


class Watched:
    """The store of a Duly, which it replaces: tells what the worker asks of it, and when the worker sleeps."""

    def __init__(self, duly: Duly) -> None:
        self._store: AnyStore = duly.store
        duly.store = self  # type: ignore[assignment]
        self.asked: list[int] = []  # by each claim: the most that it would take
        self.settled: list[int] = []  # by each settlement: of how many events
        self.settled_at: list[float] = []  # and when, by time.perf_counter
        self.looks = 0  # at the horizon
        self.sleeps: list[tuple[float, float]] = []  # those that ended: how long at most, and how long
        self.asleep: float | None = None  # for at most so many seconds
        self.may_settle = asyncio.Event()
        self.may_settle.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @asynccontextmanager
    async def listen(self, lanes: Sequence[str]) -> AsyncIterator[Any]:
        async with self._store.listen(lanes) as waker:
            yield WatchedWaker(waker, self)

    async def horizon(self, *args: Any) -> Any:
        self.looks += 1
        return await self._store.horizon(*args)

    async def claim(self, worker: str, room: Any, *args: Any, **options: Any) -> Any:
        self.asked.append(sum(room.values()))
        return await self._store.claim(worker, room, *args, **options)

    async def settle(self, settlements: Sequence[Any], worker: str) -> Any:
        self.settled.append(len(settlements))
        self.settled_at.append(time.perf_counter())
        await self.may_settle.wait()
        return await self._store.settle(settlements, worker)


class WatchedWaker:
    def __init__(self, waker: Any, watched: Watched) -> None:
        self._waker, self._watched = waker, watched

    def wake(self) -> None:
        self._waker.wake()

    async def wait(self, timeout: float) -> None:
        began, self._watched.asleep = time.monotonic(), timeout
        await self._waker.wait(timeout)
        self._watched.asleep = None
        self._watched.sleeps.append((timeout, time.monotonic() - began))
