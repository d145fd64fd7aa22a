"""The path finds its rows by index, however many have ended: the plans that the databases really ran say so."""

import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import psycopg
import pytest
from psycopg import sql

from duly.config import read_settings
from duly.decide.lifecycle import DELIVERED
from duly.decide.series.due_head import ITS_TURN
from duly.ids import new_id
from duly.ports import Freed, ScanRequest
from duly.records.event import Claim, Settlement, Status, Verdict
from duly.records.finding.search import read_search
from duly.records.specs import ErrorLike, Everything, OfTenant
from duly.stores.migrations import migrations
from duly.stores.queries import load
from duly.testing import ManualClock
from duly.wiring import open_store
from tests.conftest import AnyStore, AnyTransaction
from tests.invariants import ALL as INVARIANT_NAMES
from tests.invariants import PARAMETERS as INVARIANT_PARAMETERS
from tests.make import (
    HOUR,
    LANE,
    LEASE,
    START,
    completed,
    failed,
    given_back,
    make_head,
    make_new,
    make_schedule,
    make_user,
)

pytestmark = pytest.mark.broken_rows("its tables are filled by hand")

FINISHED = """
INSERT INTO duly.events (id, tenant, type, lane, status, due, version, attempts, payload, created, claimed, executed,
                         worker, key, series, occurrence)
"""
A_MILLION = (
    FINISHED
    + """
SELECT uuidv7(), 'default', 'greet', 'handler:greet', 'COMPLETED', '2025-01-01'::timestamptz + n * interval '1 second',
       2, 1, '{"n":1}', '2025-01-01', '2025-01-01', '2025-01-01', 'w1',
       CASE WHEN n % 10 = 0 THEN 'key-' || n END, CASE WHEN n % 10 = 1 THEN 'schedule:old' END,
       CASE WHEN n % 10 = 1 THEN n::text END
FROM generate_series(1, 1000000) AS n
"""
)
TWO_HUNDRED_THOUSAND = (
    "WITH RECURSIVE numbers (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM numbers WHERE value < 200000)"
    + FINISHED.replace("duly.", "")
    + """
SELECT format('01900000-0000-7000-8000-%012x', value), 'default', 'greet', 'handler:greet', 'COMPLETED', value, 2, 1,
       '{"n":1}', 0, 0, 0, 'w1', iif(value % 10 = 0, 'key-' || value, NULL),
       iif(value % 10 = 1, 'schedule:old', NULL), iif(value % 10 = 1, value, NULL)
FROM numbers
"""
)


async def due_and_leased(store: AnyStore | AnyTransaction, clock: ManualClock) -> None:
    """Beside what has ended: 3,000 that are due, 1,000 that will be, and 5 whose worker vanished."""
    await store.add([make_new() for _ in range(5)])
    await store.claim("gone", {LANE: 5}, LEASE)
    clock.advance(LEASE)
    await store.add([make_new() for _ in range(3000)] + [make_new(due=clock.now() + HOUR) for _ in range(1000)])


# -- PostgreSQL tells the plans of what it runs


