"""The rows of workers, and the lanes that nobody serves."""

import json
import re
from datetime import timedelta
from typing import Any

import msgspec

from duly.records.event import Status
from duly.records.specs import OfTenant, OneOf
from duly.records.workers.worker import WorkerInfo, WorkerKind
from duly.stores.queries import load
from duly.testing import ManualClock
from tests.conftest import AnyStore
from tests.make import HOUR, LEASE, START, make_new

BEAT = timedelta(seconds=10)
OPEN = OneOf("status", (Status.PENDING, Status.PROCESSING))


def row(name: str = "ada", *lanes: str, **told: Any) -> WorkerInfo:
    usual: dict[str, Any] = {
        "name": name,
        "host": "web1",
        "pid": 4711,
        "version": "0.1.0",
        "kind": WorkerKind.WORKER,
        "lanes_json": json.dumps(lanes or ("webhook",), separators=(",", ":")),
        "started": START,
        "seen": START,
        "beat": BEAT,
        "pass_limit": HOUR,
    }
    return WorkerInfo(**(usual | told))


async def test_a_beat_writes_all_that_a_worker_tells(store: AnyStore) -> None:
    told = row("ada", "handler:x", "webhook", closed_json='{"nats":"no route"}', draining=True)
    await store.beat(told, timedelta(seconds=3), begins=True)
    [found] = await store.workers()
    assert found == msgspec.structs.replace(told, last_pass=START - timedelta(seconds=3))
    assert found.lanes == ("handler:x", "webhook")
    assert found.closed == {"nats": "no route"}


async def test_a_later_beat_moves_what_was_seen_and_keeps_the_beginning(store: AnyStore, clock: ManualClock) -> None:
    await store.beat(row(), timedelta(), begins=True)
    clock.advance(BEAT)
    await store.beat(row(), None)
    [found] = await store.workers()
    assert (found.started, found.seen, found.last_pass) == (START, START + BEAT, START)
    clock.advance(BEAT)
    await store.beat(row(pid=4712), timedelta(), begins=True)  # another process of the same name
    [found] = await store.workers()
    assert (found.pid, found.started) == (4712, START + 2 * BEAT)


async def test_a_tick_that_has_ended_says_when_and_the_next_one_is_at_work_again(
    store: AnyStore, clock: ManualClock
) -> None:
    tick = row("web1:tick", kind=WorkerKind.TICK)
    await store.beat(tick, timedelta(), begins=True, stops=True)
    assert [one.stopped for one in await store.workers()] == [START]
    clock.advance(HOUR)
    await store.beat(tick, None, begins=True)
    [found] = await store.workers()
    assert (found.stopped, found.last_pass, found.started) == (None, START, START + HOUR)


async def test_a_worker_that_leaves_has_no_row_and_its_lanes_are_remembered(
    store: AnyStore, clock: ManualClock
) -> None:
    await store.beat(row("ada", "webhook", "handler:x"), None, begins=True)
    await store.beat(row("bo", "handler:x"), None, begins=True)
    clock.advance(HOUR)
    await store.leave("ada")
    assert [one.name for one in await store.workers()] == ["bo"]
    assert await store.remembered_lanes() == {"webhook": START + HOUR, "handler:x": START + HOUR}
    clock.advance(HOUR)
    await store.leave("bo")
    assert await store.remembered_lanes() == {"webhook": START + HOUR, "handler:x": START + 2 * HOUR}
    await store.leave("nobody")


async def test_workers_that_vanished_are_forgotten_and_their_lanes_are_remembered(
    store: AnyStore, clock: ManualClock
) -> None:
    await store.beat(row("ada", "webhook", "handler:x"), None, begins=True)
    clock.advance(HOUR)
    await store.beat(row("bo", "webhook"), None, begins=True)
    await store.forget_workers(timedelta(minutes=30))
    assert [one.name for one in await store.workers()] == ["bo"]
    assert await store.remembered_lanes() == {"webhook": START, "handler:x": START}
    clock.advance(HOUR)
    await store.forget_workers(timedelta(minutes=30))
    assert await store.remembered_lanes() == {"webhook": START + HOUR, "handler:x": START}


async def test_waiting_lanes_tell_since_when_their_oldest_event_is_ready(store: AnyStore, clock: ManualClock) -> None:
    assert await store.waiting_lanes() == []
    await store.add([make_new(lane="handler:b", due=START + 2 * HOUR), make_new(lane="handler:b", due=START + HOUR)])
    await store.add([make_new(lane="handler:a", due=START), make_new(lane="webhook", due=START)])
    await store.claim("ada", {"handler:a": 1}, LEASE)
    lanes = {one.lane: one.ready for one in await store.waiting_lanes()}
    assert lanes == {"handler:a": START + LEASE, "handler:b": START + HOUR, "webhook": START}
    assert await store.count_ready("handler:b", START + HOUR, limit=9) == 1
    assert await store.count_ready("handler:b", START + 2 * HOUR, limit=9) == 2
    assert await store.count_ready("handler:b", START + 2 * HOUR, limit=1) == 1
    assert await store.count_ready("handler:a", START + HOUR, limit=9) == 0


async def test_lanes_of_a_tenant_are_those_of_its_own_open_events(store: AnyStore) -> None:
    await store.add([make_new(lane="handler:a", tenant="acme"), make_new(lane="webhook", tenant="acme")])
    await store.add([make_new(lane="handler:a", tenant="acme"), make_new(lane="handler:b", tenant="other")])
    await store.add([make_new(lane="nats"), make_new(lane="webhook")])
    for tenant, lanes in (("acme", {"handler:a", "webhook"}), ("default", {"nats", "webhook"}), ("nobody", set())):
        assert set(await store.lanes_of(OfTenant(tenant) & OPEN, examine=10)) == lanes
    assert await store.lanes_of(OfTenant("acme") & OPEN, examine=1) == ["handler:a"]  # that of its newest event


async def test_waiting_lanes_are_found_by_the_indexes_of_ready_and_of_leased_events(store: AnyStore) -> None:
    """However many events a lane has, each takes a few lookups."""
    sql = load(store.dialect)["waiting_lanes"].sql
    async with store.begin() as tx:
        if store.dialect == "postgres":
            await tx.execute("SET LOCAL enable_seqscan = off")
        explain = "EXPLAIN QUERY PLAN " if store.dialect == "sqlite" else "EXPLAIN "
        plan = "\n".join(str(tuple(row)) for row in await tx.fetch(explain + sql))
    assert plan.count("events_ready") >= 2
    assert plan.count("events_leased") >= 2
    assert "Seq Scan on events" not in plan
    assert not re.search(r"SCAN (events|e)\b(?! USING COVERING INDEX events_(ready|leased))", plan), plan
