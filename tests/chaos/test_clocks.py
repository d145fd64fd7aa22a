"""The store's clock is set forward and back while everybody relies on it.

What is simulated: workers and callers are in one process, and ask a clock of the test's instead of the machine's or
PostgreSQL's, so all of them see each step in the same instant. All else is real.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duly import Duly
from tests.chaos import worker
from tests.chaos.caller import Caller
from tests.chaos.faults import STORE, FaultLog, luck_of
from tests.chaos.orders import LongJournal, Orders
from tests.chaos.receiver import Receiver
from tests.chaos.report import report, summary
from tests.chaos.run import (
    MINUTES,
    OPTIONS,
    SEED,
    SETTLE_PATIENCE,
    compared,
    prepare,
    unfinished,
    what_was_told,
)
from tests.crash.supervisor import Journal
from tests.worker.running_worker import until

STEPS_SECONDS = (0.5, 3, 7, 60, 300)
STEPS = 14


class SteppingClock:
    """The machine's, as somebody has set it."""

    def __init__(self) -> None:
        self._ahead = self._furthest = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def step(self, seconds: float) -> None:
        self._ahead += timedelta(seconds=seconds)
        self._furthest = max(self._furthest, self._ahead)

    @property
    def is_behind(self) -> bool:
        return self._ahead < timedelta()

    def catch_up(self) -> None:
        """To where it would be if it had never been set back."""
        self._ahead = self._furthest


@asynccontextmanager
async def at_work(duly: Duly, name: str) -> AsyncIterator[None]:
    task = asyncio.create_task(duly.run(signals=False, name=name))
    try:
        yield
    finally:
        duly.stop()
        await task


@pytest.mark.timeout(240 + 60 * MINUTES)
async def test_a_clock_that_is_set_forward_and_back_loses_and_repeats_nothing(url: str, tmp_path: Path) -> None:
    clock, log, luck = SteppingClock(), FaultLog(), luck_of(SEED, "clock")
    journal = Journal(tmp_path / "journal")
    stopping = asyncio.Event()
    with Receiver("127.0.0.1") as receiver:
        async with AsyncExitStack() as stack:
            app = await stack.enter_async_context(Duly(url, clock=clock, **OPTIONS))
            series = await prepare(app, receiver)
            for name in ("w1", "w2"):
                orders = Orders(url, str(journal.path), "", name, f"{SEED} {name}", receiver.url)
                duly = Duly(url, clock=clock, **OPTIONS)
                worker.register(duly, orders, LongJournal(orders))
                await stack.enter_async_context(at_work(duly, name))
            orders = Orders(url, str(journal.path), "", "c1", f"{SEED} c1", receiver.url)
            callers = [Caller(app, orders, LongJournal(orders), name) for name in ("c1a", "c1b", "c1c")]
            async with asyncio.TaskGroup() as group:
                for caller in callers:
                    group.create_task(caller.call_until(stopping))
                until_then = time.monotonic() + 60 * MINUTES
                steps = 0
                while steps < STEPS or time.monotonic() < until_then:
                    await asyncio.sleep(luck.uniform(0.2, 1.5))
                    way = 1 if clock.is_behind else luck.choice((1, -1))
                    seconds = way * luck.choice(STEPS_SECONDS)
                    async with log.note(f"step of {seconds:+g} s", STORE):
                        clock.step(seconds)
                    steps += 1
                stopping.set()
            clock.catch_up()
            for schedule in await app.schedules.list():
                await app.schedules.resume(schedule.name, passed="fire")
                await app.schedules.delete(schedule.name)

            async def nothing_is_left() -> bool:
                return not await unfinished(app)

            await until(nothing_is_left, f"everything has ended\n{log.told()}", patience=SETTLE_PATIENCE)
            told = what_was_told(journal, receiver, log, one_writer=app.one_writer)
            comparison = await compared(app, told, series, steady=False)
    print(f"seed {SEED}: {summary(comparison)}")
    assert not comparison.problems, report(SEED, log, {}, comparison.problems, comparison)
    assert len(comparison.events) > 100, summary(comparison)
