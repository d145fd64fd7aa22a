"""A page looks at no more than so many events, however many there are: as in `test_plans`, but for pages."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import apsw
import pytest

from duly.config import read_settings
from duly.records.specs import DueBetween, Everything, InStatus, OfSeries, OfTenant, OfType, OfUser, Spec
from duly.stores.postgres.store import SEARCHING
from duly.stores.postgres.tenants.rls_role import ROLE
from duly.testing import ManualClock
from duly.wiring import open_store
from tests.conftest import AnyTransaction
from tests.make import HOUR
from tests.stores.test_plans import watched

pytestmark = pytest.mark.broken_rows("its tables are filled by hand")

EVENTS = 100_000
EXAMINE, LIMIT = 500, 20

SEED = """
INSERT INTO {table} (id, tenant, type, lane, status, due, version, attempts, payload, created, series, occurrence, rule)
{numbers}
SELECT {id}, CASE WHEN n % 1000 = 0 THEN 'small' WHEN n % 2 = 0 THEN 'large' ELSE 'default' END,
       CASE WHEN n < 100 THEN 'rare' ELSE 'greet' END, 'handler:greet',
       CASE WHEN n < 200 THEN 'SKIPPED' WHEN n % 10 IN (2, 3) THEN 'FAILED' ELSE 'COMPLETED' END, {due}, 2, 1, '{{}}',
       {due}, CASE n % 20 WHEN 4 THEN 'schedule:' || n / 20 % 2 WHEN 6 THEN 'user:' || n / 20 % 500 || ':birthday' END,
       CASE WHEN n % 20 IN (4, 6) THEN 'number ' || n END, CASE WHEN n % 20 = 6 THEN '{{}}'{as_json} END
