import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

from duly import Duly, Event
from duly.config import read_settings
from duly.errors import SchemaMismatch
from duly.ids import new_id
from duly.stores.migrations import migrations
from duly.testing import ManualClock
from duly.values.instants import write_instant
from duly.wiring import open_store
from tests.conftest import AnyStore
from tests.make import HOUR, START, make_new, make_schedule
from tests.stores.rows import ask, event_of, spelled, write

STARTING = """if True:
    import asyncio, sys
    from duly import Duly

    async def start() -> None:
        async with Duly(sys.argv[1]) as duly:
            await duly.events.find()

    print("ready", flush=True)
    sys.stdin.readline()
    asyncio.run(start())
"""


def store_on(url: str) -> Any:
    return open_store(read_settings({}, database_url=url), None)


async def applied(store: AnyStore) -> list[tuple[Any, ...]]:
    async with store.begin() as tx:
        rows = await tx.fetch(spelled(store, "SELECT version, name, applied FROM duly.migrations ORDER BY version"))
        return [tuple(row) for row in rows]


async def tables_and_indexes(store: AnyStore) -> list[tuple[Any, ...]]:
    query = {
        "sqlite": "SELECT type, name, sql FROM sqlite_schema ORDER BY name",
        "postgres": """
            SELECT 'column', table_name || '.' || column_name, concat(data_type, is_nullable, column_default)
            FROM information_schema.columns WHERE table_schema = 'duly'
            UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'duly' ORDER BY 1, 2""",
    }[store.dialect]
    async with store.begin() as tx:
        return [tuple(row) for row in await tx.fetch(query)]


async def test_ten_processes_that_start_at_once_migrate_once(empty_url: str) -> None:
    command, pipe = [sys.executable, "-c", STARTING, empty_url], subprocess.PIPE
    processes = [
        await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(10)
    ]
    for process in processes:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
    ended = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    assert [(process.returncode, stderr.decode()) for process, (_, stderr) in zip(processes, ended, strict=True)] == [
        (0, "")
    ] * 10
    store = store_on(empty_url)
    await store.open(migrate=False)
    try:
        expected = [(migration.version, migration.name) for migration in migrations(store.dialect)]
        assert [row[:2] for row in await applied(store)] == expected
    finally:
        await store.close()


async def test_migrating_twice_changes_nothing(empty_url: str) -> None:
    store = store_on(empty_url)
    await store.open(migrate=True)
    before, shape = await applied(store), await tables_and_indexes(store)
    await store.add([make_new()])
    assert await store.migrate() == []
    await store.close()
    await store.open(migrate=True)
    try:
        assert (await applied(store), await tables_and_indexes(store)) == (before, shape)
        assert await ask(store, "SELECT count(*) FROM duly.events") == 1
    finally:
        await store.close()


async def test_no_trigger_of_events_runs_before_an_update(postgres_url: str) -> None:
    """It would lock each row first, in every update, and write a record of that."""
    store = store_on(postgres_url)
    await store.open(migrate=True)
    try:
        # The bits of tgtype: 2 BEFORE, 16 UPDATE.
        before = "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'duly.events'::regclass AND tgtype & 18 = 18"
        assert await ask(store, before) == 0
    finally:
        await store.close()


async def test_a_migration_says_what_it_applied(empty_url: str) -> None:
    store = store_on(empty_url)
    await store.connect()
    try:
        assert await store.applied() == 0
        assert await store.migrate() == [f"{m.version:04}_{m.name}" for m in migrations(store.dialect)]
        assert await store.applied() == migrations(store.dialect)[-1].version
    finally:
        await store.close()


async def test_without_leave_to_migrate_an_empty_database_says_what_to_do(empty_url: str) -> None:
    with pytest.raises(SchemaMismatch, match="run `duly migrate`"):
        async with Duly(empty_url, migrate=False):
            pass


async def test_a_store_that_failed_to_open_leaves_nothing_running(empty_url: str) -> None:
    before = set(threading.enumerate())
    with pytest.raises(SchemaMismatch):
        await store_on(empty_url).open(migrate=False)
    assert set(threading.enumerate()) <= before