class Plans:
    """The plans of one statement, from auto_explain."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def listen(self, _connection: Any, message: Any) -> None:
        _, _, plan = message.message.partition("plan:\n")
        if plan:
            self.told.append(json.loads(plan)["Plan"])

    def nodes(self) -> Iterator[dict[str, Any]]:
        waiting = list(self.told)
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", [])

    def problems(self, index: set[str], rows: int) -> Iterator[str]:
        """What is wrong with a statement about so many rows that ought to use this index."""
        if missing := index - {node.get("Index Name") for node in self.nodes()}:
            yield f"does not use {missing}"
        scanned = {node["Relation Name"] for node in self.nodes() if node["Node Type"] == "Seq Scan"}
        if scanned := scanned & {
            "events",
            "journal",
            "users",
            "destinations",
        }:  # the one schedule there is may well be found by looking
            yield f"scans {scanned}"
        pages = sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in self.told)
        if pages > 50 * max(rows, 1):
            yield f"reads {pages} pages for {rows} rows"
        dropped = sum(node.get("Rows Removed by Filter", 0) * node["Actual Loops"] for node in self.nodes())
        if dropped > 2 * rows:
            yield f"looks at {dropped} rows in vain"


EXPLAIN = {"log_min_duration": 0, "log_analyze": "on", "log_buffers": "on", "log_timing": "off", "log_format": "json"}


class Undo(Exception):
    """Rolls back, so that each round finds the same rows."""


@asynccontextmanager
async def watched(transaction: Any, plan_cache_mode: str) -> AsyncIterator[tuple[Any, Plans]]:
    """A transaction that leaves nothing, and the plans of what runs in it."""
    with contextlib.suppress(Undo):
        async with transaction as tx:
            await tx.execute("LOAD 'auto_explain'")
            for name, value in EXPLAIN.items():
                await tx.execute(f"SET LOCAL auto_explain.{name} = '{value}'")
            await tx.execute(f"SET LOCAL plan_cache_mode = {plan_cache_mode}")
            await tx.execute("SET LOCAL client_min_messages = log")
            plans = Plans()
            tx.connection.add_log_listener(plans.listen)
            try:
                yield tx, plans
            finally:
                tx.connection.remove_log_listener(plans.listen)
            raise Undo


@asynccontextmanager
async def built_at_once(tx: AnyTransaction) -> AsyncIterator[None]:
    """The indexes of events, after the rows are there: that takes a fraction of what adding each row to each of them
    would. Nothing is known of the table then that would not be known otherwise."""
    indexes = "FROM pg_index WHERE indrelid = 'duly.events'::regclass AND NOT indisprimary"
    found = await tx.fetch(f"SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) {indexes}")
    for name, _ in found:
        await tx.execute(f"DROP INDEX {name}")
    yield
    await tx.execute("SET LOCAL maintenance_work_mem = '256MB'")
    for _, definition in found:
        await tx.execute(definition)
    known = f"oid = 'duly.events'::regclass OR oid IN (SELECT indexrelid {indexes})"
    await tx.execute(f"UPDATE pg_class SET reltuples = -1, relpages = 0, relallvisible = 0 WHERE {known}")


async def vacuum(url: str) -> None:
    """Removes what the rounds before have rolled back: each of them leaves versions of the same rows, and entries in
    their indexes, for the next one to step over."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("VACUUM (INDEX_CLEANUP ON) duly.events")
    finally:
        await connection.close()


@pytest.mark.timeout(300)
async def test_postgres_reads_no_table_of_a_million_finished_events_to_the_end(
    new_postgres: Callable[[], str], clock: ManualClock
) -> None:
    """Neither before the tables were ever analysed nor after; neither with plans for these values nor for any."""
    url = new_postgres()
    store = open_store(read_settings({}, database_url=url), clock)
    await store.open(migrate=True)
    try:
        async with store.lend() as tx:
            # Nothing analyses it behind the test's back, and its write-ahead log is not what is tested.
            await tx.execute("ALTER TABLE duly.events SET (autovacuum_enabled = false)")
            await tx.execute("ALTER TABLE duly.events SET UNLOGGED")
            async with built_at_once(tx):
                await tx.execute(A_MILLION)
            await due_and_leased(tx, clock)
        problems = []
        for statistics in ("never analysed", "analysed"):
            if statistics == "analysed":
                async with store.lend() as tx:
                    await tx.execute("ANALYZE duly.events")
            for kind, mode in product((store.begin, store.lend), ("force_custom_plan", "force_generic_plan")):
                if statistics == "analysed":
                    await vacuum(url)
                async with watched(kind(), mode) as (tx, plans):
                    async for name, index, rows in the_path(tx):
                        await tx.execute("RESET search_path")  # a plan is told when the next statement comes
                        found = list(plans.problems(index, rows))
                        problems += [f"{name}, {statistics}, {mode}, {kind.__name__}: {problem}" for problem in found]
                        plans.told.clear()
        assert not problems, "\n".join(problems)
    finally:
        await store.close()


