"""Destinations that are parked, and what waits for them, statement by statement: whoever dies between two of these
leaves a state from which anybody can go on."""

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from duly import HoldKind, Status, webhook
from duly.engine.destinations.parking import FIRST_PROBE, LONGEST_PROBE_WAIT, look_after_parked, open_again
from duly.ids import new_id
from duly.records.event import Event, Settlement
from duly.records.target import Target
from duly.testing import ManualClock
from tests.conftest import AnyStore, OpenStore
from tests.make import HOUR, LEASE, MINUTE, SECOND, START, completed, failed, given_back, held, make_new
from tests.stores.rows import event_of

URL = "https://hooks.example/in"
ORIGIN = "https://hooks.example"
LANE = "webhook"
LANES = [LANE, "http"]


async def claimed(store: AnyStore, *, count: int = 1, url: str = URL, **fields: Any) -> list[Event]:
    """Events that are due and under way, the oldest first."""
    dues = [START - (count - n) * SECOND for n in range(count)]
    await store.add([make_new(target=webhook(url), **({"due": due} | fields)) for due in dues])
    return list(await store.claim("w1", {LANE: count}, LEASE))


async def waiting(store: AnyStore, *, count: int = 1, **fields: Any) -> list[Event]:
    """Events that are held for a destination which is parked."""
    events = await claimed(store, count=count, **fields)
    await store.park(events[0].tenant, ORIGIN, "is parked: 503", FIRST_PROBE)
    assert await store.settle([held(event) for event in events], "w1") == {event.id for event in events}
    return events


async def acts(store: AnyStore, event: Event) -> list[str]:
    return [entry.act for entry in await store.history(event.id)]


async def known(store: AnyStore, tenant: str = "default", destination: str = ORIGIN) -> Any:
    [found] = await store.destinations([(tenant, destination)])
    return found


async def everything_is_released(store: AnyStore, clock: ManualClock) -> None:
    """What any worker does at its next look, until there is nothing more to look after."""
    while await store.unparking():
        await look_after_parked(store, LANES, "w9", LEASE)
        clock.advance(LONGEST_PROBE_WAIT)


# -- parking


async def test_a_destination_is_parked_once_and_tells_why_and_until_when(store: AnyStore, clock: ManualClock) -> None:
    assert await store.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)
    clock.advance(SECOND)
    assert not await store.park("default", ORIGIN, "is parked: another reason", FIRST_PROBE), "the first word counts"
    found = await known(store)
    assert (found.parked, found.since, found.probe_at) == ("is parked: 503", START, START + FIRST_PROBE)
    assert [one.destination for one in await store.list_destinations(None, after=("", ""), limit=9)] == [ORIGIN]


async def test_disabling_overrides_parking_and_not_the_reverse(store: AnyStore) -> None:
    await store.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)
    assert await store.park("default", ORIGIN, "is disabled: 410", None)
    assert (await known(store)).probe_at is None
    assert not await store.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)
    assert (await known(store)).parked == "is disabled: 410"


async def test_opening_an_open_destination_does_nothing(store: AnyStore) -> None:
    assert await store.unpark("default", ORIGIN) is None
    await store.limit("default", ORIGIN, 5, None)
    assert await store.unpark("default", ORIGIN) is None
    assert await store.unparking() == []
    assert not await store.probe_now("default", ORIGIN)


async def test_parking_leaves_limits_as_they_are(store: AnyStore) -> None:
    await store.limit("default", ORIGIN, 5, 2.0)
    await store.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)
    await store.unpark("default", ORIGIN)
    await store.released("default", ORIGIN)
    found = await known(store)
    assert (found.concurrency, found.rate, found.parked) == (5, 2.0, None)


