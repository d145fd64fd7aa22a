"""Cancelling inside the caller's own transaction on PostgreSQL, with every driver: it is undone with the rest."""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

from duly import Duly, Event, Status, every
from duly.testing import ManualClock
from tests.api.test_transactions import ASYNC, EFFECT, EFFECTS, SYNC, Oops, effects
from tests.make import DAY, HOUR, START


@pytest.fixture
async def app(clean_postgres: str, clock: ManualClock) -> AsyncIterator[Duly]:
    async with Duly(clean_postgres, clock=clock) as app:
        async with app.transaction() as tx:
            await tx.execute(EFFECTS)
        yield app


@pytest.fixture
def sync_app(clean_postgres: str, clock: ManualClock) -> Iterator[Duly]:
    app = Duly(clean_postgres, clock=clock)
    with app.sync:
        with app.sync.transaction() as tx:
            tx.execute(EFFECTS)
        yield app


def fires(app: Duly) -> list[str | None]:
    fired: list[str | None] = []

    @app.on("remind")
    async def remind(event: Event) -> None:
        fired.append(event.key)

    return fired


@pytest.mark.parametrize("kind", ASYNC)
async def test_a_timer_is_set_moved_and_cancelled_with_the_callers_commit(
    app: Duly, clean_postgres: str, clock: ManualClock, kind: str
) -> None:
    fired = fires(app)
    for key in ("moved", "cancelled"):
        await app.at(START + HOUR, "remind", key=key)
    async with ASYNC[kind](clean_postgres) as (connection, execute):
        await execute(EFFECT)
        await app.at(START + HOUR, "remind", key="set", transaction=connection)
        moved = await app.put(START + DAY, "remind", key="moved", transaction=connection)
        assert moved.change == "moved"
        assert await app.cancel("cancelled", transaction=connection, by="ada", reason="paid") == "cancelled"
        assert await app.cancel("cancelled", transaction=connection) == "nothing"
        assert await app.cancel("nobody", transaction=connection) == "nothing"
        assert (await app.events.get("cancelled")).status is Status.PENDING, "nobody else sees it before the commit"
    clock.advance(HOUR)
    await app.tick()
    assert fired == ["set"]
    assert await app.cancel("set") == "fired"
    assert [(e.act, e.worker, e.detail) for e in await app.events.history("cancelled")] == [
        ("cancelled", "ada", "paid")
    ]
    assert (await app.events.get("moved")).due == START + DAY
    assert await effects(app) == 1


@pytest.mark.parametrize("kind", ASYNC)
async def test_a_timer_stays_as_it_was_when_the_caller_rolls_back(
    app: Duly, clean_postgres: str, clock: ManualClock, kind: str
) -> None:
    fired = fires(app)
    for key in ("moved", "cancelled"):
        await app.at(START + HOUR, "remind", key=key)
    with suppress(Oops):
        async with ASYNC[kind](clean_postgres) as (connection, execute):
            await execute(EFFECT)
            await app.at(START + HOUR, "remind", key="set", transaction=connection)
            await app.at(START + DAY, "remind", key="moved", transaction=connection)
            assert await app.cancel("cancelled", transaction=connection) == "cancelled"
            raise Oops
    clock.advance(HOUR)
    await app.tick()
    assert sorted(map(str, fired)) == ["cancelled", "moved"]
    assert await effects(app) == 0


@pytest.mark.parametrize("kind", ASYNC)
async def test_other_verbs_write_in_the_callers_transaction(app: Duly, clean_postgres: str, kind: str) -> None:
    await app.every("hourly", every("1h"), "digest")
    [head] = await app.events.find()
    for keeps in (False, True):
        with suppress(Oops):
            async with ASYNC[kind](clean_postgres) as (connection, _):
                assert await app.cancel(head.id, transaction=connection) == "cancelled"
                paused = await app.schedules.pause("hourly", transaction=connection)
                assert (paused.enabled, paused.next_at) == (False, START + 2 * HOUR)
                if not keeps:
                    raise Oops
        schedule = await app.schedules.get("hourly")
        assert (schedule.enabled, schedule.next_at) == (not keeps, START + (2 if keeps else 1) * HOUR)


@pytest.mark.parametrize("kind", SYNC)
def test_synchronous_code_sets_moves_and_cancels_with_its_commit(
    sync_app: Duly, clean_postgres: str, clock: ManualClock, kind: str
) -> None:
    sync, fired = sync_app.sync, fires(sync_app)
    for key in ("moved", "cancelled"):
        sync.at(START + HOUR, "remind", key=key)
    with SYNC[kind](clean_postgres) as (connection, execute):
        execute(EFFECT)
        sync.at(START + HOUR, "remind", key="set", transaction=connection)
        assert sync.put(START + DAY, "remind", key="moved", transaction=connection).change == "moved"
        assert sync.cancel("cancelled", transaction=connection) == "cancelled"
        assert sync.events.cancel("cancelled", transaction=connection) == "nothing"
        assert sync.events.get("cancelled").status is Status.PENDING
    clock.advance(HOUR)
    sync.tick()
    assert fired == ["set"]
    assert sync.cancel("set") == "fired"


@pytest.mark.parametrize("kind", SYNC)
def test_synchronous_code_that_rolls_back_changes_nothing(
    sync_app: Duly, clean_postgres: str, clock: ManualClock, kind: str
) -> None:
    sync, fired = sync_app.sync, fires(sync_app)
    for key in ("moved", "cancelled"):
        sync.at(START + HOUR, "remind", key=key)
    with suppress(Oops), SYNC[kind](clean_postgres) as (connection, execute):
        execute(EFFECT)
        sync.at(START + HOUR, "remind", key="set", transaction=connection)
        sync.at(START + DAY, "remind", key="moved", transaction=connection)
        assert sync.cancel("cancelled", transaction=connection) == "cancelled"
        raise Oops
    clock.advance(HOUR)
    sync.tick()
    assert sorted(map(str, fired)) == ["cancelled", "moved"]


@pytest.mark.parametrize("kind", SYNC)
def test_synchronous_code_acts_on_series_in_its_own_transaction(sync_app: Duly, clean_postgres: str, kind: str) -> None:
    """Rules are evaluated for it, which asynchronous code leaves to a thread."""
    sync = sync_app.sync
    sync.every("hourly", every("1h"), "digest")
    [head] = sync.events.find()
    for keeps in (False, True):
        with suppress(Oops), SYNC[kind](clean_postgres) as (connection, _):
            assert sync.cancel(head.id, transaction=connection) == "cancelled"
            assert not sync.schedules.pause("hourly", transaction=connection).enabled
            user = sync.users.add(first_name="Ada", last_name="Lovelace", date_of_birth="1815-12-10",
                                  timezone="Europe/London", transaction=connection)  # fmt: skip
            if not keeps:
                raise Oops
        schedule = sync.schedules.get("hourly")
        assert (schedule.enabled, schedule.next_at) == (not keeps, START + (2 if keeps else 1) * HOUR)
    assert len(sync.users.ahead(user.id)) == 1
