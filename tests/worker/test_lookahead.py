"""Look-ahead: events are reserved before they are due, and started at their instant."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Duly, Event, InStatus, Status, Timer, every
from duly.config import Settings
from duly.engine.lookahead import reserve
from duly.engine.worker import Worker
from duly.errors import BadSetting
from duly.ports import Route
from duly.signals import Claimed, Completed, Signals
from duly.testing import ManualClock, Recorder
from tests.make import HOUR, LANE, SECOND, make_new
from tests.worker.running_worker import Told, until, working

SOON = timedelta(milliseconds=300)
TRIES = 10
"""An event is held for half a second: a machine that stalls for longer fires it before the test has looked."""


class Punctual:
    """Notes at which instant each event was fired, by the clock on the wall."""

    def __init__(self, duly: Duly) -> None:
        self.fired: dict[str, datetime] = {}
        self.events: list[Event] = []
        duly.on("task")(self)

    async def __call__(self, event: Event) -> None:
        assert event.id not in self.fired, "once"
        self.fired[event.id] = datetime.now(UTC)
        self.events.append(event)


async def reserved(duly: Duly, *ids: str) -> bool:
    events = [await duly.events.get(id) for id in ids]
    return all(event.status is Status.PENDING and event.worker is not None for event in events)


async def is_held(duly: Duly, punctual: Punctual, *ids: str) -> bool:
    """What becomes of events that are due soon: all are held, or one was fired before that was seen."""

    async def held_or_fired() -> bool:
        return any(id in punctual.fired for id in ids) or await reserved(duly, *ids)

    await until(held_or_fired, "they are held")
    return not any(id in punctual.fired for id in ids)


async def test_with_a_lookahead_no_event_is_early_and_each_is_done_once(url: str) -> None:
    duly = Duly(url, lookahead="500ms")
    punctual, told = Punctual(duly), Told(duly)
    dues: dict[str, datetime] = {}

    def some_were_claimed_ahead() -> bool:
        return any(event.claimed and event.claimed < event.due for event in punctual.events)

    async with duly, working(duly):
        for _ in range(TRIES):
            start = datetime.now(UTC) + timedelta(seconds=1)
            more = [start + timedelta(milliseconds=5 * n, microseconds=n) for n in range(200)]
            dues.update(zip(await duly.add_many(Timer(due, "task") for due in more), more, strict=True))
            await until(lambda: len(told.of(Completed)) == len(dues), "all are done")
            if some_were_claimed_ahead():
                break
    assert not {due - punctual.fired[id] for id, due in dues.items() if punctual.fired[id] < due}, "some were early"
    assert len(told.of(Claimed)) == len(dues)
    assert some_were_claimed_ahead()


async def test_with_a_lookahead_a_schedule_goes_on_and_is_punctual(url: str) -> None:
    duly = Duly(url, lookahead="500ms")
    punctual = Punctual(duly)
    async with duly, working(duly):
        await duly.every("often", every("1s"), "task")
        await until(lambda: len(punctual.events) >= 3, "it has fired three times")
    for event, next in zip(punctual.events, punctual.events[1:], strict=False):
        assert next.due - event.due == next.stands_for * SECOND
    assert all(punctual.fired[event.id] >= event.due for event in punctual.events)


async def test_each_event_of_a_schedule_is_claimed_ahead(url: str) -> None:
    """Also the next one, which is planted while the worker sleeps towards the end of the reservation of the first."""
    duly = Duly(url, lookahead="500ms", poll_interval="1h")
    punctual = Punctual(duly)

    def in_a_row() -> bool:
        """Whether four were claimed in time. One that nobody was told of is found half a second late, at the end of a
        reservation: so was each third one. (A busy machine claims some of them a few milliseconds late.)"""
        timely = [event.claimed is not None and event.claimed - event.due < SECOND / 4 for event in punctual.events]
        return any(all(timely[n : n + 4]) for n in range(len(timely) - 3))

    async with duly, working(duly):
        await duly.every("often", every("1s"), "task")
        await until(in_a_row, "four in a row were claimed in time")


async def test_an_event_cancelled_while_it_is_reserved_is_not_fired(url: str) -> None:
    duly = Duly(url, lookahead="500ms")
    punctual = Punctual(duly)
    async with duly, working(duly):
        for _ in range(TRIES):
            kept, gone = [(await duly.after(2 * SOON, "task")).id for _ in range(2)]
            if await is_held(duly, punctual, kept, gone) and await cancelled(duly, gone):
                break
        else:
            pytest.fail("none could be cancelled while it was held")
        await until(lambda: kept in punctual.fired, "the other is fired")
        await asyncio.sleep(0.05)
    assert gone not in punctual.fired


async def cancelled(duly: Duly, id: str) -> bool:
    """Whether it was cancelled before it started. What runs may have completed before it was asked to stop."""
    return await duly.cancel(id) == "cancelled"


async def test_a_reserved_event_that_can_no_longer_be_cancelled_is_fired(url: str) -> None:
    """Whatever the moment: either it was cancelled, or it is fired. Never both, never neither."""
    duly = Duly(url, lookahead="500ms")
    punctual = Punctual(duly)
    async with duly, working(duly):
        ids = [event.id for event in await asyncio.gather(*(duly.after(SOON, "task") for _ in range(40)))]
        due = (await duly.events.get(ids[-1])).due
        outcomes: dict[str, bool] = {}
        for n, id in enumerate(ids):
            await asyncio.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds() - 0.030 + n * 0.001))
            outcomes[id] = await cancelled(duly, id)

        async def ended() -> dict[str, Status] | None:
            found = {event.id: event.status for event in await duly.events.find()}
            return found if set(found.values()) <= {Status.COMPLETED, Status.CANCELLED} else None

        statuses = await until(ended, "all are fired or cancelled")
    fired = {id for id, status in statuses.items() if status is Status.COMPLETED}
    assert fired == set(punctual.fired), "what was claimed and not started when it was asked to stop is not fired"
    assert not fired & {id for id, cancelled in outcomes.items() if cancelled}


async def test_a_timer_that_is_moved_while_it_is_reserved_fires_at_its_new_time(url: str) -> None:
    duly = Duly(url, lookahead="500ms")
    punctual = Punctual(duly)
    async with duly, working(duly):
        for attempt in range(TRIES):
            event = (await duly.put(2 * SOON, "task", {"n": 1}, key=f"k{attempt}")).event
            held = await is_held(duly, punctual, event.id)
            moved = (await duly.put(3 * SOON, "task", {"n": 2}, key=f"k{attempt}")).event
            if held and moved.id == event.id:  # otherwise it was fired, and the key was free for another one
                break
        else:
            pytest.fail("none could be moved while it was held")
        await until(lambda: moved.id in punctual.fired, "it is fired")
    [fired] = [one for one in punctual.events if one.id == moved.id]
    assert (fired.due, fired.payload) == (moved.due, {"n": 2})
    assert punctual.fired[fired.id] >= moved.due


async def test_an_event_reserved_when_the_clock_is_set_back_fires_at_its_instant_by_the_clock(
    url: str, clock: ManualClock
) -> None:
    """The injected clock stands in for the store's own; what waits here goes by the machine's monotonic clock."""
    duly = Duly(url, clock=clock, lookahead="500ms", poll_interval="50ms")
    punctual = Punctual(duly)
    async with duly, working(duly):
        event = await duly.after(SOON, "task")
        assert await is_held(duly, punctual, event.id)
        clock.advance(-HOUR)
        assert await is_let_go(duly, event), "it is claimed an hour early"
        clock.set(event.due)
        await until(lambda: punctual.fired, "it is fired")
        await until(lambda: is_done(duly, event.id), "it is done")
        history = await duly.events.history(event.id)
    assert [(entry.act, entry.claimed) for entry in history] == [("delivered", event.due)]


async def test_a_head_reserved_when_the_clock_is_set_back_fires_at_its_instant_by_the_clock(
    url: str, clock: ManualClock
) -> None:
    duly = Duly(url, clock=clock, lookahead="500ms", poll_interval="50ms")
    punctual = Punctual(duly)
    async with duly:
        await duly.every("often", every("1s"), "task")
        [head] = await duly.events.find(InStatus("PENDING"))
        clock.set(head.due - SOON)
        async with working(duly):
            assert await is_held(duly, punctual, head.id)
            clock.advance(-HOUR)
            assert await is_let_go(duly, head), "it is claimed an hour early"
            clock.set(head.due)
            await until(lambda: punctual.fired, "it is fired")
    assert [(event.id, event.claimed) for event in punctual.events] == [(head.id, head.due)]


async def is_let_go(duly: Duly, event: Event) -> bool:
    """What becomes of an event that is held: it is no longer, or it is claimed."""

    async def changed() -> Event | None:
        found = await duly.events.get(event.id)
        return found if found.ready == event.due or found.status is not Status.PENDING else None

    return (await until(changed, "it is let go, or claimed")).status is Status.PENDING


async def is_done(duly: Duly, id: str) -> bool:
    return (await duly.events.get(id)).status is Status.COMPLETED


async def test_the_lease_of_a_reserved_event_is_renewed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for some milliseconds; here for longer than its lease, which is shorter than any that can be set."""
    monkeypatch.setattr(reserve, "CLAIM_BEFORE_S", HOUR.total_seconds())
    lease = timedelta(milliseconds=300)
    recorder = Recorder()
    async with Duly(url) as duly:
        new = make_new(due=datetime.now(UTC) + HOUR / 2)
        await duly.store.add([new])

        async def renewed() -> bool:
            event = await duly.events.get(new.id)
            return event.claimed is not None and event.ready is not None and event.ready > event.claimed + 3 * lease

        options = Settings(lookahead=HOUR, lease=lease)
        worker = Worker(duly.store, {LANE: Route(recorder, timedelta(minutes=1))}, options, Signals())
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            try:
                await until(renewed, "its lease is renewed")
            finally:
                worker.stop()
        history = await duly.events.history(new.id)
    assert not recorder.events
    assert [entry.act for entry in history] == ["given back"], "and it is given back when the worker stops"