async def the_path(tx: AnyTransaction) -> AsyncIterator[tuple[str, set[str], int]]:
    """Does one statement after another; each with the index that it must use and the number of rows it is about."""
    await tx.horizon([LANE, "handler:other"])
    yield "horizon", {"events_ready", "events_leased"}, 3
    assert len(await tx.claim_interrupted("w2", [LANE, "handler:other"], LEASE)) == 1
    yield "claim_interrupted", {"events_leased"}, 1
    for many in (10, 1000):
        looked = await tx.scan_backlog(ScanRequest({LANE: many, "handler:other": many}, 10, many), [("default", None)])
        assert (looked.others, looked.examined) == ([], {LANE: many, "handler:other": 0})
        yield f"look {many}", {"events_ready"}, many + 10
        looked = await tx.scan_backlog(ScanRequest({LANE: 0}, many, many), [("somebody", None)])
        ids = [one.id for one in looked.others]
        yield f"look at the newest {many}", {"events_ready"}, many
        events = await tx.claim_these("w1", ids, [LANE], many, LEASE)
        assert len(events) == many
        yield f"claim_these {many}", {"events_pkey"}, many
        await tx.settle([given_back(event) for event in events], "w1")
        yield f"give {many} back", {"events_pkey"}, many
    for many in (1, 100):
        events = await tx.claim("w1", {LANE: many, "handler:other": many}, LEASE, with_horizon=True)
        assert len(events) == many
        assert events.horizon is not None
        yield f"claim {many} with the horizon", {"events_ready", "events_leased"}, many + 3
        await tx.settle([given_back(event) for event in events], "w1")
        yield f"give {many} back again", {"events_pkey"}, many
    for many, verdict in product((10, 1000), (completed, failed)):
        events = await tx.claim("w1", {LANE: many, "handler:other": many}, LEASE)
        assert len(events) == many
        yield f"claim {many}", {"events_ready"}, many
        assert len(await tx.renew([Claim(event.id, event.version) for event in events], LEASE)) == many
        yield f"renew {many}", {"events_pkey"}, many
        assert len(await tx.settle([verdict(event) for event in events], "w1")) == many
        yield f"settle {many} as {verdict.__name__}", {"events_pkey"}, many
        assert await tx.settle([verdict(event) for event in events], "w1") == set()
        yield f"settle {many} again as {verdict.__name__}", {"events_pkey"}, 3 * many  # in three statements
    await tx.put([make_new(key="key-70"), make_new(key="new")])
    yield "put", {"events_key"}, 3  # the key that has fired is looked up again
    await tx.put([make_new(key="key-70", asked=1), make_new(key="newer", asked=1)])
    yield "put in order", {"events_key", "events_cancelled_key"}, 2
    await tx.by_key("default", "key-70")
    yield "by_key", set(), 1
    schedule = make_schedule()
    await tx.plant([make_head(schedule)])
    yield "plant", set(), 1
    assert await tx.head(schedule.series)
    yield "head", {"events_head"}, 1
    assert await tx.taken([("schedule:old", "101"), (schedule.series, "never")])
    yield "taken", {"events_occurrence"}, 2
    assert await tx.facts([("schedule:old", "101", "101~"), (schedule.series, "never", "never~")])
    yield "facts", {"events_occurrence"}, 2
    assert await tx.passed_ahead([("schedule:old", START), (schedule.series, START)]) == []
    yield "passed_ahead", {"events_passed"}, 2
    await tx.free_names([Freed(events[0].id, "nobody", START, 1, "no reason")], "me")
    yield "free_names", {"events_pkey"}, 2  # a row in each of its indexes, and one of its history
    held = make_head(
        schedule, head=False, occurrence="by hand", held=ITS_TURN.reason, hold_kind=ITS_TURN.kind, gated=True
    )
    await tx.plant([held])
    yield "plant beside", set(), 1
    assert await tx.let_go({schedule.series: 5, "schedule:old": 5}, "w1") == [held.id]
    yield "let_go", {"events_held"}, 1
    assert await tx.under_way([schedule.series, "schedule:old"]) == {schedule.series: 1}
    yield "under_way", {"events_under_way"}, 2
    assert await tx.waiting_series() == []
    yield "waiting_series", {"events_held"}, 2
    await tx.put_schedule(schedule)
    yield "put_schedule", set(), 1
    await tx.successes([(schedule.tenant, schedule.name)])
    yield "successes", {"events_succeeded"}, 1
    shown = await tx.shown_schedule(schedule.tenant, schedule.name)
    assert shown is not None
    assert shown.next_at is not None
    yield "shown_schedule", {"events_head", "events_series"}, 1
    assert await tx.stale_heads("2099a", limit=5) == []
    yield "stale_heads", set(), 1  # with a single head, one index is as good as another
    assert await tx.lock(events[0].id)
    yield "lock", {"events_pkey"}, 1
    assert await tx.history(events[0].id)
    yield "history", {"journal_pkey", "events_pkey"}, 1
    for text in (events[0].id, "key-10", "nobody"):
        await tx.find_anything("default", read_search(text), limit=20)
        yield f"find_anything of {text}", {"events_key"}, 2


# -- users


