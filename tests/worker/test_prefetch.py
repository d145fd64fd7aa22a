import asyncio
import random
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from duly import Duly, Event, InStatus, OfType, Status, Timer
from duly.engine.fairness.prefetch import SHARED_BATCH
from duly.signals import Claimed, Completed, Retried
from tests.worker.running_worker import Told, Watched, until, working

NOW = timedelta()


async def test_a_worker_claims_only_what_it_can_start(url: str) -> None:
    duly = Duly(url, concurrency=3, poll_interval="20ms")
    watched, told = Watched(duly), Told(duly)
    running: set[str] = set()
    released = asyncio.Event()

    @duly.on("slow")
    async def slow(event: Event) -> None:
        running.add(event.id)
        await released.wait()

    async with duly:
        await duly.add_many(Timer(NOW, "slow") for _ in range(20))
        async with working(duly):
            await until(lambda: len(running) == 3, "three are under way")
            for _ in range(10):
                await duly.after(NOW, "slow")  # which would wake it
                await asyncio.sleep(0.02)
                assert len(await duly.events.find(InStatus(Status.PROCESSING))) == 3
            released.set()
            await until(lambda: len(told.of(Completed)) == 30, "all are done")
    assert watched.asked[0] == 3


async def test_a_worker_prefetches_two_batches_at_most_for_quick_handlers(url: str) -> None:
    duly = Duly(url, concurrency=3, batch_size=5)
    watched, told = Watched(duly), Told(duly)
    in_hand: list[int] = []
    done = 0
    duly.observe(lambda _: in_hand.append(len(told.of(Claimed)) - done), Claimed)

    @duly.on("quick")
    async def quick(_event: Event) -> None:
        nonlocal done
        await asyncio.sleep(random.uniform(0, 0.01))
        done += 1

    async with duly:
        await duly.add_many(Timer(NOW, "quick") for _ in range(300))
        async with working(duly):
            await until(lambda: len(told.of(Completed)) == 300, "all are done")
    assert max(watched.asked) <= 5, "a claim takes a batch at most"
    assert max(in_hand) <= 3 + 2 * 5


@pytest.mark.parametrize(("others", "most"), [(0, 400), (1, SHARED_BATCH)], ids=["alone", "beside another tenant"])
async def test_a_claim_takes_less_while_tenants_share_a_worker(url: str, others: int, most: int) -> None:
    duly = Duly(url, batch_size=400, concurrency=400)
    watched, told = Watched(duly), Told(duly)

    @duly.on("quick")
    async def quick(_event: Event) -> None: ...

    async with duly, working(duly):
        await duly.add_many(Timer(NOW, "quick", tenant=tenant) for tenant in ["one", *others * ["other"]])
        await until(lambda: len(told.of(Completed)) == 1 + others, "whoever is here was served")
        watched.asked.clear()
        await duly.add_many(Timer(NOW, "quick", tenant="one") for _ in range(3000))
        await until(lambda: len(told.of(Completed)) == 3001 + others, "all are done")
    assert max(watched.asked) == most


async def test_every_lane_is_claimed_from_when_there_are_more_lanes_than_free_places(url: str) -> None:
    duly = Duly(url, concurrency=2)
    told = Told(duly)
    running, most = 0, 0

    async def handle(_event: Event) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    for number in range(7):
        duly.on(f"lane {number}")(handle)
    async with duly, working(duly):
        await duly.add_many(Timer(NOW, f"lane {number}") for number in range(7) for _ in range(10))
        await until(lambda: len(told.of(Completed)) == 70, "all are done")
    assert most == 2


