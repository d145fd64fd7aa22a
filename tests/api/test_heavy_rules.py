"""Stored rules that take long to evaluate: who is due beside them is not late for that."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from duly import Duly, Event, every
from duly.decide.series.due_head import decide
from duly.engine.series import heads, rule_threads
from duly.engine.series.heads import SlowRuleBudget
from duly.rules.timetable import stored_timetable
from duly.testing import ManualClock
from tests.make import SECOND, START, make_event, make_schedule
from tests.stores.rows import write

HEAVY = 65
MONTHS = ",".join(map(str, range(1, 13)))
AT_MOST = 0.5
"""Seconds of the processor, ten times what is wanted: the machine may be slow. Without a bound it is 2 and more."""


class Turns:
    """The longest that nothing else could run in the event loop: of the processor's time, which leaves out when others
    had it."""

    longest = 0.0


@asynccontextmanager
async def watched() -> AsyncIterator[Turns]:
    turns = Turns()

    async def watch() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            turns.longest, before = max(turns.longest, now - before), now

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        yield turns
    finally:
        watching.cancel()


async def put(app: Duly, rules: Iterable[str]) -> Counter[str]:
    """A quiet schedule that fires each second, and beside it these, as they stand in the database."""
    fired: Counter[str] = Counter()

    async def count(event: Event) -> None:
        fired[event.type] += 1

    app.on("heavy")(count)
    app.on("quiet")(count)
    for number, rule in enumerate(rules):
        await app.schedules.put(f"heavy-{number}", every("1s"), "heavy")
        written = msgspec.json.encode({"rrule": rule, "start": START.replace(tzinfo=None).isoformat()}).decode()
        await write(app.store, "UPDATE duly.schedules SET rule = $1 WHERE name = $2", written, f"heavy-{number}")
    await app.schedules.put("quiet", every("1s"), "quiet")
    stored_timetable.cache_clear()  # as a worker begins
    return fired


def positions(without: int) -> str:
    return ",".join(str(number) for number in range(1, 367) if number != without)


async def test_rules_with_hundreds_of_positions_fire_each_second(app: Duly, clock: ManualClock) -> None:
    fired = await put(app, (f"FREQ=SECONDLY;BYMONTH={MONTHS};BYSETPOS={positions(2 + n)}" for n in range(HEAVY)))
    async with watched() as turns:
        for _ in range(3):
            clock.advance(SECOND)
            await app.tick()
    assert fired == {"heavy": 3 * HEAVY, "quiet": 3}
    print(f"\n{HEAVY} rules with 365 positions: nothing else ran for {turns.longest * 1000:.0f} ms at most")
    assert turns.longest < AT_MOST


async def test_sparse_rules_that_are_due_together_are_evaluated_a_few_in_each_claim(
    app: Duly, clock: ManualClock
) -> None:
    sparse = "FREQ=SECONDLY;INTERVAL={};BYHOUR=9;BYMINUTE=0;BYSECOND=7"
    fired = await put(app, (sparse.format(9973 - 2 * number) for number in range(HEAVY)))
    async with watched() as turns:
        clock.advance(SECOND)
        await app.tick()
    assert fired == {"heavy": HEAVY, "quiet": 1}
    print(f"\n{HEAVY} sparse rules: nothing else ran for {turns.longest * 1000:.0f} ms at most")
    assert turns.longest < AT_MOST


async def test_a_claim_that_has_spent_its_time_leaves_the_other_heads_to_the_next(
    app: Duly, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "SLOW_RULE_S", -1.0)
    monkeypatch.setattr(heads, "SLOW_RULES_BUDGET_S", 0.0)
    fired = await put(app, ["FREQ=SECONDLY"] * 5)
    clock.advance(SECOND)
    await app.tick()
    assert fired == {"heavy": 5, "quiet": 1}


async def test_other_tasks_run_between_the_heads_of_a_claim(
    app: Duly, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, seen = 0, set[int]()

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    def noting(*given: Any) -> Any:
        seen.add(turns)
        return decide(*given)

    monkeypatch.setattr(rule_threads, "SLICE_S", 0.0)
    monkeypatch.setattr(heads, "SLOW_RULE_S", 60.0)
    monkeypatch.setattr(heads, "decide", noting)
    fired = await put(app, ["FREQ=SECONDLY"] * 5)
    await write(app.store, "UPDATE duly.events SET next_state = 'careful'")
    clock.advance(SECOND)
    others = asyncio.create_task(take_turns())
    await app.tick()
    others.cancel()
    assert fired == {"heavy": 5, "quiet": 1}
    assert len(seen) == 6


async def test_a_rule_that_was_slow_is_evaluated_in_a_thread(
    app: Duly, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def noting(*given: Any) -> Any:
        threads.append(threading.get_ident())
        return decide(*given)

    monkeypatch.setattr(heads, "SLOW_RULE_S", -1.0)
    monkeypatch.setattr(heads, "decide", noting)
    await app.schedules.put("slow", every("1s"), "heavy")
    app.on("heavy")(nothing)
    for _ in range(2):
        await write(app.store, "UPDATE duly.events SET next_state = 'careful'")
        clock.advance(SECOND)
        await app.tick()
    first, second = threads
    assert first == threading.get_ident() != second


async def nothing(_event: Event) -> None: ...


def test_the_heads_of_slow_rules_come_last_until_they_are_quick_again(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = make_schedule(name="one"), make_schedule(name="other")
    heads_of = [make_event(series=schedule.series) for schedule in (one, other)]
    monkeypatch.setattr(heads, "SLOW_RULE_S", -1.0)
    with (slowness := SlowRuleBudget()).of(one.as_series):
        pass
    assert slowness.last(heads_of) == heads_of[::-1]
    monkeypatch.setattr(heads, "SLOW_RULE_S", 60.0)
    with slowness.of(one.as_series):
        pass
    assert slowness.last(heads_of) == heads_of
