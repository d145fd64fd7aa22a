"""What monitoring asks of a database."""

import re

import pytest

from duly import Duly, every
from duly.ports import LaneDepth
from duly.stores.postgres.store import PostgresStore
from duly.stores.queries import load
from duly.testing import ManualClock
from tests.conftest import AnyStore
from tests.make import HOUR, LEASE, MINUTE, START, make_new
from tests.stores.rows import write

MOST = 100


async def test_an_empty_database_has_figures_of_nothing(store: AnyStore) -> None:
    figures = await store.figures(MOST, MOST)
    assert figures.now == START
    assert (list(figures.lanes), figures.pending, figures.dead_letters, figures.parked) == ([], 0, 0, 0)
    assert (figures.held, figures.halted) == ({}, {})


async def test_figures_tell_of_each_lane_how_many_could_begin_and_since_when(
    store: AnyStore, clock: ManualClock
) -> None:
    await store.add([make_new(due=START - HOUR), make_new(), make_new(type="bill"), make_new(due=START + HOUR)])
    await store.add([make_new(type="later", due=START + HOUR)])
    assert (await store.figures(MOST, MOST)).pending == 2
    lanes = {one.lane: one for one in (await store.figures(MOST, MOST)).lanes}
    assert lanes["handler:greet"] == LaneDepth("handler:greet", 2, START - HOUR)
    assert lanes["handler:bill"] == LaneDepth("handler:bill", 1, START)
    assert lanes["handler:later"] == LaneDepth("handler:later", 0, START + HOUR)
    assert len(await store.claim("w1", {"handler:greet": 10}, LEASE)) == 2
    lanes = {one.lane: one for one in (await store.figures(MOST, MOST)).lanes}
    assert lanes["handler:greet"].due == 0, "they are running"
    clock.advance(LEASE + MINUTE)
    lanes = {one.lane: one for one in (await store.figures(MOST, MOST)).lanes}
    assert lanes["handler:greet"] == LaneDepth("handler:greet", 2, START + LEASE), "their worker has vanished"


async def test_due_events_and_all_else_are_counted_up_to_a_limit(store: AnyStore) -> None:
    await store.add([make_new() for _ in range(5)])
    await store.add([make_new(due=START + HOUR) for _ in range(5)])
    figures = await store.figures(3, 4)
    assert [one.due for one in figures.lanes] == [3]
    assert figures.pending == 4  # the planner knows nothing of the index yet


@pytest.mark.broken_rows("its rows are written by hand")
async def test_beyond_the_limit_postgresql_tells_what_its_planner_knows(store: AnyStore) -> None:
    if not isinstance(store, PostgresStore):
        pytest.skip("SQLite's planner knows nothing by itself")
    await store.add([make_new() for _ in range(5)])
    await store.add([make_new(due=START + HOUR) for _ in range(50)])
    await write(store, "UPDATE duly.events SET status = 'FAILED', ready = NULL WHERE due = $1", START)
    await store.add([make_new() for _ in range(7)])
    await write(store, "ANALYZE duly.events")
    figures = await store.figures(MOST, 4)
    assert (figures.pending, figures.dead_letters) == (50, 5)


async def test_held_events_and_halted_schedules_are_told_by_kind(app: Duly, clock: ManualClock) -> None:
    for name in ("a", "b"):
        await app.every(name, every("1h"), "greet")
        await app.schedules.pause(name)
    figures = await app.store.figures(MOST, MOST)
    assert figures.held == {"paused": 2}
    assert figures.halted == {"paused": 2}


async def test_figures_are_found_by_indexes_alone(store: AnyStore) -> None:
    """However many events there are, or were: only schedules are read one by one."""
    sql = re.sub(r":(limit|most)\b", "10", load(store.dialect)["figures"].sql)
    sql = re.sub(r":now\b", "NULL" if store.dialect == "postgres" else "10", sql)
    async with store.begin() as tx:
        if store.dialect == "postgres":
            await tx.execute("SET LOCAL enable_seqscan = off")
        explain = "EXPLAIN QUERY PLAN " if store.dialect == "sqlite" else "EXPLAIN "
        plan = "\n".join(str(tuple(row)) for row in await tx.fetch(explain + sql))
    for index in ("events_ready", "events_leased", "events_held", "destinations_parked"):
        assert index in plan, plan
    assert not re.search(r"Seq Scan on (events|destinations)", plan), plan
    assert not re.search(r"SCAN (events|e|destinations)\b(?! USING)", plan), plan
