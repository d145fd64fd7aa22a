import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from duly.decide.retry import Retry
from duly.ports import Added
from duly.records.event import NewEvent, Status
from duly.records.history import Entry
from duly.records.results import PutChange
from duly.records.specs import Everything
from duly.testing import ManualClock
from tests.conftest import AnyStore, OpenStore
from tests.make import HOUR, LANE, LEASE, MICROSECOND, MINUTE, START, completed, failed, make_event, make_new, rejected
from tests.stores.rows import event_of, event_with_key, keep


async def put(store: AnyStore, *news: NewEvent) -> list[Added]:
    return await store.put(news)


async def all_events(store: AnyStore) -> list[Any]:
    return await store.find(Everything(), limit=1000)


def told_dues(entry: Entry) -> list[datetime]:
    """The two instants that a history row tells of."""
    assert entry.detail is not None
    return [datetime.fromisoformat(part) for part in entry.detail.removeprefix("due ").split(" → ")]


async def test_a_new_key_makes_an_event(store: AnyStore) -> None:
    new = make_new(key="invoice-7")
    [(event, change)] = await put(store, new)
    assert (event, change) == (make_event(id=new.id, key="invoice-7", created=START), "created")
    assert await store.by_key("default", "invoice-7") == event


async def test_putting_a_key_again_moves_the_one_that_has_not_started(store: AnyStore) -> None:
    [(first, _)] = await put(store, make_new(key="k", due=START + HOUR, payload={"v": 1}))
    changed = make_new(
        key="k",
        due=START + MINUTE,
        payload={"v": 2},
        target={"webhook": "x"},
        correlation_id="c",
        retry=Retry(max_attempts=9),
    )
    [(moved, change)] = await put(store, changed)
    assert (moved.id, change) == (first.id, "moved")
    assert (moved.due, moved.ready, moved.created) == (START + MINUTE, START + MINUTE, START)
    assert (moved.payload, moved.target, moved.lane) == ({"v": 2}, {"webhook": "x"}, "webhook")
    assert (moved.correlation_id, moved.retry.max_attempts, moved.version) == ("c", 9, 1)
    assert await all_events(store) == [moved]


async def test_the_history_of_a_move_says_from_where_to_where(store: AnyStore, clock: ManualClock) -> None:
    [(event, _)] = await put(store, make_new(key="k", due=START + HOUR))
    clock.advance(MINUTE)
    await put(store, make_new(key="k", due=START + 2 * HOUR))
    [entry] = await store.history(event.id)
    assert (entry.at, entry.act, entry.worker) == (START + MINUTE, "moved", "caller")
    assert told_dues(entry) == [START + HOUR, START + 2 * HOUR]


async def test_the_history_of_a_move_keeps_microseconds(store: AnyStore) -> None:
    [(event, _)] = await put(store, make_new(key="k", due=START + HOUR))
    await put(store, make_new(key="k", due=START + HOUR + MICROSECOND))
    [entry] = await store.history(event.id)
    assert told_dues(entry) == [START + HOUR, START + HOUR + MICROSECOND]


async def test_the_history_of_a_move_tells_times_before_1970_too(store: AnyStore) -> None:
    old, new = (datetime(1969, 12, 31, 23, 59, 59, micros, UTC) for micros in (250_000, 750_000))
    [(event, _)] = await put(store, make_new(key="k", due=old))
    await put(store, make_new(key="k", due=new))
    [entry] = await store.history(event.id)
    assert told_dues(entry) == [old, new]


async def test_putting_the_same_timer_again_changes_nothing(store: AnyStore, clock: ManualClock) -> None:
    same: dict[str, Any] = {
        "key": "k",
        "due": START + HOUR,
        "payload": {"v": 1},
        "target": {"webhook": "x"},
        "correlation_id": "c",
        "retry": Retry(max_attempts=9),
    }
    [(first, _)] = await put(store, make_new(**same))
    clock.advance(MINUTE)
    [(again, change)] = await put(store, make_new(**same))
    assert (again, change) == (first, "unchanged")
    assert await store.history(first.id) == []


