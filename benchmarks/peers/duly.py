"""Duly on either store with its default settings: history, fencing and durable commits."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import apsw

from benchmarks.gate import Gate, Order, instant
from benchmarks.peers import Absent, Left, Peer
from duly import Duly, Event, Timer, every
from duly.config import Settings

CHUNK = 5000
LOOKAHEAD = timedelta(seconds=0.5)
SCRAPE_EVERY_S = 2.0
INTERVAL = timedelta(seconds=1)
"""The interval of each schedule, in the lateness of schedules."""


def timers(dues: range) -> list[Timer]:
    return [Timer(instant(due), "bench", {"due": due}) for due in dues]


class DulyPeer(Peer):
    title = "Duly"
    package = "duly"
    settings = "as it is by default; add_many in chunks of 5,000; an async handler that does not wait"
    keeps = "every event with its history; leases, and fences on every settlement"
    left_sql = "SELECT count(*) FROM duly.events WHERE status IN ('PENDING', 'PROCESSING')"
    ended_sql = "SELECT count(*) FROM duly.events WHERE status = 'COMPLETED'"

    def options(self) -> dict[str, Any]:
        return {}

    def add(self, url: str, orders: Iterator[Order]) -> None:
        asyncio.run(self._add(url, orders))

    async def _add(self, url: str, orders: Iterator[Order]) -> None:
        async with Duly(url) as duly:
            for order in orders:
                for dues in order.chunks(CHUNK):
                    await duly.add_many(timers(dues))

    def work(self, url: str, gate: Gate, on_time: bool) -> None:
        asyncio.run(self._work(Duly(url, **self.options()), gate, on_time))

    async def _work(self, duly: Duly, gate: Gate, on_time: bool) -> None:
        duly.on("bench")(noting(gate) if on_time else self.handler(gate))
        async with duly:
            gate.ready(duly.stop)
            await duly.run(signals=False)

    def handler(self, gate: Gate) -> Any:
        async def handle(_event: Event) -> None:
            gate.count()

        return handle


def noting(gate: Gate) -> Any:
    async def handle(event: Event) -> None:
        gate.note(event.payload["due"])

    return handle


class DulyTask(DulyPeer):
    title = "Duly, handler waits"
    settings = "as it is by default; an async handler that gives way once (`await asyncio.sleep(0)`)"

    def handler(self, gate: Gate) -> Any:
        async def handle(_event: Event) -> None:
            await asyncio.sleep(0)
            gate.count()

        return handle


class DulyLookahead(DulyPeer):
    title = "Duly, look-ahead"
    settings = "claims up to half a second early and holds each event until its instant"

    def check(self) -> None:
        if "lookahead" not in Settings.__struct_fields__:
            raise Absent("this Duly has no setting `lookahead`")

    def options(self) -> dict[str, Any]:
        return {"lookahead": LOOKAHEAD}


class DulySchedules(DulyPeer):
    """The same events as occurrences: as many schedules as are due in a second, each of them due every second."""

    title = "Duly, schedules"
    settings = "as it is by default; each event is an occurrence of a schedule that is due every second"
    adds_per_second = 1000

    async def _add(self, url: str, orders: Iterator[Order]) -> None:
        async with Duly(url) as duly:
            for order in orders:
                end = instant(order.first + order.events * order.step - 1)
                for due in order.dues()[: INTERVAL // timedelta(microseconds=order.step)]:
                    await duly.every(f"bench-{due}", every(INTERVAL, start=instant(due)), "bench", end=end)

    async def _work(self, duly: Duly, gate: Gate, on_time: bool) -> None:
        @duly.on("bench")
        async def handle(event: Event) -> None:
            gate.note(round(event.due.timestamp() * 1_000_000))

        async with duly:
            gate.ready(duly.stop)
            await duly.run(signals=False)


class DulyInAsyncpg(DulyPeer):
    title = "Duly, in an asyncpg transaction"
    settings = "add_many(…, transaction=connection), a commit for each 5,000"

    async def _add(self, url: str, orders: Iterator[Order]) -> None:
        import asyncpg

        connection = await asyncpg.connect(url)
        async with Duly(url) as duly:
            for order in orders:
                for dues in order.chunks(CHUNK):
                    async with connection.transaction():
                        await duly.add_many(timers(dues), transaction=connection)
        await connection.close()


class DulyInPsycopg(DulyPeer):
    title = "Duly, in a psycopg transaction"
    settings = "add_many(…, transaction=connection), a commit for each 5,000"

    async def _add(self, url: str, orders: Iterator[Order]) -> None:
        import psycopg

        async with await psycopg.AsyncConnection.connect(url) as connection, Duly(url) as duly:
            for order in orders:
                for dues in order.chunks(CHUNK):
                    async with connection.transaction():
                        await duly.add_many(timers(dues), transaction=connection)


class DulySqlite(DulyPeer):
    title = "Duly on SQLite"
    settings = "as it is by default: one file, WAL, synchronous=FULL"

    @contextmanager
    def watch(self, url: str) -> Iterator[Left]:
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        yield lambda: _number(connection, "SELECT count(*) FROM events WHERE status IN ('PENDING', 'PROCESSING')")
        connection.close()

    def ended(self, url: str) -> int | None:
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        number = _number(connection, "SELECT count(*) FROM events WHERE status = 'COMPLETED'")
        connection.close()
        return number


class Observed(DulyPeer):
    """As with `duly worker --metrics`, which Prometheus scrapes every few seconds."""

    title = "Duly, observed"
    settings = "as it is by default, with `duly.metrics()` and a scrape every two seconds"

    async def _work(self, duly: Duly, gate: Gate, on_time: bool) -> None:
        duly.on("bench")(noting(gate) if on_time else self.handler(gate))
        metrics = duly.metrics()

        async def scrape() -> None:
            while True:
                await asyncio.sleep(SCRAPE_EVERY_S)
                await metrics.text()

        async with duly:
            scraping = asyncio.create_task(scrape())
            gate.ready(duly.stop)
            await duly.run(signals=False)
            scraping.cancel()


class ObservedSqlite(Observed, DulySqlite):
    title = "Duly on SQLite, observed"


def _number(connection: apsw.Connection, sql: str) -> int:
    return int(next(connection.execute(sql))[0])


PEERS = {
    "duly": DulyPeer(),
    "duly_task": DulyTask(),
    "duly_lookahead": DulyLookahead(),
    "duly_schedules": DulySchedules(),
    "duly_in_asyncpg": DulyInAsyncpg(),
    "duly_in_psycopg": DulyInPsycopg(),
    "duly_sqlite": DulySqlite(),
    "duly_observed": Observed(),
    "duly_observed_sqlite": ObservedSqlite(),
}