async def test_a_parked_url_is_told_with_its_origin_and_with_no_other(store: AnyStore) -> None:
    for parked in ("https://hooks.example/", "https://hooks.example:8443/in", "https://other.example/in"):
        await store.park("default", parked, "is disabled: 410", None)
    asked = {
        (tenant, destination): one.within
        for tenant, destination in [
            ("default", ORIGIN),
            ("default", "https://hooks.example:8443"),
            ("default", "https://hooks.exampl"),
            ("default", "https://hooks.example:84"),
            ("acme", ORIGIN),
        ]
        for one in await store.destinations([(tenant, destination)])
    }
    assert [key for key, within in asked.items() if within] == [
        ("default", ORIGIN),
        ("default", "https://hooks.example:8443"),
    ]
    await store.unpark("default", "https://hooks.example/")
    assert not (await known(store)).within


# -- holding


async def test_a_held_event_spends_no_attempt_and_says_why(store: AnyStore) -> None:
    [event] = await waiting(store)
    kept = await event_of(store, event.id)
    assert (kept.status, kept.ready, kept.attempts, kept.interruptions) == (Status.PENDING, None, 0, 0)
    assert kept.held == f"target {ORIGIN} is parked: 503"
    assert (kept.hold_kind, kept.held_for) == (HoldKind.TARGET, ORIGIN)
    assert kept.last_error is None
    [entry] = await store.history(event.id)
    assert (entry.act, entry.worker, entry.attempt, entry.detail) == ("held", "w1", None, kept.held)


async def test_a_held_event_is_not_claimed_and_wakes_no_worker(store: AnyStore, clock: ManualClock) -> None:
    await waiting(store, count=3)
    clock.advance(365 * 24 * HOUR)
    assert await store.claim("w1", {LANE: 9}, LEASE) == []
    assert await store.claim_interrupted("w1", LANES, LEASE) == []
    horizon, _ = await store.horizon(LANES)
    assert horizon == (None, None)


async def test_a_claim_whose_destination_was_opened_meanwhile_is_given_back(store: AnyStore) -> None:
    first, second = await claimed(store, count=2)
    await store.settle([failed(second)], "w1")
    await store.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)
    await store.unpark("default", ORIGIN)
    assert await store.settle([held(first)], "w1") == {first.id}
    kept = await event_of(store, first.id)
    assert (kept.status, kept.ready, kept.held, kept.attempts) == (Status.PENDING, kept.due, None, 0)
    assert await acts(store, first) == ["given back"]


async def test_an_event_whose_claim_was_lost_is_not_held(store: AnyStore, clock: ManualClock) -> None:
    [event] = await claimed(store)
    clock.advance(LEASE)
    [(again, _)] = await store.claim_interrupted("w2", LANES, LEASE)
    await store.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)
    assert await store.settle([held(event)], "w1") == set()
    assert await store.settle([completed(again)], "w2") == {event.id}


async def test_all_verdicts_of_a_batch_with_held_events_are_settled(store: AnyStore) -> None:
    events = await claimed(store, count=4)
    await store.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)
    verdicts = [completed, failed, held, given_back]
    assert await store.settle([verdict(event) for verdict, event in zip(verdicts, events, strict=True)], "w1") == {
        event.id for event in events
    }
    assert [(await acts(store, event))[-1] for event in events] == ["delivered", "failed", "held", "given back"]


# -- probes


async def test_probes_come_after_half_a_minute_and_then_twice_as_far_apart_up_to_ten_minutes(
    store: AnyStore, clock: ManualClock
) -> None:
    await store.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)
    apart = []
    last = clock.now()
    for _ in range(8):
        probe_at = (await known(store)).probe_at
        clock.set(probe_at - timedelta(microseconds=1))
        assert await store.due_probes(FIRST_PROBE, LONGEST_PROBE_WAIT) == []
        clock.set(probe_at)
        assert await store.due_probes(FIRST_PROBE, LONGEST_PROBE_WAIT) == [("default", ORIGIN)]
        assert await store.due_probes(FIRST_PROBE, LONGEST_PROBE_WAIT) == [], "it is the first one's to try"
        apart.append((probe_at - last).total_seconds())
        last = probe_at
    assert apart == [30, 60, 120, 240, 480, 600, 600, 600]


