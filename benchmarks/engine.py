"""The benchmarks' access to Duly's internals: a single claim, a single settlement, and millions of rows by SQL."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import psycopg
from psycopg import sql

from duly import Duly, Event
from duly.decide.lifecycle import DELIVERED
from duly.engine.claim import Claims
from duly.engine.fairness.fair_queue import FairQueue
from duly.engine.fairness.limits import Unlimited
from duly.engine.series.careful_heads import CarefulHeads
from duly.engine.series.heads import Claimant
from duly.engine.series.successors import Successors
from duly.engine.settle import settle
from duly.records.event import Settlement
from duly.signals import Signals

LEASE = timedelta(minutes=5)
SILENT = Signals()


class Claimer:
    """Claims events as a worker with free capacity does: with the same call, on the same connections."""

    def __init__(self, duly: Duly, name: str) -> None:
        concurrency = duly.settings.concurrency
        turns = FairQueue(Unlimited(concurrency), concurrency)
        claimant, self.successors = Claimant(name, LEASE), Successors(duly.store)
        heads = CarefulHeads(duly.store, claimant, self.successors, SILENT)
        self._duly, self._claims = duly, Claims(duly.store, claimant, turns, heads, SILENT)

    async def claim(self, limit: int) -> list[Event]:
        room = dict.fromkeys(self._duly.routes(), limit)
        return [event async for batch in self._claims.take(room) for event in batch.events]

    async def complete(self) -> None:
        """Completes the heads that its claims have planted, as a worker does beside its loop."""
        task = asyncio.create_task(self.successors.run())
        await self.successors.finish(60)
        task.cancel()


async def settle_all(duly: Duly, worker: str, events: Sequence[Event]) -> None:
    await settle(duly.store, [Settlement(event, DELIVERED) for event in events], worker, SILENT)


def multiply(url: str, id: str, copies: int) -> None:
    """Copies an unclaimed event *copies* times, each copy due 10 ms after the one before."""
    with psycopg.connect(url, autocommit=True) as connection:
        _copy(connection, "events", sql.SQL("original.id = {}").format(id), copies, {"due": LATER, "ready": LATER})
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def multiply_schedules(url: str, copies: int) -> None:
    """Copies every schedule and its head *copies* times."""
    with psycopg.connect(url) as connection:
        _copy(connection, "schedules", sql.SQL("true"), copies, {"name": NUMBERED})
        _copy(connection, "events", sql.SQL("original.head"), copies, {"series": OF_COPY})


ANEW = sql.SQL("(left({}::text, 24) || lpad(to_hex(n), 12, '0'))::uuid")
"""The id of a copy. Ids of copies sort by their numbers, as Duly's own ids sort by time."""

OF_COPY = sql.SQL("left({}, 33) || lpad(to_hex(n), 12, '0')")  # 'schedule:', and the id of the schedule's copy
LATER = sql.SQL("{} + n * interval '10 milliseconds'")
NUMBERED = sql.SQL("{} || '-' || n")


def _copy(
    connection: psycopg.Connection, table: str, which: sql.Composable, copies: int, changed: dict[str, sql.SQL]
) -> None:
    """Copies rows of a table. The columns are read from the database, so that a new column needs no change here."""
    rows = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'duly' AND table_name = %s "
        "ORDER BY ordinal_position",
        [table],
    ).fetchall()
    values = {column: changed.get(column, sql.SQL("{}")) for (column,) in rows} | {"id": ANEW}
    copying = sql.SQL(
        "INSERT INTO duly.{table} ({columns}) SELECT {values} FROM duly.{table} AS original, "
        "generate_series(1, {copies}) AS n WHERE {which}"
    ).format(
        table=sql.Identifier(table),
        columns=sql.SQL(", ").join(map(sql.Identifier, values)),
        values=sql.SQL(", ").join(value.format(sql.Identifier("original", column)) for column, value in values.items()),
        copies=copies,
        which=which,
    )
    connection.execute(copying)


def finish_long_ago(url: str, many: int) -> None:
    """Writes completed events of 40 days ago, one in ten of which has failed once before."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(COMPLETED_LONG_AGO, {"many": many})
        connection.execute(FAILED_BEFORE)
        connection.execute("VACUUM ANALYZE duly.events, duly.journal")
        connection.execute("CHECKPOINT")


COMPLETED_LONG_AGO = """\
INSERT INTO duly.events (id, tenant, type, lane, status, due, created, claimed, executed, settled, version, attempts,
                         payload, worker)
SELECT (overlay(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') PLACING '-' FROM 9 FOR 0) || '-7000-'
        || substr(gen_random_uuid()::text, 20))::uuid,
       'default', 'bench', 'handler:bench', 'COMPLETED', at, at, at, at, at, 2, 1, '{"due": 1796115600000000}',
       'worker-0123456789'
FROM (SELECT now() - interval '40 days' + n * interval '1 millisecond' AS at FROM generate_series(1, %(many)s) AS n)
  AS ends
"""
FAILED_BEFORE = """\
INSERT INTO duly.journal (subject, at, act, worker, version, attempt, claimed, detail)
SELECT id, settled, 'failed', worker, 1, 1, settled, '503 Service Unavailable' FROM duly.events
WHERE settled < now() - interval '39 days' AND get_byte(uuid_send(id), 15) < 26
"""
