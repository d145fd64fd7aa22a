"""Reservations: what a worker takes ahead of time, and what may still happen to it."""

from typing import Any

import pytest

from duly.decide.series.successor import with_successor
from duly.ports import KnownFrontier
from duly.records.event import Status
from duly.testing import ManualClock
from duly.verbs.events.events import Events
from tests.conftest import AnyStore
from tests.make import HOUR, LANE, LEASE, MICROSECOND, SECOND, START, completed, make_head, make_new, make_schedule
from tests.stores.rows import event_of

AHEAD, PATIENCE = SECOND / 2, 2 * SECOND
ENDING_WITHIN = AHEAD + PATIENCE  # due within the look-ahead


async def reserve(store: AnyStore, worker: str = "w1", free: int = 5) -> list[Any]:
    reserved, _ = await store.reserve(worker, {LANE: free}, AHEAD, PATIENCE)
    return list(reserved)


async def start(store: AnyStore, reserved: Any, worker: str = "w1") -> list[Any]:
    events, _ = await store.start(reserved, ENDING_WITHIN, LEASE, worker)
    return list(events)


async def test_events_due_within_the_lookahead_are_reserved_soonest_first(store: AnyStore) -> None:
    now, later, soon, soonest = (make_new(due=START + n * AHEAD) for n in (0, 1.001, 1, 0.5))
    await store.add([now, later, soon, soonest])
    assert [one.id for one in await reserve(store, free=1)] == [soonest.id]
    assert [one.id for one in await reserve(store)] == [soon.id]


async def test_a_reserved_event_is_pending_and_no_other_worker_gets_it(store: AnyStore, clock: ManualClock) -> None:
    await store.add([make_new(due=START + AHEAD)])
    [one] = await reserve(store)
    event = await event_of(store, one.id)
    assert (event.status, event.version, event.worker, event.attempts, event.interruptions) == (
        Status.PENDING, 2, "w1", 0, 0,
    )  # fmt: skip
    assert event.ready == one.until == event.due + PATIENCE
    assert await reserve(store, "w2") == []
    clock.advance(AHEAD + PATIENCE - MICROSECOND)
    assert await store.claim("w2", {LANE: 5}, LEASE) == []


async def test_a_reserved_event_is_started_and_settled(store: AnyStore, clock: ManualClock) -> None:
    await store.add([make_new(due=START + AHEAD, payload={"n": 7})])
    reserved = await reserve(store)
    clock.advance(AHEAD - MICROSECOND)
    events, now = await store.start(reserved, ENDING_WITHIN, LEASE, "w1")
    assert now == clock.now()
    [event] = events
    assert event == await store.get(event.id)
    assert (event.status, event.version, event.payload, event.claimed) == (Status.PROCESSING, 2, {"n": 7}, clock.now())
    assert event.ready == clock.now() + LEASE
    assert await start(store, reserved) == [], "once"
    assert await store.settle([completed(event)], "w1") == {event.id}
    event = await event_of(store, event.id)
    assert (event.status, event.executed) == (Status.COMPLETED, START + AHEAD), "not before it was due"


async def test_a_reserved_event_is_not_started_when_the_clock_was_set_back_before_it(
    store: AnyStore, clock: ManualClock
) -> None:
    """The injected clock stands in for the store's own, in the very comparison that the statement makes."""
    await store.add([make_new(due=START + AHEAD)])
    reserved = await reserve(store)
    clock.advance(-MICROSECOND)
    assert await start(store, reserved) == []
    assert (await event_of(store, reserved[0].id)).status is Status.PENDING
    await store.release(reserved, PATIENCE)
    assert (await event_of(store, reserved[0].id)).ready == START + AHEAD, "it is found at its instant"
    assert await store.claim("w1", {LANE: 5}, LEASE) == []
    clock.set(START + AHEAD)
    assert [event.id for event in await store.claim("w1", {LANE: 5}, LEASE)] == [reserved[0].id]


async def test_a_reserved_event_that_is_due_in_a_moment_is_started_whatever_becomes_of_the_others(
    store: AnyStore, clock: ManualClock
) -> None:
    soon, later = make_new(due=START + AHEAD / 2), make_new(due=START + AHEAD)
    await store.add([soon, later])
    reserved = await reserve(store)
    clock.advance(-AHEAD / 2)
    assert [event.id for event in await start(store, reserved)] == [soon.id]


async def test_a_reserved_event_whose_worker_vanishes_is_claimed_by_another_without_an_interruption(
    store: AnyStore, clock: ManualClock
) -> None:
    await store.add([make_new(due=START + AHEAD)])
    reserved = await reserve(store)
    clock.advance(AHEAD + PATIENCE)
    [event] = await store.claim("w2", {LANE: 5}, LEASE)
    assert (event.version, event.interruptions) == (3, 0)
    assert await start(store, reserved) == [], "too late"
    assert await store.history(event.id) == []


