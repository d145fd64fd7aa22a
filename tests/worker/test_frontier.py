"""Where a look from the beginning takes long, most begin where the last one ended; nothing that is ready is missed for
that."""

import asyncio
import math
import sys
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from duly import Duly, Event
from duly.engine.faults import frontier as frontiers
from duly.engine.faults.frontier import Frontier
from duly.signals import Completed
from duly.stores.statements.statements import StoreQueries
from tests.conftest import AnyStore
from tests.make import HOUR, LANE, LEASE, SECOND, make_new
from tests.worker.running_worker import Told, until, working

NEVER = "10m"
"""Between polls: what only a poll would find is not found."""


@pytest.fixture
def costly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look is taken for one that took long, and is followed by half an hour without one from the beginning."""
    monkeypatch.setattr(frontiers, "CHEAP_FULL_SCAN_S", -100.0)


@pytest.fixture
async def duly(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its database is slow in telling what comes next: a second and a half follow without a look from the beginning."""
    horizon = StoreQueries.horizon

    async def slowly(self: StoreQueries, *asked: Any) -> Any:
        told = await horizon(self, *asked)
        await asyncio.sleep(0.1)
        return told

    monkeypatch.setattr(StoreQueries, "horizon", slowly)
    duly = Duly(url, poll_interval=NEVER)

    @duly.on("greet")
    async def handle(event: Event) -> None: ...

    async with duly:
        yield duly


async def claim(store: Any, frontier: Frontier) -> list[Event]:
    events: list[Event] = await store.claim("w", {LANE: 5}, LEASE, frontier.claim_begins())
    frontier.claimed(events)
    return events


async def done(told: Told, id: str) -> None:
    await until(lambda: id in {signal.event.id for signal in told.of(Completed)}, "it is delivered")


@pytest.mark.parametrize("later", [True, False], ids=["before a later one", "alone"])
@pytest.mark.parametrize("due", ["now", "long ago"])
async def test_an_event_that_is_added_while_a_worker_sleeps_is_started(duly: Duly, later: bool, due: str) -> None:
    told = Told(duly)
    if later:
        await duly.after(HOUR, "greet")
    async with working(duly):
        for _ in range(3):
            event = await (duly.after(0 * SECOND, "greet") if due == "now" else duly.at(ago(HOUR), "greet"))
            await done(told, event.id)
    assert len(told.of(Completed)) == 3


def ago(span: timedelta) -> datetime:
    return datetime.now(UTC) - span


async def test_the_frontier_does_not_go_past_the_present(store: AnyStore) -> None:
    """What is due later is no reason to begin there: others may be due before it."""
    await store.add([make_new(due=datetime.now(UTC) + HOUR)])
    _, seen = await store.horizon([LANE])
    assert seen.fresh[LANE] <= await store.now()


async def test_after_a_full_claim_the_horizon_is_read_from_the_beginning(
    store: AnyStore, costly: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    frontier = Frontier()
    await store.add([make_new() for _ in range(2)])
    for turn in range(3):
        assert len(await claim(store, frontier)) == (2 if turn == 0 else 0)
        await frontier.horizon(store, [LANE], ())
        assert (frontier.unsure_in == math.inf) == (turn == 0), "only the first was from the beginning"
        assert frontier.whole_in > 0
    late = make_new(due=(await store.now()) - HOUR)
    await store.add([late])
    later = frontier.whole_in + 1
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later)
    monkeypatch.setattr(sys.modules[Frontier.__module__], "time", clock)
    assert [event.id for event in await claim(store, frontier)] == [late.id]


async def test_an_event_of_a_slowly_committing_transaction_behind_the_frontier_is_found(
    store: AnyStore, costly: None
) -> None:
    frontier = Frontier()
    await claim(store, frontier)
    await frontier.horizon(store, [LANE], ())
    slow = make_new(due=(await store.now()) - SECOND / 2)  # of a transaction that was long in committing
    await store.add([slow])
    assert frontier.whole_in > 0
    assert [event.id for event in await claim(store, frontier)] == [slow.id]
