"""Where the benchmarks reach inside Duly: a claim and a settlement by themselves, and rows made by the million."""

from collections.abc import Sequence
from datetime import timedelta

import psycopg
from psycopg import sql

from duly import Duly, Event
from duly.core.lifecycle import DELIVERED
from duly.core.model import Settlement
from duly.flow.claim import claim
from duly.flow.settle import settle
from duly.signals import Signals

LEASE = timedelta(minutes=5)
SILENT = Signals()


async def claim_some(duly: Duly, worker: str, limit: int) -> list[Event]:
    """What a worker does when it has room: the same call, on the same connections."""
    room = dict.fromkeys(duly.routes(), limit)
    return await claim(duly.store, worker, room, LEASE, SILENT)


async def settle_all(duly: Duly, worker: str, events: Sequence[Event]) -> None:
    await settle(duly.store, [Settlement(event, DELIVERED) for event in events], worker, SILENT)


def multiply(url: str, id: str, copies: int) -> None:
    """Copy an event that nobody has claimed, so many times, each due 10 ms after the one before.

    The tables are asked for their columns, so that a new column needs nothing new here.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        for table, columns in _tables(connection).items():
            named = sql.Identifier("id" if "id" in columns else "subject")
            connection.execute(_copying(table, columns, named), {"id": id, "copies": copies})
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _tables(connection: psycopg.Connection) -> dict[str, list[str]]:
    """The tables that tell of events, and their columns that can be written."""
    rows = connection.execute(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'duly' "
        "AND table_name IN ('events', 'history') AND is_generated = 'NEVER' AND is_identity = 'NO' "
        "ORDER BY table_name, ordinal_position"
    ).fetchall()
    tables: dict[str, list[str]] = {}
    for table, column in rows:
        tables.setdefault(table, []).append(column)
    return tables


def _copying(table: str, columns: list[str], named: sql.Identifier) -> sql.Composed:
    return sql.SQL(
        "INSERT INTO {place} ({columns}) SELECT {values} FROM {place} AS original, generate_series(1, %(copies)s) AS n "
        "WHERE original.{named} = %(id)s"
    ).format(
        place=sql.Identifier("duly", table),
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        values=sql.SQL(", ").join(map(_value, columns)),
        named=named,
    )


def _value(column: str) -> sql.Composable:
    own = sql.Identifier("original", column)
    if column in ("id", "subject"):  # in the order of their numbers, as Duly's own are in the order of time
        return sql.SQL("(left({}::text, 24) || lpad(to_hex(n), 12, '0'))::uuid").format(own)
    if column in ("due", "ready"):
        return sql.SQL("{} + n * interval '10 milliseconds'").format(own)
    return own
