"""Measures pruning: how late events are while a worker deletes finished ones beside, and how large the tables are after
several times as many have come and gone."""

import asyncio
import os
import time
from datetime import timedelta

import psycopg

from benchmarks.crew import Broken
from benchmarks.engine import finish_long_ago
from benchmarks.peers import Peer
from benchmarks.workloads import Figures, lateness
from duly import Duly

RETENTION = timedelta(days=1)
"""The finished events are older; those that the workload itself finishes are younger."""

AT_ONCE = "5s"
"""The retention of the measured worker: a tenth of it passes until the worker first looks for finished events."""

MEGABYTE = 1_000_000
TABLES = ("events", "journal")


def beside_pruning(peer: Peer, url: str, finished: int, rate: int, seconds: int) -> Figures:
    """Measures the lateness of events at a steady rate, whose worker prunes finished ones from its start on."""
    prepared(url, finished)
    os.environ["DULY_RETENTION"] = AT_ONCE
    figures = lateness(peer, url, rate, seconds)
    left = old(url)
    return figures | {"pruned": finished - left, "pruned_per_second": (finished - left) / seconds}


def come_and_gone(_peer: Peer, url: str, finished: int, times: int) -> dict[str, float]:
    """Measures the sizes of the tables and indexes when so many finished events are there, and after they were pruned
    and came again several times; vacuum is left to the server."""
    prepared(url, 0)
    full: dict[str, float] = {}
    took = 0.0
    for _ in range(times):
        finish_long_ago(url, finished)
        full = full or sizes(url)
        began = time.perf_counter()
        pruned = asyncio.run(prune(url))
        took += time.perf_counter() - began
        if pruned != finished or old(url):
            raise Broken(f"{pruned:,} of {finished:,} finished events were pruned")
    after = {f"after_{name}": size for name, size in sizes(url).items()}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM duly.events, duly.journal")
    vacuumed = {f"vacuumed_{name}": size for name, size in sizes(url).items()}
    return full | after | vacuumed | {"events_per_second": finished * times / took}


def prepared(url: str, finished: int) -> None:
    """A database with finished events."""
    asyncio.run(_open(url))
    if finished:
        finish_long_ago(url, finished)


async def _open(url: str) -> None:
    async with Duly(url):
        pass


async def prune(url: str) -> int:
    async with Duly(url, retention=RETENTION) as duly:
        return (await duly.prune()).events


def old(url: str) -> int:
    """How many finished events are there that are older than the retention."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM duly.events WHERE settled < now() - %s", [RETENTION]).fetchone()
    return int(row[0]) if row else 0


def sizes(url: str) -> dict[str, float]:
    """Megabytes of the tables and of their indexes, and how many dead rows the server knows of."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT sum(pg_table_size(c.oid)), sum(pg_indexes_size(c.oid)), sum(pg_stat_get_dead_tuples(c.oid)) "
            "FROM pg_class AS c WHERE c.oid = ANY (%s::regclass[])",
            [[f"duly.{table}" for table in TABLES]],
        ).fetchone()
    assert row is not None
    return {"tables_mb": float(row[0]) / MEGABYTE, "indexes_mb": float(row[1]) / MEGABYTE, "dead": float(row[2])}
