"""One tenant's flood does not keep another's single event waiting."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Duly, Event, Timer, every
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.worker.running_worker import until, working

NOW, HOUR, MINUTE = timedelta(), timedelta(hours=1), timedelta(minutes=1)
FLOOD, BATCH = 20_000, 1000


class Starts:
    """Who was started, in order."""

    def __init__(self, duly: Duly, type: str = "greet") -> None:
        self.tenants: list[str] = []
        duly.on(type)(self.start)

    async def start(self, event: Event) -> None:
        self.tenants.append(event.tenant)

    def before(self, tenant: str) -> int:
        """How many were started before the first one of this tenant."""
        return self.tenants.index(tenant)


async def flood(duly: Duly, due: Any, many: int = FLOOD, tenant: str = "flooding") -> None:
    await duly.add_many(Timer(due, "greet", tenant=tenant) for _ in range(many))


@pytest.mark.parametrize("due", ["earlier", "at the same instant", "later"])
async def test_a_single_event_is_started_among_the_first_two_batches_of_another_tenant_s(url: str, due: str) -> None:
    duly = Duly(url, batch_size=BATCH)
    starts = Starts(duly)
    instant = datetime.now(UTC) - 2 * MINUTE
    quiet = {"earlier": -MINUTE, "at the same instant": NOW, "later": MINUTE}[due]
    async with duly:
        await flood(duly, instant, FLOOD // 2)
        await duly.at(instant + quiet, "greet", tenant="quiet")
        await flood(duly, instant, FLOOD // 2)
        async with working(duly):
            await until(lambda: "quiet" in starts.tenants, "the quiet one is started")
    assert starts.before("quiet") <= 2 * BATCH


async def test_a_single_event_that_becomes_due_in_a_flood_is_started_at_once(url: str) -> None:
    duly = Duly(url, batch_size=100)
    starts = Starts(duly)
    async with duly:
        await flood(duly, -MINUTE)
        async with working(duly):
            await until(lambda: len(starts.tenants) > 1000, "the flood is being worked off")
            before = len(starts.tenants)
            await duly.after(NOW, "greet", tenant="quiet")
            await until(lambda: "quiet" in starts.tenants, "the quiet one is started")
    assert starts.before("quiet") - before < FLOOD // 4, "others were started meanwhile, but not all of them"


async def test_a_thousand_tenants_with_one_event_each_come_before_most_of_a_flood(url: str) -> None:
    duly = Duly(url, batch_size=BATCH)
    starts = Starts(duly)
    instant = datetime.now(UTC) - 2 * MINUTE
    async with duly:
        await flood(duly, instant, FLOOD // 2)
        await duly.add_many(Timer(instant, "greet", tenant=f"tenant {n}") for n in range(1000))
        await flood(duly, instant, FLOOD // 2)
        async with working(duly):
            await until(lambda: len(set(starts.tenants)) == 1001, "everybody had one started")
    assert starts.tenants.count("flooding") <= 3 * BATCH


async def test_two_floods_are_worked_off_in_equal_parts_whoever_came_first(url: str) -> None:
    duly = Duly(url, batch_size=100)
    starts = Starts(duly)
    async with duly:
        await flood(duly, -2 * MINUTE, 6000, "first")
        await flood(duly, -MINUTE, 3000, "second")
        async with working(duly):
            await until(lambda: starts.tenants.count("second") == 3000, "the second one is worked off")
    assert starts.tenants.count("first") <= 4500


async def test_a_schedule_is_not_kept_waiting_by_those_of_another_tenant(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly()
    starts = Starts(app)
    async with app.transaction() as tx:
        for n in range(400):
            tenant = "quiet" if n == 300 else "flooding"
            await app.schedules.put(f"hourly {n}", every("1h"), "greet", tenant=tenant, transaction=tx)
    clock.advance(HOUR)
    await app.tick()
    assert len(starts.tenants) == 400
    assert starts.before("quiet") <= 150
