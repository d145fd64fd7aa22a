import asyncio
from contextlib import suppress
from datetime import timedelta

import msgspec
import pytest

from duly.ports import NO_FRONTIER, NOT_YET, Horizon, KnownFrontier
from duly.records.event import Status
from duly.testing import ManualClock
from tests.conftest import AnyStore, OpenStore
from tests.make import (
    DAY,
    HOUR,
    LANE,
    LEASE,
    MICROSECOND,
    MINUTE,
    SECOND,
    START,
    make_event,
    make_head,
    make_new,
    make_schedule,
)
from tests.stores.rows import event_of, keep

A, B = "handler:a", "handler:b"


async def test_a_claim_takes_the_oldest_of_a_lane_first(store: AnyStore) -> None:
    middle, newest, oldest = (make_new(due=START - ago * MINUTE) for ago in (2, 1, 3))
    await store.add([middle, newest, oldest])
    [first] = await store.claim("w1", {LANE: 1}, LEASE)
    rest = await store.claim("w1", {LANE: 2}, LEASE)
    assert [first.id, *(event.id for event in rest)] == [oldest.id, middle.id, newest.id]


async def test_each_lane_of_a_claim_has_its_own_order_and_limit(store: AnyStore) -> None:
    of_a = [make_new(type="a", due=START - ago * HOUR) for ago in (3, 2, 1)]
    of_b = [make_new(type="b", due=START - ago * DAY) for ago in (3, 2, 1)]
    await store.add(of_a + of_b)
    claimed = await store.claim("w1", {A: 2, B: 1}, LEASE)
    assert [event.id for event in claimed] == [of_b[0].id, of_a[0].id, of_a[1].id]


async def test_a_claim_takes_only_the_lanes_that_it_serves(store: AnyStore) -> None:
    await store.add([make_new(type="a"), make_new(type="b"), make_new(target={"webhook": "https://hooks.example"})])
    assert [event.lane for event in await store.claim("w1", {A: 10}, LEASE)] == [A]
    assert [event.lane for event in await store.claim("w1", {"webhook": 10, "nats": 10}, LEASE)] == ["webhook"]


@pytest.mark.parametrize("room", [{}, {LANE: 0}, {"handler:unknown": 5}])
async def test_a_claim_with_no_limit_or_of_an_unknown_lane_takes_nothing(store: AnyStore, room: dict[str, int]) -> None:
    await store.add([make_new()])
    assert await store.claim("w1", room, LEASE) == []


async def test_three_workers_that_claim_at_once_get_different_events(opened: OpenStore) -> None:
    workers = [await opened() for _ in range(3)]
    await workers[0].add([make_new() for _ in range(10)])
    claims = await asyncio.gather(*(worker.claim(f"w{n}", {LANE: 5}, LEASE) for n, worker in enumerate(workers)))
    claimed = [event for claim in claims for event in claim]
    assert len({event.id for event in claimed}) == len(claimed) == 10
    assert {event.version for event in claimed} == {2}


async def test_claims_at_once_on_one_store_get_different_events(store: AnyStore) -> None:
    await store.add([make_new() for _ in range(10)])
    claims = await asyncio.gather(*(store.claim(f"w{n}", {LANE: 5}, LEASE) for n in range(3)))
    claimed = [event for claim in claims for event in claim]
    assert len({event.id for event in claimed}) == len(claimed) == 10
    assert {event.version for event in claimed} == {2}


async def test_events_locked_by_a_claim_under_way_are_skipped_and_not_taken_twice(opened: OpenStore) -> None:
    one, other = await opened(), await opened()
    await one.add([make_new() for _ in range(10)])
    async with one.begin() as tx:
        first = await tx.claim("w1", {LANE: 5}, LEASE)
        claiming = asyncio.create_task(other.claim("w2", {LANE: 10}, LEASE))
        if one.dialect == "postgres":  # SQLite has one writer: there, whoever is second waits
            await asyncio.wait_for(asyncio.shield(claiming), 5)
    second = await claiming
    assert len({event.id for event in first + second}) == len(first) + len(second) == 10
    assert {event.version for event in first + second} == {2}


async def test_no_event_is_claimed_a_microsecond_early(store: AnyStore, clock: ManualClock) -> None:
    await store.add([make_new(due=START + HOUR)])
    clock.set(START + HOUR - MICROSECOND)
    assert await store.claim("w1", {LANE: 1}, LEASE) == []
    clock.advance(MICROSECOND)
    assert len(await store.claim("w1", {LANE: 1}, LEASE)) == 1


async def test_a_delay_is_counted_from_the_stores_now(store: AnyStore, clock: ManualClock) -> None:
    await store.add([make_new(delay=timedelta(days=40, microseconds=7))])
    clock.advance(timedelta(days=40, microseconds=6))
    assert await store.claim("w1", {LANE: 1}, LEASE) == []
    clock.advance(MICROSECOND)
    [event] = await store.claim("w1", {LANE: 1}, LEASE)
    assert event.due == START + timedelta(days=40, microseconds=7)