USERS = """
INSERT INTO duly.users (id, tenant, key, first_name, last_name, date_of_birth, timezone, created, updated)
SELECT format('01900000-0000-7000-8000-%s', lpad(to_hex(n), 12, '0'))::uuid,
       CASE WHEN n % 2 = 0 THEN 'even' ELSE 'odd' END, 'key-' || n, 'Ada', 'Lovelace', '1990-03-15',
       'UTC', '2025-01-01', '2025-01-01'
FROM generate_series(1, 5000) AS n
"""
THEIR_EVENTS = """
INSERT INTO duly.events (id, tenant, type, lane, status, due, ready, version, attempts, payload, created, series,
                         occurrence, head, scheduled, timezone, rule)
SELECT uuidv7(), 'even', 'birthday', 'handler:birthday', CASE WHEN year = 2027 THEN 'PENDING' ELSE 'COMPLETED' END,
       make_timestamptz(year, 3, 15, 9, 0, 0, 'UTC'),
       CASE WHEN year = 2027 THEN make_timestamptz(year, 3, 15, 9, 0, 0, 'UTC') END, 1, 0, '{}', '2025-01-01',
       'user:' || id || ':birthday', year || '-03-15', year = 2027, make_timestamptz(year, 3, 15, 9, 0, 0, 'UTC'),
       'UTC', '{"yearly":"03-15","at":"09:00"}'
FROM duly.users, generate_series(2024, 2027) AS year
"""
USER_IDS = [f"01900000-0000-7000-8000-{n:012x}" for n in range(100, 5000, 50)]


async def about_users(tx: AnyTransaction, *, there: bool) -> AsyncIterator[tuple[str, set[str], int]]:
    """Each statement about users, with the index that it must use and the number of rows it is about."""
    many = len(USER_IDS) if there else 0
    keys = [f"key-{int(id[-12:], 16)}" for id in USER_IDS]
    found = [await tx.user(USER_IDS[0])]
    yield "user", {"users_pkey"}, 1
    found.append(await tx.user_by_key("even", keys[0]))
    yield "user_by_key", {"users_key"}, 1
    assert found == ([found[0]] * 2 if there else [None] * 2)
    assert len(await tx.users_by_keys("even", [*keys, *(f"none-{n}" for n in range(100))])) == many
    yield "users_by_keys", {"users_key"}, len(keys) + 100
    for text in (keys[0], USER_IDS[0], "nobody is called so"):
        await tx.find_anything("even", read_search(text), limit=20)
        yield f"find_anything of {text}", {"users_pkey", "users_key", "users_first_last", "users_last_first"}, 4
    for tenant, index in ((None, "users_pkey"), ("odd", "users_tenant")):
        assert len(await tx.list_users(tenant, before=USER_IDS[50], limit=20)) == (20 if there else 0)
        yield f"list_users of {tenant}", {index}, 20
        assert len(await tx.walk_users(tenant, after=USER_IDS[50], limit=20)) == (20 if there else 0)
        yield f"walk_users of {tenant}", {index}, 20
    users = await tx.lock_users(USER_IDS)
    assert len(users) == many
    yield "lock_users", {"users_pkey"}, len(USER_IDS)
    await tx.change_users(users or [make_user()])
    yield "change_users", {"users_pkey"}, len(USER_IDS)
    heads = await tx.user_heads(USER_IDS)
    assert len(heads) == many
    ever = 4 * len(USER_IDS)  # at worst, all that a user ever had is looked through
    yield "user_heads", set(), ever
    assert len(await tx.user_head_ids(USER_IDS)) == many
    yield "user_head_ids", set(), ever
    assert len(await tx.heads_of_users(USER_IDS)) == many
    yield "heads_of_users", set(), ever
    await tx.give_up([head.id for head in heads[50:]] or [new_id()], "me", "no reason")
    yield "give_up", {"events_pkey"}, 50
    assert await tx.cancel_users(USER_IDS[:50], "me", "no reason") == (50 if there else 0)
    yield "cancel_users", {"events_pkey"}, ever
    await tx.delete_users(USER_IDS)
    yield "delete_users", {"users_pkey"}, len(USER_IDS)
    await tx.add_users([make_user(key="new")], [], "me")
    yield "add_users", set(), 1


@pytest.mark.parametrize("statistics", ["none", "of empty tables"])
async def test_query_plans_from_before_there_were_users_scan_no_users(
    new_postgres: Callable[[], str], clock: ManualClock, statistics: str
) -> None:
    """Plans are kept as long as a connection lives. When these were made, there was nobody."""
    store = open_store(read_settings({}, database_url=new_postgres()), clock)
    await store.open(migrate=True)
    try:
        async with store.lend() as tx:
            for table in ("users", "events", "journal"):
                await tx.execute(f"ALTER TABLE duly.{table} SET (autovacuum_enabled = false)")
                if statistics == "of empty tables":
                    await tx.execute(f"ANALYZE duly.{table}")
        problems = []
        for there in (False, True):
            if there:
                async with store.lend() as tx:
                    await tx.execute(USERS)
                    await tx.execute(THEIR_EVENTS)
            async with watched(store.begin(), "force_generic_plan") as (tx, plans):
                async for name, index, rows in about_users(tx, there=there):
                    await tx.execute("RESET search_path")  # a plan is told when the next statement comes
                    problems += [f"{name} {problem}" for problem in plans.problems(index, rows) if there]
                    plans.told.clear()
        assert not problems, "\n".join(problems)
    finally:
        await store.close()


