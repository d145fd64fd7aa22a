"""A tick takes what was due when it began, and ends; at the latest when its span is over."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from duly import Delivered, Duly, Event, InStatus, Misuse, Retry, Status, Timer, every, webhook
from duly.records.event import Outcome
from duly.signals import GivenBack, WorkerStopped
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, LANE, LEASE, MINUTE, SECOND, START, make_new
from tests.worker.running_worker import PATIENCE, Told, until

SOON = timedelta(seconds=0.2)


async def ticked(app: Duly, **options: Any) -> int:
    """How many it has processed; a tick that does not end fails the test."""
    async with asyncio.timeout(PATIENCE):
        return (await app.tick(**options)).processed


# -- by itself


async def test_a_handler_that_takes_longer_than_its_interval_does_not_keep_a_tick_going(
    app: Duly, clock: ManualClock
) -> None:
    ran: list[Event] = []

    @app.on("slow")
    async def slow(event: Event) -> None:
        ran.append(event)
        clock.advance(1.2 * SECOND)

    await app.every("pulse", every("1s"), "slow")
    clock.advance(SECOND)
    assert [await ticked(app) for _ in range(3)] == [1, 1, 1]
    assert len(ran) == 3
    [head] = await app.events.find(InStatus("PENDING"))
    assert head.due > ran[-1].due, "the next one is planned"


async def test_all_that_a_schedule_has_missed_is_caught_up_in_one_tick(app: Duly, clock: ManualClock) -> None:
    @app.on("slow")
    async def slow(event: Event) -> None:
        clock.advance(HOUR)

    await app.every("daily", every("1d"), "slow", misfire={"policy": "all"})
    clock.advance(5 * DAY)
    assert await ticked(app) == 5


async def test_a_retry_that_is_ready_before_a_tick_ends_is_left_for_the_next(app: Duly, clock: ManualClock) -> None:
    @app.on("fail")
    async def fail(event: Event) -> None:
        raise ConnectionError("503")

    @app.on("slow")
    async def slow(event: Event) -> None:
        await until(lambda: failed_once(app, failing.id), "the other one has failed")
        clock.advance(HOUR)

    failing = await app.at(START, "fail", retry=Retry(max_attempts=9, base=SECOND))
    await app.at(START, "slow")
    assert await ticked(app) == 1
    assert (await app.events.get(failing.id)).attempts == 1
    await ticked(app)
    assert (await app.events.get(failing.id)).attempts == 2


async def failed_once(app: Duly, id: str) -> bool:
    event = await app.events.get(id)
    return event.status is Status.PENDING and event.attempts == 1


async def test_an_event_that_is_added_while_a_tick_runs_is_left_for_the_next(app: Duly, clock: ManualClock) -> None:
    @app.on("again")
    async def again(event: Event) -> None:
        clock.advance(MINUTE)
        await app.after(timedelta(), "again", event.payload + 1)

    await app.at(START, "again", 0)
    assert [await ticked(app) for _ in range(3)] == [1, 1, 1]


async def test_an_event_whose_lease_ends_while_a_tick_runs_is_left_for_the_next(app: Duly, clock: ManualClock) -> None:
    greeted: list[str] = []

    @app.on("greet")
    async def greet(event: Event) -> None:
        greeted.append(event.id)

    @app.on("slow")
    async def slow(event: Event) -> None:
        clock.advance(HOUR)

    [id] = await app.store.add([make_new()])
    await app.store.claim("vanished", {LANE: 1}, LEASE)
    await app.at(START, "slow")
    assert (await ticked(app), greeted) == (1, [])
    assert (await ticked(app), greeted) == (1, [id])


# -- within a span


class Hanging:
    """Deliveries that end when the test says so."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def deliver(self, event: Event) -> Outcome:
        self.begun.set()
        await self.may_end.wait()
        return Delivered()


TARGET = webhook("https://hooks.example/in")


async def hanging_app(duly: OpenDuly, **options: Any) -> tuple[Duly, Hanging]:
    """With three events of which one at a time may be under way; one more is claimed, to go on with."""
    hanging = Hanging()
    app = await duly(channels={"webhook": hanging}, **options)
    await app.targets.limit("https://hooks.example", concurrency=1)
    await app.add_many([Timer(START, "due", target=TARGET) for _ in range(3)])
    return app, hanging


async def statuses(app: Duly) -> list[tuple[str, int]]:
    return sorted((event.status.value, event.attempts) for event in await app.events.find())


async def test_a_tick_whose_span_is_over_gives_back_what_it_has_not_started_and_lets_the_rest_end(
    duly: OpenDuly,
) -> None:
    app, hanging = await hanging_app(duly)
    told = Told(app)
    ticking = asyncio.create_task(app.tick(within=SOON))
    await until(lambda: told.of(GivenBack), "the span is over")
    assert not ticking.done(), "it waits for what runs"
    hanging.may_end.set()
    passed = await asyncio.wait_for(ticking, PATIENCE)
    assert passed.processed == 1
    assert await statuses(app) == [("COMPLETED", 1), ("PENDING", 0), ("PENDING", 0)]
    assert not told.of(WorkerStopped), "it was a tick"
    assert await ticked(app) == 2, "what was given back is there at once"


async def test_a_tick_whose_span_is_over_gives_back_what_does_not_end_within_the_grace(duly: OpenDuly) -> None:
    app, hanging = await hanging_app(duly, shutdown_grace="0.1s")
    assert await ticked(app, within=SOON) == 0
    assert hanging.begun.is_set()
    assert await statuses(app) == [("PENDING", 0)] * 3


async def test_a_tick_that_is_done_early_does_not_wait_for_the_end_of_its_span(duly: OpenDuly) -> None:
    app, hanging = await hanging_app(duly)
    hanging.may_end.set()
    assert await ticked(app, within="1d") == 3


async def test_a_tick_that_is_cancelled_leaves_nothing_claimed(duly: OpenDuly) -> None:
    app, hanging = await hanging_app(duly)
    ticking = asyncio.create_task(app.tick())
    await asyncio.wait_for(hanging.begun.wait(), PATIENCE)
    ticking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(ticking, PATIENCE)
    assert await statuses(app) == [("PENDING", 0)] * 3


@pytest.mark.parametrize("within", [timedelta(), -SECOND, "soon", "0s", 5])
async def test_a_tick_within_something_that_is_no_span_is_refused(app: Duly, within: Any) -> None:
    with pytest.raises(Misuse, match="within="):
        await app.tick(within=within)


async def test_synchronous_code_can_bound_a_tick(duly: OpenDuly) -> None:
    app, _ = await hanging_app(duly, shutdown_grace="0.1s")
    assert (await asyncio.to_thread(lambda: app.sync.tick(within=SOON))).processed == 0
    assert await statuses(app) == [("PENDING", 0)] * 3
