"""What waits until one of its schedule has ended: whatever becomes of those before it, it is let go in that
transaction, and not only when a worker next looks after what is held."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from duly import Duly, Event, every
from duly.decide.series.due_head import ITS_TURN
from duly.engine.series.holds import let_go_after
from duly.testing import ManualClock
from tests.claiming import claimed_by_a_worker
from tests.conftest import OpenDuly
from tests.make import HOUR, MINUTE, START, completed
from tests.worker.running_worker import until

NAME = "slow"
LANE = f"handler:{NAME}"
HOURLY = every("1h")


class Behind(NamedTuple):
    """A head that was let go, and is due; and one that was triggered after it, and waits."""

    head: Event
    waiting: Event


async def fired(app: Duly) -> list[Event]:
    """The heads that a worker gets, which have begun then."""
    return await claimed_by_a_worker(app, {LANE: 10})


async def end(app: Duly, event: Event) -> None:
    """Settle a running event as its transactional handler does, which waits for locked rows as long as it takes."""
    async with app.store.begin() as tx:
        assert await tx.settle([completed(event)], "w1", patient=True)
        await let_go_after(tx, [event])


async def behind(app: Duly, clock: ManualClock, **policies: Any) -> Behind:
    schedule = await app.schedules.put(NAME, HOURLY, NAME, overlap="queue", **policies)
    clock.advance(HOUR)
    [first] = await fired(app)
    clock.advance(HOUR)
    assert await fired(app) == []
    waiting = await app.schedules.trigger(NAME)
    assert waiting.held == ITS_TURN.reason
    await end(app, first)
    head = await app.store.head(schedule.series)
    assert head is not None
    assert (head.held, head.ready) == (None, START + 2 * HOUR), "the oldest is let go"
    assert (await app.events.get(waiting.id)).held == ITS_TURN.reason
    return Behind(head, waiting)


async def skip(app: Duly, _head: Event) -> None:
    await app.schedules.skip(NAME)


async def cancel(app: Duly, head: Event) -> None:
    await app.events.cancel(head.id)


async def put_off(app: Duly, _head: Event) -> None:
    await app.schedules.reschedule(NAME, START + 9 * HOUR)


async def put_off_the_event(app: Duly, head: Event) -> None:
    await app.events.reschedule(head.id, START + 9 * HOUR)


async def begin_anew(app: Duly, _head: Event) -> None:
    await app.schedules.put(NAME, every("2h"), NAME, overlap="queue")


ACTS = [skip, cancel, put_off, put_off_the_event, begin_anew]


@pytest.mark.parametrize("act", ACTS)
async def test_an_event_that_waits_behind_a_head_that_does_not_fire_now_goes_in_its_place(
    duly: OpenDuly, clock: ManualClock, act: Callable[[Duly, Event], Awaitable[None]]
) -> None:
    app = await duly()
    head, waiting = await behind(app, clock)
    await act(app, head)
    assert (await app.events.get(waiting.id)).held is None
    assert (await app.store.invariants()).violations == []


async def test_an_event_that_waits_behind_a_head_that_came_too_late_goes_in_its_place(
    duly: OpenDuly, clock: ManualClock
) -> None:
    app = await duly()
    head, waiting = await behind(app, clock, misfire="skip")
    clock.advance(MINUTE)
    assert await fired(app) == []
    assert (await app.events.get(head.id)).status == "SKIPPED"
    assert (await app.events.get(waiting.id)).held is None


async def test_removing_the_limit_after_the_rule_has_ended_releases_waiting_events(
    duly: OpenDuly, clock: ManualClock
) -> None:
    app = await duly()
    end_of_rule = START + MINUTE
    await app.schedules.put(NAME, HOURLY, NAME, overlap="queue")
    schedule = await app.schedules.put(NAME, HOURLY, NAME, overlap="queue", end=end_of_rule)
    assert (schedule.halted, schedule.next_at) == ("ended", None)
    first, second = await app.schedules.trigger(NAME), await app.schedules.trigger(NAME)
    assert (first.held, second.held) == (None, ITS_TURN.reason)
    await app.schedules.put(NAME, HOURLY, NAME, end=end_of_rule)
    assert (await app.events.get(second.id)).held is None


async def test_a_limit_set_after_the_rule_has_ended_counts_what_is_under_way(
    duly: OpenDuly, clock: ManualClock
) -> None:
    app = await duly()
    end_of_rule = START + MINUTE
    await app.schedules.put(NAME, HOURLY, NAME)
    await app.schedules.put(NAME, HOURLY, NAME, end=end_of_rule)
    await app.schedules.trigger(NAME)
    await app.schedules.put(NAME, HOURLY, NAME, overlap="queue", end=end_of_rule)
    assert (await app.schedules.trigger(NAME)).held == ITS_TURN.reason


# -- at the same time: on PostgreSQL alone, for SQLite has one writer


@asynccontextmanager
async def locked(app: Duly, name: str = NAME) -> AsyncIterator[None]:
    """Somebody else has the schedule, for a moment."""
    schedule = await app.schedules.get(name)
    async with app.store.begin() as tx:
        await tx.schedules([schedule.id])
        yield


async def waits(app: Duly, statements: int) -> None:
    """Return when so many statements wait for a lock."""

    async def are_waiting() -> bool:
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        async with app.store.lend() as tx:
            return bool(await tx.fetchval(waiting) == statements)

    await until(are_waiting, f"{statements} statements wait for a lock")


@pytest.fixture
async def shared(duly: OpenDuly, url: str) -> Duly:
    if not url.startswith("postgresql"):
        pytest.skip("SQLite has one writer: nobody waits with a lock of his own")
    return await duly()


@pytest.mark.parametrize("act", [put_off, put_off_the_event])
async def test_a_head_that_was_locked_when_its_predecessor_ended_is_released(
    shared: Duly, clock: ManualClock, act: Callable[[Duly, Event], Coroutine[Any, Any, None]]
) -> None:
    """Who ends the predecessor leaves alone what is locked; so who has it locked lets it go."""
    app = shared
    schedule = await app.schedules.put(NAME, HOURLY, NAME, overlap="queue")
    clock.advance(HOUR)
    [first] = await fired(app)
    clock.advance(HOUR)
    assert await fired(app) == []
    head = await app.store.head(schedule.series)
    assert head is not None
    async with asyncio.TaskGroup() as group, locked(app):
        group.create_task(end(app, first))
        await waits(app, 1)
        group.create_task(act(app, head))
        await waits(app, 2 if act is put_off else 1)
    let_go = await app.store.head(schedule.series)
    assert let_go is not None
    assert let_go.held is None
