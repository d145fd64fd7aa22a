"""Exactly what its retention says goes, by a moved clock: every event beside the series, whatever its history."""

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from duly.decide.retention import PRUNED, Retention
from duly.engine.retention.prune import prune
from duly.ids import new_id, new_ids
from duly.records.event import Event, Status
from duly.records.specs import Everything, InStatus
from duly.testing import ManualClock
from tests.conftest import AnyStore, OpenStore
from tests.make import DAY, HOUR, LANE, LEASE, SECOND, START, completed, make_event, make_new
from tests.stores.rows import ask, keep, write

TYPES = ("greet", "digest.send", "report")
FINISHED = {
    Status.FAILED: "failed",
    Status.CANCELLED: "cancelled",
    Status.SKIPPED: "skipped",
}
SPANS = [SECOND, HOUR, DAY, 30 * DAY, 90 * DAY, 400 * DAY]


def any_retention(luck: random.Random) -> Retention:
    return Retention(
        luck.choice(SPANS),
        {status: luck.choice(SPANS) for status in PRUNED if luck.random() < 0.3},
        {type: luck.choice(SPANS) for type in TYPES if luck.random() < 0.3},
    )


def any_event(luck: random.Random) -> tuple[Event, datetime | None]:
    """An event, and when it ended."""
    status = luck.choice([*Status])
    created = START - luck.choice(SPANS) * luck.random()
    due = created + luck.choice(SPANS) * luck.random()
    ended = due + HOUR * luck.random() if status is Status.COMPLETED else created + (due - created) * luck.random()
    fields: dict[str, Any] = {"type": luck.choice(TYPES), "status": status, "due": due, "created": created}
    if luck.random() < 0.5:
        fields["key"] = new_id()
    if status in FINISHED:
        return make_event(**fields, ready=None, version=2, attempts=int(status is Status.FAILED)), ended
    return make_event(**fields), ended if status is Status.COMPLETED else None


async def write_any(store: AnyStore, luck: random.Random, many: int) -> dict[str, tuple[Event, datetime | None]]:
    made = sorted((any_event(luck) for _ in range(many)), key=lambda one: one[0].created)
    ids = new_ids(many)  # in the order of creation, as ids are
    events = {id: (msgspec.structs.replace(event, id=id), ended) for id, (event, ended) in zip(ids, made, strict=True)}
    await keep(store, *[event for event, _ in events.values()])
    for event, ended in events.values():
        if ended is None:
            continue
        if event.status is Status.COMPLETED:
            await write(store, "UPDATE duly.events SET settled = $1 WHERE id = $2", store.instant(ended), event.id)
        else:
            insert = (
                "INSERT INTO duly.journal (subject, at, act, worker, version, attempt) VALUES ($1, $2, $3, $4, $5, $6)"
            )
            attempt = 1 if event.status is Status.FAILED else None
            await write(store, insert, event.id, store.instant(ended), FINISHED[event.status], "w1", 2, attempt)
    return events


def kept_for(retention: Retention, event: Event) -> timedelta:
    return retention.types.get(event.type, retention.statuses.get(event.status, retention.usual))


@pytest.mark.parametrize("seed", range(3))
async def test_exactly_what_its_retention_says_goes(store: AnyStore, clock: ManualClock, seed: int) -> None:
    luck = random.Random(seed)
    events = await write_any(store, luck, 150)
    for _ in range(5):
        retention = any_retention(luck)
        clock.advance(luck.choice(SPANS) * luck.random())
        gone = {
            id: event
            for id, (event, ended) in events.items()
            if ended is not None and event.status in PRUNED and ended <= clock.now() - kept_for(retention, event)
        }
        told = [event async for batch in prune(store, retention, share=1, dry_run=True) for event in batch.gone]
        done = [event async for batch in prune(store, retention, share=1) for event in batch.gone]
        assert told == done
        assert {one.id: (one.status, one.type, one.ended) for one in done} == {
            id: (event.status, event.type, events[id][1]) for id, event in gone.items()
        }
        events = {id: one for id, one in events.items() if id not in gone}
        assert {event.id for event in await store.find(Everything(), limit=1000)} == events.keys()
        for id in gone:
            assert await store.history(id) == []
        for event in gone.values():
            if event.key is not None and event.status is not Status.CANCELLED:
                left = await store.by_key("default", event.key)
                assert left is None or left.id == event.id
    assert await ask(store, "SELECT count(*) FROM duly.journal WHERE subject NOT IN (SELECT id FROM duly.events)") == 0


async def test_a_timer_of_a_broker_that_was_cancelled_is_kept_as_long_as_a_key(
    store: AnyStore, clock: ManualClock
) -> None:
    """Or else the same command, delivered again, would create it again."""
    order: dict[str, Any] = {"key": "call-1", "asked": 7, "due": START + DAY}
    [added] = await store.put([make_new(**order)])
    await write(store, "UPDATE duly.events SET status = 'CANCELLED', ready = NULL WHERE id = $1", added.event.id)
    insert = "INSERT INTO duly.journal (subject, at, act, worker, version) VALUES ($1, $2, $3, $4, $5)"
    await write(store, insert, added.event.id, store.instant(START), "cancelled", "api", 1)
    clock.advance(364 * DAY)
    assert [batch.gone async for batch in prune(store, Retention(DAY), share=1)] == [[]]
    [again] = await store.put([make_new(**order)])
    assert again.event.id == added.event.id
    clock.advance(DAY)
    [batch] = [batch async for batch in prune(store, Retention(DAY), share=1)]
    assert [event.id for event in batch.gone] == [added.event.id]


async def test_a_claim_does_not_wait_for_a_batch_that_is_not_committed_yet(opened: OpenStore) -> None:
    """On PostgreSQL. SQLite has one writer at a time: there, a claim waits until the batch has ended."""
    one, other = await opened(), await opened()
    if one.dialect == "sqlite":
        return
    await one.add([make_new() for _ in range(20)])
    await one.settle([completed(event) for event in await claimed(one, 10)], "w1")
    finished = [event.id for event in await one.find(InStatus(Status.COMPLETED), limit=20)]
    async with one.begin() as tx:
        assert len(await tx.delete_ended(finished)) == 10
        async with asyncio.timeout(5):
            assert len(await claimed(other, 20)) == 10


async def claimed(store: AnyStore, limit: int) -> Sequence[Event]:
    return await store.claim("w1", {LANE: limit}, LEASE)