async def test_a_worker_that_stops_releases_its_reserved_events(url: str) -> None:
    first, second = Duly(url, lookahead="500ms"), Duly(url)
    stopped, punctual = Punctual(first), Punctual(second)
    async with first, second:
        for _ in range(TRIES):
            async with working(first):
                event = await first.after(2 * SOON, "task")
                await is_held(first, stopped, event.id)
            if event.id not in stopped.fired:
                break
        left = await first.events.get(event.id)
        assert (left.status, left.ready) == (Status.PENDING, event.due), "nobody waits for the reservation to end"
        async with working(second):
            await until(lambda: event.id in punctual.fired, "the other worker fires it")


async def test_events_that_a_vanished_worker_had_reserved_are_fired_by_another(url: str) -> None:
    duly = Duly(url, poll_interval="200ms")
    punctual = Punctual(duly)
    async with duly:
        event = await duly.after(3 * SECOND, "task")
        [one], _ = await duly.store.reserve("vanished", {"handler:task": 1}, 6 * SECOND, timedelta(milliseconds=500))
        async with working(duly):
            await until(lambda: event.id in punctual.fired, "it is fired")
    assert punctual.fired[event.id] >= one.until
    assert punctual.events[0].interruptions == 0


async def test_two_workers_that_look_ahead_share_the_work(url: str) -> None:
    workers = [Duly(url, lookahead="500ms") for _ in range(2)]
    punctual = [Punctual(duly) for duly in workers]
    async with workers[0], workers[1], working(workers[0]), working(workers[1]):
        start = datetime.now(UTC) + timedelta(milliseconds=700)
        ids = await workers[0].add_many(Timer(start + timedelta(milliseconds=n), "task") for n in range(300))
        await until(lambda: sum(len(one.fired) for one in punctual) == 300, "all are fired")
    assert set(ids) == punctual[0].fired.keys() | punctual[1].fired.keys()


