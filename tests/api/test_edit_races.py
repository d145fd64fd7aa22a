"""Schedules are edited while workers claim, by several at the same microsecond: what was named ends as one thing."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from datetime import timedelta

import pytest

from duly import Conflict, Duly
from duly.testing import ManualClock
from tests.api.test_edit_sequences import ENDLESS, Series

ROUNDS = 15


@pytest.fixture
async def processes(clean_postgres: str, clock: ManualClock) -> AsyncIterator[list[Duly]]:
    """Two that work, and two that people use."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Duly(clean_postgres, clock=clock, lease="1d")) for _ in range(4)]


@pytest.mark.parametrize("misfire", ["latest", "all"])
async def test_edits_race_with_claims_and_with_each_other_and_nothing_is_lost_or_repeated(
    processes: list[Duly], clock: ManualClock, misfire: str
) -> None:
    *workers, one, other = processes
    luck = random.Random(20260101)
    series = Series(one, clock, misfire)
    for worker in workers:
        worker.on("digest")(series.fire)
    await series.begin(luck.choice(ENDLESS))

    async def edit(app: Duly) -> None:
        with suppress(Conflict):
            await app.schedules.put("it", **{**series.asked, "rule": luck.choice(ENDLESS)})

    async def skip(app: Duly) -> None:
        with suppress(Conflict):
            await app.schedules.skip("it")

    for number in range(ROUNDS):
        clock.advance(timedelta(minutes=luck.randrange(30, 2000)))
        ticks = (worker.tick() for worker in (*workers, *workers))
        acts = (act(app) for act in (edit, edit, skip) for app in (one, other))
        await asyncio.gather(*luck.sample([*ticks, *acts], 10))
        schedule = await one.schedules.get("it")
        series.model.edited(schedule, clock.now())
        if number % 3 == 2:
            await _work_off(workers[0], series, clock)
        await series.check()
    assert series.fired
    assert len(await one.schedules.history("it")) > ROUNDS


async def _work_off(worker: Duly, series: Series, clock: ManualClock) -> None:
    for _ in range(200):
        await worker.tick()
        head = await worker.store.head(series.series)
        if head is None or head.due > clock.now():
            return
