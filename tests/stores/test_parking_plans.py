"""What is parked is found by index, however much waits: as in `test_plans`, but for destinations."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from duly import webhook
from duly.config import read_settings
from duly.engine.destinations.parking import FIRST_PROBE, LONGEST_PROBE_WAIT
from duly.stores.migrations import migrations
from duly.stores.queries import load
from duly.testing import ManualClock
from duly.wiring import open_store
from tests.conftest import AnyStore, AnyTransaction
from tests.make import LEASE, START, held, make_new
from tests.stores.test_plans import watched

pytestmark = pytest.mark.broken_rows("its tables are filled by hand")

BIG = "https://big.example"
LANES = ["webhook", "http"]

WAITING = """
INSERT INTO duly.events (id, tenant, type, lane, status, due, version, payload, target, created, held, hold_kind,
                         held_for, destination)
SELECT uuidv7(), 'default', 'greet', 'webhook', 'PENDING', '2025-01-01'::timestamptz + n * interval '1 second', 2, '1',
       json_build_object('webhook', host || '/in'), '2025-01-01', 'target ' || host || ' is parked: 503', 'target',
       host, host
FROM generate_series(1, 110000) AS n,
     LATERAL (SELECT concat('https://', CASE WHEN n <= 100000 THEN 'big' ELSE 'h' || n % 10000 END, '.example') AS host)
"""
PARKED = """
INSERT INTO duly.destinations (tenant, destination, concurrency, rate, parked, since, probe_at)
SELECT 'default', 'https://h' || n || '.example', 5, 1, CASE WHEN n % 2 = 0 THEN 'is parked: 503' END,
       CASE WHEN n % 2 = 0 THEN '2025-01-01'::timestamptz END, CASE WHEN n % 2 = 0 THEN '2099-01-01'::timestamptz END
FROM generate_series(1, 10000) AS n
"""
WAITING_IN_SQLITE = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 110000),
hosts AS (SELECT n, concat('https://', iif(n <= 100000, 'big', 'h' || n % 10000), '.example') AS host FROM numbers)
INSERT INTO events (id, tenant, type, lane, status, due, version, attempts, payload, target, created, held, hold_kind,
                    held_for, destination)
SELECT format('01900000-0000-7000-8000-%012x', n), 'default', 'greet', 'webhook', 'PENDING', n, 2, 0, '1',
       json_object('webhook', host || '/in'), 0, 'target ' || host || ' is parked: 503', 'target', host, host
FROM hosts
"""
PARKED_IN_SQLITE = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 10000)
INSERT INTO destinations (tenant, destination, concurrency, rate, parked, since, probe_at)
SELECT 'default', format('https://h%d.example', n), 5, 1, iif(n % 2 = 0, 'is parked: 503', NULL),
       iif(n % 2 = 0, 1, NULL), iif(n % 2 = 0, 1 << 51, NULL)
