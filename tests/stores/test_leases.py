import asyncio

import msgspec
import pytest

from duly.decide.lifecycle import MAX_INTERRUPTIONS
from duly.records.event import Claim, Event, NewEvent, Status
from duly.records.history import Entry
from duly.testing import ManualClock
from duly.verbs.events.events import Events
from tests.conftest import AnyStore
from tests.make import (
    DAY,
    HOUR,
    LANE,
    LEASE,
    MICROSECOND,
    START,
    completed,
    failed,
    given_back,
    make_event,
    make_new,
)
from tests.stores.rows import event_of, keep


async def claimed_by(worker: str, store: AnyStore, *news: NewEvent) -> list[Event]:
    await store.add(news or [make_new()])
    return await store.claim(worker, {LANE: len(news) or 1}, LEASE)


async def interrupt(store: AnyStore, clock: ManualClock, times: int) -> Event:
    """One event whose worker vanished so many times, as the last look at it found it."""
    [event] = await claimed_by("w0", store)
    for n in range(1, times + 1):
        clock.advance(LEASE)
        [(event, _)] = await store.claim_interrupted(f"w{n}", [LANE], LEASE)
    return event


async def test_a_lease_holds_to_the_microsecond(store: AnyStore, clock: ManualClock) -> None:
    await claimed_by("w1", store)
    clock.advance(LEASE - MICROSECOND)
    assert await store.claim_interrupted("w2", [LANE], LEASE) == []
    clock.advance(MICROSECOND)
    assert len(await store.claim_interrupted("w2", [LANE], LEASE)) == 1


async def test_an_expired_lease_is_claimed_alone_and_counts_an_interruption(
    store: AnyStore, clock: ManualClock
) -> None:
    [lost] = await claimed_by("w1", store)
    clock.advance(LEASE + HOUR)
    [(found, _)] = await store.claim_interrupted("w2", [LANE], LEASE)
    assert found == msgspec.structs.replace(
        lost, version=3, interruptions=1, worker="w2", claimed=clock.now(), ready=clock.now() + LEASE
    )
    assert await store.get(lost.id) == found


async def test_the_history_names_the_vanished_worker_and_when_it_had_claimed(
    store: AnyStore, clock: ManualClock
) -> None:
    [lost] = await claimed_by("w1", store)
    clock.advance(LEASE)
    await store.claim_interrupted("w2", [LANE], LEASE)
    [entry] = await store.history(lost.id)
    expected = Entry(START + LEASE, "interrupted", "w1", 2, None, START, "its worker vanished and the lease expired")
    assert entry == expected


async def test_the_claim_of_an_interrupted_event_returns_whose_claim_the_crash_has_ended(
    store: AnyStore, clock: ManualClock
) -> None:
    [lost] = await claimed_by("w1", store)
    clock.advance(LEASE)
    [(again, before)] = await store.claim_interrupted("w2", [LANE], LEASE)
    assert (again.worker, again.claimed) == ("w2", clock.now())
    assert before == msgspec.structs.replace(again, worker="w1", claimed=lost.claimed)
    await store.settle([failed(again)], "w2")
    clock.advance(DAY)
    [(later, nobody)] = await store.claim_interrupted("w3", [LANE], LEASE)
    assert (later.id, nobody) == (lost.id, None), "it failed by itself since, and is suspect still"


async def test_interrupted_events_come_one_at_a_time_the_oldest_lease_first(
    store: AnyStore, clock: ManualClock
) -> None:
    [second] = await claimed_by("w1", store, make_new(due=START - 2 * HOUR))
    await store.renew([Claim(second.id, second.version)], 2 * LEASE)
    [first] = await claimed_by("w1", store, make_new(due=START - HOUR))
    clock.advance(HOUR)
    found = [await store.claim_interrupted("w2", [LANE], LEASE) for _ in range(3)]
    assert [[event.id for event, _ in events] for events in found] == [[first.id], [second.id], []]


async def test_interrupted_events_are_found_only_in_the_lanes_served(store: AnyStore, clock: ManualClock) -> None:
    await claimed_by("w1", store)
    clock.advance(LEASE)
    assert await store.claim_interrupted("w2", ["handler:other"], LEASE) == []
    assert await store.claim_interrupted("w2", [], LEASE) == []
    assert len(await store.claim_interrupted("w2", ["handler:other", LANE], LEASE)) == 1


async def test_two_workers_looking_at_once_find_different_interrupted_events(
    store: AnyStore, clock: ManualClock
) -> None:
    await claimed_by("w1", store, *(make_new() for _ in range(4)))
    clock.advance(LEASE)
    found = await asyncio.gather(*(store.claim_interrupted(f"w{n}", [LANE], LEASE) for n in range(4)))
    assert len({event.id for events in found for event, _ in events}) == 4