FROM {source}
"""
SEED_POSTGRES = SEED.format(
    table="duly.events",
    numbers="",
    id="(lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid",
    due="timestamptz '2025-01-01Z' + n * interval '1 second'",
    as_json="::json",
    source=f"generate_series(1, {EVENTS}) AS numbers (n)",
)
SEED_SQLITE = SEED.format(
    table="events",
    numbers=f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {EVENTS})",
    id="format('%08x-0000-7000-8000-000000000000', n)",
    due="1735689600000000 + n * 1000000",
    as_json="",
    source="numbers",
)
SECOND_DAY = datetime(2025, 1, 2, tzinfo=UTC)
MIDDLE = f"{EVENTS // 2:08x}-0000-7000-8000-000000000000"

HALF = 2 * EXAMINE  # where every other event is somebody else's, the primary key is as good as an index of tenants

ASKED: list[tuple[str, Spec, str | None, set[str], int]] = [  # what, whose, by which index, about how many rows
    ("all", Everything(), None, {"events_pkey"}, LIMIT),
    ("all of a large tenant", Everything(), "large", set(), LIMIT),
    ("all of a small tenant", Everything(), "small", {"events_tenant"}, LIMIT),
    ("all of the usual tenant", Everything(), "default", {"events_pkey"}, EXAMINE),
    ("all of nobody", Everything(), "nobody", {"events_tenant"}, LIMIT),
    ("a rare type", OfType("rare"), None, {"events_pkey"}, EXAMINE),
    ("a rare type of a large tenant", OfType("rare"), "large", set(), HALF),
    ("a rare type of a small tenant", OfType("rare"), "small", {"events_tenant"}, EVENTS // 1000),
    ("a rare type of the usual tenant", OfType("rare"), "default", {"events_pkey"}, EXAMINE),
    ("a rare status of a large tenant", InStatus("SKIPPED"), "large", set(), HALF),
    ("a rare status of the usual tenant", InStatus("SKIPPED"), "default", {"events_pkey"}, EXAMINE),
    ("dead letters", InStatus("FAILED"), None, {"events_dead"}, LIMIT),
    ("dead letters of a tenant", InStatus("FAILED"), "large", set(), LIMIT),
    ("dead letters of a type", InStatus("FAILED") & OfType("rare"), "large", set(), HALF),
    ("due in an hour", DueBetween(SECOND_DAY - HOUR, SECOND_DAY), "large", set(), HALF),
    ("a schedule's", OfSeries("schedule:1"), "large", set(), EXAMINE),
    ("a schedule's of a type", OfSeries("schedule:1") & OfType("rare"), None, {"events_series"}, EXAMINE),
    ("a user's", OfUser("7"), "large", {"events_occurrence"}, LIMIT),
    ("a user's of a type", OfUser("7") & OfType("rare"), "large", {"events_occurrence"}, LIMIT),
]


async def pages(store: AnyTransaction, *, tenant_session: bool = False) -> AsyncIterator[tuple[str, set[str], int]]:
    for (name, spec, tenant, index, rows), after in product(ASKED, (None, MIDDLE)):
        if tenant_session and tenant is None:
            continue
        if tenant_session:
            await store.execute(f"SET LOCAL duly.tenant = '{tenant}'")
        own = spec if tenant is None else spec & OfTenant(tenant)
        page = await store.page(own, limit=LIMIT, after=after, examine=EXAMINE)
        assert len(page.events) <= LIMIT
        yield f"{name}{' from the middle' if after else ''}", index, rows


@pytest.mark.timeout(300)
async def test_postgres_looks_at_no_more_events_than_a_page_may(
    new_postgres: Callable[[], str], clock: ManualClock
) -> None:
    """Whether the table was ever analysed or not, and with the policies of the API or without."""
    store = open_store(read_settings({}, database_url=new_postgres()), clock)
    await store.open(migrate=True)
    await store.prepare_rls_role()
    try:
        async with store.begin() as tx:
            await tx.execute("ALTER TABLE duly.events SET (autovacuum_enabled = false)")
            await tx.execute(SEED_POSTGRES)
        problems = []
        for statistics, tenant_session in product(("never analysed", "analysed"), (False, True)):
            if statistics == "analysed":
                async with store.begin() as tx:
                    await tx.execute("ANALYZE duly.events")
            async with watched(store.lend(), SEARCHING["plan_cache_mode"]) as (tx, plans):
                await tx.execute("SET LOCAL auto_explain.log_nested_statements = on")  # also what functions do
                if tenant_session:
                    await tx.execute(f"SET LOCAL ROLE {ROLE}")
                async for name, index, rows in pages(tx, tenant_session=tenant_session):
                    await tx.execute("RESET search_path")  # a plan is told when the next statement comes
                    found = plans.problems(index, rows + LIMIT)
                    problems += [
                        f"{name}, {statistics}{', tenant_session' * tenant_session}: {problem}" for problem in found
                    ]
                    plans.told.clear()
        assert not problems, "\n".join(problems)
    finally:
        await store.close()


@pytest.mark.parametrize("statistics", ["never analysed", "analysed"])
async def test_sqlite_looks_at_no_more_events_than_a_page_may(
    tmp_path: Path, clock: ManualClock, statistics: str
) -> None:
    store = open_store(read_settings({}, database_url=f"sqlite:///{tmp_path}/duly.db"), clock)
    await store.open(migrate=True)
    steps: list[int] = []

    def stepped(told: dict[str, Any]) -> None:
        steps.append(told["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    try:
        async with store.begin() as tx:
            await tx.execute(SEED_SQLITE)
            if statistics == "analysed":
                await tx.execute("ANALYZE")
        problems = []
        async with store.begin() as tx:
            tx.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, stepped)
            async for name, _, rows in pages(tx):
                assert steps, name
                if sum(steps) > 25 * rows + 100 * LIMIT:  # for each that is looked at, and for each that is told of
                    problems.append(f"{name} takes {sum(steps)} steps for {rows} rows")
                steps.clear()
            tx.connection.trace_v2(0, None)
        assert not problems, "\n".join(problems)
    finally:
        await store.close()
