"""Measures how fast a file of users is imported, and how late birthday events are on the busiest morning."""

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psutil
import psycopg

from benchmarks.crew import Broken
from benchmarks.gate import EPOCH
from benchmarks.peers import Peer
from benchmarks.people import COLUMNS, born_today, read_people, write_people
from benchmarks.usage import Usage
from benchmarks.workloads import QUANTILES, TIMEOUT, Figures, quantile, tidy
from duly import Duly, Event
from duly.records.results import Imported
from duly.verbs.users.bulk_import import ImportObserver

TENTHS = 10
BLOCK = 2**18

BARE = """\
CREATE TABLE bare (LIKE duly.users);
ALTER TABLE bare ADD PRIMARY KEY (id), ALTER id SET DEFAULT uuidv7(), ALTER tenant SET DEFAULT 'default',
    ALTER created SET DEFAULT now(), ALTER updated SET DEFAULT now();
"""

LEAD = timedelta(seconds=10)
"""The time until the first birthday, in addition to the time of the import."""

SLOWEST_IMPORT = 1500
"""Users that are imported per second at least."""

READY = timedelta(seconds=3)
"""The time before the first birthday at which the import must be finished, so that the worker can start."""

ASTRAY = """\
SELECT count(*), count(*) FILTER (WHERE fired <> 1 OR heads <> 1 OR events <> 2) FROM (
    SELECT count(*) AS events,
           count(*) FILTER (WHERE status = 'COMPLETED' AND version = 2 AND attempts = 1 AND due = ANY (%s)) AS fired,
           count(*) FILTER (WHERE head AND due BETWEEN %s + interval '360 days' AND %s + interval '370 days') AS heads
    FROM duly.events WHERE tenant = %s GROUP BY series
) AS birthday
"""
DONE = """\
SELECT 1000 * extract(epoch FROM executed - due)::float8, settled FROM duly.events WHERE tenant = %s AND NOT head
"""


# -- the import


class Sample(NamedTuple):
    """The progress of the import at one moment."""

    users: int
    at: float
    mb: float