# -- dead letters

DEAD = """
INSERT INTO duly.events (id, tenant, type, lane, status, due, version, attempts, payload, created, claimed, last_error)
SELECT format('01900000-0000-7000-8000-%s', lpad(to_hex(n), 12, '0'))::uuid,
       CASE WHEN n % 4 = 0 THEN 'acme' ELSE 'default' END, 'greet', 'handler:greet',
       CASE WHEN n > 80000 THEN 'FAILED' ELSE 'COMPLETED' END, '2025-01-01', 2, 1, '{}', '2025-01-01', '2025-01-01',
       '503'
FROM generate_series(1, 100000) AS n
"""
THEIR_HISTORY = """
INSERT INTO duly.journal (subject, at, act, version, attempt, detail)
SELECT id, '2025-01-01', 'failed', 2, attempt, '503' FROM duly.events, generate_series(1, 3) AS attempt
"""
DEAD_LITE = """
INSERT INTO events (id, tenant, type, lane, status, due, version, attempts, payload, created, claimed, last_error)
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100000)
SELECT format('01900000-0000-7000-8000-%012x', n), iif(n % 4 = 0, 'acme', 'default'), 'greet', 'handler:greet',
       iif(n > 80000, 'FAILED', 'COMPLETED'), 0, 2, 1, '{}', 0, 0, '503' FROM numbers;
INSERT INTO journal (subject, at, act, version, attempt, detail)
SELECT events.id, 0, 'failed', 2, value, '503' FROM events, json_each('[1, 2, 3]')
"""


async def about_dead_letters(tx: AnyTransaction, now: datetime) -> AsyncIterator[tuple[str, set[str], int]]:
    """Each statement about dead letters, with the index that it must use and the number of rows it is about."""
    middle = f"01900000-0000-7000-8000-{90_000:012x}"
    for after in (None, middle):
        letters = await tx.find_dead(ErrorLike("503"), since=now, after=after, limit=100)
        assert len(letters) == 100
        yield "find_dead", {"events_dead", "journal_pkey"}, 400
    found = await tx.find_dead(OfTenant("acme") & ErrorLike("503"), since=now, after=middle, limit=100)
    assert len(found) == 100
    yield "find_dead of a tenant", {"events_failed", "journal_pkey"}, 400
    assert (await tx.count_dead(Everything(), most=10)).events == 20_000
    yield "count_dead", set(), 20_000
    assert (await tx.count_dead(OfTenant("acme"), most=10)).events == 5_000
    yield "count_dead of a tenant", set(), 20_000  # at worst, everybody's are looked through
    assert len(await tx.replay_found(letters, [None] * 100, "me")) == 100
    yield "replay_found", {"events_pkey"}, 200
    assert len(await tx.discard_found(found, "me", None)) == 75  # every fourth was replayed before
    yield "discard_found", {"events_pkey"}, 200


@pytest.mark.parametrize("statistics", ["never analysed", "analysed"])
async def test_postgres_walks_dead_letters_among_100_000_events_by_their_index(
    new_postgres: Callable[[], str], clock: ManualClock, statistics: str
) -> None:
    store = open_store(read_settings({}, database_url=new_postgres()), clock)
    await store.open(migrate=True)
    try:
        async with store.begin() as tx:
            for table in ("events", "journal"):
                await tx.execute(f"ALTER TABLE duly.{table} SET (autovacuum_enabled = false)")
            await tx.execute(DEAD)
            await tx.execute(THEIR_HISTORY)
            if statistics == "analysed":
                await tx.execute("ANALYZE duly.events, duly.journal")
        problems = []
        for kind, mode in product((store.begin, store.lend), ("force_custom_plan", "force_generic_plan")):
            async with watched(kind(), mode) as (tx, plans):
                async for name, index, rows in about_dead_letters(tx, clock.now()):
                    await tx.execute("RESET search_path")  # a plan is told when the next statement comes
                    found = list(plans.problems(index, rows))
                    problems += [f"{name}, {mode}, {kind.__name__}: {problem}" for problem in found]
                    plans.told.clear()
        assert not problems, "\n".join(problems)
    finally:
        await store.close()


# -- SQLite tells how often it stepped through a table


