"""The row of a worker: whether it lives, whether its loop passes, and which lanes it serves."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from duly import Duly, Event, Timer, every
from duly.engine.presence import beat
from duly.engine.worker import Loop
from duly.errors import StoreError, StoreUnavailable
from duly.records.workers.worker import LaneInfo, WorkerInfo, WorkerKind, WorkerState
from duly.signals import StoreDown, TypeNotServed, WorkerNotShown, WorkerStarted
from duly.testing import ManualClock
from duly.verbs import workers
from tests.conftest import OpenDuly
from tests.make import HOUR, START
from tests.worker.running_worker import Told, running, until, working

QUICK = timedelta(milliseconds=20)


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beat, "BEAT", QUICK)


async def only(duly: Duly) -> WorkerInfo:
    worker: WorkerInfo
    [worker] = await until(duly.workers.list, "the worker is shown")
    return worker


async def test_a_worker_is_shown_with_its_lanes_while_it_runs_and_gone_when_it_has_stopped(app: Duly) -> None:
    app.on("greet")(lambda _: None)
    async with working(app):
        worker = await only(app)
        assert (worker.kind, worker.state) == (WorkerKind.WORKER, WorkerState.RUNNING)
        assert "handler:greet" in worker.lanes
        assert "webhook" in worker.lanes
        assert worker.host not in worker.name, "tenants see the names of workers in their histories"
        assert LaneInfo(lane="handler:greet", served=True, seen=START) in await app.workers.lanes()
    assert await app.workers.list() == []
    await app.at(START + HOUR, "greet")
    assert await app.workers.lanes() == [LaneInfo(lane="handler:greet", served=False, seen=START)]


async def test_two_workers_of_one_process_have_a_row_each(duly: OpenDuly) -> None:
    first, second = await duly(), await duly()
    async with working(first), working(second):
        found = await until(lambda: _several(first, 2), "both are shown")
        assert len({worker.name for worker in found}) == 2


async def _several(duly: Duly, many: int) -> list[WorkerInfo] | None:
    found = await duly.workers.list()
    return found if len(found) == many else None


async def test_a_worker_that_was_not_seen_for_two_beats_is_dead_and_serves_nothing(
    app: Duly, clock: ManualClock
) -> None:
    app.on("greet")(lambda _: None)
    await app.at(START, "greet")
    worker = asyncio.create_task(app.run(signals=False))
    seen = await only(app)
    worker.cancel()
    with suppress(asyncio.CancelledError):
        await worker
    await app.store.beat(seen, None)  # as if it had been killed: its row is still there
    clock.advance(2 * seen.beat)
    assert (await only(app)).state is WorkerState.RUNNING
    clock.advance(microseconds=1)
    assert (await only(app)).state is WorkerState.DEAD
    assert {lane.served for lane in await app.workers.lanes()} <= {False}


async def test_a_worker_whose_loop_hangs_is_stalled_though_it_beats(
    app: Duly, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_: Loop) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Loop, "_cycle", hang)
    async with running(app):
        began = (await only(app)).started
        limit = (await only(app)).pass_limit
        clock.advance(limit + QUICK)
        worker = await until(lambda: _seen_after(app, began + limit), "it beats")
        assert worker.state is WorkerState.STALLED
        assert worker.last_pass is None
        assert "webhook" not in {lane.lane for lane in await app.workers.lanes() if lane.served}


async def _seen_after(app: Duly, instant: Any) -> WorkerInfo | None:
    [worker] = await app.workers.list()
    return worker if worker.seen > instant else None


async def test_a_stopping_worker_says_that_it_drains(app: Duly) -> None:
    finish = asyncio.Event()

    @app.on("slow")
    async def slow(_: Event) -> None:
        await finish.wait()

    await app.at(START, "slow")
    told = Told(app)
    async with running(app):
        await until(lambda: told.of(WorkerStarted), "it has started")
        await until(lambda: _running(app), "the handler runs")
        app.stop()
        await until(lambda: _in_state(app, WorkerState.DRAINING), "it drains")
        assert [lane for lane in await app.workers.lanes() if lane.served] == []
        finish.set()


async def _running(app: Duly) -> bool:
    return any(event.status == "PROCESSING" for event in await app.events.find())


async def _in_state(app: Duly, state: WorkerState) -> bool:
    return [worker.state for worker in await app.workers.list()] == [state]


async def test_a_tick_leaves_a_row_with_its_last_pass_which_the_next_tick_uses_again(
    app: Duly, clock: ManualClock
) -> None:
    app.on("greet")(lambda _: None)
    await app.tick()
    tick = await only(app)
    assert (tick.kind, tick.state, tick.seen) == (WorkerKind.TICK, WorkerState.STOPPED, START)
    assert tick.last_pass is not None
    assert START - tick.last_pass < timedelta(seconds=5)
    clock.advance(HOUR)
    [greet] = [lane for lane in await app.workers.lanes() if lane.lane == "handler:greet"]
    assert greet == LaneInfo(lane="handler:greet", served=True, seen=START)
    clock.advance(microseconds=1)
    assert [lane for lane in await app.workers.lanes() if lane.served] == []
    await app.tick()
    assert (await only(app)).seen == clock.now()


async def test_a_long_tick_is_at_work(app: Duly) -> None:
    finish = asyncio.Event()

    @app.on("slow")
    async def slow(_: Event) -> None:
        await finish.wait()

    await app.at(START, "slow")
    ticking = asyncio.create_task(app.tick())
    assert (await only(app)).state is WorkerState.RUNNING
    finish.set()
    await ticking
    assert (await only(app)).state is WorkerState.STOPPED


async def test_rows_of_workers_that_vanished_are_deleted_after_a_day(app: Duly, clock: ManualClock) -> None:
    async with working(app):
        seen = await only(app)
    await app.store.beat(seen, None)
    clock.advance(beat.FORGET_AFTER)
    await app.at(clock.now() + HOUR, "greet")
    async with working(app):
        assert len(await until(lambda: _several(app, 2), "the other one is still known")) == 2
    clock.advance(microseconds=1)
    async with working(app):
        await until(lambda: _several(app, 1), "the other one is forgotten")


@pytest.mark.parametrize("error", [StoreUnavailable("away"), StoreError("permission denied for table workers")])
async def test_a_beat_that_fails_disturbs_no_work_and_is_reported_at_most_once(app: Duly, error: StoreError) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        tried.append(error)
        raise error

    tried: list[StoreError] = []
    app.store.beat = app.store.forget_workers = app.store.leave = refuse  # type: ignore[method-assign]
    greeted: list[Event] = []
    app.on("greet")(greeted.append)
    told = Told(app)
    async with working(app):
        await until(lambda: len(tried) > 3, "it has tried again")
        await app.at(START, "greet")
        await until(lambda: greeted, "it works all the same")
    assert len(told.of(WorkerNotShown)) == (0 if isinstance(error, StoreUnavailable) else 1)
    assert told.of(StoreDown) == []


async def test_a_worker_says_which_lanes_it_cannot_serve_because_a_broker_is_down(duly: OpenDuly) -> None:
    app = await duly(nats_url="nats://127.0.0.1:1")
    await app.at(START, "x", target={"nats": "orders"})
    async with working(app):
        await until(lambda: _closed(app), "it is known that the broker is down")
        assert (await only(app)).closed.keys() == {"nats"}


async def _closed(app: Duly) -> dict[str, str]:
    return (await only(app)).closed


async def _told(told: Told, type: str) -> bool:
    return type in [one.type for one in told.of(TypeNotServed)]


async def test_a_type_that_no_worker_has_served_is_reported_once_unless_its_handler_is_here(
    duly: OpenDuly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "ASKED_EVERY_S", 0.0)
    app, other = await duly(), await duly()
    app.on("here")(lambda _: None)
    told, elsewhere = Told(app), Told(other)
    for type in ("here", "lost", "lost", "found"):
        await app.at(START + HOUR, type)
    await app.at(START + HOUR, "x", target={"webhook": "https://hooks.example"})
    await app.add_many([Timer(START + HOUR, type) for type in ("many", "lost", "many")])
    await app.every("digest", every("1h"), "digest")
    assert [one.type for one in told.of(TypeNotServed)] == ["lost", "found", "many", "digest"]
    async with app.transaction() as tx:
        await app.at(START + HOUR, "within", transaction=tx)
    await until(lambda: _told(told, "within"), "it is told beside the transaction")
    await app.tick()
    await other.at(START + HOUR, "here")  # a tick has served it
    await other.at(START + HOUR, "lost")
    assert [one.type for one in elsewhere.of(TypeNotServed)] == ["lost"]
