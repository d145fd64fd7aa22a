from datetime import timedelta
from typing import Any

import msgspec
import pytest

from duly.decide.lifecycle import DELIVERED
from duly.decide.retry import Retry
from duly.records.event import Event, NewEvent, Settlement, Status, Verdict
from duly.testing import ManualClock
from tests.conftest import AnyStore
from tests.make import (
    HOUR,
    LANE,
    LEASE,
    MICROSECOND,
    MINUTE,
    START,
    completed,
    failed,
    given_back,
    make_event,
    make_new,
    rejected,
)
from tests.stores.rows import event_of, keep


async def claimed(store: AnyStore, *news: NewEvent) -> list[Event]:
    await store.add(news or [make_new()])
    return await store.claim("w1", {LANE: len(news) or 1}, LEASE)


async def test_a_delivered_event_is_completed(store: AnyStore, clock: ManualClock) -> None:
    await store.add([make_new()])
    clock.advance(3 * MICROSECOND)
    [event] = await store.claim("w1", {LANE: 1}, LEASE)
    clock.advance(MINUTE)
    assert await store.settle([completed(event)], "w1") == {event.id}
    ended = await event_of(store, event.id)
    executed = START + 3 * MICROSECOND  # when the attempt that succeeded began
    assert ended == msgspec.structs.replace(event, status=Status.COMPLETED, attempts=1, ready=None, executed=executed)
    assert ended.lateness == 3 * MICROSECOND
    [entry] = await store.history(event.id)
    assert (entry.claimed, entry.at) == (executed, executed + MINUTE)


async def test_a_failed_event_gets_a_new_ready_time_and_keeps_its_due_time(store: AnyStore, clock: ManualClock) -> None:
    [event] = await claimed(store, make_new(retry=Retry(base=timedelta(minutes=2))))
    clock.advance(MINUTE)
    await store.settle([failed(event, "503", jitter=0)], "w1")
    waiting = await event_of(store, event.id)
    assert (waiting.status, waiting.due, waiting.ready) == (Status.PENDING, START, START + 3 * MINUTE)
    assert (waiting.attempts, waiting.last_error, waiting.executed) == (1, "503", None)
    clock.advance(2 * MINUTE - MICROSECOND)
    assert await store.claim("w2", {LANE: 1}, LEASE) == []
    clock.advance(MICROSECOND)
    [again] = await store.claim("w2", {LANE: 1}, LEASE)
    assert (again.id, again.version, again.attempt) == (event.id, 3, 2)


async def test_a_rejected_event_is_a_dead_letter_at_once(store: AnyStore) -> None:
    [event] = await claimed(store)
    await store.settle([rejected(event, "410")], "w1")
    dead = await event_of(store, event.id)
    assert (dead.status, dead.attempts, dead.last_error) == (Status.FAILED, 1, "410")
    assert (dead.ready, dead.executed) == (None, None)


async def test_the_last_attempt_makes_a_dead_letter(store: AnyStore) -> None:
    [event] = await claimed(store, make_new(retry=Retry(max_attempts=2, base=timedelta())))
    await store.settle([failed(event)], "w1")
    [event] = await store.claim("w1", {LANE: 1}, LEASE)
    await store.settle([failed(event)], "w1")
    dead = await event_of(store, event.id)
    assert (dead.status, dead.attempts) == (Status.FAILED, 2)


VERDICTS = pytest.mark.parametrize("verdict", [completed, failed, rejected, given_back], ids=lambda v: v.__name__)


@VERDICTS
async def test_a_worker_that_lost_its_lease_cannot_settle(store: AnyStore, clock: ManualClock, verdict: Any) -> None:
    stale, fine = await claimed(store, make_new(due=START - HOUR), make_new())
    clock.advance(LEASE)
    [(taken, _)] = await store.claim_interrupted("w2", [LANE], LEASE)
    if taken.id != stale.id:
        stale, fine = fine, stale
    settled = await store.settle([verdict(stale), verdict(fine)], "w1")
    assert settled == {fine.id}, "the missing id is the event whose claim was lost"
    assert await store.get(stale.id) == taken
    assert [entry.act for entry in await store.history(stale.id)] == ["interrupted"]


@VERDICTS
async def test_a_version_that_was_never_given_out_cannot_settle(store: AnyStore, verdict: Any) -> None:
    [event] = await claimed(store)
    for version in (event.version - 1, event.version + 1):
        assert await store.settle([verdict(msgspec.structs.replace(event, version=version))], "w1") == set()
    assert await store.get(event.id) == event


