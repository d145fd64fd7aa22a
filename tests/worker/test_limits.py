"""What limits allow is claimed and started, and nothing else; and nobody waits for those who have to."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Duly
from duly.config import Settings
from duly.decide.fair_share import Key
from duly.engine.worker import Worker
from duly.ports import Route
from duly.records.event import Delivered, Event, Outcome, Status
from duly.records.specs import InStatus
from duly.signals import Signals
from tests.conftest import AnyStore, OpenStore
from tests.make import make_head, make_new, make_schedule
from tests.worker.running_worker import until
from tests.worker.test_fair_queue import Limited

MINUTE = timedelta(minutes=1)
LANE = "posting"


class Posting:
    """A channel that takes its time, and keeps count."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.released = asyncio.Event()
        self.holds: Callable[[Event], bool] = lambda _: False  # until released
        self.order: list[Key] = []
        self.late: dict[str, float] = {}
        self.under_way: Counter[Key] = Counter()
        self.most: Counter[Key] = Counter()
        self.most_at_all = 0

    async def deliver(self, event: Event) -> Outcome:
        key = event.tenant, event.destination
        self.late[event.id] = (datetime.now(UTC) - event.due).total_seconds()
        self.order.append(key)
        self.under_way[key] += 1
        self.most[key] = max(self.most[key], self.under_way[key])
        self.most_at_all = max(self.most_at_all, self.under_way.total())
        await (self.released.wait() if self.holds(event) else asyncio.sleep(self.seconds))
        self.under_way[key] -= 1
        return Delivered()

    def done(self, key: Key) -> int:
        return self.order.count(key) - self.under_way[key]


class Counted:
    """A store that counts what is asked of it."""

    def __init__(self, store: AnyStore) -> None:
        self._store, self.asked = store, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if callable(found):
            self.asked[name] += 1
        return found


def a_worker(store: AnyStore | Counted, posting: Posting, limits: Limited | None, **options: Any) -> Worker:
    routes = {LANE: Route(posting, MINUTE)}
    return Worker(store, routes, Settings(**options), Signals(), limits=limits)


@asynccontextmanager
async def at_work(*workers: Worker) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        for worker in workers:
            group.create_task(worker.run())
        try:
            yield
        finally:
            for worker in workers:
                worker.stop()


def due(tenant: str, destination: str | None = None, many: int = 1, ago: timedelta = MINUTE) -> list[Any]:
    at = datetime.now(UTC) - ago
    return [make_new(tenant=tenant, destination=destination, lane=LANE, due=at) for _ in range(many)]


@pytest.fixture
async def store(url: str) -> AsyncIterator[Any]:
    """By the real clock."""
    async with Duly(url) as duly:
        yield duly.store


async def test_a_destination_has_no_more_under_way_than_it_may_and_keeps_nobody_waiting(store: AnyStore) -> None:
    posting = Posting(seconds=0.002)
    await store.add(due("a", "narrow", 60, ago=2 * MINUTE))
    await store.add(due("a", "wide", 300))
    await store.add(due("b", "narrow", 40))
    async with at_work(a_worker(store, posting, Limited({("a", "narrow"): 2, ("b", "narrow"): 3}))):
        await until(lambda: len(posting.order) == 400, "all are done")
    assert posting.most["a", "narrow"] == 2
    assert posting.most["b", "narrow"] == 3
    assert posting.most["a", "wide"] > 10


async def test_a_destination_that_hangs_holds_as_many_as_it_may_have_and_twice_as_many_are_claimed(
    store: AnyStore,
) -> None:
    posting = Posting()
    posting.holds = lambda event: event.destination == "slow"
    await store.add(due("a", "slow", 500, ago=2 * MINUTE))
    await store.add(due("a", "quick", 300))
    limits = Limited({("a", "slow"): 5})
    async with at_work(a_worker(store, posting, limits, concurrency=20)):
        await until(lambda: posting.done(("a", "quick")) == 300, "the quick ones are done")
        assert posting.under_way["a", "slow"] == 5
        claimed = await store.find(InStatus(Status.PROCESSING), limit=1000)
        slow = [event for event in claimed if event.destination == "slow"]
        assert len(slow) <= 20 + 2 * 5, "before the first claim, nobody knows what it will bring"
        posting.released.set()
        await until(lambda: posting.done(("a", "slow")) == 500, "the slow ones are done too")
    assert posting.most["a", "slow"] == 5


async def test_a_tenant_has_no_more_under_way_than_it_may(store: AnyStore) -> None:
    posting = Posting(seconds=0.002)
    for destination in ("x", "y", "z"):
        await store.add(due("a", destination, 40))
    await store.add(due("b", None, 100))
    async with at_work(a_worker(store, posting, Limited(of={"a": 4}), concurrency=50)):
        await until(lambda: len(posting.order) == 220, "all are done")
    assert sum(posting.most[key] for key in posting.most if key[0] == "a") <= 3 * 4
    assert posting.most["b", None] > 4