@pytest.mark.parametrize("written", ["501ms", "-1s", "soon"])
def test_a_look_ahead_beyond_half_a_second_is_refused(written: str) -> None:
    with pytest.raises(BadSetting, match="DULY_LOOKAHEAD"):
        Duly("sqlite://", lookahead=written)


async def test_reserved_events_that_take_all_places_fire_although_new_events_wake_the_worker(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "CLAIM_BEFORE_S", 0.3)  # seconds for which they are claimed and wait
    duly = Duly(url, lookahead="500ms", concurrency=2)
    punctual, told = Punctual(duly), Told(duly)
    async with duly, working(duly):
        due = (await duly.now()) + 2 * SOON
        ids = await duly.add_many(Timer(due, "task") for _ in range(4))
        await until(lambda: {claim.event.id for claim in told.of(Claimed)} == set(ids), "all are claimed")
        while datetime.now(UTC) < due:
            await duly.after(HOUR, "task")  # wakes the worker, which has no place left
            await asyncio.sleep(0.01)
        await until(lambda: set(punctual.fired) == set(ids), "all have fired")
    assert all(fired >= due for fired in punctual.fired.values())


async def test_an_idle_worker_that_looks_ahead_sleeps(url: str) -> None:
    duly: Any = Duly(url, lookahead="500ms", poll_interval="60s")
    punctual = Punctual(duly)
    async with duly:
        await duly.after(timedelta(hours=1), "task")
        async with working(duly):
            began = time.process_time()
            await asyncio.sleep(1)
            assert time.process_time() - began < 0.5, "it was at work"
    assert not punctual.fired
