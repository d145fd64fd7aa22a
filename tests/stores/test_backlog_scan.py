"""Whose events are ready, beside those of tenants who are known; and claiming them by their ids."""

import asyncio

import msgspec
import pytest

from duly import webhook
from duly.decide.fair_share import Candidate
from duly.ports import Reserved, ScanRequest
from duly.records.event import NewEvent
from duly.testing import ManualClock
from tests.conftest import AnyStore, OpenStore
from tests.make import HOUR, LANE, LEASE, MINUTE, START, make_head, make_new, make_schedule
from tests.stores.rows import event_of

WHOLE = ScanRequest({LANE: 100}, 5, 100)


def candidate(event: NewEvent) -> Candidate:
    return Candidate(event.id, event.lane, event.tenant, event.destination, event.due or START)


async def test_a_backlog_scan_finds_tenants_that_are_not_known_yet(store: AnyStore) -> None:
    known, other = make_new(tenant="known"), make_new(tenant="other", due=START - HOUR)
    await store.add([known, other])
    looked = await store.scan_backlog(WHOLE, [("known", None)])
    assert set(looked.others) == {candidate(other)}
    assert looked.examined == {LANE: 2}
    assert {one.tenant for one in (await store.scan_backlog(WHOLE, [])).others} == {"known", "other"}
    assert not (await store.scan_backlog(WHOLE, [("known", None), ("other", None)])).others


async def test_a_backlog_scan_knows_a_tenant_for_each_destination_separately(store: AnyStore) -> None:
    events = [make_new(destination=destination) for destination in (None, "x", "y")]
    await store.add(events)
    seen = {}
    for known in (None, "x", "y"):
        seen[known] = {one.destination for one in (await store.scan_backlog(WHOLE, [("default", known)])).others}
    assert seen == {None: {"x", "y"}, "x": {None, "y"}, "y": {None, "x"}}


@pytest.mark.broken_rows("its heads have no schedules", "heads_have_owners")
async def test_a_backlog_scan_sees_only_ready_events(store: AnyStore, clock: ManualClock) -> None:
    await store.add([make_new(due=START + HOUR), make_new(type="other")])
    await store.add([make_new()])
    await store.claim("w1", {LANE: 1}, LEASE)
    assert await store.scan_backlog(WHOLE, []) == ([], {LANE: 0})
    clock.advance(HOUR)
    assert len(set((await store.scan_backlog(WHOLE, [])).others)) == 1


async def test_a_backlog_scan_goes_as_deep_as_told_and_sees_the_newest(store: AnyStore) -> None:
    events = [make_new(tenant=f"t{n}", due=START - (20 - n) * MINUTE) for n in range(20)]
    await store.add(events)
    looked = await store.scan_backlog(ScanRequest({LANE: 4}, 3, 100), [("t1", None), ("t18", None)])
    assert {one.tenant for one in looked.others} == {"t0", "t2", "t3", "t17", "t19"}
    assert looked.examined == {LANE: 4}
    looked = await store.scan_backlog(ScanRequest({LANE: 0}, 2, 100), [])
    assert {one.tenant for one in looked.others} == {"t18", "t19"}
    assert looked.examined == {LANE: 0}


async def test_a_bounded_backlog_scan_still_finds_the_newest(store: AnyStore) -> None:
    await store.add([make_new(tenant=f"t{n:02}", due=START - (20 - n) * MINUTE) for n in range(20)])
    tenants = {one.tenant for one in (await store.scan_backlog(ScanRequest({LANE: 20}, 2, 5), [])).others}
    assert {"t18", "t19"} < tenants
    assert len(tenants) < 10


async def test_a_backlog_scan_covers_several_lanes(store: AnyStore) -> None:
    await store.add([make_new(type=type) for type in ("a", "a", "b")])
    looked = await store.scan_backlog(ScanRequest({"handler:a": 1, "handler:b": 10, "handler:c": 10}, 0, 10), [])
    assert sorted(one.lane for one in looked.others) == ["handler:a", "handler:b"]
    assert looked.examined == {"handler:a": 1, "handler:b": 1, "handler:c": 0}