@pytest.mark.broken_rows("its rows are written by hand")
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
async def test_only_an_event_under_way_can_be_settled(store: AnyStore, status: Status) -> None:
    [event] = await keep(store, make_event(status=status))
    for verdict in (completed, failed, rejected, given_back):
        assert await store.settle([verdict(event)], "w1") == set()
    assert await store.get(event.id) == event
    assert await store.history(event.id) == []


async def test_a_second_verdict_on_one_claim_is_dropped(store: AnyStore) -> None:
    [event] = await claimed(store)
    assert await store.settle([completed(event)], "w1")
    for verdict in (completed, failed, rejected, given_back):
        assert await store.settle([verdict(event)], "w1") == set()
    assert (await event_of(store, event.id)).status is Status.COMPLETED


async def test_a_thousand_verdicts_are_one_statement(store: AnyStore) -> None:
    events = await claimed(store, *(make_new() for _ in range(1000)))
    verdicts = [completed(event) if n % 2 else rejected(event, f"reason {n}") for n, event in enumerate(events)]
    assert len(await store.settle(verdicts, "w1")) == 1000
    assert (await event_of(store, events[1].id)).status is Status.COMPLETED
    assert (await event_of(store, events[998].id)).last_error == "reason 998"


async def test_equal_verdicts_of_a_batch_have_the_same_effect(store: AnyStore, clock: ManualClock) -> None:
    """Which statement settles a claim follows from what the verdict says, not from which object it is."""
    both = await claimed(store, make_new(), make_new())
    equal = msgspec.structs.replace(DELIVERED)
    assert equal is not DELIVERED
    settlements = [Settlement(both[0], DELIVERED), Settlement(both[1], equal)]
    assert await store.settle(settlements, "w1") == {event.id for event in both}
    first, second = [await event_of(store, event.id) for event in both]
    assert (first.status, second.status) == (Status.COMPLETED, Status.COMPLETED)
    assert first.executed == second.executed is not None
    assert (first.attempts, second.attempts, second.ready) == (1, 1, None)


async def test_a_batch_is_settled_whole_or_not_at_all(store: AnyStore) -> None:
    """Otherwise, trying the batch again finds verdicts of its own and takes them for lost."""
    fine, odd = await claimed(store, make_new(), make_new())
    impossible = Settlement(odd, Verdict(Status.FAILED, act=None))  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r"(?i)null"):
        await store.settle([completed(fine), impossible], "w1")
    assert (await event_of(store, fine.id)).status is Status.PROCESSING
    assert await store.history(fine.id) == []


async def test_settling_no_events_does_nothing(store: AnyStore) -> None:
    assert await store.settle([], "w1") == set()


async def test_an_event_that_is_given_back_keeps_its_place(store: AnyStore, clock: ManualClock) -> None:
    [first] = await claimed(store, make_new(due=START - HOUR))
    await store.add([make_new(due=START - MINUTE)])
    clock.advance(MINUTE)
    await store.settle([given_back(first)], "w1")
    [next] = await store.claim("w2", {LANE: 1}, LEASE)
    assert next.id == first.id


async def test_giving_an_event_back_counts_no_attempt(store: AnyStore) -> None:
    [event] = await claimed(store)
    await store.settle([given_back(event, "stopping")], "w1")
    back = await event_of(store, event.id)
    assert (back.status, back.attempts, back.interruptions, back.ready) == (Status.PENDING, 0, 0, event.due)
    [entry] = await store.history(event.id)
    assert (entry.act, entry.attempt, entry.detail) == ("given back", None, "stopping")


async def test_an_unreachable_channel_is_tried_later_and_counts_nothing(store: AnyStore, clock: ManualClock) -> None:
    [event] = await claimed(store)
    clock.advance(MINUTE)
    await store.settle([given_back(event, "broker down", after=HOUR)], "w1")
    back = await event_of(store, event.id)
    assert (back.attempts, back.due, back.ready) == (0, START, START + MINUTE + HOUR)


async def test_a_retry_that_is_given_back_keeps_its_attempts(store: AnyStore, clock: ManualClock) -> None:
    [event] = await claimed(store)
    await store.settle([failed(event)], "w1")
    clock.advance(HOUR)
    [event] = await store.claim("w1", {LANE: 1}, LEASE)
    await store.settle([given_back(event)], "w1")
    back = await event_of(store, event.id)
    assert (back.attempts, back.due) == (1, START)
    assert [event.id for event in await store.claim("w2", {LANE: 1}, LEASE)] == [back.id]
