"""Events that were under way when a worker vanished: they are delivered with nothing beside them."""

import asyncio
from datetime import timedelta

import pytest

from duly import Duly, Event, InStatus, Status, Timer
from duly.signals import Completed, Interrupted
from tests.worker.running_worker import Told, Watched, until, working

NOW = timedelta()


async def interrupt(duly: Duly, count: int) -> set[str]:
    """Let a worker claim so many and vanish."""
    async with duly.store.lend() as tx:
        ids = await duly.add_many([Timer(-timedelta(minutes=1), "task") for _ in range(count)], transaction=tx)
        claimed = await tx.claim("vanished", {"handler:task": count}, NOW)
    assert {event.id for event in claimed} == set(ids)
    return set(ids)


class Company:
    """A handler that notes who ran beside whom."""

    def __init__(self, duly: Duly) -> None:
        self._running: set[str] = set()
        self.ran: list[str] = []
        self.beside: dict[str, set[str]] = {}
        duly.on("task")(self)

    async def __call__(self, event: Event) -> None:
        self.beside[event.id] = set(self._running)
        for other in self._running:
            self.beside[other].add(event.id)
        self._running.add(event.id)
        await asyncio.sleep(0.002)
        self._running.remove(event.id)
        self.ran.append(event.id)


async def test_an_interrupted_event_is_delivered_with_nothing_beside_it(url: str) -> None:
    duly = Duly(url, concurrency=20, lease="1s", store_timeout="950ms")
    company, told = Company(duly), Told(duly)
    async with duly:
        interrupted = await interrupt(duly, 5)
        others = set(await duly.add_many(Timer(NOW, "task") for _ in range(300)))
        async with working(duly):
            for _ in range(20):  # some more, while interrupted run
                others |= set(await duly.add_many(Timer(NOW, "task") for _ in range(10)))
            await until(lambda: len(told.of(Completed)) == 505, "all are done")
        histories = [[entry.act for entry in await duly.events.history(id)] for id in interrupted]

    assert {id: company.beside[id] for id in interrupted} == {id: set() for id in interrupted}
    assert sum(len(company.beside[id]) > 0 for id in others) > 100, "the others kept each other company"
    assert histories == [["interrupted", "delivered"]] * 5
    assert {signal.event.id for signal in told.of(Interrupted)} == interrupted


async def test_interrupted_events_are_delivered_under_a_backlog_that_never_ends(url: str) -> None:
    duly = Duly(url, concurrency=4, batch_size=4, lease="1s", store_timeout="950ms")
    company = Company(duly)
    async with duly:
        interrupted = await interrupt(duly, 3)
        added = len(await duly.add_many(Timer(NOW, "task") for _ in range(500)))
        async with working(duly):

            async def interrupted_ran() -> bool:
                nonlocal added
                if added - len(company.ran) < 300:
                    added += len(await duly.add_many(Timer(NOW, "task") for _ in range(300)))
                return interrupted <= set(company.ran)

            await until(interrupted_ran, "the interrupted events have run")
            assert [company.beside[id] for id in interrupted] == [set()] * 3, "alone, even so"
            assert await duly.events.find(InStatus(Status.PENDING)), "there was always more to do"


async def test_a_worker_does_not_spin_while_an_interrupted_event_waits_to_run_alone(url: str) -> None:
    duly = Duly(url, poll_interval="60s")
    watched, company = Watched(duly), Company(duly)
    under_way, released = asyncio.Event(), asyncio.Event()

    @duly.on("long")
    async def long(_event: Event) -> None:
        under_way.set()
        await released.wait()

    async with duly, working(duly):
        await duly.after(NOW, "long")
        await under_way.wait()
        interrupted = await interrupt(duly, 1)
        looks = watched.looks
        await asyncio.sleep(1)
        assert not company.ran, "it waits for the long one"
        assert watched.looks - looks < 100, "the store was asked all the time"
        released.set()
        await until(lambda: set(company.ran) == interrupted, "it has run")


async def test_an_interrupted_event_that_waits_for_a_long_handler_does_not_keep_others_waiting(url: str) -> None:
    duly = Duly(url, lease="1s", store_timeout="950ms")
    company = Company(duly)
    under_way, released = asyncio.Event(), asyncio.Event()

    @duly.on("long")
    async def long(_event: Event) -> None:
        under_way.set()
        await released.wait()

    async with duly, working(duly):
        await duly.after(NOW, "long")
        await under_way.wait()
        await interrupt(duly, 1)
        now = await duly.store.now()
        try:
            for number in range(15):  # for longer than the lease, after which the interrupted event is pressing
                id = (await duly.after(NOW, "task")).id
                await until(lambda id=id: id in company.ran, f"the other event {number} is done")
                await asyncio.sleep(0.2)
            assert await duly.store.now() - now > timedelta(seconds=3)
        finally:
            released.set()


async def test_an_interrupted_event_that_has_waited_long_runs_beside_a_handler_that_takes_hours(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.engine.faults.interrupted.PRESSING_AFTER_LEASES", 1)  # leases, instead of ten of them
    duly = Duly(url, lease="1s", store_timeout="950ms")
    company = Company(duly)
    under_way, released = asyncio.Event(), asyncio.Event()

    @duly.on("long")
    async def long(_event: Event) -> None:
        under_way.set()
        await released.wait()

    async with duly, working(duly):
        await duly.after(NOW, "long")
        await under_way.wait()
        interrupted = await interrupt(duly, 1)
        try:
            await until(lambda: set(company.ran) == interrupted, "it has run, though not alone")
        finally:
            released.set()


async def test_a_tick_goes_on_after_an_interrupted_event_that_it_gives_up(url: str) -> None:
    duly = Duly(url)
    company = Company(duly)
    async with duly:
        [spent] = await interrupt(duly, 1)
        for _ in range(4):
            [(again, _)] = await duly.store.claim_interrupted("vanished", ["handler:task"], NOW)
            assert again.id == spent
        interrupted = await interrupt(duly, 3)
        await duly.tick()
        assert set(company.ran) == interrupted
        assert (await duly.events.get(spent)).status is Status.FAILED
        assert {(await duly.events.get(id)).status for id in interrupted} == {Status.COMPLETED}