@pytest.mark.parametrize("statistics", ["never analysed", "analysed"])
async def test_sqlite_walks_dead_letters_among_100_000_events_by_their_index(
    tmp_path: Path, clock: ManualClock, statistics: str
) -> None:
    store = open_store(read_settings({}, database_url=f"sqlite:///{tmp_path}/duly.db"), clock)
    await store.open(migrate=True)
    steps: list[int] = []

    def stepped(told: dict[str, Any]) -> None:
        steps.append(told["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    try:
        async with store.begin() as tx:
            await tx.execute(DEAD_LITE)
            if statistics == "analysed":
                await tx.execute("ANALYZE")
        problems = []
        async with store.begin() as tx:
            tx.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, stepped)
            async for name, _, rows in about_dead_letters(tx, clock.now()):
                assert steps, name
                if sum(steps) > 200 * rows:  # a look at all the others takes at least three for each
                    problems.append(f"{name} takes {sum(steps)} steps for {rows} rows")
                steps.clear()
            tx.connection.trace_v2(0, None)
        assert not problems, "\n".join(problems)
    finally:
        await store.close()


@pytest.mark.parametrize("statistics", ["never analysed", "analysed"])
async def test_sqlite_steps_through_no_table_of_200_000_finished_events(
    tmp_path: Path, clock: ManualClock, statistics: str
) -> None:
    store = open_store(read_settings({}, database_url=f"sqlite:///{tmp_path}/duly.db"), clock)
    await store.open(migrate=True)
    steps: list[int] = []

    def stepped(told: dict[str, Any]) -> None:
        steps.append(told["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"])

    try:
        async with store.begin() as tx:
            await tx.execute(TWO_HUNDRED_THOUSAND)
            await due_and_leased(tx, clock)
            if statistics == "analysed":
                await tx.execute("ANALYZE")
        problems = []
        async with store.begin() as tx:
            tx.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, stepped)
            async for name, _, rows in the_path(tx):
                assert steps, name
                if sum(steps) > 10 * max(rows, 1):  # the parameters are stepped through as well, by each statement
                    problems.append(f"{name} steps through {sum(steps)} rows")
                steps.clear()
            tx.connection.trace_v2(0, None)
        assert not problems, "\n".join(problems)
    finally:
        await store.close()


INDEXES = {
    "claim": {"events_ready", "events_claimed_heads", "events_planting", "events_occurrence"},
    "claim_with_horizon": {"events_ready", "events_leased", "events_planting", "events_occurrence"},
    "claim_interrupted": {"events_leased"},
    "prunable": {"sqlite_autoindex_events_1", "journal_subject", "events_head", "events_succeeded", "events_series"},
    "lock_events_of_user": {"events_occurrence"},
    "erase_user": {"sqlite_autoindex_events_1", "journal_subject"},
    "erase_answers": {"sqlite_autoindex_requests_1"},
    "horizon": {"events_ready", "events_leased"},
    "scan_backlog": {"events_ready"},
    "claim_these": {"sqlite_autoindex_events_1"},
    "heads_without_successors": {"sqlite_autoindex_events_1", "sqlite_autoindex_schedules_1"},
    "carry": {"sqlite_autoindex_events_1"},
    "reserved_heads": {"sqlite_autoindex_events_1"},
    "fire": {"sqlite_autoindex_events_1"},
    "reserve": {"events_ready", "sqlite_autoindex_events_1"},
    "start": {"sqlite_autoindex_events_1"},
    "start_again": {"sqlite_autoindex_events_1", "journal_subject"},
    "note_forgotten": {"sqlite_autoindex_events_1", "journal_subject"},
    "release": {"sqlite_autoindex_events_1"},
    "renew": {"sqlite_autoindex_events_1"},
    "settle": {"sqlite_autoindex_events_1"},
    "complete": {"sqlite_autoindex_events_1"},
    "by_key": set(),
    "by_keys": {"events_key"},
    "put": {"events_key", "events_cancelled_key"},
    "withdrawn": {"events_cancelled_key"},
    "head": {"events_head"},
    "let_go": {"events_held"},
    "under_way": {"events_under_way"},
    "waiting_series": {"events_held"},
    "successes": {"events_succeeded"},
    "shown_schedule": {"events_head", "events_series"},
    "recent_runs": {"events_series", "journal_subject"},
    "stale_heads": {"events_zone_data"},
    "taken": {"events_occurrence"},
    "facts": {"events_occurrence"},
    "passed_ahead": {"events_passed", "sqlite_autoindex_events_1"},
    "free_names": {"sqlite_autoindex_events_1"},
    "history": {"journal_subject", "sqlite_autoindex_events_1"},
    "find_dead": {"events_dead", "journal_subject"},
    "replay_found": {"sqlite_autoindex_events_1"},
    "discard_found": {"sqlite_autoindex_events_1"},
    "user": {"sqlite_autoindex_users_1"},
    "user_by_key": {"users_key"},
    "users_by_keys": {"users_key"},
    "list_users": {"sqlite_autoindex_users_1"},
    "list_users_of": {"users_tenant"},
    "walk_users": {"sqlite_autoindex_users_1"},
    "walk_users_of": {"users_tenant"},
    "lock_users": {"sqlite_autoindex_users_1"},
    "change_users": {"sqlite_autoindex_users_1"},
    "delete_users": {"sqlite_autoindex_users_1"},
    "user_heads": {"events_head"},
    "user_head_ids": {"events_head"},
    "heads_of_users": {"events_head"},
    "give_up": {"sqlite_autoindex_events_1"},
    "cancel_users": {"sqlite_autoindex_events_1"},
    "held_for": {"events_parked"},
    "find_anything": {
        "sqlite_autoindex_events_1",
        "events_key",
        "events_cancelled_key",
        "sqlite_autoindex_users_1",
        "users_key",
        "users_first_last",
        "users_last_first",
        "sqlite_autoindex_schedules_1",
        "sqlite_autoindex_schedules_2",
        "sqlite_autoindex_targets_1",
        "sqlite_autoindex_targets_2",
    },
}


