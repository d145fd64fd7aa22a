"""A worker process that ends itself with SIGKILL at a named point of the path, or is killed by its supervisor.

What it does stands in the journal: one JSON line for each act, appended with one write, so that no kill can
take it back.
"""

import asyncio
import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from duly import Duly, Event
from duly.ports import ClaimedEvents, TakenOver
from duly.ports.transactions import Transaction
from duly.records.event import NewEvent
from duly.signals import WorkerStarted
from tests.conftest import AnyStore
from tests.crash.forked import say_into

SPARED = 3
"""Crashes after which an event is left in peace. One that was there in five is taken for their cause; here the test
is the cause, and no event shall pay for its aim."""

INSERT = {
    "sqlite": "INSERT INTO effects VALUES (?, ?, ?)",
    "postgresql": "INSERT INTO effects VALUES ($1, $2, $3)",
}


class Orders(msgspec.Struct, frozen=True):
    url: str
    journal: str
    stderr: str
    name: str
    point: str | None = None  # where to die, when that is reached for the countdown's last time
    countdown: int = 1
    options: dict[str, Any] = {}


class Writer(Protocol):
    """Who writes a journal, and where."""

    @property
    def journal(self) -> str: ...

    @property
    def name(self) -> str: ...


class Journal:
    SLOT = 128
    """Lines are filled up to a multiple of this, so that a short one never crosses the end of a page: there a kill
    could tear it."""

    def __init__(self, orders: Writer) -> None:
        self._file = os.open(orders.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._worker = orders.name

    def write(self, act: str, **facts: Any) -> None:
        line = json.dumps({"act": act, "worker": self._worker, **facts}).encode()
        os.write(self._file, line + b" " * (-(len(line) + 1) % self.SLOT) + b"\n")


class Doom:
    """Strikes when the named point is reached often enough, with these events in hand."""

    def __init__(self, orders: Orders, journal: Journal) -> None:
        self._point, self._left, self._journal = orders.point, orders.countdown, journal
        self._once = threading.Lock()

    def at(self, point: str, events: Sequence[Event]) -> None:
        if point != self._point or not events or any(event.interruptions >= SPARED for event in events):
            return
        self._left -= 1
        if self._left <= 0:
            self.strike(point, events)

    def strike(self, point: str, events: Sequence[Event]) -> None:
        self._once.acquire()  # never released
        claims = [(event.id, event.version) for event in events]
        self._journal.write("struck", point=point, claims=claims, at=time.time())
        os.kill(os.getpid(), signal.SIGKILL)


class KilledTransaction:
    def __init__(self, transaction: Any, doom: Doom) -> None:
        self._transaction, self._doom = transaction, doom
        self.claimed: list[Event] = []
        self.settled: list[Event] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    async def claim(self, *args: Any, **options: Any) -> ClaimedEvents:
        claimed: ClaimedEvents = await self._transaction.claim(*args, **options)
        self._claiming(claimed)
        return claimed

    async def fire(self, heads: Any, *args: Any) -> None:
        await self._transaction.fire(heads, *args)
        self._claiming([await self._transaction.get(one.id) for one in heads])

    async def claim_interrupted(self, *args: Any) -> list[TakenOver]:
        taken: list[TakenOver] = await self._transaction.claim_interrupted(*args)
        self._claiming([event for event, _ in taken])
        return taken

    def _claiming(self, events: list[Event]) -> None:
        self.claimed = events
        self._doom.at("claiming", events)

    async def settle(self, settlements: Any, worker: str, **options: Any) -> Any:
        events = [settlement.event for settlement in settlements]
        self._doom.at("settling", events)
        settled = await self._transaction.settle(settlements, worker, **options)
        self.settled = [event for event in events if event.id in settled]
        self._doom.at("committing", self.settled)
        return settled


class KilledStore:
    """The real store; around its calls there are places to die."""

    def __init__(self, store: AnyStore, doom: Doom) -> None:
        self._store, self._doom = store, doom

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def begin(self) -> AbstractAsyncContextManager[KilledTransaction]:
        return self._watched(self._store.begin())

    def lend(self) -> AbstractAsyncContextManager[KilledTransaction]:
        return self._watched(self._store.lend())

    @asynccontextmanager
    async def _watched(self, begun: AbstractAsyncContextManager[Any]) -> AsyncIterator[KilledTransaction]:
        async with begun as transaction:
            killed = KilledTransaction(transaction, self._doom)
            yield killed
        self._doom.at("claimed", killed.claimed)
        self._doom.at("settled", killed.settled)

    async def claim(self, *args: Any, **options: Any) -> ClaimedEvents:
        async with self.begin() as transaction:  # the same statement, but with a place to die before it is committed
            return await transaction.claim(*args, **options)

    async def carry(self, heads: Sequence[NewEvent]) -> None:
        """Until this is committed, new heads do not know their successors."""
        self._doom.at("completing", [event for head in heads if (event := await self._store.get(head.id))])
        await self._store.carry(heads)

    async def reserve(self, *args: Any) -> Any:
        reserved, now = await self._store.reserve(*args)
        self._doom.at("reserved", [event for one in reserved if (event := await self._store.get(one.id))])
        return reserved, now

    async def start(self, *args: Any) -> Any:
        events, now = await self._store.start(*args)
        self._doom.at("started", events)
        return events, now

    async def settle(self, settlements: Any, worker: str, **options: Any) -> Any:
        events = [settlement.event for settlement in settlements]
        self._doom.at("settling", events)
        settled = await self._store.settle(settlements, worker, **options)
        self._doom.at("settled", [event for event in events if event.id in settled])
        return settled


def register(duly: Duly, orders: Orders, journal: Journal, doom: Doom) -> None:
    go = Path(f"{orders.journal}.go")
    insert = INSERT[orders.url.partition(":")[0]]

    @duly.on("awaited")
    async def awaited(event: Event) -> None:
        if event.payload == "lethal":
            doom.strike("lethal", [event])
        doom.at("delivering", [event])
        await asyncio.sleep(random.uniform(0, 0.004))
        journal.write("effect", event=event.id, version=event.version)
        doom.at("delivered", [event])
        await asyncio.sleep(random.uniform(0, 0.002))

    @duly.on("threaded")
    def threaded(event: Event) -> None:
        doom.at("delivering", [event])
        time.sleep(random.uniform(0, 0.004))
        journal.write("effect", event=event.id, version=event.version)
        doom.at("delivered", [event])
        time.sleep(random.uniform(0, 0.002))

    @duly.on("transactional", transactional=True)
    async def transactional(event: Event, tx: Transaction) -> None:
        doom.at("delivering", [event])
        await tx.execute(insert, event.id, event.version, orders.name)
        doom.at("delivered", [event])

    @duly.on("shared")
    def shared(event: Event) -> None:
        """Goes on when everybody who should take part has; the test says when."""
        journal.write("effect", event=event.id, version=event.version)
        while event.payload != "quick" and not go.exists():
            time.sleep(0.005)

    @duly.on("endless")
    async def endless(event: Event) -> None:
        journal.write("effect", event=event.id, version=event.version)
        await asyncio.sleep(3600)

    @duly.on("hung")
    def hung(event: Event) -> None:
        """Unlike the endless one, nothing can stop it."""
        journal.write("effect", event=event.id, version=event.version)
        time.sleep(3600)


def end_with_supervisor() -> None:
    """However it dies."""
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None

    def wait() -> None:
        supervisor.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main(orders: Orders) -> None:
    end_with_supervisor()
    say_into(orders.stderr)
    journal = Journal(orders)
    doom = Doom(orders, journal)
    duly = Duly(orders.url, **orders.options)
    register(duly, orders, journal, doom)
    duly.store = KilledStore(duly.store, doom)  # type: ignore[assignment]
    duly.observe(lambda _: journal.write("started"), WorkerStarted)
    asyncio.run(duly.run(name=orders.name))