async def test_an_interrupted_event_that_succeeds_is_completed(store: AnyStore, clock: ManualClock) -> None:
    event = await interrupt(store, clock, 2)
    assert await store.settle([completed(event)], "w2") == {event.id}
    ended = await event_of(store, event.id)
    assert (ended.status, ended.attempts, ended.interruptions) == (Status.COMPLETED, 1, 2)


async def test_an_interrupted_event_that_fails_is_still_delivered_alone(store: AnyStore, clock: ManualClock) -> None:
    event = await interrupt(store, clock, 1)
    await store.settle([failed(event)], "w1")
    clock.advance(HOUR)
    assert await store.claim("w2", {LANE: 1}, LEASE) == []
    [(again, _)] = await store.claim_interrupted("w2", [LANE], LEASE)
    assert (again.attempts, again.interruptions) == (1, 1), "it waited for its retry: nobody vanished"
    assert [entry.act for entry in await store.history(event.id)] == ["interrupted", "failed"]


async def test_giving_an_interrupted_event_back_counts_nothing(store: AnyStore, clock: ManualClock) -> None:
    event = await interrupt(store, clock, 1)
    await store.settle([given_back(event)], "w1")
    [(again, _)] = await store.claim_interrupted("w2", [LANE], LEASE)
    assert (again.attempts, again.interruptions, again.version) == (0, 1, 4)


async def test_the_fifth_interruption_makes_a_dead_letter(store: AnyStore, clock: ManualClock) -> None:
    event = await interrupt(store, clock, MAX_INTERRUPTIONS - 1)
    assert (event.status, event.interruptions) == (Status.PROCESSING, 4)
    clock.advance(LEASE)
    [(dead, _)] = await store.claim_interrupted("w5", [LANE], LEASE)
    assert (dead.status, dead.interruptions, dead.attempts, dead.ready) == (Status.FAILED, 5, 0, None)
    assert str(dead.last_error).startswith("interrupted 5 times")
    clock.advance(HOUR)
    assert await store.claim_interrupted("w6", [LANE], LEASE) == []
    history = await store.history(event.id)
    assert [(entry.act, entry.worker) for entry in history] == [
        ("interrupted", "w0"),
        ("interrupted", "w1"),
        ("interrupted", "w2"),
        ("interrupted", "w3"),
        ("interrupted", "w4"),
        ("failed", "w5"),
    ]
    assert history[-1].detail == dead.last_error


async def test_replay_brings_a_dead_letter_back_with_both_counters_reset(store: AnyStore, clock: ManualClock) -> None:
    dead = await interrupt(store, clock, MAX_INTERRUPTIONS)
    assert dead.status is Status.FAILED
    await Events(store).replay(dead.id, by="ada")
    event = await event_of(store, dead.id)
    assert (event.status, event.attempts, event.interruptions) == (Status.PENDING, 0, 0)
    [again] = await store.claim("w6", {LANE: 1}, LEASE)
    assert (again.id, again.version) == (dead.id, dead.version + 1)


async def test_a_lease_can_be_renewed(store: AnyStore, clock: ManualClock) -> None:
    [event] = await claimed_by("w1", store)
    clock.advance(LEASE - MICROSECOND)
    assert await store.renew([Claim(event.id, event.version)], LEASE) == {event.id}
    clock.advance(LEASE - MICROSECOND)
    assert await store.claim_interrupted("w2", [LANE], LEASE) == []
    assert (await event_of(store, event.id)).ready == clock.now() + MICROSECOND


async def test_only_the_version_that_holds_a_lease_renews_it(store: AnyStore, clock: ManualClock) -> None:
    [mine, other] = await claimed_by("w1", store, make_new(), make_new())
    clock.advance(LEASE)
    [(taken, _)] = await store.claim_interrupted("w2", [LANE], LEASE)
    kept = other if taken.id == mine.id else mine
    before = await event_of(store, taken.id)
    clock.advance(MICROSECOND)
    stale, future = Claim(taken.id, taken.version - 1), Claim(taken.id, taken.version + 1)
    assert await store.renew([stale, future, Claim(kept.id, kept.version)], LEASE) == {kept.id}
    assert await store.get(taken.id) == before


@pytest.mark.broken_rows("its rows are written by hand")
@pytest.mark.parametrize("status", [Status.PENDING, Status.COMPLETED, Status.FAILED, Status.CANCELLED])
async def test_an_event_that_is_not_under_way_has_no_lease_to_renew(store: AnyStore, status: Status) -> None:
    [event] = await keep(store, make_event(status=status))
    assert await store.renew([Claim(event.id, event.version)], LEASE) == set()
    assert await store.get(event.id) == event


async def test_renewing_no_leases_does_nothing(store: AnyStore) -> None:
    assert await store.renew([], LEASE) == set()