FROM numbers
"""


async def under_way(store: AnyStore | AnyTransaction) -> None:
    """Beside all that waits, some that are about to be held."""
    await store.park("default", BIG, "is parked: 503", FIRST_PROBE)
    await store.add([make_new(target=webhook(f"{BIG}/in"), due=START) for _ in range(500)])


async def what_parking_asks(tx: AnyTransaction, clock: ManualClock) -> AsyncIterator[tuple[str, set[str], int]]:
    """Each statement, with the index that it must use and the number of rows it is about."""
    asked = [("default", f"https://h{n}.example") for n in range(50)] + [("default", BIG), ("default", "")]
    assert len(await tx.destinations(asked)) == 52
    yield "destinations", {"destinations_pkey"}, 52
    assert len(await tx.list_destinations("default", after=("default", "https://h5"), limit=100)) == 100
    yield "list_destinations", {"destinations_pkey"}, 100
    assert len(await tx.allow([(tenant, name, 5) for tenant, name in asked[1:50]])) == 49
    yield "allow", {"destinations_pkey"}, 49
    claimed = await tx.claim("w1", {"webhook": 500}, LEASE)
    yield "claim", {"events_ready"}, 500
    assert len(await tx.settle([held(event) for event in claimed], "w1")) == 500
    yield "hold_claimed", {"events_pkey", "destinations_pkey"}, 500
    await tx.probe_now("default", BIG)
    yield "probe_now", {"destinations_pkey"}, 1
    assert (await tx.unparking()) == [("default", BIG, True)]
    yield "unparking", set(), 5000
    assert await tx.due_probes(FIRST_PROBE, LONGEST_PROBE_WAIT) == [("default", BIG)]
    yield "due_probes", set(), 5000
    assert len(await tx.claim_probe("default", BIG, LANES, "w1", LEASE)) == 1
    yield "claim_probe", {"events_parked"}, 1
    assert await tx.is_awaited("default", BIG)
    yield "is_awaited", {"events_parked"}, 1
    assert not await tx.is_awaited("default", "https://nobody.example")
    yield "is_awaited by none", {"events_parked"}, 1
    assert not await tx.is_retried_later("default", "https://nobody.example", "webhook", 100)
    yield "is_retried_later", {"events_ready"}, 100
    assert await tx.unpark("default", BIG)
    yield "unpark", {"destinations_pkey"}, 1
    for _ in range(2):
        assert await tx.release_parked("default", BIG, BIG, 1000, "w1") == 1000
        yield "release_parked", {"events_parked", "events_pkey"}, 1000
    await tx.released("default", BIG)
    yield "released", {"destinations_pkey"}, 1


@pytest.mark.timeout(300)
async def test_postgres_reads_no_table_of_a_hundred_thousand_held_events_to_the_end(
    new_postgres: Callable[[], str], clock: ManualClock
) -> None:
    store = open_store(read_settings({}, database_url=new_postgres()), clock)
    await store.open(migrate=True)
    try:
        async with store.begin() as tx:
            for table in ("events", "destinations"):
                await tx.execute(f"ALTER TABLE duly.{table} SET (autovacuum_enabled = false)")
            await tx.execute(WAITING)
            await tx.execute(PARKED)
            await under_way(tx)
        problems = []
        for statistics in ("never analysed", "analysed"):
            if statistics == "analysed":
                async with store.begin() as tx:
                    await tx.execute("ANALYZE duly.events, duly.destinations")
            for mode in ("force_custom_plan", "force_generic_plan"):
                async with watched(store.begin(), mode) as (tx, plans):
                    async for name, index, rows in what_parking_asks(tx, clock):
                        await tx.execute("RESET search_path")  # a plan is told when the next statement comes
                        found = list(plans.problems(index, rows))
                        problems += [f"{name}, {statistics}, {mode}: {problem}" for problem in found]
                        plans.told.clear()
        assert not problems, "\n".join(problems)
    finally:
        await store.close()


@pytest.mark.parametrize("statistics", ["never analysed", "analysed"])
async def test_sqlite_steps_through_no_table_of_a_hundred_thousand_held_events(
    tmp_path: Path, clock: ManualClock, statistics: str
) -> None:
    store = open_store(read_settings({}, database_url=f"sqlite:///{tmp_path}/duly.db"), clock)
    await store.open(migrate=True)
    steps: list[int] = []

    def stepped(told: dict[str, Any]) -> None:
        steps.append(told["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"])

    try:
        async with store.begin() as tx:
            await tx.execute(WAITING_IN_SQLITE)
            await tx.execute(PARKED_IN_SQLITE)
            await under_way(tx)
            if statistics == "analysed":
                await tx.execute("ANALYZE")
        problems = []
        async with store.begin() as tx:
            tx.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, stepped)
            async for name, _, rows in what_parking_asks(tx, clock):
                if sum(steps) > 10 * max(rows, 1):
                    problems.append(f"{name} steps through {sum(steps)} rows")
                steps.clear()
            tx.connection.trace_v2(0, None)
        assert not problems, "\n".join(problems)
    finally:
        await store.close()


INDEXES = {
    "claim_probe": "events_parked",
    "is_awaited": "events_parked",
    "is_retried_later": "events_ready",
    "release_parked": "events_parked",
    "hold_claimed": "sqlite_autoindex_destinations_1",
    "destinations": "sqlite_autoindex_destinations_1",
    "allow": "sqlite_autoindex_destinations_1",
    "unparking": "destinations_parked",
    "due_probes": "destinations_parked",
    "unpark": "sqlite_autoindex_destinations_1",
    "reopen": "sqlite_autoindex_destinations_1",
    "lock_target": "sqlite_autoindex_targets_2",
}


@pytest.mark.parametrize("name", INDEXES)
def test_each_query_of_sqlite_about_destinations_searches_its_index(name: str) -> None:
    connection = apsw.Connection(":memory:")
    for migration in migrations("sqlite"):
        connection.execute(migration.sql)
    told = ""
    for statement in load("sqlite")[name].sql.split(";\n"):
        values = dict.fromkeys(load("sqlite")[name].parameters, "[]")
        told += "\n".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)) + "\n"
    connection.close()
    assert INDEXES[name] in told
    for table in ("events", "e", "destinations", "d", "u", "targets", "t"):
        assert f"SCAN {table}\n" not in told, told