@pytest.mark.parametrize(
    "difference",
    [
        {"due": START + 2 * HOUR},
        {"payload": {"v": 2}},
        {"target": {"webhook": "x"}},
        {"retry": Retry(max_attempts=9)},
        {"correlation_id": "c"},
    ],
    ids=lambda difference: next(iter(difference)),
)
async def test_any_difference_of_a_timer_is_a_move_there_and_back(store: AnyStore, difference: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"key": "k", "due": START + HOUR, "payload": {"v": 1}}
    [(first, _)] = await put(store, make_new(**usual))
    [(there, change)] = await put(store, make_new(**(usual | difference)))
    assert (there.id, change) == (first.id, "moved")
    [(back, change)] = await put(store, make_new(**usual))
    assert (back, change) == (first, "moved")


async def test_a_delay_put_again_later_moves_the_event(store: AnyStore, clock: ManualClock) -> None:
    await put(store, make_new(key="k", delay=HOUR))
    assert [change for _, change in await put(store, make_new(key="k", delay=HOUR))] == ["unchanged"]
    clock.advance(MINUTE)
    [(event, change)] = await put(store, make_new(key="k", delay=HOUR))
    assert (event.due, change) == (START + MINUTE + HOUR, "moved")


async def test_putting_a_key_leaves_a_timer_that_has_started_alone(store: AnyStore) -> None:
    await put(store, make_new(key="k"))
    [started] = await store.claim("w1", {LANE: 1}, LEASE)
    [(found, change)] = await put(store, make_new(key="k", due=START + HOUR, payload="late"))
    assert (found, change) == (started, "unchanged")
    assert await store.settle([completed(started)], "w1"), "its worker still holds it"


async def test_a_timer_that_waits_for_a_retry_has_started(store: AnyStore) -> None:
    await put(store, make_new(key="k"))
    [event] = await store.claim("w1", {LANE: 1}, LEASE)
    await store.settle([failed(event)], "w1")
    waiting = await event_of(store, event.id)
    assert await put(store, make_new(key="k", due=START + HOUR)) == [(waiting, "unchanged")]


@pytest.mark.broken_rows("its rows are written by hand")
async def test_a_timer_that_a_crash_interrupted_has_started(store: AnyStore) -> None:
    [event] = await keep(store, make_event(key="k", interruptions=1))
    assert await put(store, make_new(key="k", due=START + HOUR)) == [(event, "unchanged")]


async def test_putting_a_key_leaves_a_timer_that_has_fired_alone(store: AnyStore, clock: ManualClock) -> None:
    await put(store, make_new(key="k"))
    clock.advance(3 * MICROSECOND)
    [event] = await store.claim("w1", {LANE: 1}, LEASE)
    await store.settle([completed(event)], "w1")
    clock.advance(HOUR)
    [(found, change)] = await put(store, make_new(key="k", due=clock.now() + HOUR))
    assert change == "already_fired"
    assert (found.id, found.status, found.executed) == (event.id, Status.COMPLETED, START + 3 * MICROSECOND)


async def test_putting_a_key_leaves_a_dead_letter_alone(store: AnyStore) -> None:
    await put(store, make_new(key="k"))
    [event] = await store.claim("w1", {LANE: 1}, LEASE)
    await store.settle([rejected(event, "410")], "w1")
    [(found, change)] = await put(store, make_new(key="k", due=START + HOUR))
    assert (found.id, found.status, found.last_error, change) == (event.id, Status.FAILED, "410", "already_fired")


@pytest.mark.broken_rows("its rows are written by hand")
async def test_a_cancelled_event_frees_its_key(store: AnyStore) -> None:
    [cancelled] = await keep(store, make_event(key="k", status=Status.CANCELLED))
    [(event, change)] = await put(store, make_new(key="k"))
    assert (change, event.id != cancelled.id) == ("created", True)
    assert await store.by_key("default", "k") == event
    assert await store.get(cancelled.id) == cancelled