async def test_a_backlog_in_one_of_many_lanes_is_not_slowed_by_the_empty_ones(url: str) -> None:
    duly = Duly(url, concurrency=2)
    watched, told = Watched(duly), Told(duly)
    before: list[int] = []  # how often it had slept, by each claim
    duly.observe(lambda _: before.append(len(watched.sleeps)), Claimed)

    async def handle(_event: Event) -> None:
        await asyncio.sleep(0.1)

    for number in range(7):
        duly.on(f"lane {number}")(handle)
    async with duly, working(duly):
        await duly.add_many(Timer(NOW, "lane 3") for _ in range(40))
        await until(lambda: len(told.of(Claimed)) == 40, "all are claimed, which takes two seconds")
        slept = sum(in_fact for _, in_fact in watched.sleeps[before[0] :])
        await until(lambda: len(told.of(Completed)) == 40, "all are done")
    assert slept < 4, "it slept although there was work and room for it"


async def test_two_services_on_one_database_leave_each_others_events_alone(url: str) -> None:
    orders, mails = Duly(url), Duly(url)
    done: dict[str, list[str]] = {"order": [], "mail": []}

    @orders.on("order")
    async def order(event: Event) -> None:
        done["order"].append(event.type)

    @mails.on("mail")
    async def mail(event: Event) -> None:
        done["mail"].append(event.type)

    async with orders, mails:
        await orders.add_many(Timer(-timedelta(hours=1), "nobody's") for _ in range(5000))
        await orders.add_many(Timer(NOW, type) for _ in range(100) for type in ("order", "mail"))
        async with working(orders), working(mails):
            await until(lambda: len(done["order"]) == len(done["mail"]) == 100, "both have done their own")
        assert done == {"order": ["order"] * 100, "mail": ["mail"] * 100}
        untouched = await orders.events.find(OfType("nobody's") & InStatus(Status.PENDING), limit=1000)
        assert {event.version for event in untouched} == {1}
        assert not await orders.events.find(OfType("nobody's") & ~InStatus(Status.PENDING))


def hanging(kind: str, duly: Duly, deadline: timedelta) -> Callable[[], Any]:
    """Registers a handler that hangs; what is returned ends it."""
    if kind == "async def":
        asynchronous = asyncio.Event()

        @duly.on("hang", deadline=deadline)
        async def hang(_event: Event) -> None:
            await asynchronous.wait()

        return asynchronous.set

    threaded = threading.Event()

    @duly.on("hang", deadline=deadline)
    def hang_in_thread(_event: Event) -> None:
        threaded.wait()

    return threaded.set


@pytest.mark.parametrize("kind", ["async def", "def"])
async def test_neighbours_of_a_hanging_handler_are_not_delayed(url: str, kind: str) -> None:
    duly = Duly(url, concurrency=5)
    told = Told(duly)
    release = hanging(kind, duly, timedelta(minutes=5))

    @duly.on("neighbour")
    async def neighbour(_event: Event) -> None: ...

    async with duly:
        await duly.add_many(Timer(-timedelta(hours=1), "hang") for _ in range(3))
        await duly.add_many(Timer(NOW, "neighbour") for _ in range(50))
        async with working(duly):
            await until(lambda: len(told.of(Completed)) == 50, "the neighbours are done")
            assert len(await duly.events.find(OfType("hang") & InStatus(Status.PROCESSING))) == 3
            release()
            await until(lambda: len(told.of(Completed)) == 53, "the others too")


@pytest.mark.parametrize(
    ("kind", "then"), [("async def", " and was cancelled"), ("def", "; its thread still runs and cannot be stopped")]
)
async def test_the_place_of_a_handler_that_hangs_past_its_deadline_is_free_again(
    url: str, kind: str, then: str
) -> None:
    duly = Duly(url, concurrency=1)
    told = Told(duly)
    release = hanging(kind, duly, timedelta(milliseconds=200))

    @duly.on("neighbour")
    async def neighbour(_event: Event) -> None: ...

    async with duly:
        await duly.after(-timedelta(hours=1), "hang")
        await duly.add_many(Timer(NOW, "neighbour") for _ in range(10))
        async with working(duly):
            await until(lambda: len(told.of(Completed)) == 10, "the neighbours are done")
            [retried] = told.of(Retried)
            assert retried.error == f"went on past its deadline of 0.2 s{then}"
        release()
