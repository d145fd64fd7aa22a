from duly.decide.retry import Retry
from duly.ids import new_id
from duly.records.event import Status
from duly.records.history import Entry
from duly.testing import ManualClock
from duly.verbs.events.events import Events
from tests.conftest import AnyStore
from tests.make import HOUR, LANE, LEASE, MINUTE, START, completed, failed, make_new
from tests.stores.rows import event_of


async def test_the_history_answers_what_people_ask(store: AnyStore, clock: ManualClock) -> None:
    """When it was created, due and executed; how often it was tried, by whom; each error; what a crash interrupted."""
    due = START + HOUR
    [id] = await store.add([make_new(due=due, retry=Retry(base=MINUTE))])

    clock.set(due)
    [event] = await store.claim("w1", {LANE: 1}, LEASE)
    clock.advance(seconds=1)
    await store.settle([failed(event, "503 from hooks.example")], "w1")

    clock.set(due + 2 * MINUTE)
    await store.claim("w2", {LANE: 1}, LEASE)  # and w2 is killed

    clock.set(due + 3 * MINUTE)
    [(event, _)] = await store.claim_interrupted("w3", [LANE], LEASE)
    await store.settle([failed(event, "timed out")], "w3")

    clock.set(due + HOUR)
    [(event, _)] = await store.claim_interrupted("w4", [LANE], LEASE)
    await store.settle([completed(event)], "w4")

    event = await event_of(store, id)
    assert (event.created, event.due, event.executed) == (START, due, due + HOUR)
    assert (event.status, event.attempts, event.interruptions, event.lateness) == (Status.COMPLETED, 3, 1, HOUR)
    vanished = "its worker vanished and the lease expired"
    assert await store.history(id) == [
        Entry(due + 1 * MINUTE / 60, "failed", "w1", 2, 1, due, "503 from hooks.example"),
        Entry(due + 3 * MINUTE, "interrupted", "w2", 3, None, due + 2 * MINUTE, vanished),
        Entry(due + 3 * MINUTE, "failed", "w3", 4, 2, due + 3 * MINUTE, "timed out"),
        Entry(due + HOUR, "delivered", "w4", 5, 3, due + HOUR, None),
    ]


async def test_the_history_has_acts_of_people_beside_those_of_workers(store: AnyStore, clock: ManualClock) -> None:
    events = Events(store)
    [id] = await store.add([make_new(due=START + HOUR, retry=Retry(max_attempts=1))])
    await events.reschedule(id, START + MINUTE, by="ada")
    clock.set(START + MINUTE)
    [event] = await store.claim("w1", {LANE: 1}, LEASE)
    await store.settle([failed(event, "no such invoice")], "w1")
    await events.replay(id, by="bob")
    await events.cancel(id, by="eve", reason="paid by hand")
    assert [(entry.act, entry.worker, entry.detail) for entry in await store.history(id)] == [
        ("rescheduled", "ada", "due 2026-01-01T01:00:00Z → 2026-01-01T00:01:00Z"),
        ("failed", "w1", "no such invoice"),
        ("replayed", "bob", "after 1 attempts: no such invoice"),
        ("cancelled", "eve", "paid by hand"),
    ]


async def test_each_event_has_its_own_history(store: AnyStore) -> None:
    one, other = await store.add([make_new(), make_new()])
    for event in await store.claim("w1", {LANE: 2}, LEASE):
        await store.settle([failed(event, f"error of {event.id}")], "w1")
    assert [entry.detail for entry in await store.history(one)] == [f"error of {one}"]
    assert [entry.detail for entry in await store.history(other)] == [f"error of {other}"]
    assert await store.history(new_id()) == []
