"""Debounced timers: each call moves the event to `quiet` after now, at most `max_wait` after the first call."""

import asyncio
from datetime import timedelta
from typing import Any

from duly.ports import Added
from duly.records.event import Status
from duly.records.specs import Everything
from duly.testing import ManualClock
from duly.verbs.events.events import Events
from tests.conftest import AnyStore, OpenStore
from tests.make import DAY, HOUR, LANE, LEASE, MINUTE, START, completed, failed, make_new
from tests.stores.rows import event_of


async def call(store: AnyStore, quiet: timedelta = DAY, max_wait: timedelta | None = 7 * DAY, **fields: Any) -> Added:
    delay = quiet if max_wait is None else min(quiet, max_wait)
    event = make_new(**({"key": "k"} | fields), delay=delay, quiet=quiet, max_wait=max_wait, once=False)
    [added] = await store.put([event])
    assert isinstance(added, Added)
    return added


async def test_the_first_call_is_due_after_the_quiet_period(store: AnyStore) -> None:
    event, change = await call(store)
    assert (event.due, event.ready, change) == (START + DAY, START + DAY, "created")
    assert (event.quiet, event.max_wait, event.first_asked) == (DAY, 7 * DAY, START)


async def test_each_call_moves_the_event_to_the_quiet_period_after_it(store: AnyStore, clock: ManualClock) -> None:
    first = (await call(store)).event
    for hour in range(1, 4):
        clock.advance(HOUR)
        event, change = await call(store, payload=hour)
        assert (event.id, event.due, event.ready, change) == (
            first.id, START + hour * HOUR + DAY, START + hour * HOUR + DAY, "moved",
        )  # fmt: skip
        assert (event.first_asked, event.payload) == (START, hour)
    assert await store.history(first.id) == [], "a call a second for a week would be half a million rows"


async def test_calls_delay_the_event_no_longer_than_the_longest_wait(store: AnyStore, clock: ManualClock) -> None:
    dues = []
    for _ in range(15):
        dues.append((await call(store)).event.due)
        clock.advance(DAY / 2)
    assert dues[:13] == [START + day * DAY / 2 + DAY for day in range(13)]
    assert dues[12:] == [START + 7 * DAY] * 3


async def test_a_longest_wait_below_the_quiet_period_ends_it(store: AnyStore, clock: ManualClock) -> None:
    await call(store, max_wait=None)
    clock.advance(HOUR)
    event, change = await call(store, quiet=HOUR, max_wait=2 * HOUR)
    assert (event.due, change) == (START + 2 * HOUR, "moved")
    clock.advance(HOUR)
    assert (await call(store, quiet=HOUR, max_wait=2 * HOUR)).event.due == START + 2 * HOUR


async def test_without_a_longest_wait_calls_delay_it_for_ever(store: AnyStore, clock: ManualClock) -> None:
    for _ in range(20):
        event = (await call(store, max_wait=None)).event
        clock.advance(DAY / 2)
    assert event.due == START + 19 * DAY / 2 + DAY


async def test_after_it_has_fired_the_next_call_begins_anew(store: AnyStore, clock: ManualClock) -> None:
    first = (await call(store)).event
    clock.advance(DAY)
    [running] = await store.claim("w1", {LANE: 1}, LEASE)
    await store.settle([completed(running)], "w1")
    event, change = await call(store)
    assert (change, event.id != first.id) == ("created", True)
    assert (event.due, event.first_asked) == (START + 2 * DAY, START + DAY)


async def test_a_call_while_it_runs_begins_the_next_quiet_period(store: AnyStore, clock: ManualClock) -> None:
    """The event that runs does not know of it, so it must not be lost."""
    await call(store)
    clock.advance(DAY)
    [running] = await store.claim("w1", {LANE: 1}, LEASE)
    clock.advance(timedelta(seconds=1))
    following, change = await call(store, payload="since")
    assert (change, following.id != running.id, following.due) == ("created", True, clock.now() + DAY)
    assert (await call(store)).event.id == following.id, "more calls move that one"
    assert (await event_of(store, running.id)).status is Status.PROCESSING
    assert (await event_of(store, running.id)).key == "k", "it still tells its key"
    found = await store.by_key("default", "k")
    assert found is not None
    assert found.id == following.id
    assert await store.settle([completed(running)], "w1") == {running.id}
    clock.advance(DAY)
    assert [event.id for event in await store.claim("w1", {LANE: 5}, LEASE)] == [following.id]


async def test_a_call_while_it_waits_for_a_retry_begins_the_next_quiet_period(
    store: AnyStore, clock: ManualClock
) -> None:
    await call(store)
    clock.advance(DAY)
    [running] = await store.claim("w1", {LANE: 1}, LEASE)
    await store.settle([failed(running)], "w1")
    following = (await call(store)).event
    assert following.id != running.id
    clock.advance(MINUTE)
    [again] = await store.claim("w1", {LANE: 5}, LEASE)
    assert (again.id, again.attempts, again.key) == (running.id, 1, "k")


async def test_a_call_after_the_due_time_moves_what_nobody_has_started(store: AnyStore, clock: ManualClock) -> None:
    await call(store, max_wait=None)
    clock.advance(2 * DAY)
    event, change = await call(store, max_wait=None)
    assert (event.due, change) == (START + 3 * DAY, "moved")
    assert not await store.claim("w1", {LANE: 5}, LEASE)


async def test_a_cancelled_period_is_over(store: AnyStore, clock: ManualClock) -> None:
    await call(store)
    clock.advance(HOUR)
    await Events(store).cancel("k")
    event, change = await call(store)
    assert (change, event.first_asked) == ("created", START + HOUR)


async def test_a_call_with_a_due_time_ends_the_debounce(store: AnyStore, clock: ManualClock) -> None:
    first = (await call(store)).event
    [(event, change)] = await store.put([make_new(key="k", due=START + 30 * DAY)])
    assert (event.id, event.due, change) == (first.id, START + 30 * DAY, "moved")
    assert (event.quiet, event.max_wait, event.first_asked) == (None, None, None)
    assert [entry.act for entry in await store.history(event.id)] == ["moved"]
    clock.advance(HOUR)
    assert (await call(store)).event.first_asked == START + HOUR


async def test_many_processes_that_call_at_once_make_one_event(opened: OpenStore) -> None:
    stores = [await opened() for _ in range(4)]
    added = await asyncio.gather(*(call(stores[n % 4], payload=n) for n in range(40)))
    [event] = await stores[0].find(Everything(), limit=10)
    assert {one.event.id for one in added} == {event.id}
    assert [one.change.value for one in added].count("created") == 1
    assert event.due == START + DAY


async def test_many_that_call_while_it_runs_begin_one_period(opened: OpenStore) -> None:
    stores = [await opened() for _ in range(4)]
    await call(stores[0], quiet=timedelta(milliseconds=1), max_wait=None)
    [(event, _)] = await stores[0].put([make_new(key="k", due=START)])
    [running] = await stores[0].claim("w1", {LANE: 5}, LEASE)
    assert running.id == event.id
    settling = asyncio.create_task(stores[1].settle([completed(running)], "w1"))
    added = await asyncio.gather(*(call(stores[n % 4], payload=n) for n in range(40)))
    assert await settling == {running.id}
    assert len({one.event.id for one in added}) == 1
    assert running.id not in {one.event.id for one in added}
    assert len(await stores[0].find(Everything(), limit=10)) == 2
