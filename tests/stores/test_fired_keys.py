"""A key that has fired: a repeat is no second firing, `once` decides about the rest, and races change neither."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly.ports import Added
from duly.records.event import Event, NewEvent, Settlement, Status, Verdict
from duly.records.specs import Everything, WithKey
from duly.testing import ManualClock
from duly.verbs.events.events import Events
from tests.conftest import AnyStore, OpenStore
from tests.make import DAY, HOUR, LANE, LEASE, MINUTE, START, completed, failed, make_new, rejected
from tests.stores.rows import ask

MEMORY = timedelta(days=365)


async def put(store: AnyStore, **fields: Any) -> Added:
    [added] = await store.put([make_new(**({"key": "k"} | fields))])
    assert isinstance(added, Added)
    return added


async def run(store: AnyStore) -> Event:
    """Claim the only ready event."""
    [event] = await store.claim("w1", {LANE: 10}, LEASE)
    assert isinstance(event, Event)
    return event


def skipped(event: Event) -> Settlement:
    return Settlement(event, Verdict(Status.SKIPPED, "skipped", error="expired", counts=False))


ENDS = {Status.COMPLETED: completed, Status.FAILED: rejected, Status.SKIPPED: skipped}


async def fire(store: AnyStore, end: Any = completed, **fields: Any) -> Event:
    """Put an event that is due, and let it end."""
    added = await put(store, **fields)
    assert added.change == "created"
    await store.settle([end(await run(store))], "w1")
    event = await store.get(added.event.id)
    assert event is not None
    return event


async def all_events(store: AnyStore) -> list[Event]:
    return list(await store.find(Everything(), limit=1000))


async def remembered(store: AnyStore) -> int:
    return int(await ask(store, "SELECT count(*) FROM duly.fired_keys"))


@pytest.mark.parametrize(
    ("open_type", "batch", "changes", "stays"),
    [
        (None, "xy", ["created", "refused"], "x"),
        (None, "xyx", ["created", "refused", "created"], "x"),
        ("x", "yx", ["refused", "moved"], "x"),
        ("x", "xy", ["moved", "refused"], "x"),
        ("x", "yzy", ["refused", "refused", "refused"], "x"),
    ],
)
async def test_each_timer_of_a_batch_is_judged_by_the_type_of_the_open_event(
    store: AnyStore, open_type: str | None, batch: str, changes: list[str], stays: str
) -> None:
    if open_type is not None:
        await put(store, type=open_type)
    added = await store.put([make_new(key="k", type=type, due=START + DAY) for type in batch])
    assert [one.change for one in added] == changes
    [event] = await all_events(store)
    assert event.type == stays
    assert {one.event.id for one in added} == {event.id}


@pytest.mark.parametrize("status", ENDS)
async def test_a_fired_key_with_the_same_due_time_is_a_repeat(store: AnyStore, status: Status) -> None:
    fired = await fire(store, ENDS[status])
    assert fired.status is status
    assert await put(store, payload="another") == (fired, "unchanged")
    assert await all_events(store) == [fired]


@pytest.mark.parametrize("status", ENDS)
@pytest.mark.parametrize("when", [{"due": START + HOUR}, {"delay": HOUR}], ids=["due", "delay"])
async def test_a_fired_key_with_another_due_time_has_already_fired(
    store: AnyStore, status: Status, when: dict[str, Any]
) -> None:
    fired = await fire(store, ENDS[status])
    assert await put(store, **when) == (fired, "already_fired")
    assert await all_events(store) == [fired]


@pytest.mark.parametrize("status", ENDS)
@pytest.mark.parametrize("due", [START, START + HOUR], ids=["the same", "another"])
async def test_with_once_false_a_finished_event_frees_its_key(store: AnyStore, status: Status, due: datetime) -> None:
    fired = await fire(store, ENDS[status])
    event, change = await put(store, due=due, once=False)
    assert (change, event.status, event.id != fired.id, event.key) == ("created", Status.PENDING, True, "k")
    assert await store.by_key("default", "k") == event
    assert await store.get(fired.id) == fired, "it still tells its key"
    assert {one.id for one in await store.find(WithKey("k"), limit=10)} == {event.id, fired.id}


async def test_a_key_may_fire_again_and_again(store: AnyStore, clock: ManualClock) -> None:
    ids = []
    for _ in range(4):
        ids.append((await fire(store, once=False, due=clock.now())).id)
        clock.advance(HOUR)
    assert len(set(ids)) == 4
    latest = await store.by_key("default", "k")
    assert latest is not None
    assert latest.id == ids[-1]
    assert (await put(store, due=clock.now())).change == "already_fired", "who asks for once gets it"


async def test_once_false_moves_an_open_event_like_any_call(store: AnyStore) -> None:
    first = (await put(store, due=START + HOUR, once=False)).event
    event, change = await put(store, due=START + DAY, once=False)
    assert (event.id, event.due, change) == (first.id, START + DAY, "moved")


async def test_what_runs_or_waits_for_a_retry_is_unchanged_also_with_once_false(store: AnyStore) -> None:
    await put(store)
    running = await run(store)
    assert await put(store, due=START + HOUR, once=False) == (running, "unchanged")
    await store.settle([failed(running)], "w1")
    waiting, change = await put(store, due=START + HOUR, once=False)
    assert (waiting.id, waiting.status, change) == (running.id, Status.PENDING, "unchanged")


async def test_a_key_whose_latest_event_was_cancelled_is_free(store: AnyStore) -> None:
    fired = await fire(store)
    again = (await put(store, due=START + HOUR, once=False)).event
    await Events(store).cancel("k")
    latest = await store.by_key("default", "k")
    assert latest is not None
    assert (latest.id, latest.status) == (again.id, Status.CANCELLED)
    event, change = await put(store, due=START + HOUR)
    assert (change, event.id not in (fired.id, again.id)) == ("created", True)


async def test_another_type_under_an_open_key_is_refused(store: AnyStore) -> None:
    first = (await put(store, due=START + HOUR)).event
    for once in (True, False):
        assert await put(store, type="other", once=once) == (first, "refused")
    assert await all_events(store) == [first]
    assert await store.history(first.id) == []


async def test_another_type_under_the_key_of_a_running_event_is_refused(store: AnyStore) -> None:
    await put(store)
    running = await run(store)
    assert await put(store, type="other") == (running, "refused")
    assert (await put(store, type="other", quiet=HOUR, delay=HOUR, once=False)).change == "refused"


async def test_another_type_takes_a_fired_key_with_once_false(store: AnyStore) -> None:
    await fire(store)
    event, change = await put(store, type="other", once=False)
    assert (event.type, change) == ("other", "created")


async def test_each_event_of_a_batch_is_told_what_became_of_its_key(store: AnyStore) -> None:
    await fire(store, key="fired")
    await fire(store, key="again")
    await put(store, key="open", due=START + HOUR)
    batch = [
        make_new(key="again", due=START + HOUR, once=False),
        make_new(key="open", type="other"),
        make_new(key="new"),
        make_new(key="fired"),
        make_new(),
        make_new(key="fired", tenant="acme"),
    ]
    told = [added.change.value for added in await store.put(batch)]
    assert told == ["created", "refused", "created", "unchanged", "created", "created"]


# -- replay


async def test_a_dead_letter_whose_key_is_taken_is_not_replayed(store: AnyStore) -> None:
    dead = await fire(store, rejected)
    holder = (await put(store, due=START + HOUR, once=False)).event
    async with store.begin() as tx:
        assert await tx.take_keys([dead.id]) == {dead.id: holder.id}
    assert await store.by_key("default", "k") == holder


async def test_a_dead_letter_takes_its_key_back_from_an_event_that_has_fired(store: AnyStore) -> None:
    dead = await fire(store, rejected)
    later = await fire(store, once=False)
    replayed = await Events(store).replay(dead.id)
    assert (replayed.status, replayed.key) == (Status.PENDING, "k")
    assert await store.by_key("default", "k") == replayed
    assert (await put(store, due=START + DAY)).event.id == dead.id, "it is the open event of the key"
    assert await store.get(later.id) == later


async def test_of_several_dead_letters_with_one_key_the_latest_is_replayed(store: AnyStore) -> None:
    dead = [await fire(store, rejected, once=False) for _ in range(3)]
    await fire(store, rejected, key="other")
    done = await Events(store).replay_all()
    assert (done.events, done.left_alone) == (2, 2)
    assert [event.status for one in dead if (event := await store.get(one.id))] == [
        Status.FAILED, Status.FAILED, Status.PENDING,
    ]  # fmt: skip


async def test_of_dead_letters_whose_later_event_has_fired_the_latest_is_replayed(store: AnyStore) -> None:
    dead = [await fire(store, rejected, once=False) for _ in range(2)]
    await fire(store, once=False)
    done = await Events(store).replay_all()
    assert (done.events, done.left_alone) == (1, 1)
    event = await store.by_key("default", "k")
    assert event is not None
    assert (event.id, event.status) == (dead[1].id, Status.PENDING)


# -- memory


async def test_a_deleted_event_leaves_its_key(store: AnyStore, clock: ManualClock) -> None:
    began = datetime.now(UTC)
    fired = await fire(store, payload={"secret": 7})
    clock.advance(30 * DAY)
    assert await store.delete_ended([fired.id]) == {fired.id}
    assert await store.get(fired.id) is None
    event, change = await put(store)
    assert change == "unchanged"
    kept = ("id", "tenant", "key", "type", "due", "executed", "status")
    assert [getattr(event, field) for field in kept] == [getattr(fired, field) for field in kept]
    assert event.payload is None
    assert timedelta(0) < datetime.now(UTC) - event.created < datetime.now(UTC) - began + timedelta(milliseconds=2)
    assert await put(store, due=START + HOUR) == (event, "already_fired")
    assert await store.by_key("default", "k") == event
    assert await Events(store).cancel("k") == "fired"
    assert await all_events(store) == []


async def test_only_what_has_ended_is_deleted_with_its_history(store: AnyStore) -> None:
    await put(store, key="waits", due=START + HOUR)
    cancelled = (await put(store, key="c", due=START + HOUR)).event
    await Events(store).cancel(cancelled.id)
    dead = await fire(store, rejected)
    keyless = make_new()
    await store.add([keyless])
    running = await run(store)
    ids = [event.id for event in await all_events(store)]
    assert await store.delete_ended(ids) == {cancelled.id, dead.id}
    assert await store.history(dead.id) == []
    assert {event.id for event in await all_events(store)} == set(ids) - {cancelled.id, dead.id}
    assert await remembered(store) == 1
    await store.settle([completed(running)], "w1")
    assert await store.delete_ended([running.id]) == {running.id}
    assert await remembered(store) == 1


async def test_a_key_that_was_taken_again_is_not_remembered_of_the_earlier_event(store: AnyStore) -> None:
    earlier = await fire(store, once=False)
    open_one = (await put(store, due=START + HOUR, once=False)).event
    assert await store.delete_ended([earlier.id]) == {earlier.id}
    assert await remembered(store) == 0
    assert (await put(store, due=START + HOUR)).event == open_one


async def test_with_once_false_a_remembered_key_is_free(store: AnyStore) -> None:
    await store.delete_ended([(await fire(store)).id])
    event, change = await put(store, due=START + HOUR, once=False)
    assert (change, event.status, await remembered(store)) == ("created", Status.PENDING, 0)
    await Events(store).cancel(event.id)
    assert (await put(store)).change == "created", "a cancelled event frees its key, also this one"


async def test_a_key_is_forgotten_when_its_memory_ends(store: AnyStore, clock: ManualClock) -> None:
    await store.delete_ended([(await fire(store)).id])
    clock.advance(MEMORY - MINUTE)
    assert (await store.forget_keys(10), (await put(store, due=clock.now())).change) == (0, "already_fired")
    clock.advance(MINUTE)
    assert await store.by_key("default", "k") is None
    assert (await put(store, due=clock.now())).change == "created"
    assert await remembered(store) == 0


async def test_an_event_that_outlives_the_memory_of_its_key_does_not_block_it(
    store: AnyStore, clock: ManualClock
) -> None:
    old = await fire(store)
    clock.advance(MEMORY - MINUTE)
    assert (await put(store, due=clock.now())).change == "already_fired"
    clock.advance(MINUTE)
    event, change = await put(store, due=clock.now() + HOUR)
    assert (change, event.id != old.id) == ("created", True)
    assert await store.get(old.id) == old


async def test_an_event_older_than_the_memory_leaves_nothing_when_it_is_deleted(
    store: AnyStore, clock: ManualClock
) -> None:
    old = await fire(store)
    clock.advance(MEMORY)
    assert await store.delete_ended([old.id]) == {old.id}
    assert await remembered(store) == 0


async def test_keys_are_forgotten_in_bounded_batches_the_oldest_first(store: AnyStore, clock: ManualClock) -> None:
    for number in range(5):
        await store.delete_ended([(await fire(store, key=f"k{number}", due=clock.now())).id])
        clock.advance(HOUR)
    clock.advance(MEMORY - 3 * HOUR)
    assert [await store.forget_keys(2) for _ in range(3)] == [2, 1, 0]
    assert [await store.by_key("default", f"k{number}") is not None for number in range(5)] == [False] * 3 + [True] * 2


async def test_a_replayed_dead_letter_ends_the_memory_of_the_event_that_took_its_key(store: AnyStore) -> None:
    dead = await fire(store, rejected)
    await store.delete_ended([(await fire(store, once=False)).id])
    assert (await Events(store).replay(dead.id)).status is Status.PENDING
    assert await remembered(store) == 0
    assert (await put(store, due=START + HOUR)).event.id == dead.id


# -- races


async def test_many_at_once_take_a_fired_key_and_there_is_one_open_event(opened: OpenStore) -> None:
    stores = [await opened() for _ in range(4)]
    fired = await fire(stores[0])
    puts = [put(stores[n % 4], due=START + HOUR, payload=n, once=False) for n in range(40)]
    added = await asyncio.gather(*puts)
    assert sorted({one.change.value for one in added}) == ["created", "moved"]
    assert [one.change for one in added].count(added[0].change.CREATED) == 1
    assert len({one.event.id for one in added}) == 1
    assert len(await all_events(stores[0])) == 2
    assert await stores[0].get(fired.id) == fired


async def test_many_at_once_repeat_a_fired_key_and_nothing_fires(opened: OpenStore) -> None:
    stores = [await opened() for _ in range(4)]
    fired = await fire(stores[0])
    added = await asyncio.gather(*(put(stores[n % 4], due=START + n % 2 * HOUR) for n in range(40)))
    assert [one.change.value for one in added] == ["unchanged", "already_fired"] * 20
    assert await all_events(stores[0]) == [fired]


async def test_repeats_that_race_with_the_deletion_of_the_event_create_nothing(opened: OpenStore) -> None:
    """At every moment, the key is either with its event or in the memory."""
    stores = [await opened() for _ in range(4)]
    for number in range(10):
        fired = await fire(stores[0], key=f"k{number}")
        deleting = asyncio.create_task(stores[0].delete_ended([fired.id]))
        calls = (put(stores[n % 4], key=f"k{number}", due=START + n % 2 * HOUR) for n in range(1, 13))
        added = await asyncio.gather(*calls)
        await deleting
        assert {one.change.value for one in added} == {"unchanged", "already_fired"}
        assert {one.event.id for one in added} == {fired.id}
        await stores[0].delete_ended([fired.id])  # a put had it locked
    assert await all_events(stores[0]) == []


async def test_calls_with_once_false_that_race_with_the_deletion_leave_one_open_event(opened: OpenStore) -> None:
    stores = [await opened() for _ in range(3)]
    for number in range(10):
        key = f"k{number}"
        fired = await fire(stores[0], key=key)
        calls = (put(stores[n % 3], key=key, due=START + HOUR, once=False) for n in range(6))
        deleting = asyncio.create_task(stores[0].delete_ended([fired.id]))
        added = await asyncio.gather(*calls)
        await deleting
        assert len({one.event.id for one in added}) == 1
        await Events(stores[0]).cancel(key)
        assert (await put(stores[0], key=key, due=START + HOUR)).change == "created", "nothing is remembered of it"
        await Events(stores[0]).cancel(key)


@pytest.mark.parametrize("once", [True, False])
async def test_puts_that_race_with_settlements_leave_at_most_one_open_event(opened: OpenStore, once: bool) -> None:
    """Callers put one key again and again while workers claim and settle what is due."""
    stores = [await opened() for _ in range(4)]
    rng = random.Random(17)
    created: list[str] = []
    open_at_once: list[int] = []
    calling = True

    async def call(store: AnyStore) -> None:
        for _ in range(25):
            added = await put(store, due=START, once=once, payload=rng.random())
            if added.change == "created":
                created.append(added.event.id)
            await asyncio.sleep(rng.random() / 500)

    async def work(store: AnyStore, name: str) -> None:
        while calling:
            for event in await store.claim(name, {LANE: 10}, LEASE):
                await store.settle([rng.choice([completed, rejected])(event)], name)
            open_at_once.append(sum(e.executed is None and e.ready is not None for e in await all_events(store)))
            await asyncio.sleep(rng.random() / 500)

    working = [asyncio.create_task(work(store, f"w{n}")) for n, store in enumerate(stores[:2])]
    await asyncio.gather(*(call(store) for store in stores))
    calling = False
    await asyncio.gather(*working)
    events = await all_events(stores[0])
    assert {event.id for event in events} == set(created)
    assert len(created) == len(set(created))
    assert max(open_at_once) <= 1
    assert (len(events) == 1) is once, "with once=False, it has fired many times"


def test_a_new_event_stays_fired_by_default() -> None:
    assert NewEvent(id="x", tenant="t", type="x", lane="l").once