async def test_a_tenant_that_may_start_nothing_costs_next_to_nothing(store: AnyStore) -> None:
    posting, limits = Posting(), Limited()
    limits.left = {("a", "rated"): 0}
    await store.add(due("a", "rated", 3000, ago=2 * MINUTE))
    counted = Counted(store)
    async with at_work(a_worker(counted, posting, limits, concurrency=20)):
        await store.add(due("b", None, 50))
        await until(lambda: posting.done(("b", None)) == 50, "the other is served")
        assert posting.order.count(("a", "rated")) == 0
        counted.asked.clear()
        began = time.monotonic()
        await asyncio.sleep(1)
        tenths = (time.monotonic() - began) / 0.1
        assert sum(counted.asked.values()) <= 8 * (tenths + 2), counted.asked
        limits.left = {("a", "rated"): 7}
        await until(lambda: posting.done(("a", "rated")) == 7, "so many may start now")
    assert posting.order.count(("a", "rated")) == 7


async def test_an_event_behind_a_backlog_that_may_not_start_is_on_time(
    store: AnyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.engine.sleep.LIMITS_RECHECK", 10 * MINUTE)  # no look in between finds them
    posting, limits = Posting(), Limited()
    limits.left = {("a", "rated"): 0}
    await store.add(due("a", "rated", 6000))
    first = datetime.now(UTC) + timedelta(seconds=1)
    soon = [make_new(tenant="b", lane=LANE, due=first + timedelta(milliseconds=100 * n)) for n in range(10)]
    await store.add(soon)
    async with at_work(a_worker(store, posting, limits, poll_interval=10 * MINUTE)):
        await until(lambda: posting.done(("b", None)) == 10, "they are done")
    assert min(posting.late[event.id] for event in soon) >= 0


@pytest.mark.parametrize("kind", ["event", "head"])
async def test_slow_events_that_fill_every_place_do_not_keep_a_quiet_tenant_out(store: AnyStore, kind: str) -> None:
    posting = Posting()
    posting.holds = lambda event: event.tenant == "slow"
    await store.add(due("slow", None, 100))
    async with at_work(a_worker(store, posting, Limited(), concurrency=20, poll_interval=10 * MINUTE)):
        await until(lambda: posting.under_way["slow", None] == 20, "every place is taken")
        if kind == "event":
            await store.add(due("quiet", ago=timedelta()))
        else:
            await store.plant([make_head(make_schedule(tenant="quiet"), lane=LANE, due=datetime.now(UTC))])
        await until(lambda: posting.done(("quiet", None)) == 1, "the quiet one is done")
        assert posting.under_way["slow", None] == 20
        posting.released.set()
        await until(lambda: posting.done(("slow", None)) == 100, "and then the others")
    assert posting.most_at_all <= 22


async def test_a_worker_with_one_place_runs_one_event_at_a_time(store: AnyStore) -> None:
    posting = Posting()
    posting.holds = lambda event: event.tenant == "slow"
    await store.add(due("slow", None, 3))
    async with at_work(a_worker(store, posting, Limited(), concurrency=1)):
        await until(lambda: posting.under_way["slow", None] == 1, "it is taken")
        await store.add(due("quiet"))
        await asyncio.sleep(0.3)
        assert posting.order == [("slow", None)]
        posting.released.set()
        await until(lambda: len(posting.order) == 4, "all are done")
    assert posting.most_at_all == 1


async def test_two_workers_share_what_limits_allow_each_of_them(opened: OpenStore, store: AnyStore) -> None:
    postings = [Posting(seconds=0.001) for _ in range(2)]
    for posting in postings:
        posting.holds = lambda _: not all(posting.order for posting in postings)
    await store.add(due("a", "x", 200))
    await store.add(due("b", "y", 200))
    limits = [Limited({("a", "x"): 2, ("b", "y"): 2}) for _ in range(2)]
    workers = [a_worker(store, posting, limit) for posting, limit in zip(postings, limits, strict=True)]
    async with at_work(*workers):
        await until(lambda: all(posting.order for posting in postings), "both have begun")
        for posting in postings:
            posting.released.set()
        await until(lambda: sum(len(posting.order) for posting in postings) == 400, "all are done")
    for posting in postings:
        assert max(posting.most.values()) <= 2
        assert len(posting.order) > 50


# -- ticks


async def test_a_tick_comes_to_the_end_of_what_is_due_however_few_places_there_are(store: AnyStore) -> None:
    posting = Posting()
    await store.add(due("a", "narrow", 150) + due("b", None, 150))
    ended = await a_worker(store, posting, Limited({("a", "narrow"): 1}, {"b": 3}), concurrency=20).tick()
    assert ended.processed == 300
    assert posting.most["a", "narrow"] == 1
    assert posting.most["b", None] <= 3


async def test_a_tick_leaves_what_a_rate_does_not_allow_for_the_next_one(store: AnyStore) -> None:
    posting, limits = Posting(), Limited()
    limits.left = {("a", "rated"): 5}
    await store.add(due("a", "rated", 100, ago=2 * MINUTE) + due("b", None, 100))
    assert (await a_worker(store, posting, limits, concurrency=20).tick()).processed == 105
    waiting = await store.find(InStatus(Status.PENDING), limit=1000)
    assert len(waiting) == 95
    assert {event.attempts for event in waiting} == {0}
    limits.left = {("a", "rated"): 1000}
    assert (await a_worker(store, posting, limits, concurrency=20).tick()).processed == 95


async def test_a_rate_holds_from_the_first_event_that_a_worker_meets(store: AnyStore) -> None:
    await store.limit("a", "rated", None, 1 / 3600)
    await store.add(due("a", "rated", 20))
    processed = [(await a_worker(store, Posting(), None, concurrency=20).tick()).processed for _ in range(3)]
    assert processed == [1, 0, 0]