async def test_the_probes_of_a_destination_that_was_opened_begin_anew(store: AnyStore, clock: ManualClock) -> None:
    await store.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)
    for _ in range(4):
        clock.advance(LONGEST_PROBE_WAIT)
        await store.due_probes(FIRST_PROBE, LONGEST_PROBE_WAIT)
    await store.unpark("default", ORIGIN)
    await store.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)
    clock.advance(FIRST_PROBE)
    await store.due_probes(FIRST_PROBE, LONGEST_PROBE_WAIT)
    assert (await known(store)).probe_at == clock.now() + 2 * FIRST_PROBE


async def test_a_disabled_destination_is_not_probed(store: AnyStore, clock: ManualClock) -> None:
    await store.park("default", ORIGIN, "is disabled", None)
    clock.advance(24 * HOUR)
    assert await store.unparking() == []
    assert await store.due_probes(FIRST_PROBE, LONGEST_PROBE_WAIT) == []
    assert not await store.probe_now("default", ORIGIN)


async def test_many_destinations_are_probed_a_few_at_a_time(store: AnyStore, clock: ManualClock) -> None:
    for number in range(50):
        await store.park("default", f"https://h{number}.example", "is parked: 503", FIRST_PROBE)
    clock.advance(FIRST_PROBE)
    tried: list[Any] = []
    while probes := await store.due_probes(FIRST_PROBE, LONGEST_PROBE_WAIT):
        assert len(probes) <= 20
        tried += probes
    assert len(set(tried)) == len(tried) == 50


async def test_the_oldest_waiting_event_is_the_probe(store: AnyStore, clock: ManualClock) -> None:
    events = await waiting(store, count=3)
    clock.advance(MINUTE)
    [probe] = await store.claim_probe("default", ORIGIN, LANES, "w2", LEASE)
    assert probe.id == events[0].id
    assert (probe.status, probe.version, probe.held, probe.worker) == (Status.PROCESSING, 3, None, "w2")
    assert (probe.claimed, probe.ready) == (clock.now(), clock.now() + LEASE)
    assert probe.destination == ORIGIN
    assert [one.id for one in await store.claim_probe("default", ORIGIN, LANES, "w3", LEASE)] == [events[1].id]


async def test_a_probe_is_of_this_tenant_and_destination_and_of_lanes_that_are_served(store: AnyStore) -> None:
    await waiting(store)
    for wrong in (
        ("acme", ORIGIN, LANES),
        ("default", "https://hooks.example:8443", LANES),
        ("default", ORIGIN, ["x"]),
    ):
        assert await store.claim_probe(*wrong, "w2", LEASE) == []


async def test_a_probe_is_never_early(store: AnyStore, clock: ManualClock) -> None:
    """A person may move an event that is held."""
    [event] = await waiting(store)
    later = clock.now() + HOUR
    await store.change(msgspec.structs.replace(await event_of(store, event.id), due=later), "rescheduled", "ada")
    assert await store.claim_probe("default", ORIGIN, LANES, "w2", LEASE) == []
    clock.set(later)
    assert len(await store.claim_probe("default", ORIGIN, LANES, "w2", LEASE)) == 1


async def test_a_failed_probe_leaves_the_event_as_it_was(store: AnyStore, clock: ManualClock) -> None:
    [event] = await waiting(store)
    before = await event_of(store, event.id)
    clock.advance(MINUTE)
    [probe] = await store.claim_probe("default", ORIGIN, LANES, "w2", LEASE)
    await store.settle([held(probe, "is parked: 504")], "w2")
    after = await event_of(store, event.id)
    assert (after.attempts, after.interruptions, after.ready) == (before.attempts, before.interruptions, None)
    assert after.held == f"target {ORIGIN} is parked: 504"
    assert after.version == before.version + 1, "it was claimed"


# -- releasing


