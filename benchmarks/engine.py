"""Where the benchmarks reach inside Duly: a claim and a settlement by themselves, and rows made by the million."""

from collections.abc import Sequence
from datetime import timedelta

import psycopg
from psycopg import sql

from duly import Duly, Event
from duly.core.lifecycle import DELIVERED
from duly.core.model import Settlement
from duly.flow.claim import Frontier, claim
from duly.flow.settle import settle
from duly.signals import Signals

LEASE = timedelta(minutes=5)
SILENT = Signals()


class Claimer:
    """What a worker does when it has room: the same call, on the same connections."""

    def __init__(self, duly: Duly, name: str) -> None:
        self._duly, self._name, self._frontier = duly, name, Frontier()

    async def claim(self, limit: int) -> list[Event]:
        room = dict.fromkeys(self._duly.routes(), limit)
        return await claim(self._duly.store, self._name, room, LEASE, SILENT, self._frontier)


async def settle_all(duly: Duly, worker: str, events: Sequence[Event]) -> None:
    await settle(duly.store, [Settlement(event, DELIVERED) for event in events], worker, SILENT)


def multiply(url: str, id: str, copies: int) -> None:
    """Copy an event that nobody has claimed, so many times, each due 10 ms after the one before.

    The table is asked for its columns, so that a new column needs nothing new here.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'duly' AND table_name = 'events' "
            "ORDER BY ordinal_position"
        ).fetchall()
        columns = [column for (column,) in rows]
        copying = sql.SQL(
            "INSERT INTO duly.events ({columns}) SELECT {values} FROM duly.events AS original, "
            "generate_series(1, %(copies)s) AS n WHERE original.id = %(id)s"
        ).format(
            columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
            values=sql.SQL(", ").join(map(_value, columns)),
        )
        connection.execute(copying, {"id": id, "copies": copies})
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _value(column: str) -> sql.Composable:
    own = sql.Identifier("original", column)
    if column == "id":  # in the order of their numbers, as Duly's own are in the order of time
        return sql.SQL("(left({}::text, 24) || lpad(to_hex(n), 12, '0'))::uuid").format(own)
    if column in ("due", "ready"):
        return sql.SQL("{} + n * interval '10 milliseconds'").format(own)
    return own