async def test_the_same_key_in_two_tenants_is_two_events(store: AnyStore) -> None:
    [(a, _), (b, _)] = await put(store, make_new(tenant="a", key="k"), make_new(tenant="b", key="k"))
    assert a.id != b.id
    [(moved, _)] = await put(store, make_new(tenant="a", key="k", due=START + HOUR))
    assert moved.id == a.id
    assert await store.by_key("b", "k") == b
    assert await store.by_key("c", "k") is None


async def test_of_duplicate_keys_in_one_batch_the_last_wins(store: AnyStore) -> None:
    added = await put(store, *(make_new(key="k", payload=n) for n in range(3)))
    assert [(event.payload, change) for event, change in added] == [(2, "created")] * 3
    assert len(await all_events(store)) == 1


async def test_events_without_keys_are_always_new(store: AnyStore) -> None:
    added = await put(store, make_new(), make_new())
    assert [change for _, change in added] == ["created", "created"]
    assert len(await all_events(store)) == 2


async def test_each_event_of_a_batch_is_told_what_became_of_it_in_its_place(store: AnyStore) -> None:
    await put(store, make_new(key="same"), make_new(key="other", payload=1))
    added = await put(
        store, make_new(key="other", payload=2), make_new(key="fresh"), make_new(key="same"), make_new(payload=3)
    )
    assert [(event.key, change) for event, change in added] == [
        ("other", "moved"),
        ("fresh", "created"),
        ("same", "unchanged"),
        (None, "created"),
    ]


async def test_putting_no_events_does_nothing(store: AnyStore) -> None:
    assert await put(store) == []
    assert await store.add([]) == []


async def test_fifty_concurrent_puts_of_one_key_make_one_event(opened: OpenStore) -> None:
    stores = [await opened() for _ in range(5)]
    puts = [put(stores[n % 5], make_new(key="k", due=START + n * MINUTE)) for n in range(50)]
    added = [added for [added] in await asyncio.gather(*puts)]
    [event] = await all_events(stores[0])
    assert {each.id for each, _ in added} == {event.id}
    changes = [change for _, change in added]
    assert (changes.count(PutChange.CREATED), changes.count(PutChange.MOVED)) == (1, 49)
    history = await stores[0].history(event.id)
    assert len(history) == 49
    assert told_dues(history[-1])[1] == event.due


async def test_the_history_of_concurrent_puts_is_consistent(opened: OpenStore) -> None:
    """Each row of the history begins where the one before it ended."""
    stores = [await opened() for _ in range(4)]
    dues = [START + (n + 1) * HOUR for n in range(20)]
    await put(stores[0], make_new(key="k", due=START))  # of one that is created meanwhile, the old time is not known
    await asyncio.gather(*(put(stores[n % 4], make_new(key="k", due=due)) for n, due in enumerate(dues)))
    event = await event_with_key(stores[0], "k")
    told = [told_dues(entry) for entry in await stores[0].history(event.id)]
    assert [before for before, _ in told[1:]] == [after for _, after in told[:-1]]
    assert told[-1][1] == event.due


async def test_concurrent_batches_in_any_order_do_not_wait_for_each_other_for_ever(opened: OpenStore) -> None:
    stores = [await opened() for _ in range(2)]
    keys = [f"k{n}" for n in range(50)]

    def batch(number: int) -> list[NewEvent]:
        """New events for the same keys, in one order or in the other."""
        return [make_new(key=key, payload=number) for key in (keys if number % 2 else reversed(keys))]

    await asyncio.gather(*(stores[number % 2].put(batch(number)) for number in range(10)))
    assert len(await all_events(stores[0])) == 50


async def test_the_database_refuses_a_second_event_with_a_key(store: AnyStore) -> None:
    await put(store, make_new(key="k"))
    with pytest.raises(Exception, match=r"(?i)unique"):
        await store.add([make_new(key="k")])
    with pytest.raises(Exception, match=r"(?i)unique"):
        await keep(store, msgspec.structs.replace(make_event(status=Status.COMPLETED), key="k"))