async def test_released_events_are_ready_when_they_were_due_and_claimed_in_that_order(
    store: AnyStore, clock: ManualClock
) -> None:
    events = await waiting(store, count=5)
    clock.advance(MINUTE)
    await store.unpark("default", ORIGIN)
    assert await store.release_parked("default", ORIGIN, ORIGIN, 2, "w2") == 2
    assert await store.release_parked("default", ORIGIN, ORIGIN, 9, "w2") == 3
    assert await store.release_parked("default", ORIGIN, ORIGIN, 9, "w2") == 0
    again = await store.claim("w2", {LANE: 9}, LEASE)
    assert [event.id for event in again] == [event.id for event in events]
    assert await acts(store, events[0]) == ["held", "released"]


async def test_a_release_takes_only_events_that_waited_for_its_destination(store: AnyStore) -> None:
    mine, others = await waiting(store), await waiting(store, tenant="acme")
    [url_only] = await claimed(store)
    await store.park("default", URL, "is disabled: 410", None)
    await store.settle([held(url_only, "is disabled: 410", parked=URL)], "w1")
    await store.unpark("default", ORIGIN)
    assert await store.release_parked("default", ORIGIN, ORIGIN, 9, "w2") == len(mine)
    alone = await event_of(store, url_only.id)
    assert (alone.held, alone.held_for, alone.destination) == (f"target {URL} is disabled: 410", URL, ORIGIN)
    assert (await event_of(store, others[0].id)).held is not None
    await store.unpark("default", URL)
    assert await store.release_parked("default", URL, ORIGIN, 9, "w2") == 1


async def test_a_released_event_that_was_tried_before_is_ready_at_once(store: AnyStore, clock: ManualClock) -> None:
    [event] = await claimed(store)
    await store.settle([failed(event)], "w1")
    clock.advance(HOUR)
    [event] = await store.claim("w1", {LANE: 9}, LEASE)
    await store.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)
    await store.settle([held(event)], "w1")
    clock.advance(MINUTE)
    await store.unpark("default", ORIGIN)
    await store.release_parked("default", ORIGIN, ORIGIN, 9, "w2")
    kept = await event_of(store, event.id)
    assert (kept.ready, kept.attempts, kept.due) == (clock.now(), 1, event.due)


async def test_a_timer_that_is_moved_while_it_is_held_is_held_no_longer(store: AnyStore, clock: ManualClock) -> None:
    """Else it would be claimed, completed, and released for once more."""
    [event] = await waiting(store, key="k")
    [moved] = await store.put([make_new(key="k", due=clock.now(), payload="anew", target=webhook(URL))])
    assert (moved.event.id, moved.change) == (event.id, "moved")
    assert (moved.event.held, moved.event.ready) == (None, clock.now())
    [again] = await store.claim("w1", {LANE: 9}, LEASE)
    await store.settle([completed(again)], "w1")
    await store.unpark("default", ORIGIN)
    assert await store.release_parked("default", ORIGIN, ORIGIN, 9, "w2") == 0
    assert (await event_of(store, event.id)).ready is None


async def test_putting_the_same_again_leaves_a_held_timer_held(store: AnyStore) -> None:
    await waiting(store, key="k", due=START)
    [same] = await store.put([make_new(key="k", due=START, target=webhook(URL))])
    assert same.change == "unchanged"
    assert same.event.held is not None


# -- whoever dies in between


async def test_a_worker_that_dies_while_it_probes_leaves_nothing_stuck(store: AnyStore, clock: ManualClock) -> None:
    [event] = await waiting(store)
    clock.advance(FIRST_PROBE)
    assert await store.due_probes(FIRST_PROBE, LONGEST_PROBE_WAIT)
    [probe] = await store.claim_probe("default", ORIGIN, LANES, "gone", LEASE)  # and here the lights go out
    clock.advance(LEASE)
    [(again, _)] = await store.claim_interrupted("w2", LANES, LEASE)
    assert again.id == probe.id
    await store.settle([held(again)], "w2")
    kept = await event_of(store, event.id)
    assert (kept.status, kept.interruptions) == (Status.PENDING, 1)
    assert kept.held is not None
    await everything_is_released_by_a_person(store, clock)
    [(last, _)] = await store.claim_interrupted("w2", LANES, LEASE)
    await store.settle([completed(last)], "w2")
    assert await acts(store, event) == ["held", "interrupted", "held", "released", "delivered"]


