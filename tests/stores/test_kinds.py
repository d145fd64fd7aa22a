"""Why an event waits and why a schedule is halted, as kinds: what the version before has left is carried over, and what
its processes still write beside newer ones."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from duly import Duly, HaltKind, HoldKind, every
from duly.config import read_settings
from duly.engine.series.holds import let_go_after
from duly.ids import new_id
from duly.stores.migrations import migrations
from duly.testing import ManualClock
from duly.values.instants import write_instant
from duly.wiring import open_store
from tests.make import DAY, HOUR, MINUTE, SECOND, START, completed, make_new, make_schedule
from tests.stores.rows import ask, write

CREATED = START - DAY
PAUSED_AT = START - 90 * MINUTE
URL = "https://hooks.example/in"

HELD = {
    "resting": ("paused", HoldKind.PAUSED, None),
    "behind": ("paused", HoldKind.PAUSED, None),
    "born": ("paused", HoldKind.PAUSED, None),
    "queueing": ("waits for its predecessor to end", HoldKind.LIMIT, None),
    "many": ("waits for one of 2 to end", HoldKind.LIMIT, None),
    "triggered": ("waits for its turn", HoldKind.LIMIT, None),
    "parked": ("target shop is parked: 503", HoldKind.TARGET, "shop"),
    "url": (f"target {URL} is disabled: 410 Gone", HoldKind.TARGET, URL),
}
"""What the version before wrote, by the type of the event, and what becomes of it."""

HALTED = {
    "plain": (None, None, None, None),
    "resting": ("paused", HaltKind.PAUSED, "paused", PAUSED_AT),
    "born": ("paused", HaltKind.PAUSED, "paused", CREATED),
    "over": ("ended", HaltKind.ENDED, "ended", None),
    "over and resting": ("ended", HaltKind.ENDED, "ended", PAUSED_AT),
    "broken": ("error: ValueError: no such rule", HaltKind.ERROR, "ValueError: no such rule", None),
    "queueing": (None, None, None, None),
    "many": (None, None, None, None),
}
"""The same for schedules, by name: the sentence before; the kind, the sentence and `paused_since` after."""

POLICIES = {"queueing": '{"overlap":"queue"}', "many": '{"max_concurrent":2}'}


@pytest.fixture
async def old(empty_url: str) -> AsyncIterator[Any]:
    """A store with the tables of the version before."""
    store = open_store(read_settings({}, database_url=empty_url), None)
    await store.connect()
    [since] = [one.version for one in migrations(store.dialect) if one.name == "kinds"]
    with pytest.MonkeyPatch.context() as before:
        older = [one for one in migrations(store.dialect) if one.version < since]
        for module in ("duly.stores.migrations", f"duly.stores.{store.dialect}.store"):
            before.setattr(f"{module}.pending", lambda _, applied: [one for one in older if one.version > applied])
        await store.migrate()
    yield store
    await store.close()


async def insert(store: Any, table: str, **values: Any) -> None:
    def written(value: Any) -> Any:
        if isinstance(value, datetime):
            return store.instant(value)
        return int(value) if isinstance(value, bool) and store.dialect == "sqlite" else value

    places = ", ".join(f"${number}" for number in range(1, len(values) + 1))
    statement = f"INSERT INTO duly.{table} ({', '.join(values)}) VALUES ({places})"
    await write(store, statement, *map(written, values.values()))


async def put(store: Any, type: str, **fields: Any) -> str:
    """An event, ready an hour after the start unless its fields say otherwise."""
    id = new_id()
    due = fields.get("due", START + HOUR)
    row = {
        "id": id, "tenant": "default", "type": type, "lane": f"handler:{type}", "status": "PENDING", "due": due,
        "ready": due, "payload": "null", "created": CREATED,
    }  # fmt: skip
    await insert(store, "events", **(row | fields))
    return id


async def tell(store: Any, subject: str, act: str, version: int | None = None, **fields: Any) -> None:
    row = {"subject": subject, "at": CREATED + HOUR, "act": act, "worker": "ada", "version": version}
    await insert(store, "journal", **(row | fields))


async def head(store: Any, schedule: Any, type: str, due: datetime = START - HOUR, **fields: Any) -> str:
    occurrence = {"series": schedule.series, "occurrence": write_instant(due), "scheduled": due, "timezone": "UTC"}
    return await put(store, type, due=due, **({"head": True} | occurrence | fields))


async def fill(store: Any) -> dict[str, str]:
    """A row in every state; returns the ids of the events by type."""
    schedules = {}
    for name, (halted, _, _, paused_since) in HALTED.items():
        schedule = schedules[name] = make_schedule(name=name, rule=every("1h"))
        rule = '{"cron":"nonsense"}' if name == "broken" else schedule.rule_json
        await insert(
            store, "schedules", id=schedule.id, tenant="default", name=name, type=name, rule=rule, payload="null",
            policies=POLICIES.get(name), enabled=paused_since is None, halted=halted, created=CREATED, updated=START,
        )  # fmt: skip
        if paused_since == PAUSED_AT:
            await tell(store, schedule.id, "paused", at=START - 10 * HOUR)
            await tell(store, schedule.id, "resumed", at=START - 9 * HOUR)
            await tell(store, schedule.id, "paused", at=PAUSED_AT)
    ids = {"plain": await head(store, schedules["plain"], "plain", START + HOUR)}

    def holds(type: str) -> dict[str, Any]:
        return {"ready": None, "held": HELD[type][0]}

    for name in ("resting", "born", "queueing", "many"):
        ids[name] = await head(store, schedules[name], name, **holds(name))
    ids["behind"] = await head(store, schedules["resting"], "behind", START - 2 * HOUR, head=False, **holds("behind"))
    ids["triggered"] = await head(
        store, schedules["queueing"], "triggered", START - MINUTE, head=False, gated=True, **holds("triggered")
    )
    claims = {
        "status": "PROCESSING", "ready": START + DAY, "version": 2, "unsettled": 1, "claimed": CREATED, "worker": "w1",
    }  # fmt: skip
    for name, many in (("queueing", 1), ("many", 2)):
        for n in range(many):
            runs = await head(store, schedules[name], name, START - (2 + n) * HOUR, head=False, gated=True, **claims)
            ids[f"running {name}"] = runs
    for type, destination in (("parked", "shop"), ("url", "https://hooks.example")):
        ids[type] = await put(
            store, type, lane="webhook", due=START - HOUR, destination=destination, version=2, **holds(type)
        )
        known = {"parked": HELD[type][0].partition(" is ")[2], "since": CREATED, "probes": 0}
        await insert(store, "destinations", tenant="default", destination=HELD[type][2], **known)
    ids["ready"] = await put(store, "ready")
    ids["claimed"] = await put(store, "claimed", **claims)
    delivered = {"executed": START, "settled": START, "claimed": START, "worker": "w1", "version": 2, "attempts": 1}
    ids["done"] = await put(store, "done", due=START, ready=None, status="COMPLETED", **delivered)
    for status, act in (("FAILED", "rejected"), ("CANCELLED", "cancelled"), ("SKIPPED", "skipped")):
        ids[status] = await put(store, status, ready=None, status=status)
        await tell(store, ids[status], act, 1)
    user = new_id()
    await insert(
        store, "users", id=user, tenant="default", first_name="Ada", last_name="Lovelace",
        date_of_birth=CREATED.date().isoformat() if store.dialect == "sqlite" else CREATED.date(), timezone="UTC",
        created=CREATED, created_by="ada", updated=CREATED,
    )  # fmt: skip
    ids["reminder"] = await put(
        store, "reminder", due=START, ready=None, status="COMPLETED", series=f"user:{user}:reminder", rule="{}",
        occurrence="2026-01-01", scheduled=START, **delivered,
    )  # fmt: skip
    await tell(store, user, "halted", detail="reminder: ended")
    return ids


async def test_rows_of_the_version_before_in_every_state_get_their_kinds(old: Any) -> None:
    ids = await fill(old)
    assert (await old.migrate())[0] == "0014_kinds"
    events = {type: await old.get(id) for type, id in ids.items()}
    found = {type: (event.held, event.hold_kind, event.held_for) for type, event in events.items()}
    assert found == dict.fromkeys(ids, (None, None, None)) | HELD
    shown = {name: await old.shown_schedule("default", name) for name in HALTED}
    told = {name: (one.halt_kind, one.halted, one.paused_since) for name, one in shown.items()}
    assert told == {name: tuple(after) for name, (_, *after) in HALTED.items()}
    assert {name: one.hold_kind for name, one in shown.items() if one.hold_kind is not None} == {
        "resting": HoldKind.PAUSED, "born": HoldKind.PAUSED, "queueing": HoldKind.LIMIT, "many": HoldKind.LIMIT,
    }  # fmt: skip
    assert (await old.invariants()).violations == []


async def test_rows_of_the_version_before_behave_by_their_kinds(old: Any, empty_url: str) -> None:
    ids = await fill(old)
    await old.migrate()
    async with Duly(empty_url, clock=ManualClock(START), secret_key="k" * 32) as app:
        resumed = await app.schedules.resume("resting")
        assert resumed.passed == 2, "those at the pause's 30th minute and an hour later"
        assert (resumed.schedule.paused_since, resumed.schedule.halt_kind) == (None, None)
        behind = await app.events.get(ids["behind"])
        assert (behind.hold_kind, behind.ready) == (None, START - 2 * HOUR), "what the pause held is released"

        assert (await app.schedules.resume("born")).schedule.next_at == START + HOUR
        for name in ("over", "broken"):
            edited = await app.schedules.put(name, every("2h"), name)
            assert (edited.halted, edited.halt_kind, edited.next_at) == (None, None, START + 2 * HOUR)
        paused = await app.schedules.get("over and resting")
        assert (await app.schedules.resume(paused.name)).schedule.next_at == START + HOUR

        running = await app.events.get(ids["running queueing"])
        assert await app.store.settle([completed(running)], "w1") == {running.id}
        async with app.store.begin() as tx:
            await let_go_after(tx, [running])
        assert [(await app.events.get(ids[type])).hold_kind for type in ("queueing", "triggered", "many")] == [
            None, HoldKind.LIMIT, HoldKind.LIMIT,
        ]  # fmt: skip

        await app.targets.put("shop", "https://shop.example/in")
        for type in ("parked", "url"):
            assert await app.targets.enable(HELD[type][2] or "") == 1
            event = await app.events.get(ids[type])
            assert (event.held, event.hold_kind, event.held_for, event.ready) == (None, None, None, START - HOUR)
        assert (await app.store.invariants()).violations == []


KIND_OF = "SELECT hold_kind FROM duly.events WHERE id = $1"
FOR = "SELECT held_for FROM duly.events WHERE id = $1"


@pytest.mark.broken_rows("its rows are written by hand")
async def test_what_processes_of_the_version_before_still_write_gets_its_kind(store: Any) -> None:
    """Its statements know the sentences alone."""
    [id] = await store.add([make_new()])
    steps = [
        ("ready = NULL, held = 'paused'", "paused", None),
        ("held = 'waits for its turn'", "limit", None),
        (f"held = 'target {URL} is parked: 503'", "target", URL),
        ("held = 'paused'", "paused", None),
        ("held = 'in other words'", "paused", None),
        ("ready = due, held = NULL", None, None),
    ]
    for assigned, kind, held_for in steps:
        await write(store, f"UPDATE duly.events SET {assigned} WHERE id = $1", id)
        assert (await ask(store, KIND_OF, id), await ask(store, FOR, id)) == (kind, held_for), assigned
    waiting = await put(store, "triggered", ready=None, held="waits for its turn", series="schedule:x", occurrence="x")
    assert await ask(store, KIND_OF, waiting) == "limit"


@pytest.mark.broken_rows("its rows are written by hand")
async def test_schedules_that_the_version_before_pauses_and_halts_get_their_kinds(store: Any) -> None:
    schedule = make_schedule()
    await store.put_schedule(schedule)
    steps = [
        ("enabled = false, halted = 'paused', updated = $1", HaltKind.PAUSED, START),
        ("halted = 'ended', updated = $1", HaltKind.ENDED, START),
        ("halted = 'error: ValueError: no such zone', updated = $1", HaltKind.ERROR, START),
        ("halted = NULL, updated = $1", None, START),
    ]
    for number, (assigned, kind, since) in enumerate(steps):
        changed = store.instant(START + number * SECOND)
        await write(store, f"UPDATE duly.schedules SET {assigned} WHERE id = $2", changed, schedule.id)
        [found] = await store.schedules([schedule.id])
        assert (found.halt_kind, found.paused_since) == (kind, since), assigned


@pytest.mark.parametrize(
    ("table", "column", "kinds"), [("events", "hold_kind", HoldKind), ("schedules", "halt_kind", HaltKind)]
)
@pytest.mark.broken_rows("its rows are written by hand")
async def test_the_tables_take_no_other_kind(store: Any, table: str, column: str, kinds: Any) -> None:
    await store.add([make_new()])
    await store.put_schedule(make_schedule())
    for kind in kinds:
        await write(store, f"UPDATE duly.{table} SET {column} = $1", kind.value)
    with pytest.raises(Exception, match=r"(?i)check constraint.*hold_kind|check constraint.*halt_kind"):
        await write(store, f"UPDATE duly.{table} SET {column} = 'a whim'")
