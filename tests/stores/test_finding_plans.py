"""Searches of users and of waiting events read no more rows than they must, by the plans that were really run."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from duly.config import read_settings
from duly.records.finding.sorting import DuePlace
from duly.records.finding.users import user_search
from duly.records.specs import DueBetween, Everything, OfTenant, OfType
from duly.stores.finding import waiting
from duly.stores.postgres.store import SEARCHING
from duly.stores.postgres.tenants.rls_role import ROLE
from duly.testing import ManualClock
from duly.wiring import open_store
from tests.conftest import AnyTransaction
from tests.make import HOUR
from tests.stores.test_plans import watched

pytestmark = pytest.mark.broken_rows("its tables are filled by hand")

MANY = 20_000
LIMIT, EXAMINED = 20, 500

USERS = """
INSERT INTO {schema}users (id, tenant, first_name, last_name, date_of_birth, timezone, created, updated)
{numbers}
SELECT {id}, CASE WHEN n % 100 = 0 THEN 'small' ELSE 'large' END, 'Name' || n % 1000, 'Other' || n % 997, '1990-03-15',
       CASE WHEN n % 500 = 0 THEN 'Pacific/Niue' ELSE 'UTC' END, {at}, {at}
FROM {source}
"""
EVENTS = """
INSERT INTO {schema}events (id, tenant, type, lane, status, due, ready, payload, created)
{numbers}
SELECT {id}, CASE WHEN n % 100 = 0 THEN 'small' ELSE 'large' END, CASE WHEN n < 50 THEN 'rare' ELSE 'greet' END,
       'handler:greet', CASE WHEN n % 4 = 0 THEN 'PENDING' ELSE 'COMPLETED' END, {at},
       CASE WHEN n % 4 = 0 THEN {at} END, '{{}}', {at}
FROM {source}
"""
POSTGRES = {
    "schema": "duly.",
    "numbers": "",
    "id": "(lpad(to_hex(n), 8, '0') || '-0000-7000-8000-000000000000')::uuid",
    "at": "timestamptz '2025-01-01Z' + n * interval '1 second'",
    "source": f"generate_series(1, {MANY}) AS numbers (n)",
}
SQLITE = {
    "schema": "",
    "numbers": f"WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MANY})",
    "id": "format('%08x-0000-7000-8000-000000000000', n)",
    "at": "1735689600000000 + n * 1000000",
    "source": "numbers",
}
LATER = datetime(2025, 1, 1, 3, tzinfo=UTC)
AFTER = DuePlace(LATER, f"{3 * 3600:08x}-0000-7000-8000-000000000000")


async def searches(
    store: AnyTransaction, tenants: Sequence[str] = ("small", "large")
) -> AsyncIterator[tuple[str, set[str], int]]:
    """What is asked, by which index, and how many rows about it reads."""
    for tenant in tenants:
        for asked, index, rows in (
            ({"name": "name77 "}, "users_first_last", 40),
            ({"name": "Other77 "}, "users_last_first", 60),
            ({"name": "nobody"}, "users_first_last", 1),
            ({"timezone": "Pacific/Niue"}, "users_timezone", 80),
        ):
            await store.list_users(tenant, before=None, limit=LIMIT, which=user_search(asked))
            yield f"{asked} of {tenant}", {index}, rows
        for spec, after, latest_first, rows in (
            (Everything(), None, False, LIMIT),
            (Everything(), AFTER, True, LIMIT),
            (DueBetween(LATER, LATER + HOUR), None, False, LIMIT),
            (OfType("rare"), AFTER, False, 2 * EXAMINED),
        ):
            await store.page_by_due(spec & OfTenant(tenant), limit=LIMIT, latest_first=latest_first, after=after)
            yield f"{spec} of {tenant} by due time", {"events_waiting"}, rows


@pytest.mark.timeout(300)
async def test_postgres_finds_by_index_also_behind_the_policies_of_the_api(
    new_postgres: Callable[[], str], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "DUE_EXAMINED", EXAMINED)
    store = open_store(read_settings({}, database_url=new_postgres()), clock)
    await store.open(migrate=True)
    await store.prepare_rls_role()
    try:
        async with store.begin() as tx:
            for insert in (USERS, EVENTS):
                await tx.execute(insert.format(**POSTGRES).replace("'1990-03-15'", "date '1990-03-15'"))
            await tx.execute("ANALYZE duly.users, duly.events")
        problems = []
        for behind in (False, True):
            async with watched(store.lend(), SEARCHING["plan_cache_mode"]) as (tx, plans):
                for tenant in ("small", "large"):
                    if behind:
                        await tx.execute(f"SET LOCAL ROLE {ROLE}")
                        await tx.execute(f"SET LOCAL duly.tenant = '{tenant}'")
                    async for name, wanted, many in searches(tx, [tenant]):
                        await tx.execute("RESET search_path")  # a plan is told when the next statement comes
                        found = plans.problems(wanted, many + LIMIT)
                        problems += [f"{name}{', behind policies' * behind}: {problem}" for problem in found]
                        plans.told.clear()
        assert not problems, "\n".join(problems)
    finally:
        await store.close()


@pytest.mark.parametrize("statistics", ["never analysed", "analysed"])
async def test_sqlite_finds_by_index(
    tmp_path: Path, clock: ManualClock, statistics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "DUE_EXAMINED", EXAMINED)
    store = open_store(read_settings({}, database_url=f"sqlite:///{tmp_path}/duly.db"), clock)
    await store.open(migrate=True)
    steps: list[int] = []

    def stepped(told: dict[str, Any]) -> None:
        steps.append(told["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    try:
        async with store.begin() as tx:
            for insert in (USERS, EVENTS):
                await tx.execute(insert.format(**SQLITE))
            if statistics == "analysed":
                await tx.execute("ANALYZE")
        problems = []
        async with store.begin() as tx:
            tx.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, stepped)
            async for name, _, rows in searches(tx):
                assert steps, name
                if sum(steps) > 40 * rows + 150 * LIMIT:  # for each that is read, and for each that is told of
                    problems.append(f"{name} takes {sum(steps)} steps for {rows} rows")
                steps.clear()
            tx.connection.trace_v2(0, None)
        assert not problems, "\n".join(problems)
    finally:
        await store.close()