async def everything_is_released_by_a_person(store: AnyStore, clock: ManualClock) -> None:
    await store.unpark("default", ORIGIN)
    await open_again(store, "default", ORIGIN, "ada")
    assert await store.unparking() == []


async def test_a_worker_that_dies_before_its_probe_costs_one_probe_interval(
    store: AnyStore, clock: ManualClock
) -> None:
    await waiting(store)
    clock.advance(FIRST_PROBE)
    await store.due_probes(FIRST_PROBE, LONGEST_PROBE_WAIT)  # and here the lights go out
    assert await look_after_parked(store, LANES, "w2", LEASE) == []
    clock.advance(2 * FIRST_PROBE)
    assert len(await look_after_parked(store, LANES, "w2", LEASE)) == 1


@pytest.mark.parametrize("released", [0, 2])
async def test_a_worker_that_dies_while_it_releases_events_leaves_the_rest_to_another(
    store: AnyStore, clock: ManualClock, released: int
) -> None:
    events = await waiting(store, count=5)
    await store.unpark("default", ORIGIN)
    if released:
        await store.release_parked("default", ORIGIN, ORIGIN, released, "gone")
    assert await store.unparking() == [("default", ORIGIN, False)]  # and here the lights go out
    await look_after_parked(store, LANES, "w2", LEASE)
    assert await store.unparking() == []
    assert len(await store.claim("w2", {LANE: 9}, LEASE)) == len(events)


async def test_a_destination_that_is_parked_again_while_it_is_released_stays_parked(store: AnyStore) -> None:
    await waiting(store, count=2)
    await store.unpark("default", ORIGIN)
    await store.release_parked("default", ORIGIN, ORIGIN, 1, "w1")
    await store.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)
    await open_again(store, "default", ORIGIN, "w1")  # goes on, knowing nothing of that
    found = await known(store)
    assert found.parked is not None
    assert found.since is not None, "whoever is held from now on has somebody to wait for"


async def test_a_destination_for_which_nothing_waits_opens_when_its_probe_is_due(
    store: AnyStore, clock: ManualClock
) -> None:
    await store.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)
    clock.advance(FIRST_PROBE)
    assert await look_after_parked(store, LANES, "w1", LEASE) == []
    assert (await known(store)).parked is None
    await everything_is_released(store, clock)


async def test_a_destination_for_which_only_later_events_wait_opens_when_its_probe_is_due(
    store: AnyStore, clock: ManualClock
) -> None:
    [event] = await waiting(store)
    later = clock.now() + 24 * HOUR
    await store.change(msgspec.structs.replace(await event_of(store, event.id), due=later), "rescheduled", "ada")
    clock.advance(FIRST_PROBE)
    assert await look_after_parked(store, LANES, "w1", LEASE) == []
    await everything_is_released(store, clock)
    assert (await event_of(store, event.id)).ready == later


async def test_a_worker_that_cannot_probe_a_destination_leaves_it_to_others(
    store: AnyStore, clock: ManualClock
) -> None:
    """One without the extra for webhooks has no lane for them."""
    await waiting(store)
    clock.advance(FIRST_PROBE)
    assert await look_after_parked(store, ["handler:greet"], "w1", LEASE) == []
    assert (await known(store)).parked is not None
    assert len(await look_after_parked(store, LANES, "w2", LEASE)) == 1, "nor has it taken their turn"


async def test_a_destination_that_was_disabled_while_it_was_probed_stays_disabled(
    store: AnyStore, clock: ManualClock
) -> None:
    await waiting(store)
    clock.advance(FIRST_PROBE)
    [_] = await look_after_parked(store, LANES, "w1", LEASE)
    await store.park("default", ORIGIN, "is disabled: by ada", None)
    assert await store.reopen("default", ORIGIN) is None, "an answer does not outweigh a person"
    assert (await known(store)).parked == "is disabled: by ada"
    assert await store.unpark("default", ORIGIN) is not None