@pytest.mark.parametrize("late", [timedelta(), timedelta(seconds=1), timedelta(days=7), timedelta(days=3650)])
async def test_a_late_event_is_claimed_like_one_on_time(store: AnyStore, clock: ManualClock, late: timedelta) -> None:
    await store.add([make_new()])
    clock.advance(late)
    assert len(await store.claim("w1", {LANE: 1}, LEASE)) == 1


async def test_a_claim_says_who_holds_it_since_when_and_until_when(store: AnyStore, clock: ManualClock) -> None:
    new = make_new(
        payload={"invoice": 7},
        target={"webhook": "https://hooks.example"},
        key="invoice-7",
        tenant="acme",
        correlation_id="c1",
    )
    await store.add([new])
    clock.advance(MINUTE)
    [event] = await store.claim("w1", {"webhook": 1}, LEASE)
    assert event == make_event(
        id=new.id,
        tenant="acme",
        payload={"invoice": 7},
        target={"webhook": "https://hooks.example"},
        key="invoice-7",
        correlation_id="c1",
        status=Status.PROCESSING,
        version=2,
        created=START,
        worker="w1",
        claimed=START + MINUTE,
        ready=START + MINUTE + LEASE,
        due=START,
    )
    assert await store.get(new.id) == event


async def test_a_claimed_event_is_not_claimed_again(store: AnyStore, clock: ManualClock) -> None:
    await store.add([make_new()])
    await store.claim("w1", {LANE: 1}, LEASE)
    assert await store.claim("w2", {LANE: 1}, LEASE) == []
    clock.advance(LEASE + HOUR)
    assert await store.claim("w2", {LANE: 1}, LEASE) == [], "interrupted work is for claim_interrupted"


@pytest.mark.broken_rows("its rows are written by hand")
@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.SKIPPED])
async def test_an_event_that_has_ended_is_never_claimed(store: AnyStore, clock: ManualClock, status: Status) -> None:
    await keep(store, make_event(status=status), make_event(status=status, interruptions=2))
    clock.advance(DAY)
    assert await store.claim("w1", {LANE: 5}, LEASE) == []
    assert await store.claim_interrupted("w1", [LANE], LEASE) == []


@pytest.mark.broken_rows("its rows are written by hand")
async def test_a_held_event_is_never_claimed(store: AnyStore, clock: ManualClock) -> None:
    await keep(store, make_event(held="paused"), make_event(held="paused", interruptions=1))
    clock.advance(DAY)
    assert await store.claim("w1", {LANE: 5}, LEASE) == []
    assert await store.claim_interrupted("w1", [LANE], LEASE) == []


@pytest.mark.parametrize("status", [Status.PENDING, Status.PROCESSING])
async def test_the_database_refuses_an_event_that_waits_for_neither_a_time_nor_a_reason(
    store: AnyStore, status: Status
) -> None:
    """Waiting for neither a time nor a reason, nobody would ever claim it."""
    trapped = msgspec.structs.replace(make_event(status=status), ready=None, held=None)
    with pytest.raises(Exception, match=r"(?i)constraint"):
        await keep(store, trapped)


async def test_a_claim_that_is_rolled_back_never_was(store: AnyStore) -> None:
    [id] = await store.add([make_new()])
    with suppress(ZeroDivisionError):
        async with store.begin() as tx:
            assert await tx.claim("w1", {LANE: 1}, LEASE)
            raise ZeroDivisionError
    event = await event_of(store, id)
    assert (event.status, event.version, event.worker) == (Status.PENDING, 1, None)


# -- the horizon


async def test_beyond_a_known_frontier_the_horizon_is_the_next_event_that_will_be_ready(store: AnyStore) -> None:
    dues = [("a", START - MINUTE), ("a", START + MINUTE), ("b", START + HOUR)]
    await store.add([make_new(type=type, due=due) for type, due in dues])
    horizon, _ = await store.horizon([A, B], KnownFrontier({A: NOT_YET}))
    assert horizon.fresh == MINUTE
    horizon, _ = await store.horizon([A, B], KnownFrontier({A: NOT_YET, B: NOT_YET}))
    assert horizon.fresh == MINUTE
    horizon, _ = await store.horizon([A, B], KnownFrontier({B: NOT_YET}))
    assert horizon.fresh == -MINUTE


async def horizon(store: AnyStore, *lanes: str) -> Horizon:
    found, _ = await store.horizon(list(lanes))
    return found


async def test_the_horizon_is_the_time_until_the_next_event(store: AnyStore, clock: ManualClock) -> None:
    await store.add([make_new(due=START + 2 * HOUR), make_new(due=START + HOUR + MICROSECOND)])
    assert await horizon(store, LANE) == (HOUR + MICROSECOND, None)
    clock.advance(2 * HOUR)
    assert await horizon(store, LANE) == (MICROSECOND - HOUR, None), "overdue is less than nothing"