@pytest.mark.parametrize("name", INDEXES)
def test_each_query_of_sqlite_searches_its_index(name: str) -> None:
    connection = apsw.Connection(":memory:")
    connection.create_scalar_function("iso", lambda *given: str(*given))
    connection.create_scalar_function("new_id", lambda *_: "an id", 0)
    for migration in migrations("sqlite"):
        connection.execute(migration.sql)
    told = ""
    for statement in load("sqlite")[name].sql.replace("{where}", "true").split(";\n"):
        values = dict.fromkeys(load("sqlite")[name].parameters, "[]")
        told += "\n".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)) + "\n"
    connection.close()
    assert set(re.findall(r"USING (?:COVERING )?INDEX (\w+)", told)) >= INDEXES[name], told
    assert not re.search(r"SCAN (events|e|old|gone|schedules|journal|users)\b", told), told


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_statistics_from_before_the_claims_mislead_no_query(
    new_postgres: Callable[[], str], clock: ManualClock, mode: str
) -> None:
    """When it was analysed, nothing was claimed. A plan that believes so compares all claims with all verdicts."""
    store = open_store(read_settings({}, database_url=new_postgres()), clock)
    await store.open(migrate=True)
    try:
        await store.add([make_new(due=clock.now()) for _ in range(3000)])
        async with store.begin() as tx:
            await tx.execute("ANALYZE duly.events")
        compared: dict[str, int] = {}
        for kind in (store.begin, store.lend):
            async with watched(kind(), mode) as (tx, plans):
                claimed = await tx.claim("w1", {LANE: 1000}, timedelta(seconds=30))
                assert len(claimed) == 1000
                for name in ("renew", "complete", "settle"):
                    await tx.execute("RESET search_path")  # a plan is told when the next statement comes
                    plans.told.clear()
                    if name == "renew":
                        await tx.renew([Claim(event.id, event.version) for event in claimed], timedelta(seconds=30))
                    else:
                        verdict = DELIVERED if name == "complete" else Verdict(Status.FAILED, "rejected", error="410")
                        half = claimed[:500] if name == "complete" else claimed[500:]
                        assert len(await tx.settle([Settlement(event, verdict) for event in half], "w1")) == 500
                    await tx.execute("RESET search_path")
                    removed = [n.get("Rows Removed by Join Filter", 0) * n["Actual Loops"] for n in plans.nodes()]
                    compared[f"{name} on {kind.__name__}"] = sum(removed)
        assert len(compared) == 6
        assert max(compared.values()) <= 1000, compared
    finally:
        await store.close()


async def test_a_claim_of_heads_reads_no_small_table_to_the_end(
    new_postgres: Callable[[], str], clock: ManualClock
) -> None:
    """A plan made while there are some hundred events is used until the table is analysed again."""
    store = open_store(read_settings({}, database_url=new_postgres()), clock)
    await store.open(migrate=True)
    try:
        async with store.begin() as tx:
            await tx.plant([make_head(make_schedule()) for _ in range(300)])
            await tx.execute("ANALYZE duly.events")
        async with watched(store.begin(), "force_generic_plan") as (tx, plans):
            for with_horizon in (False, True):
                await tx.claim("w1", {LANE: 1, "handler:other": 1}, LEASE, with_horizon=with_horizon)
            await tx.execute("RESET search_path")  # a plan is told when the next statement comes
        scanned = [
            node for node in plans.nodes() if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "events"
        ]
        assert len(plans.told) >= 2
        assert not scanned
    finally:
        await store.close()