def import_users(_peer: Peer, url: str, users: int) -> Figures:
    """Measures importing a CSV file as users with their next birthdays, through the public API; and, as the upper bound
    of the machine, a plain COPY of the same file into a table like that of the users."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "users.csv"
        write_people(path, users)
        samples = asyncio.run(_import(url, path))
        _check_import(url, users)
        copied = users / _copy(url, path, users)
    rate = _rate(samples[0], samples[-1])
    tenths = [_first(samples, users * tenth / TENTHS) for tenth in range(TENTHS + 1)]
    rates = [_rate(one, next) for one, next in pairwise(tenths)]
    before, after = tenths[1].mb, samples[-1].mb
    return {
        "events_per_second": rate,
        "slowest_per_second": min(rates),
        "copied_per_second": copied,
        "copy_ratio": copied / rate,
        "before_mb": before,
        "after_mb": after,
        "most_mb": max(sample.mb for sample in samples),
        "growth_percent": 100 * (after / before - 1),
        "tenths_per_second": rates,
        "tenths_mb": [sample.mb for sample in tenths],
    }


async def _import(url: str, path: Path) -> list[Sample]:
    process = psutil.Process()

    def look(users: int) -> Sample:
        return Sample(users, time.perf_counter(), process.memory_info().rss / 2**20)

    def told(done: Imported) -> None:
        samples.append(look(done.added))

    async with Duly(url) as duly:
        samples = [look(0)]
        await duly.users.import_(read_people(path), telling=ImportObserver(progress=told))
    return samples


def _first(samples: Sequence[Sample], users: float) -> Sample:
    return next((sample for sample in samples if sample.users >= users), samples[-1])


def _rate(before: Sample, after: Sample) -> float:
    return (after.users - before.users) / (after.at - before.at)


def _check_import(url: str, users: int) -> None:
    with psycopg.connect(url) as connection:
        stored = connection.execute(
            "SELECT (SELECT count(*) FROM duly.users), (SELECT count(*) FROM duly.events WHERE head)"
        ).fetchone()
    if stored != (users, users):
        raise Broken(f"of {users:,} users, these many and their next birthdays are there: {stored}")


def _copy(url: str, path: Path, users: int) -> float:
    """The seconds of a COPY of the unchanged file into a table with only a primary key."""
    tidy(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BARE)
        start = time.perf_counter()
        copying = f"COPY bare ({', '.join(COLUMNS)}) FROM STDIN (FORMAT csv, HEADER)"
        with connection.cursor() as cursor, cursor.copy(copying) as copy, path.open("rb") as file:
            while block := file.read(BLOCK):
                copy.write(block)
        seconds = time.perf_counter() - start
        if connection.execute("SELECT count(*) FROM bare").fetchone() != (users,):
            raise Broken("not all of them were copied")
        connection.execute("DROP TABLE bare")
    return seconds


# -- the busiest morning


def morning(_peer: Peer, url: str, due: int, seconds: int, users: int) -> Figures:
    """Measures one worker in real time with birthdays that are due within *seconds*, or all at one instant, in a
    database with *users* other users."""
    _require(url, users)
    tidy(url)
    tenant = f"morning-{time.time_ns()}"  # unique: several runs may share a database
    first = _now(url).replace(microsecond=0) + LEAD + timedelta(seconds=due // SLOWEST_IMPORT)
    dues = [first + timedelta(seconds=n * seconds // due) for n in range(due)]
    _add(url, tenant, dues)
    if _now(url) > first - READY:
        raise Broken(f"took too long to import {due:,} users")
    usage = asyncio.run(_work(url, tenant, due))
    _check_morning(url, tenant, dues)
    return _figures(url, tenant, dues) | usage.per(due)


async def _work(url: str, tenant: str, due: int) -> Usage:
    duly, handled = Duly(url), 0

    @duly.on("birthday")
    async def handle(event: Event) -> None:
        nonlocal handled
        if event.tenant == tenant:  # one of the other users may have a birthday just now
            handled += 1
            if handled == due:
                duly.stop()  # events in progress are settled first

    async with duly, asyncio.timeout(TIMEOUT):
        with Usage([psutil.Process()], url) as usage:  # while connected: ended backends are counted with a delay
            await duly.run(signals=False)
    if handled != due:
        raise Broken(f"handled {handled:,} times, but there were {due:,} birthdays")
    return usage


def _add(url: str, tenant: str, dues: Sequence[datetime]) -> None:
    """Imports the users in a process of its own, so that the worker does not have their rules in its caches."""
    adding = multiprocessing.get_context("spawn").Process(target=_import_born_today, args=(url, tenant, dues))
    adding.start()
    adding.join()
    if adding.exitcode:
        raise Broken("the users who have a birthday were not imported")


def _import_born_today(url: str, tenant: str, dues: Sequence[datetime]) -> None:
    async def add() -> None:
        async with Duly(url) as duly:
            await duly.users.import_(born_today(dues), tenant=tenant)

    asyncio.run(add())


def _now(url: str) -> datetime:
    """The time of the server's clock, which decides when events are due."""
    with psycopg.connect(url) as connection:
        [now] = connection.execute("SELECT now()").fetchone() or [EPOCH]
    return now.astimezone(UTC)


def _require(url: str, users: int) -> None:
    with psycopg.connect(url) as connection:
        [found] = connection.execute("SELECT count(*) FROM duly.users").fetchone() or [0]
    if found < users:
        raise Broken(f"of the {users:,} other users {found:,} are there: the import comes first")


def _check_morning(url: str, tenant: str, dues: Sequence[datetime]) -> None:
    """Checks that each birthday has fired once, at the right time, and has its next event in a year."""
    with psycopg.connect(url) as connection:
        found = connection.execute(ASTRAY, [sorted(set(dues)), dues[0], dues[-1], tenant]).fetchone()
    if found != (len(dues), 0):
        raise Broken(f"series there should be and those gone astray: {(len(dues), 0)}; there are: {found}")


def _figures(url: str, tenant: str, dues: Sequence[datetime]) -> Figures:
    with psycopg.connect(url) as connection:
        rows = connection.execute(DONE, [tenant]).fetchall()
    late = sorted(row[0] for row in rows)
    last = max(row[1] for row in rows)
    seconds = (last - dues[0]).total_seconds()
    return {
        "p50_ms": quantile(late, 0.5),
        "p99_ms": quantile(late, 0.99),
        "max_ms": late[-1],
        "seconds": seconds,
        "after_last_s": (last - dues[-1]).total_seconds(),
        "events_per_second": len(dues) / seconds,
        "quantiles_ms": [quantile(late, q) for q in QUANTILES],
    }