@pytest.mark.broken_rows("its rows are written by hand")
async def test_the_horizon_is_empty_where_there_is_nothing(store: AnyStore) -> None:
    await keep(store, make_event(status=Status.COMPLETED), make_event(held="paused"))
    assert await horizon(store, LANE) == (None, None)
    assert await horizon(store) == (None, None)


async def test_the_horizon_sees_only_the_lanes_asked_about(store: AnyStore) -> None:
    await store.add([make_new(type="a", due=START + HOUR), make_new(type="b", due=START + MINUTE)])
    assert (await horizon(store, A)).fresh == HOUR
    assert (await horizon(store, A, B)).fresh == MINUTE


async def test_the_horizon_tells_of_leases_separately(store: AnyStore) -> None:
    await store.add([make_new(), make_new(due=START + HOUR)])
    await store.claim("w1", {LANE: 5}, LEASE)
    assert await horizon(store, LANE) == (HOUR, LEASE)


# -- as of an instant


async def test_a_claim_can_leave_events_that_became_ready_after_an_instant(store: AnyStore, clock: ManualClock) -> None:
    old, new = await store.add([make_new(due=START), make_new(due=START + SECOND)])
    clock.advance(seconds=2)
    assert await store.claim_these("w1", [new], [LANE], 5, LEASE, START) == []
    assert [event.id for event in await store.claim("w1", {LANE: 5}, LEASE, NO_FRONTIER, START)] == [old]
    [event] = await store.claim_these("w1", [new], [LANE], 5, LEASE, START + SECOND)
    assert (event.id, event.claimed) == (new, START + 2 * SECOND), "the clock is the store's all the same"


async def test_an_instant_that_lies_ahead_makes_nothing_ready(store: AnyStore) -> None:
    await store.add([make_new(due=START + SECOND)])
    assert await store.claim("w1", {LANE: 5}, LEASE, NO_FRONTIER, START + HOUR) == []


async def test_a_claim_can_leave_leases_that_ended_after_an_instant(store: AnyStore, clock: ManualClock) -> None:
    await store.add([make_new()])
    await store.claim("gone", {LANE: 1}, LEASE)
    clock.advance(LEASE)
    assert await store.claim_interrupted("w1", [LANE], LEASE, START + LEASE - MICROSECOND) == []
    assert len(await store.claim_interrupted("w1", [LANE], LEASE, START + LEASE)) == 1


async def test_a_claim_with_horizon_tells_when_more_becomes_ready_in_the_same_lanes(store: AnyStore) -> None:
    ready = [make_new(type=type, due=START - MINUTE) for type in "aab"]
    await store.add([*ready, make_new(type="a", due=START + HOUR), make_new(type="b", due=START + MINUTE)])
    await store.add([make_new(type="other", due=START + SECOND)])
    claimed = await store.claim("w1", {A: 5, B: 5}, LEASE, with_horizon=True)
    assert {event.id for event in claimed} == {event.id for event in ready}
    assert {(event.worker, event.status, event.claimed) for event in claimed} == {("w1", Status.PROCESSING, START)}
    assert claimed.horizon is not None
    assert claimed.horizon.fresh == MINUTE
    assert (await store.horizon([A, B]))[0].fresh == MINUTE


async def test_the_horizon_of_a_claim_has_heads_and_leases(store: AnyStore, clock: ManualClock) -> None:
    await store.add([make_new(due=START - MINUTE)])
    await store.claim("w1", {LANE: 1}, LEASE)
    schedule = make_schedule()
    await store.put_schedule(schedule)
    await store.plant([make_head(schedule, due=START + HOUR)])
    clock.advance(SECOND)
    await store.add([make_new(due=START)])
    claimed = await store.claim("w2", {LANE: 5}, LEASE, with_horizon=True)
    assert len(claimed) == 1
    assert claimed.horizon == Horizon(HOUR - SECOND, LEASE - SECOND)


async def test_a_claim_that_finds_nothing_has_no_horizon(store: AnyStore) -> None:
    await store.add([make_new(due=START + HOUR)])
    claimed = await store.claim("w1", {LANE: 5}, LEASE, with_horizon=True)
    assert (claimed, claimed.horizon) == ([], None)


async def test_a_claim_with_horizon_begins_at_the_frontier(store: AnyStore) -> None:
    old, new = make_new(due=START - HOUR), make_new(due=START - SECOND)
    await store.add([old, new])
    seen = KnownFrontier({LANE: START - MINUTE}, START)
    claimed = await store.claim("w1", {LANE: 5}, LEASE, seen, with_horizon=True)
    everything = store.dialect == "sqlite"  # its index has no entries to step over, so each claim begins at the oldest
    assert {event.id for event in claimed} == ({old.id, new.id} if everything else {new.id})