# -- what a fair claim costs


FLOOD = 20_000


@pytest.mark.timeout(300)
async def test_a_backlog_scan_costs_the_same_however_many_tenants_there_are(
    new_postgres: Callable[[], str], clock: ManualClock
) -> None:
    pages: dict[int, list[int]] = {}
    for tenants in (10, 10_000):
        store = open_store(read_settings({}, database_url=new_postgres()), clock)
        await store.open(migrate=True)
        try:
            events = [make_new(tenant=f"tenant {n % tenants:05}") for n in range(FLOOD)]
            async with store.begin() as tx:
                await tx.add(events)
            async with watched(store.begin(), "force_generic_plan") as (tx, plans):
                await tx.scan_backlog(ScanRequest({LANE: 4000}, 500, 2000), [("tenant 00001", None)])
                await tx.execute("RESET search_path")
                ids = [event.id for event in events[::20]]
                assert len(await tx.claim_these("w1", ids, [LANE], 1000, LEASE)) == 1000
                await tx.execute("RESET search_path")
            shown = [plan for plan in plans.told if plan["Shared Hit Blocks"] > 10]
            pages[tenants] = [plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in shown[:2]]
        finally:
            await store.close()
    few, many = pages[10], pages[10_000]
    assert len(few) == len(many) == 2
    assert all(abs(a - b) <= 0.1 * a for a, b in zip(few, many, strict=True)), pages


async def test_a_backlog_scan_through_a_flood_reads_each_event_once(
    new_postgres: Callable[[], str], clock: ManualClock
) -> None:
    """A hundred thousand of one tenant at one instant, and one of another in the middle."""
    store = open_store(read_settings({}, database_url=new_postgres()), clock)
    await store.open(migrate=True)
    try:
        quiet = make_new(tenant="quiet")
        await store.add([make_new() for _ in range(50_000)])
        await store.add([quiet])
        await store.add([make_new() for _ in range(50_000)])
        async with watched(store.begin(), "force_generic_plan") as (tx, plans):
            looked = await tx.scan_backlog(ScanRequest({LANE: 200_000}, 0, 10), [("default", None)])
            await tx.execute("RESET search_path")
        assert [one.id for one in looked.others] == [quiet.id]
        assert looked.examined == {LANE: 100_001}
        stepped = [node for node in plans.nodes() if node.get("Index Name") == "events_ready"]
        assert sum(node["Actual Rows"] * node["Actual Loops"] for node in stepped) == 100_001
    finally:
        await store.close()


# -- invariants, which a long session may ask by a plan that was made while there were hardly any rows

MANY = 3000
SERIES_OF_MANY = f"""
INSERT INTO duly.events (id, tenant, type, lane, due, ready, payload, created, series, occurrence)
SELECT uuidv7(), 'default', 'greet', 'handler:greet', now(), now(), '{{}}', now(),
       CASE WHEN n % 2 = 0 THEN 'schedule:old' END, CASE WHEN n % 2 = 0 THEN n::text END
FROM generate_series(1, {MANY}) AS n
"""


async def test_no_invariant_compares_each_event_with_each_by_an_old_plan(
    new_postgres: Callable[[], str], clock: ManualClock
) -> None:
    url = new_postgres()
    store = open_store(read_settings({}, database_url=url), clock)
    await store.open(migrate=True)
    await store.close()
    compared: dict[str, int] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ANALYZE")
        connection.execute("SET plan_cache_mode = force_generic_plan")
        asked: dict[str, sql.Composed] = {}
        for name in sorted(INVARIANT_NAMES):
            query = load("postgres")[name]
            connection.execute(f"PREPARE {name} AS {query.numbered()}".encode())
            values = [sql.Literal(INVARIANT_PARAMETERS[one]) for one in query.parameters]
            asked[name] = sql.SQL("EXECUTE {} ({})").format(sql.Identifier(name), sql.SQL(", ").join(values))
            connection.execute(asked[name])
        connection.execute(SERIES_OF_MANY.encode())
        for name, question in asked.items():
            [(told,)] = connection.execute(sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) {}").format(question)).fetchall()
            nodes = [told[0]["Plan"]]
            for node in nodes:
                nodes += node.get("Plans", [])
            vain = [node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] for node in nodes]
            compared[name] = int(sum(vain))
    assert len(compared) > 8
    assert max(compared.values()) <= 10 * MANY, compared
