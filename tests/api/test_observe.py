import logging
from typing import Any

import pytest

from duly import Duly, Event, Failed, HaltKind, Rejected, Retry, Status, Timer, Unreachable, every
from duly.signals import (
    Claimed,
    Completed,
    Created,
    DeadLettered,
    GivenBack,
    Halted,
    Interrupted,
    Lost,
    PassEnded,
    Retried,
)
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, LANE, LEASE, MINUTE, START, make_new
from tests.stores.rows import write


def ears(app: Duly, *kinds: type) -> list[Any]:
    heard: list[Any] = []
    app.observe(heard.append, *kinds)
    return heard


def answering(app: Duly, *outcomes: Any) -> None:
    """A handler that answers with these, then with nothing."""
    left = list(outcomes)

    @app.on("greet")
    async def greet(_: Event) -> Any:
        return left.pop(0) if left else None


async def test_the_life_of_an_event_is_told_in_order(app: Duly, clock: ManualClock) -> None:
    heard = ears(app)
    answering(app, Failed("503"))
    event = await app.at(START, "greet", retry=Retry(base=MINUTE))
    await app.tick()
    clock.advance(2 * MINUTE)
    await app.tick()
    assert [type(signal) for signal in heard] == [
        Created,
        Claimed,
        Retried,
        PassEnded,
        Claimed,
        Completed,
        PassEnded,
    ]
    created, claimed, retried, _, again, done, _ = heard
    assert created.ids == [event.id]
    assert (claimed.event.id, claimed.event.version) == (event.id, 2)
    assert (retried.event.id, retried.error) == (event.id, "503")
    assert again.event.version == 3
    assert (done.event.id, done.late) == (event.id, 2 * MINUTE)


async def test_an_observer_hears_what_it_asked_for(app: Duly) -> None:
    dead, done = ears(app, DeadLettered), ears(app, Completed, Created)
    answering(app, Rejected("410"))
    await app.add_many([Timer(START, "greet"), Timer(START, "greet")])
    await app.tick()
    assert [(type(signal), signal.error) for signal in dead] == [(DeadLettered, "410")]
    assert [type(signal) for signal in done] == [Created, Completed]


async def test_a_timer_that_is_moved_or_unchanged_was_not_created(app: Duly) -> None:
    heard = ears(app, Created)
    for due in (START, START, START + HOUR):
        await app.at(due, "greet", key="k")
    [fresh] = await app.add_many([Timer(START, "greet", key="other")])
    await app.add_many([Timer(START + HOUR, "greet", key="other")])
    assert [signal.ids for signal in heard if signal.ids] == [[(await app.events.by_key("k")).id], [fresh]]


async def test_nothing_is_told_of_a_transaction_that_may_be_undone(app: Duly) -> None:
    """That nobody serves a type would be told: it does not depend on the transaction."""
    answering(app)
    heard = ears(app)
    async with app.transaction() as tx:
        await app.at(START, "greet", transaction=tx)
        await app.add_many([Timer(START, "greet")], transaction=tx)
        assert heard == []
    assert [type(signal) for signal in heard] == [Created]


async def test_observers_are_told_of_a_completion_after_the_commit(app: Duly, duly: OpenDuly) -> None:
    seen: list[Any] = []
    answering(app)

    def look(signal: Any) -> None:
        seen.append(signal)

    app.observe(look, Completed)
    event = await app.at(START, "greet")
    await app.tick()
    elsewhere = await duly()
    assert [signal.event.id for signal in seen] == [event.id]
    assert (await elsewhere.events.get(event.id)).status is Status.COMPLETED


async def test_a_failing_observer_harms_nothing(app: Duly, caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: Any) -> None:
        raise RuntimeError("no metrics today")

    app.observe(broken)
    heard = ears(app, Completed)
    answering(app)
    with caplog.at_level(logging.ERROR, "duly"):
        event = await app.at(START, "greet")
        await app.tick()
    assert (await app.events.get(event.id)).status is Status.COMPLETED
    assert len(heard) == 1
    assert {record.getMessage().split()[0] for record in caplog.records} == {"observer.failed"}


async def test_an_unreachable_channel_is_told_as_given_back(app: Duly) -> None:
    heard = ears(app, GivenBack, Retried)
    answering(app, Unreachable("broker down", HOUR))
    event = await app.at(START, "greet")
    await app.tick()
    [told] = heard
    assert (type(told), told.event.id, told.reason) == (GivenBack, event.id, "broker down")


async def test_an_interruption_tells_which_worker_had_the_event(app: Duly, clock: ManualClock) -> None:
    heard = ears(app, Interrupted)
    answering(app)
    await app.store.add([make_new()])
    [lost] = await app.store.claim("the vanished", {LANE: 1}, LEASE)
    clock.advance(LEASE)
    await app.tick()
    [told] = heard
    assert (told.event.id, told.event.worker) == (lost.id, "the vanished")


async def test_a_verdict_that_came_too_late_is_told_as_lost(app: Duly, clock: ManualClock) -> None:
    heard = ears(app, Lost, Completed)

    @app.on("greet")
    async def slow(event: Event) -> None:
        clock.advance(DAY)
        await app.store.claim_interrupted("another", [LANE], DAY)

    event = await app.at(START, "greet")
    await app.tick()
    [told] = heard
    assert (type(told), told.event.id, told.event.version) == (Lost, event.id, 2)
    assert (await app.events.get(event.id)).worker == "another"


async def test_a_schedule_that_halts_is_told(app: Duly, clock: ManualClock) -> None:
    heard = ears(app, Halted)
    schedule = await app.every("hourly", every("1h"), "greet")
    await write(app.store, "UPDATE duly.schedules SET rule = '[]' WHERE id = $1", schedule.id)
    answering(app)
    clock.advance(HOUR)
    await app.tick()
    [told] = heard
    assert schedule.id in str(told)
    assert (told.kind, told.reason.partition(":")[0]) == (HaltKind.ERROR, "Invalid")


async def test_a_log_line_names_the_schedule_of_its_event(app: Duly, caplog: pytest.LogCaptureFixture) -> None:
    answering(app, Rejected("no"), Rejected("no"))
    await app.schedules.put("nightly report", every("1h"), "greet")
    await app.schedules.trigger("nightly report")
    await app.after(0, "greet")
    with caplog.at_level(logging.ERROR, "duly"):
        await app.tick()
    lines = [record.getMessage() for record in caplog.records]
    assert ['type=greet schedule="nightly report" ' in line for line in lines] == [True, False]


async def test_payloads_are_never_logged(app: Duly, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    answering(app, Failed("503"), Rejected("410"))
    with caplog.at_level(logging.DEBUG, "duly"):
        await app.add_many([Timer(START, "greet", {"card": "4111-1111"}) for _ in range(3)])
        clock.advance(DAY)
        await app.tick()
    assert caplog.records
    assert not any("4111-1111" in str(record.__dict__) for record in caplog.records)
