"""Cancelling by id or key: one verb with one answer, also inside a transaction that is rolled back."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from duly import CancelResult, Duly, Event, Invalid, Misuse, Retry, Status, Transaction, cron, every
from duly.ids import new_id
from duly.signals import Cancelled, Interrupted
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, LANE, LEASE, START, a_user, make_event
from tests.stores.rows import keep
from tests.worker.running_worker import Told


class Oops(Exception):
    pass


# -- the answer


@pytest.mark.broken_rows("its rows are written by hand")
@pytest.mark.parametrize("status", list(Status))
async def test_the_answer_tells_what_was_found(app: Duly, status: Status) -> None:
    [event] = await keep(app.store, make_event(status=status, last_error="503"))
    answers = {Status.PENDING: "cancelled", Status.CANCELLED: "nothing", Status.PROCESSING: "running"}
    assert await app.cancel(event.id, by="ada", reason="paid") == answers.get(status, "fired")
    after, history = await app.events.get(event.id), await app.events.history(event.id)
    if status is Status.PENDING:
        assert (after.status, after.ready) == (Status.CANCELLED, None)
        assert [(e.act, e.worker, e.detail) for e in history] == [("cancelled", "ada", "paid")]
    elif status is Status.PROCESSING:
        assert (after.status, after.stop_requested) == (Status.PROCESSING, await app.now())
        assert [(e.act, e.worker, e.detail) for e in history] == [("stop requested", "ada", "paid")]
    else:
        assert (after, history) == (event, [])


async def test_no_event_is_no_error(app: Duly) -> None:
    for unknown in (new_id(), "nobody", "", "\x00", "x" * 1000):
        assert await app.cancel(unknown) is await app.events.cancel(unknown) is CancelResult.NOTHING
    with pytest.raises(Invalid, match="id"):
        await app.cancel(7)  # type: ignore[arg-type]


async def test_another_tenants_event_is_not_cancelled(app: Duly) -> None:
    event = await app.at(START, "greet", key="k", tenant="acme")
    for name in (event.id, "k"):
        assert await app.cancel(name, tenant="other") == "nothing"
    assert await app.cancel("k") == "nothing", "a key without a tenant is the default tenant's"
    assert await app.events.get(event.id) == event
    assert await app.cancel("k", tenant="acme") == "cancelled"


async def test_an_event_whose_worker_has_vanished_is_cancelled_at_once(app: Duly, clock: ManualClock) -> None:
    event = await app.at(START, "greet")
    await app.store.claim("w1", {LANE: 1}, LEASE)
    clock.advance(LEASE)
    assert await app.cancel(event.id, by="ada") == "cancelled"
    after = await app.events.get(event.id)
    assert (after.status, after.interruptions) == (Status.CANCELLED, 1)
    interrupted, cancelled = await app.events.history(event.id)
    assert (interrupted.act, interrupted.worker, interrupted.claimed) == ("interrupted", "w1", START)
    assert (cancelled.act, cancelled.worker, cancelled.claimed) == ("cancelled", "ada", None)


# -- keys


async def test_whatever_takes_an_id_takes_a_key(app: Duly, clock: ManualClock) -> None:
    @app.on("greet")
    async def greet(_event: Event) -> None:
        raise ValueError("no")

    event = await app.at(START + HOUR, "greet", key="k", retry=Retry(max_attempts=1))
    assert await app.events.get("k") == await app.events.by_key("k") == event
    assert (await app.events.why("k")).id == event.id
    assert (await app.events.reschedule("k", START)).id == event.id
    assert [entry.act for entry in await app.events.history("k")] == ["rescheduled"]
    await app.tick()
    assert (await app.events.replay("k")).status is Status.PENDING
    await app.tick()
    assert (await app.events.discard("k")).status is Status.CANCELLED


async def test_a_key_names_its_open_event_or_else_its_latest(app: Duly) -> None:
    first = await app.at(START + HOUR, "greet", key="k")
    await app.cancel("k")
    assert (await app.events.get("k")).id == first.id
    second = await app.at(START + DAY, "greet", key="k")
    assert (await app.events.get("k")).id == second.id
    assert await app.cancel("k") == "cancelled"
    assert await app.cancel("k") == "nothing"
    assert (await app.events.get("k")).id == second.id, "the latest of the cancelled ones"


async def test_a_key_that_looks_like_an_id_is_an_id_first(app: Duly) -> None:
    event = await app.at(START + HOUR, "greet")
    shadowed = await app.at(START + HOUR, "greet", key=event.id)
    free = await app.at(START + HOUR, "greet", key=new_id())
    assert (await app.events.get(event.id)).id == event.id
    assert (await app.events.by_key(event.id)).id == shadowed.id
    assert free.key is not None
    assert (await app.events.get(free.key)).id == free.id


# -- in Duly's own transaction, on both stores


async def test_a_rolled_back_cancel_leaves_the_timer(app: Duly, clock: ManualClock) -> None:
    fired: list[str] = []

    @app.on("greet")
    async def greet(event: Event) -> None:
        fired.append(event.id)

    event = await app.at(START + HOUR, "greet", key="k")
    with suppress(Oops):
        async with app.transaction() as tx:
            assert await app.cancel("k", transaction=tx) == "cancelled"
            assert await app.cancel("k", transaction=tx) == "nothing", "the transaction sees what it did"
            raise Oops
    assert await app.events.get("k") == event
    assert await app.events.history("k") == []
    clock.advance(HOUR)
    await app.tick()
    assert fired == [event.id]


async def test_a_timer_is_set_moved_and_cancelled_in_one_transaction(app: Duly) -> None:
    async with app.transaction() as tx:
        first = await app.at(START + HOUR, "greet", key="k", transaction=tx)
        moved = await app.put(START + DAY, "greet", key="k", transaction=tx)
        assert (moved.event.id, moved.change) == (first.id, "moved")
        assert await app.cancel("k", transaction=tx) == "cancelled"
        again = await app.at(START + HOUR, "greet", key="k", transaction=tx)
    assert (await app.events.get(first.id)).status is Status.CANCELLED
    assert await app.events.get("k") == again


async def test_a_transactional_handler_cancels_with_its_own_transaction(duly: OpenDuly) -> None:
    app = await duly()
    answers: list[str] = []

    @app.on("pay", transactional=True)
    async def pay(event: Event, tx: Transaction) -> None:
        answers.append(await app.cancel(f"reminder-{event.key}", transaction=tx))
        if event.payload == "fails":
            raise Oops

    for name in ("fails", "works"):
        await app.at(START + DAY, "remind", key=f"reminder-{name}")
        await app.at(START, "pay", name, key=name, retry=Retry(max_attempts=1))
    await app.tick()
    assert answers == ["cancelled", "cancelled"]
    assert (await app.events.get("reminder-works")).status is Status.CANCELLED
    assert (await app.events.get("reminder-fails")).status is Status.PENDING


async def test_a_transaction_of_another_duly_is_refused(app: Duly, duly: OpenDuly, tmp_path: Any) -> None:
    other = await duly(database_url=f"sqlite:///{tmp_path}/other.db")
    await app.at(START + HOUR, "greet", key="k")
    async with other.transaction() as theirs:
        with pytest.raises(Misuse, match="belongs to another Duly"):
            await app.cancel("k", transaction=theirs)


async def test_every_verb_that_writes_is_undone_with_its_transaction(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly(secret_key="0123456789abcdef0123456789abcdef")

    @app.on("hopeless")
    async def hopeless(_event: Event) -> None:
        raise ValueError("no")

    for key in ("dead-1", "dead-2"):
        await app.at(START, "hopeless", key=key, retry=Retry(max_attempts=1))
    await app.tick()
    await app.at(START + DAY, "greet", key="k")
    await app.every("hourly", every("1h"), "digest")
    await app.schedules.put("paused", cron("@daily"), "digest", enabled=False)
    await app.schedules.put("doomed", cron("@daily"), "digest")
    await app.targets.put("crm", "https://crm.example/x")
    await app.targets.put("old", "https://old.example/x")
    await app.targets.disable("old")
    user = await app.users.add(**a_user())
    clock.advance(timedelta(hours=3))

    async def state() -> Any:
        events = await app.events.find(limit=1000)
        return (
            {event.id: (event, await app.events.history(event.id)) for event in events},
            [(one, await app.schedules.history(one.name)) for one in await app.schedules.list()],
            [(one, await app.targets.history(one.name)) for one in await app.targets.list()],
            await app.targets.destinations(),
            [(one, await app.users.history(one.id)) for one in await app.users.list()],
        )

    head = next(event for event in await app.events.find(limit=1000) if event.head and event.type == "digest")
    acts: dict[str, Any] = {
        "cancel a head": lambda **tx: app.cancel(head.id, **tx),
        "events.reschedule": lambda **tx: app.events.reschedule("k", START + HOUR, **tx),
        "cancel": lambda **tx: app.cancel("k", **tx),
        "events.replay": lambda **tx: app.events.replay("dead-1", **tx),
        "events.discard": lambda **tx: app.events.discard("dead-2", **tx),
        "schedules.pause": lambda **tx: app.schedules.pause("hourly", **tx),
        "schedules.resume": lambda **tx: app.schedules.resume("paused", **tx),
        "schedules.reschedule": lambda **tx: app.schedules.reschedule("hourly", START + 4 * HOUR, **tx),
        "schedules.skip": lambda **tx: app.schedules.skip("hourly", **tx),
        "schedules.trigger": lambda **tx: app.schedules.trigger("hourly", **tx),
        "schedules.backfill": lambda **tx: app.schedules.backfill("hourly", START - DAY, START, **tx),
        "schedules.delete": lambda **tx: app.schedules.delete("doomed", **tx),
        "schedules.put": lambda **tx: app.schedules.put("new", cron("@daily"), "digest", **tx),
        "users.add": lambda **tx: app.users.add(**a_user(), **tx),
        "users.update": lambda **tx: app.users.update(user.id, last_name="King", **tx),
        "users.delete": lambda **tx: app.users.delete(user.id, **tx),
        "targets.put": lambda **tx: app.targets.put("new", "https://new.example/x", **tx),
        "targets.rotate": lambda **tx: app.targets.rotate("crm", **tx),
        "targets.disable": lambda **tx: app.targets.disable("crm", **tx),
        "targets.enable": lambda **tx: app.targets.enable("old", **tx),
        "targets.limit": lambda **tx: app.targets.limit("crm", rate="5/s", **tx),
        "targets.delete": lambda **tx: app.targets.delete("crm", **tx),
    }
    for name, act in acts.items():
        before = await state()
        with suppress(Oops):
            async with app.transaction() as tx:
                await act(transaction=tx)
                raise Oops
        assert await state() == before, f"{name} is undone"
        async with app.transaction() as tx:
            await act(transaction=tx)
        assert await state() != before, f"{name} is there after the commit"


async def test_a_cancelled_head_is_followed_in_the_same_transaction(app: Duly) -> None:
    await app.every("hourly", every("1h"), "digest")
    [head] = await app.events.find()
    with suppress(Oops):
        async with app.transaction() as tx:
            await app.cancel(head.id, transaction=tx)
            raise Oops
    assert await app.events.find() == [head]
    async with app.transaction() as tx:
        assert await app.cancel(head.id, transaction=tx) == "cancelled"
    assert (await app.schedules.get("hourly")).next_at == START + 2 * HOUR


# -- a worker that is gone


async def test_an_event_whose_worker_is_dead_is_cancelled_when_its_lease_ends(app: Duly, clock: ManualClock) -> None:
    told, runs = Told(app), list[Event]()

    @app.on("greet")
    async def greet(event: Event) -> None:
        runs.append(event)

    event = await app.at(START, "greet")
    await app.store.claim("dead", {LANE: 1}, LEASE)
    assert await app.cancel(event.id, by="ada") == "running"
    await app.tick()
    assert (await app.events.get(event.id)).status is Status.PROCESSING
    clock.advance(LEASE)
    await app.tick()
    after = await app.events.get(event.id)
    assert (after.status, after.ready, runs) == (Status.CANCELLED, None, [])
    assert [entry.act for entry in await app.events.history(event.id)] == ["stop requested", "interrupted", "cancelled"]
    assert (len(told.of(Interrupted)), len(told.of(Cancelled))) == (1, 1)
    assert (await app.events.why(event.id)).kind == "cancelled"


async def test_what_spent_its_interruptions_and_was_asked_to_stop_is_no_dead_letter(
    app: Duly, clock: ManualClock
) -> None:
    app.on("greet")(lambda _event: None)
    event = await app.at(START, "greet")
    await app.store.claim("dead", {LANE: 1}, LEASE)
    for _ in range(4):
        clock.advance(LEASE)
        await app.store.claim_interrupted("dead", [LANE], LEASE)
    assert await app.cancel(event.id) == "running"
    clock.advance(LEASE)
    await app.tick()
    assert (await app.events.get(event.id)).status is Status.CANCELLED


async def test_a_head_that_runs_has_a_successor_when_it_is_stopped(app: Duly, clock: ManualClock) -> None:
    @app.on("digest")
    async def digest(event: Event) -> None:
        assert await app.cancel(event.id) == "running"
        raise ValueError("and it fails")

    await app.every("hourly", every("1h"), "digest", retry=Retry(max_attempts=3))
    clock.advance(HOUR)
    await app.tick()
    [after] = [event for event in await app.events.find() if not event.head]
    assert (after.status, after.last_error) == (Status.CANCELLED, "ValueError: and it fails")
    assert (await app.schedules.get("hourly")).next_at == START + 2 * HOUR
