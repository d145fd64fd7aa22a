"""Turns: so many a second, for all workers together."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly.config import read_settings
from duly.decide.targets.rates import read_rate
from duly.ports import RateAllowance
from duly.testing import ManualClock
from duly.wiring import open_store
from tests.conftest import STORES, AnyStore, OpenStore
from tests.make import DAY, HOUR, SECOND

CRM = "crm"


def often(rate: Any) -> float:
    """As it is stored."""
    return 1 / read_rate(rate).total_seconds()


async def turns(store: AnyStore, want: int, destination: str = CRM) -> int:
    [allowed] = await store.allow([("default", destination, want)])
    return int(allowed.turns)


async def test_a_rate_allows_one_start_at_once_and_others_as_time_passes(store: AnyStore, clock: ManualClock) -> None:
    await store.limit("default", CRM, None, often("4/s"))
    assert await store.allow([("default", CRM, 3)]) == [RateAllowance("default", CRM, 1, timedelta(milliseconds=250))]
    assert await turns(store, 3) == 0
    clock.advance(milliseconds=249)
    assert await store.allow([("default", CRM, 3)]) == [RateAllowance("default", CRM, 0, timedelta(milliseconds=1))]
    clock.advance(milliseconds=1)
    assert await turns(store, 3) == 1
    clock.advance(milliseconds=500)
    assert await turns(store, 1) == 1
    assert await turns(store, 5) == 1, "what was not taken is there still"


async def test_a_rate_saves_up_the_starts_of_one_second(store: AnyStore, clock: ManualClock) -> None:
    await store.limit("default", CRM, None, often("10/s"))
    assert await turns(store, 1) == 1
    clock.advance(DAY)
    assert await turns(store, 1000) == 10
    assert await turns(store, 1000) == 0


@pytest.mark.parametrize(("rate", "apart"), [("1/m", 60 * SECOND), ("4/h", 15 * 60 * SECOND), ("1/d", DAY)])
async def test_a_slow_rate_saves_up_one_start(store: AnyStore, clock: ManualClock, rate: str, apart: timedelta) -> None:
    await store.limit("default", CRM, None, often(rate))
    for _ in range(3):
        assert await turns(store, 9) == 1
        assert await store.allow([("default", CRM, 9)]) == [RateAllowance("default", CRM, 0, apart)]
        clock.advance(apart - timedelta(microseconds=1))
        assert await turns(store, 9) == 0
        clock.advance(timedelta(microseconds=1))
    clock.advance(7 * DAY)
    assert await turns(store, 9) == 1


async def test_each_destination_of_each_tenant_has_its_own_rate(store: AnyStore) -> None:
    for tenant, destination in [("default", CRM), ("default", "billing"), ("acme", CRM)]:
        await store.limit(tenant, destination, None, 1.0)
    wanted = [("default", CRM, 5), ("acme", CRM, 5), ("default", "billing", 5), ("default", "unknown", 5)]
    allowed = {(one.tenant, one.destination): one.turns for one in await store.allow(wanted)}
    assert allowed == {("default", CRM): 1, ("acme", CRM): 1, ("default", "billing"): 1}
    assert {one.turns for one in await store.allow(wanted)} == {0}


async def test_a_destination_without_a_rate_has_no_allowance(store: AnyStore) -> None:
    await store.limit("default", CRM, 5, None)
    assert await store.allow([("default", CRM, 1)]) == []


async def test_a_new_rate_counts_from_now_on(store: AnyStore, clock: ManualClock) -> None:
    await store.limit("default", CRM, None, often("1/h"))
    assert await turns(store, 1) == 1
    await store.limit("default", CRM, None, often("2/s"))
    clock.advance(SECOND)
    assert await turns(store, 9) == 2
    await store.limit("default", CRM, None, often("1/h"))
    clock.advance(SECOND)
    assert await turns(store, 9) == 0


async def test_a_clock_that_is_set_back_stops_a_rate_for_one_interval_only(store: AnyStore, clock: ManualClock) -> None:
    await store.limit("default", CRM, None, often("2/s"))
    assert await turns(store, 9) == 1
    clock.advance(-HOUR)
    [allowed] = await store.allow([("default", CRM, 9)])
    assert (allowed.turns, allowed.next) == (0, timedelta(milliseconds=500))
    clock.advance(allowed.next)
    assert await turns(store, 9) == 1


async def test_workers_that_ask_at_the_same_time_share_the_allowance_of_a_rate(
    opened: OpenStore, clock: ManualClock
) -> None:
    stores = [await opened() for _ in range(3)]
    for destination in (CRM, "billing"):
        await stores[0].limit("default", destination, None, often("50/s"))
    clock.advance(SECOND)
    orders = [[("default", CRM, 1), ("default", "billing", 1)], [("default", "billing", 1), ("default", CRM, 1)]]
    took = await asyncio.gather(*(stores[n % 3].allow(orders[n % 2]) for n in range(120)))
    granted = [one for allowed in took for one in allowed]
    for destination in (CRM, "billing"):
        assert sum(one.turns for one in granted if one.destination == destination) == 1, "the first one's"
    clock.advance(SECOND)
    took = await asyncio.gather(*(stores[n % 3].allow(orders[n % 2]) for n in range(120)))
    granted = [one for allowed in took for one in allowed]
    for destination in (CRM, "billing"):
        assert sum(one.turns for one in granted if one.destination == destination) == 50


# -- whatever happens


@pytest.fixture(params=STORES)
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Runs a coroutine with an open store and its clock, in a loop of its own."""
    url = f"sqlite:///{tmp_path}/d.db" if request.param == "sqlite" else str(request.getfixturevalue("clean_postgres"))
    clock = ManualClock()

    async def opened(work: Any) -> None:
        store = open_store(read_settings({}, database_url=url), clock)
        await store.open(migrate=True)
        try:
            await work(store, clock)
        finally:
            await store.close()

    with asyncio.Runner() as loop:
        yield lambda work: loop.run(opened(work))


RATES = st.sampled_from(["1/h", "7/m", "0.3/s", "1/s", "3/s", "7.7/s", "50/s", "999/s"])
STEPS = st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(1, 100)), min_size=1, max_size=25)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(RATES, STEPS)
def test_no_stretch_of_time_has_more_starts_than_the_rate_and_a_second_of_it(
    runner: Callable[..., Any], rate: str, steps: list[tuple[int, int]]
) -> None:
    async def take(store: AnyStore, clock: ManualClock) -> None:
        by_the_second = often(rate)
        name = f"d{clock.advance(DAY).timestamp()}"  # nobody has asked for it before
        await store.limit("default", name, None, by_the_second)
        taken: list[tuple[float, int]] = []
        for micros, want in steps:
            now = clock.advance(timedelta(microseconds=micros))
            granted = await turns(store, want, name)
            assert 0 <= granted <= want
            taken.append((now.timestamp(), granted))
        most_saved = max(1.0, by_the_second)
        for first in range(len(taken)):
            total = 0
            for at, granted in taken[first:]:
                total += granted
                assert total <= by_the_second * (at - taken[first][0]) + most_saved + 0.001, (rate, taken)

    runner(take)
