"""A worker process under faults. Each handler journals that it has begun, and that it has done its work."""

import asyncio
import random
import time

from duly import Duly, Event
from duly.ports.transactions import Transaction
from duly.signals import WorkerStarted
from tests.chaos.orders import Orders, begin, tell_of_stalls, tell_tasks_on_signal
from tests.crash.killed_worker import INSERT, Journal

PLAIN, THREADED, SLOW, TRANSACTIONAL, HOOK = "plain", "threaded", "slow", "transactional", "hook"

WORK_SECONDS = 0, 0.3
"""How long most handlers take, so that most faults find some under way."""

WORK_AGAIN_SECONDS = 0.5, 1.5
"""How long they take with an event that was taken from another worker: one that comes back finds them at it."""

SHORT_WORK_SECONDS = 0, 0.01
"""How long transactional ones take on SQLite: it has one writer, and they are it."""

LEASES_OF_SLOW = 1.3
"""How many leases a slow handler takes: its claim has to be renewed."""


def register(duly: Duly, orders: Orders, journal: Journal) -> None:
    insert = INSERT[orders.dialect]
    luck = random.Random(orders.seed)
    short = orders.dialect == "sqlite"
    slow_seconds = duly.settings.lease.total_seconds() * LEASES_OF_SLOW

    def begun(event: Event) -> None:
        now, due = time.time(), event.due.timestamp()
        journal.write("begun", event=event.id, version=event.version, type=event.type, due=due, at=now)

    def done(event: Event) -> None:
        journal.write("done", event=event.id, version=event.version, at=time.time())

    def work_seconds(event: Event) -> float:
        return luck.uniform(*(WORK_AGAIN_SECONDS if event.interruptions else WORK_SECONDS))

    @duly.on(PLAIN)
    async def plain(event: Event) -> None:
        begun(event)
        await asyncio.sleep(work_seconds(event))
        done(event)

    @duly.on(THREADED)
    def threaded(event: Event) -> None:
        begun(event)
        time.sleep(work_seconds(event))
        done(event)

    @duly.on(SLOW)
    async def slow(event: Event) -> None:
        begun(event)
        await asyncio.sleep(slow_seconds)
        done(event)

    @duly.on(TRANSACTIONAL, transactional=True)
    async def transactional(event: Event, tx: Transaction) -> None:
        begun(event)
        await tx.execute(insert, event.id, event.version, orders.name)
        await asyncio.sleep(luck.uniform(*SHORT_WORK_SECONDS) if short else work_seconds(event))


async def work(orders: Orders, journal: Journal) -> None:
    tell_tasks_on_signal()
    duly = Duly(orders.url, **orders.options)
    register(duly, orders, journal)
    duly.observe(lambda _: journal.write("started"), WorkerStarted)
    stalls = asyncio.create_task(tell_of_stalls(journal))
    try:
        await duly.run(name=orders.name)
    finally:
        stalls.cancel()


def main(orders: Orders) -> None:
    journal = begin(orders)
    asyncio.run(work(orders, journal))