async def test_whoever_cancels_a_reserved_event_has_cancelled_it(store: AnyStore) -> None:
    await store.add([make_new(due=START + AHEAD)])
    reserved = await reserve(store)
    await Events(store).cancel(reserved[0].id)
    assert await start(store, reserved) == []
    assert (await event_of(store, reserved[0].id)).status is Status.CANCELLED


@pytest.mark.parametrize("change", [{"due": START + HOUR}, {"payload": {"n": 8}}])
async def test_a_reserved_timer_that_is_put_again_is_reserved_no_longer(
    store: AnyStore, change: dict[str, Any]
) -> None:
    first: dict[str, Any] = {"key": "k", "due": START + AHEAD, "payload": {"n": 7}}
    await store.put([make_new(**first)])
    reserved = await reserve(store)
    [added] = await store.put([make_new(**(first | change))])
    assert added.change == "moved"
    assert await start(store, reserved) == []
    assert (await event_of(store, added.event.id)).ready == added.event.due
    assert len(await reserve(store, "w2")) == (added.event.due == START + AHEAD), "as it now is, by whoever comes first"


async def test_a_reserved_event_that_is_released_is_claimable_at_its_instant(
    store: AnyStore, clock: ManualClock
) -> None:
    await store.add([make_new(due=START + AHEAD) for _ in range(3)])
    reserved = await reserve(store)
    [started] = await start(store, reserved[:1])
    await store.release(reserved, PATIENCE)
    assert (await event_of(store, started.id)).ready == START + LEASE, "what was started is not given back by this"
    clock.advance(AHEAD)
    assert {event.id for event in await store.claim("w2", {LANE: 5}, LEASE)} == {one.id for one in reserved[1:]}


@pytest.mark.broken_rows("its heads have no schedules", "heads_have_owners")
async def test_heads_are_reserved_like_other_events(store: AnyStore, clock: ManualClock) -> None:
    head = make_head(make_schedule(), due=START + AHEAD)
    await store.plant([head])
    reserved = await reserve(store)
    assert [(one.id, one.head) for one in reserved] == [(head.id, True)]
    clock.advance(AHEAD)
    assert (await store.claim("w2", {LANE: 5}, LEASE)).rows == []
    assert await start(store, reserved) == [], "its successor is not known"
    assert [one.id for one in (await store.reserved_heads(reserved, ENDING_WITHIN)).heads] == [head.id]


@pytest.mark.broken_rows("its heads have no schedules", "heads_have_owners")
async def test_a_reserved_head_that_carries_its_successor_is_started_like_other_events(
    store: AnyStore, clock: ManualClock
) -> None:
    schedule = make_schedule()
    head = with_successor(make_head(schedule, due=START + AHEAD), schedule.as_series)
    await store.plant([head])
    reserved = await reserve(store)
    started, _ = await store.start(reserved, ENDING_WITHIN, LEASE, "w1")
    assert [(event.id, event.head, event.version) for event in started] == [(head.id, False, 2)]
    [(successor, *_)] = started.planted
    planted = await store.head(schedule.series)
    assert planted is not None
    assert (planted.id, planted.due, planted.occurrence) == (successor, head.next_due, head.next_occurrence)


async def test_a_reserved_head_is_not_found_when_the_clock_was_set_back_before_it(
    store: AnyStore, clock: ManualClock
) -> None:
    schedule = make_schedule()
    head = make_head(schedule, due=START + AHEAD)
    await store.put_schedule(schedule)
    await store.plant([head])
    reserved = await reserve(store)

    async def found() -> list[str]:
        async with store.begin() as tx:
            return [one.id for one in (await tx.reserved_heads(reserved, ENDING_WITHIN)).heads]

    clock.advance(-MICROSECOND)
    assert await found() == []
    clock.advance(MICROSECOND)
    assert await found() == [head.id]


async def test_a_claim_may_begin_where_the_last_one_ended(store: AnyStore, clock: ManualClock) -> None:
    old, new = make_new(due=START - HOUR), make_new(due=START)
    await store.add([old, new])
    horizon, seen = await store.horizon([LANE])
    assert (horizon.fresh, seen) == (-HOUR, KnownFrontier({LANE: START - HOUR}, START))
    assert len(await store.claim("w1", {LANE: 1}, LEASE, seen)) == 1
    horizon, seen = await store.horizon([LANE], seen)
    assert (horizon.fresh, horizon.alone) == (START - START, LEASE)
    assert seen == KnownFrontier({LANE: START}, START + LEASE)
    assert [event.id for event in await store.claim("w1", {LANE: 5}, LEASE, seen)] == [new.id]
    _, seen = await store.horizon([LANE])
    assert seen.fresh == {LANE: START}, "nothing is left, so what comes will not be ready before now"