@pytest.mark.broken_rows("its heads have no schedules", "heads_have_owners")
async def test_heads_are_scanned_together_with_other_events(store: AnyStore) -> None:
    heads = [make_head(make_schedule(tenant=tenant)) for tenant in ("a", "b")]
    await store.plant([*heads, make_head(make_schedule(tenant="c"), due=START + HOUR)])
    timer = make_new(tenant="d")
    await store.add([timer])
    looked = await store.scan_backlog(WHOLE, [("a", None)])
    assert set(looked.others) == {candidate(heads[1]), candidate(timer)}
    assert looked.examined == {LANE: 3}


# -- by their ids


async def test_chosen_events_are_claimed_in_the_given_order_up_to_the_limit(store: AnyStore) -> None:
    events = [make_new(due=START - n * MINUTE) for n in range(6)]
    await store.add(events)
    wanted = [events[n].id for n in (3, 0, 5, 1)]
    claimed = await store.claim_these("w1", wanted, [LANE], 3, LEASE)
    assert {event.id for event in claimed} == set(wanted[:3])
    assert {(event.version, event.worker, event.ready) for event in claimed} == {(2, "w1", START + LEASE)}
    [rest] = await store.claim_these("w1", wanted, [LANE], 3, LEASE)
    assert rest.id == wanted[3]
    stored = await event_of(store, rest.id)
    assert msgspec.structs.replace(stored, rule_json=rest.rule_json) == rest


async def test_chosen_events_that_are_no_longer_claimable_are_left_out(store: AnyStore, clock: ManualClock) -> None:
    gone, moved, elsewhere, there = events = [make_new(key=f"k{n}", due=START - n * MINUTE) for n in range(4)]
    await store.put(events)
    await store.put([make_new(key=moved.key, due=START + HOUR)])
    await store.put([make_new(key=elsewhere.key, target=webhook("https://hooks.example/"), due=START)])
    await store.claim_these("w1", [gone.id], [LANE], 5, LEASE)
    claimed = await store.claim_these("w2", [event.id for event in events], [LANE], 5, LEASE)
    assert [event.id for event in claimed] == [there.id]


async def test_two_workers_that_choose_the_same_events_get_different_ones(opened: OpenStore) -> None:
    stores = [await opened() for _ in range(2)]
    events = [make_new() for _ in range(20)]
    await stores[0].add(events)
    ids = [event.id for event in events]
    both = await asyncio.gather(*(store.claim_these(f"w{n}", ids, [LANE], 10, LEASE) for n, store in enumerate(stores)))
    claimed = [event.id for claims in both for event in claims]
    assert len(claimed) == len(set(claimed))
    assert len(claimed) >= 10


@pytest.mark.broken_rows("its heads have no schedules", "heads_have_owners")
@pytest.mark.parametrize("free", [1, 3])
async def test_chosen_heads_are_reserved_and_locked_with_their_schedules(store: AnyStore, free: int) -> None:
    schedules = [make_schedule() for _ in range(3)]
    for schedule in schedules:
        await store.put_schedule(schedule)
    heads = [make_head(schedule) for schedule in schedules]
    later, other = make_head(due=START + HOUR), make_head(make_schedule(type="other"))
    plain = make_new()
    await store.plant([*heads, later, other])
    await store.add([plain])
    ids = [one.id for one in (later, other, *reversed(heads), plain)]
    claimed = await store.claim_these("w1", ids, [LANE], free, LEASE)
    async with store.begin() as tx:
        found = await tx.reserved_heads(list(map(Reserved.of, claimed.careful)), LEASE)
    assert {head.id for head in found.heads} == {head.id for head in heads[3 - free :]}
    assert {schedule.id for schedule in found.schedules} == {schedule.id for schedule in schedules[3 - free :]}
    assert found.now == START