async def test_a_newer_database_is_accepted(empty_url: str) -> None:
    async with Duly(empty_url) as newer:
        moment = "0" if newer.store.dialect == "sqlite" else "now()"
        await write(newer.store, f"INSERT INTO duly.migrations VALUES (9999, 'from_the_future', {moment})")
    for migrate in (True, False):
        async with Duly(empty_url, migrate=migrate) as older:
            assert await older.events.find() == []
            assert await older.store.applied() == 9999


async def test_an_older_database_is_brought_up_or_refused(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from duly.stores import migrations as module

    async with Duly(empty_url) as older:
        await older.store.add([make_new()])
        dialect = older.store.dialect
    prefix = "" if dialect == "sqlite" else "duly."
    next_one = module.Migration(9999, "more", f"CREATE TABLE {prefix}more (n integer)")
    known = migrations(dialect)
    monkeypatch.setattr(module, "migrations", lambda dialect: (*known, next_one))
    with pytest.raises(SchemaMismatch, match="needs 9999: run `duly migrate`"):
        await store_on(empty_url).open(migrate=False)
    async with Duly(empty_url) as newer:
        assert await ask(newer.store, "SELECT count(*) FROM duly.more") == 0
        assert len(await newer.events.find()) == 1


async def test_a_migration_that_fails_leaves_the_database_as_it_was(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from duly.stores import migrations as module

    async with Duly(empty_url) as older:
        dialect, before = older.store.dialect, await tables_and_indexes(older.store)
    prefix = "" if dialect == "sqlite" else "duly."
    broken = module.Migration(9999, "broken", f"CREATE TABLE {prefix}half (n integer); SELECT nonsense")
    known = migrations(dialect)
    with monkeypatch.context() as patch:
        patch.setattr(module, "migrations", lambda dialect: (*known, broken))
        with pytest.raises(Exception, match="nonsense"):
            await store_on(empty_url).open(migrate=True)
    async with Duly(empty_url) as again:
        assert await tables_and_indexes(again.store) == before


@pytest.mark.broken_rows("its rows are written by hand")
async def test_deliveries_of_version_1_are_still_in_the_history(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 1 wrote a row of history beside each completed event; since version 2 the event is that row."""
    store = store_on(empty_url)
    first = migrations(store.dialect)[:1]
    with monkeypatch.context() as then:
        for module in ("duly.stores.migrations", f"duly.stores.{store.dialect}.store"):
            then.setattr(f"{module}.migrations", lambda _dialect: first, raising=False)
        await store.open(migrate=True)
        event = make_new()
        async with store.begin() as tx:
            await tx.execute(
                spelled(
                    store,
                    "INSERT INTO duly.events (id, tenant, type, lane, due, ready, payload, created) "
                    "VALUES ($1, 'default', 'greet', 'handler:greet', $2, $2, 'null', $2)",
                ),
                event.id, store.instant(START),
            )  # fmt: skip
            completing = "SET status = 'COMPLETED', ready = NULL, worker = 'w1', version = 2, attempts = 1"
            await tx.execute(spelled(store, f"UPDATE duly.events {completing}"))
            telling = (
                "INSERT INTO duly.history (subject, at, act, worker, version, attempt) "
                "SELECT id, created, '{}', 'w1', 2, 1 FROM duly.events"
            )
            for act in ("moved", "delivered"):
                await tx.execute(spelled(store, telling.format(act)))
        await store.close()
    await store.open(migrate=True)
    entries = await store.history(event.id)
    created = (await event_of(store, event.id)).created
    await store.close()
    assert [(entry.act, entry.worker, entry.version, entry.attempt, entry.at) for entry in entries] == [
        ("moved", "w1", 2, 1, created),
        ("delivered", "w1", 2, 1, created),
    ]


async def test_the_heads_of_version_2_still_fire(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Since version 3 an event knows the instant that its rule gave, and the zone."""
    store = store_on(empty_url)
    second = migrations(store.dialect)[:2]
    with monkeypatch.context() as then:
        for module in ("duly.stores.migrations", f"duly.stores.{store.dialect}.store"):
            then.setattr(f"{module}.migrations", lambda _dialect: second, raising=False)
        await store.open(migrate=True)
        schedule = make_schedule(name="hourly")
        async with store.begin() as tx:
            made, due = store.instant(START - HOUR), store.instant(START)
            await tx.execute(
                spelled(
                    store,
                    "INSERT INTO duly.schedules (id, tenant, name, type, rule, payload, created, updated) "
                    "VALUES ($1, 'default', 'hourly', 'greet', $2, 'null', $3, $3)",
                ),
                schedule.id, schedule.rule_json, made,
            )  # fmt: skip
            await tx.execute(
                spelled(
                    store,
                    "INSERT INTO duly.events (id, tenant, type, lane, due, ready, payload, series, occurrence, head, "
                    "created) VALUES ($1, 'default', 'greet', 'handler:greet', $2, $2, 'null', $3, $4, $5, $6)",
                ),
                new_id(), due, schedule.series, write_instant(START), True if store.dialect == "postgres" else 1, made,
            )  # fmt: skip
        await store.close()
    fired: list[Event] = []
    async with Duly(empty_url, clock=ManualClock(START + HOUR)) as app:

        @app.on("greet")
        async def greet(event: Event) -> None:
            fired.append(event)

        await app.tick()
        shown = await app.schedules.get("hourly")
    assert [(event.scheduled, event.timezone, event.stands_for) for event in fired] == [(START + HOUR, "UTC", 2)]
    assert (shown.next_at, shown.timezone, shown.policies_json) == (START + 2 * HOUR, "UTC", None)


async def test_admin_keys_from_before_may_still_name_any_tenant_and_the_migration_says_so(empty_url: str) -> None:
    store = store_on(empty_url)
    await store.connect()
    every = migrations(store.dialect)
    [since] = [one.version for one in every if one.name == "all_tenants"]
    try:
        with pytest.MonkeyPatch.context() as before:
            older = tuple(one for one in every if one.version < since)
            for module in ("duly.stores.migrations", f"duly.stores.{store.dialect}.store"):
                before.setattr(f"{module}.pending", lambda _, applied: [one for one in older if one.version > applied])
            await store.migrate()
        for scope in ("read", "write", "admin"):
            values = new_id(), scope, scope, scope, scope
            await write(
                store,
                "INSERT INTO duly.api_keys (id, tenant, name, scope, hash, hint, created) "
                f"VALUES ($1, 'default', $2, $3, $4, $5, {'now()' if store.dialect == 'postgres' else '0'})",
                *values,
            )
        assert await store.migrate() == [f"{one.version:04}_{one.name}" for one in every if one.version >= since]
        keys = {key.scope.value: key for key in await store.list_keys(None, before=None, limit=10)}
        assert {scope: key.all_tenants for scope, key in keys.items()} == {"read": False, "write": False, "admin": True}
        [entry] = await store.history(keys["admin"].id)
        assert (entry.act, entry.detail) == ("changed", "all-tenants, as before for every admin key")
    finally:
        await store.close()


async def test_rows_from_before_the_column_via_count_as_codes(empty_url: str) -> None:
    store = store_on(empty_url)
    await store.connect()
    try:
        with pytest.MonkeyPatch.context() as before:
            [anew] = [one.version for one in migrations(store.dialect) if one.name == "via"]
            older = tuple(one for one in migrations(store.dialect) if one.version < anew)
            for module in ("duly.stores.migrations", f"duly.stores.{store.dialect}.store"):
                before.setattr(f"{module}.pending", lambda _, applied: [one for one in older if one.version > applied])
            await store.migrate()
        id, now = new_id(), "now()" if store.dialect == "postgres" else "0"
        await write(
            store,
            "INSERT INTO duly.events (id, tenant, type, lane, due, ready, payload, target, created) "
            f"VALUES ($1, 'acme', 'x', 'redis', {now}, {now}, 'null', $2, {now})",
            id,
            '{"redis":"orders"}',
        )
        await store.migrate()
        assert (await event_of(store, id)).via is None
    finally:
        await store.close()