async def test_deleting_a_target_forgets_whether_it_was_parked(store: AnyStore) -> None:
    target = Target(
        id=new_id(), tenant="default", name="crm", channel="webhook", spec_json='{"url":"https://x.example"}'
    )
    await store.put_target(target)
    await store.park("default", "crm", "is disabled", None)
    await store.delete_target("default", "crm")
    await store.put_target(target)
    assert (await known(store, destination="crm")).parked is None


# -- all at once


async def test_whoever_opens_a_destination_waits_for_those_who_are_holding_events_for_it(opened: OpenStore) -> None:
    here, there = await opened(), await opened()
    [event] = await claimed(here)
    await here.park("default", ORIGIN, "is parked: 503", FIRST_PROBE)

    async def open_it() -> None:
        await there.unpark("default", ORIGIN)
        await open_again(there, "default", ORIGIN, "w2")

    async with here.begin() as tx:
        await tx.settle([held(event)], "w1")
        opening = asyncio.create_task(open_it())
        await asyncio.wait([opening], timeout=0.2)
        assert not opening.done()
    await opening
    assert (await event_of(here, event.id)).held is None


async def test_no_order_of_holding_and_opening_leaves_an_event_that_nobody_will_release(opened: OpenStore) -> None:
    """Several processes hold, open, park and release at the same time."""
    stores: Sequence[Any] = [await opened() for _ in range(4)]
    tenants = ("t0", "t1", "t2")
    await stores[0].add([make_new(target=webhook(URL), tenant=tenants[n % 3]) for n in range(300)])
    left = await stores[0].claim("w1", {LANE: 300}, LEASE)
    random.shuffle(left)
    batches = [left[n : n + 3] for n in range(0, 300, 3)]

    async def hold(store: AnyStore) -> None:
        while batches:
            settlements: list[Settlement] = [held(event) for event in batches.pop()]
            async with store.begin() as tx:
                assert len(await tx.settle(settlements, "w1")) == len(settlements)
                await asyncio.sleep(random.uniform(0, 0.003))

    async def park_and_open(store: AnyStore) -> None:
        while batches:
            tenant = random.choice(tenants)
            if await store.park(tenant, ORIGIN, "is parked: 503", FIRST_PROBE):
                await asyncio.sleep(random.uniform(0, 0.01))
            elif await store.unpark(tenant, ORIGIN) is not None:
                await open_again(store, tenant, ORIGIN, "w2")

    await asyncio.gather(*map(hold, stores[:2]), *map(park_and_open, stores[2:]))
    store = stores[0]
    for tenant in tenants:
        events = [await store.get(event.id) for event in left if event.tenant == tenant]
        waits = [event for event in events if event.held is not None]
        assert all((event.ready is None) == (event.held is not None) for event in events)
        found = await known(store, tenant)
        assert not waits or found.since is not None, f"{len(waits)} wait for what is not parked: {found}"
        assert not waits or found.parked is not None or (tenant, ORIGIN, False) in await store.unparking()


async def test_two_workers_that_release_events_at_the_same_time_leave_none_behind(opened: OpenStore) -> None:
    stores: Sequence[Any] = [await opened() for _ in range(3)]
    events = await waiting(stores[0], count=200)
    await stores[0].unpark("default", ORIGIN)

    async def release(store: AnyStore) -> int:
        many = 0
        while released := await store.release_parked("default", ORIGIN, ORIGIN, 7, "w2"):
            many += released
        return many

    assert sum(await asyncio.gather(*map(release, stores))) == len(events)
    assert len(await stores[0].claim("w2", {LANE: 1000}, LEASE)) == len(events)
    for event in events[::50]:
        assert await acts(stores[0], event) == ["held", "released"], "once each"
