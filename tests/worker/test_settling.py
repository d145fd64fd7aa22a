import asyncio
import time
from datetime import timedelta

from duly import Duly, Event, Status, Timer
from duly.signals import Completed
from tests.worker.running_worker import Told, Watched, until, working

NOW = timedelta()


async def test_a_lone_settlement_is_not_delayed(url: str) -> None:
    duly = Duly(url)
    watched, told = Watched(duly), Told(duly)
    delivered_at: list[float] = []

    @duly.on("lone")
    async def lone(_event: Event) -> None:
        delivered_at.append(time.perf_counter())

    async with duly, working(duly):
        for number in range(1, 21):
            await duly.after(NOW, "lone")
            await until(lambda n=number: len(told.of(Completed)) == n, "it is done")
    assert watched.settled == [1] * 20
    waits = [settled - delivered for delivered, settled in zip(delivered_at, watched.settled_at, strict=True)]
    assert min(waits) < 0.005, "even the quickest was held back"


async def test_settlements_are_collected_while_one_is_on_its_way(url: str) -> None:
    duly = Duly(url, concurrency=50)
    watched, told = Watched(duly), Told(duly)
    delivered = 0

    @duly.on("many")
    async def many(_event: Event) -> None:
        nonlocal delivered
        delivered += 1

    async with duly:
        await duly.add_many(Timer(NOW, "many") for _ in range(1200))
        watched.may_settle.clear()
        async with working(duly):
            await until(lambda: delivered == 1200, "all are delivered while the first settlement is on its way")
            assert len(watched.settled) == 1
            watched.may_settle.set()
            await until(lambda: len(told.of(Completed)) == 1200, "all are settled")
    assert sum(watched.settled) == 1200
    assert len(watched.settled) <= 3


async def test_a_finished_event_is_settled_while_its_neighbour_goes_on(url: str) -> None:
    duly = Duly(url)
    told = Told(duly)
    released = asyncio.Event()

    @duly.on("slow")
    async def slow(_event: Event) -> None:
        await released.wait()

    @duly.on("quick")
    async def quick(_event: Event) -> None: ...

    async with duly:
        await duly.add_many([Timer(NOW, "slow"), Timer(NOW, "quick")])
        async with working(duly):
            [quick_one] = await until(lambda: told.of(Completed), "the quick one is settled")
            stored = await duly.events.get(quick_one.event.id)
            assert (stored.type, stored.status) == ("quick", Status.COMPLETED)
            released.set()
            await until(lambda: len(told.of(Completed)) == 2, "the slow one too")
