"""The passes of a running worker: told when it is idle again, when one does not end, and when it stops."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

from duly import Duly, Event, Timer
from duly.engine.tally import PassTally
from duly.signals import PassEnded, WorkerStopped
from tests.worker.running_worker import Told, Watched, until, working

NOW, HOUR = timedelta(), timedelta(hours=1)


def held(duly: Duly) -> tuple[asyncio.Event, asyncio.Event]:
    """A handler that is under way until it is released."""
    under_way, released = asyncio.Event(), asyncio.Event()

    @duly.on("long")
    async def long(_: Event) -> None:
        under_way.set()
        await released.wait()

    return under_way, released


def quick(duly: Duly, **options: Any) -> None:
    @duly.on("quick", **options)
    async def quick(*_: Any) -> None: ...


@pytest.mark.parametrize("transactional", [False, True])
async def test_a_running_worker_reports_a_pass_and_then_idles(url: str, transactional: bool) -> None:
    duly = Duly(url, poll_interval="60s")
    watched, told = Watched(duly), Told(duly)
    quick(duly, transactional=transactional)
    async with duly:
        await duly.add_many(Timer(-HOUR, "quick") for _ in range(20))
        async with working(duly):
            await until(lambda: told.of(PassEnded), "the pass is told, long before the next poll")
            await until(lambda: watched.asleep, "it sleeps")
            await duly.after(NOW, "quick")
            await until(lambda: len(told.of(PassEnded)) == 2, "the next pass is told")
    recovery, usual = told.of(PassEnded)
    assert (recovery.processed, recovery.late, recovery.recovery) == (20, 20, True)
    assert HOUR <= recovery.average_lateness <= recovery.greatest_lateness < 2 * HOUR
    assert (usual.processed, usual.late, usual.recovery) == (1, 0, False)
    assert recovery.worker == usual.worker


async def test_a_pass_goes_on_while_anything_is_under_way(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bool] = []
    look = PassTally.look

    def noted(tally: PassTally, *, idle: bool) -> None:
        looks.append(idle)
        look(tally, idle=idle)

    monkeypatch.setattr(PassTally, "look", noted)
    duly = Duly(url, poll_interval="20ms")
    told = Told(duly)
    quick(duly)
    under_way, released = held(duly)
    async with duly, working(duly):
        await duly.after(NOW, "long")
        await under_way.wait()
        began = time.monotonic()
        id = (await duly.after(NOW, "quick")).id
        await until(lambda: done(duly, id), "the quick one is settled")
        looks.clear()
        await until(lambda: len(looks) == 2, "it was asked twice whether that is all")
        assert told.of(PassEnded) == []
        so_far = timedelta(seconds=time.monotonic() - began)
        released.set()
        [passed] = await until(lambda: told.of(PassEnded), "the pass is told")
    assert passed.processed == 2
    assert passed.duration > so_far, "from when the long one was claimed"


async def test_a_pass_that_does_not_end_is_reported_all_the_same(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.engine.tally.LONGEST_PASS_S", 0.0)
    duly = Duly(url)
    told = Told(duly)
    quick(duly)
    under_way, released = held(duly)
    async with duly, working(duly):
        await duly.after(NOW, "long")
        await under_way.wait()
        for number in range(1, 3):
            await duly.after(NOW, "quick")
            await until(lambda n=number: len(told.of(PassEnded)) == n, "what is done so far is told")
        released.set()
        await until(lambda: len(told.of(PassEnded)) == 3, "and the rest at the end")
    assert [passed.processed for passed in told.of(PassEnded)] == [1, 1, 1]


async def test_a_tick_is_one_pass_however_long(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.engine.tally.LONGEST_PASS_S", 0.0)
    monkeypatch.setattr("duly.engine.upkeep.SWEEP_EVERY_S", 0.001)
    async with Duly(url, concurrency=1, batch_size=1) as duly:
        told = Told(duly)

        @duly.on("slow")
        async def slow(_: Event) -> None:
            await asyncio.sleep(0.02)

        await duly.add_many(Timer(NOW, "slow") for _ in range(5))
        passed = await duly.tick()
    assert told.of(PassEnded) == [passed]
    assert passed.processed == 5


async def test_a_worker_that_stops_reports_the_pass_before_its_end(url: str) -> None:
    duly = Duly(url)
    told: list[Any] = []
    duly.observe(told.append, PassEnded, WorkerStopped)
    under_way, released = held(duly)
    async with duly, working(duly):
        await duly.after(NOW, "long")
        await under_way.wait()
        duly.stop()
        released.set()
    assert [type(signal) for signal in told] == [PassEnded, WorkerStopped]
    assert told[0].processed == 1


async def test_a_worker_with_nothing_to_do_reports_no_pass(url: str) -> None:
    duly = Duly(url, poll_interval="10ms")
    watched, told = Watched(duly), Told(duly)
    quick(duly)
    async with duly, working(duly):
        await until(lambda: len(watched.sleeps) > 5, "it has looked and slept a few times")
    assert told.of(PassEnded) == []


async def done(duly: Duly, id: str) -> bool:
    return (await duly.events.get(id)).executed is not None
