"""Dry runs: nothing is signalled, locked or written, also beside workers and inside callers' own transactions."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Conflict, Duly, Event, Invalid, NotFound, OfSeries, Stale, Status, cron, every, rrule, yearly
from duly.engine.series.holds import lock_head
from duly.records.figures.consequence import Consequence
from duly.signals import Completed, Created
from duly.testing import ManualClock
from duly.verbs.schedules import rehearsal
from tests.api.test_dry_run_sequences import dump
from tests.api.test_transactions import ASYNC, EFFECT, EFFECTS, SYNC, Oops, effects
from tests.make import DAY, HOUR, MINUTE, START, a_user


def told(record: Any) -> Consequence:
    assert isinstance(record.consequence, Consequence)
    return record.consequence


# -- what is told


async def test_an_edit_tells_from_where_to_where_the_next_event_moves(app: Duly) -> None:
    before = await app.schedules.put("report", cron("0 9 * * *"), "digest", timezone="Europe/Brussels")
    [head] = await app.events.find(OfSeries(before.series))
    would_be = await app.schedules.put("report", cron("0 17 * * *"), "digest", timezone="Europe/Brussels", dry_run=True)
    assert would_be.rule == {"cron": "0 17 * * *"}
    assert would_be.next_at == START + 16 * HOUR
    found = told(would_be)
    assert [(one.id, one.from_, one.to) for one in found.moved] == [(head.id, START + 8 * HOUR, START + 16 * HOUR)]
    assert [one.due for one in found.next] == [START + 16 * HOUR + n * DAY for n in range(10)]
    assert {one.timezone for one in found.next} == {"Europe/Brussels"}
    assert [(one.at, one.now, one.after) for one in found.load[:2]] == [
        (START + 8 * HOUR, 1, 0),
        (START + 16 * HOUR, 0, 1),
    ]
    assert found.message == (
        "The next event moves from Thu 2026-01-01 09:00 Europe/Brussels to Thu 2026-01-01 17:00 Europe/Brussels."
    )
    assert await app.schedules.get("report") == before
    assert before.consequence is None


async def test_occurrences_in_a_gap_and_in_an_overlap_are_marked(app: Duly, clock: ManualClock) -> None:
    clock.set(datetime(2026, 3, 27, tzinfo=UTC))
    night = cron("30 2 * * *", timezone="Europe/Brussels")
    found = told(await app.schedules.put("night", night, "digest", dry_run=True))
    assert [(f"{one.local:%m-%d %H:%M}", one.note) for one in found.next[:3]] == [
        ("03-27 02:30", None),
        ("03-28 02:30", None),
        ("03-29 03:00", "2026-03-29 has no 02:30: it fires right after the gap"),
    ]
    clock.set(datetime(2026, 10, 24, 12, tzinfo=UTC))
    found = told(await app.schedules.put("night", night, "digest", dry_run=True))
    assert found.next[0].note == "the clocks show 02:30 twice, and this is the first time"


async def test_the_next_occurrences_are_told_in_the_zone_of_a_viewer(app: Duly) -> None:
    would_be = await app.schedules.put("report", cron("0 9 * * *", timezone="Europe/Brussels"), "digest", dry_run=True)
    found = told(would_be).seen_from("Asia/Tokyo")
    assert (found.viewer, found.next[0].viewer_at) == ("Asia/Tokyo", datetime(2026, 1, 1, 17))  # noqa: DTZ001 - local
    assert told(would_be).next[0].viewer_at is None


async def test_what_a_pause_has_passed_over_is_told_before_it_is_resumed(app: Duly, clock: ManualClock) -> None:
    await app.schedules.put("report", every("1h"), "digest")
    await app.schedules.pause("report")
    clock.advance(5 * HOUR + MINUTE)
    resumed = await app.schedules.resume("report", dry_run=True)
    found = told(resumed.schedule)
    assert (resumed.passed, resumed.fires, found.switched) == (5, False, "resumed")
    assert found.skipped.count == 5
    assert found.skipped.first[0].at == START + HOUR
    assert found.skipped.first[0].reason == "its schedule was paused when its time came"
    assert [one.due for one in found.created] == [START + 6 * HOUR]
    assert [one.id for one in found.created] == [None], "it has no id before it is made"
    fired = told((await app.schedules.resume("report", passed="fire", dry_run=True)).schedule)
    assert (fired.skipped.count, fired.owed.count, fired.owed.first[0].due) == (0, 1, START + HOUR)
    assert not (await app.schedules.get("report")).enabled


async def test_a_deletion_tells_how_many_events_it_cancels_also_where_they_are_many(app: Duly) -> None:
    schedule = await app.schedules.put("report", every("1h"), "digest", end=START + 3 * DAY)
    for _ in range(3):
        await app.schedules.trigger("report")
    await app.schedules.put("old", every("1m", start=START - DAY), "digest")
    await app.schedules.backfill("old", START - 10 * HOUR, START, limit=600)
    assert (await app.schedules.delete("old", dry_run=True)).cancelled.count == 601
    found = await app.schedules.delete("report", dry_run=True)
    assert isinstance(found, Consequence)
    assert (found.deleted, found.cancelled.count, found.next) == (True, 4, ())
    assert found.message == "It is deleted, and 4 waiting events are cancelled."
    assert await app.schedules.delete("report") == 4
    assert {event.status for event in await app.events.find(OfSeries(schedule.series))} == {Status.CANCELLED}


async def test_the_load_counts_the_events_of_the_tenant_alone(app: Duly) -> None:
    for tenant in ("acme", "acme", "other"):
        await app.after(HOUR + MINUTE, "digest", tenant=tenant)
    found = told(await app.schedules.put("report", every("30m"), "digest", tenant="acme", dry_run=True))
    assert [(one.at, one.now, one.after) for one in found.load[:3]] == [
        (START, 0, 1),
        (START + HOUR, 2, 4),
        (START + 2 * HOUR, 0, 2),
    ]
    assert "In the hour from 2026-01-01 01:00 UTC, 4 events of the tenant become due instead of 2." in found.message
    assert found.load_complete


async def test_a_rule_that_takes_long_is_evaluated_with_a_limit(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    await app.schedules.put("sparse", yearly("02-29"), "digest")
    monkeypatch.setattr("duly.verbs.rehearsal.EVALUATION_S", 0.0)
    found = told(await app.schedules.put("sparse", rrule("FREQ=YEARLY;BYMONTH=5"), "digest", dry_run=True))
    assert len(found.next) == 2
    assert not found.load_complete


async def test_a_change_of_a_user_is_told_for_each_type_of_event(app: Duly) -> None:
    user = await app.users.add(**a_user(anniversary="2015-06-20"))
    would_be = await app.users.update(user.id, timezone="Asia/Tokyo", dry_run=True)
    assert would_be.timezone == "Asia/Tokyo"
    found = told(would_be)
    assert [(one.type, one.from_, one.to) for one in found.moved] == [
        ("birthday", datetime(2026, 3, 15, 13, tzinfo=UTC), datetime(2026, 3, 15, 0, tzinfo=UTC)),
        ("anniversary", datetime(2026, 6, 20, 13, tzinfo=UTC), datetime(2026, 6, 20, 0, tzinfo=UTC)),
    ]
    assert "The next event of type birthday moves from Sun 2026-03-15 22:00 Asia/Tokyo" in found.message
    renamed = told(await app.users.update(user.id, first_name="Grace", dry_run=True))
    assert renamed.moved == ()
    assert renamed.message.startswith("No event moves, and none is skipped.")
    gone = told(await app.users.update(user.id, anniversary=None, dry_run=True))
    assert [(one.type, one.reason) for one in gone.skipped.first] == [
        ("anniversary", "its user has no such event any more")
    ]
    deleted = told(await app.users.delete(user.id, dry_run=True))
    assert (deleted.deleted, deleted.cancelled.count) == (True, 2)
    assert await app.users.get(user.id) == user


# -- what does not happen


async def test_a_dry_run_is_refused_where_the_act_is(app: Duly) -> None:
    schedule = await app.schedules.put("report", every("1h"), "digest")
    await app.schedules.put("after", every("1h"), "digest", depends_on={"schedule": "report", "within": "1h"})
    user = await app.users.add(**a_user(key="ada"))
    other = await app.users.add(**a_user(key="grace"))
    before = await dump(app)
    for error, act in (
        (Invalid, app.schedules.put("report", {"cron": "61 * * * *"}, "digest", dry_run=True)),
        (Invalid, app.schedules.reschedule("report", START.replace(tzinfo=None), dry_run=True)),
        (Invalid, app.schedules.resume("report", passed="maybe", dry_run=True)),
        (Stale, app.schedules.put("report", every("2h"), "digest", expected="other", dry_run=True)),
        (Stale, app.schedules.delete("report", expected="other", dry_run=True)),
        (Conflict, app.schedules.delete("report", dry_run=True)),
        (NotFound, app.schedules.pause("nobody", dry_run=True)),
        (NotFound, app.schedules.skip("report", tenant="acme", dry_run=True)),
        (Stale, app.users.update(user.id, first_name="X", expected="other", dry_run=True)),
        (Invalid, app.users.update(user.id, timezone="Mars/Olympus", dry_run=True)),
        (Conflict, app.users.update(other.id, key="ada", dry_run=True)),
        (NotFound, app.users.delete(user.id, tenant="acme", dry_run=True)),
    ):
        with pytest.raises(error):
            await act
    assert await dump(app) == before
    assert told(await app.schedules.put("report", every("2h"), "digest", expected=schedule.tag, dry_run=True)).moved


async def test_a_dry_run_signals_nothing_and_wakes_nobody(app: Duly) -> None:
    signals: list[object] = []
    app.observe(signals.append)
    await app.schedules.put("report", every("1h"), "digest")
    user = await app.users.add(**a_user())
    assert {type(one) for one in signals} == {Created}
    signals.clear()
    async with app.store.listen(["handler:digest", "handler:birthday"]) as waker:
        await waker.wait(0.05)  # what listening itself has woken
        await waker.wait(0.05)
        loop = asyncio.get_running_loop()
        await app.schedules.put("new", every("1s"), "digest", dry_run=True)
        await app.schedules.reschedule("report", START, dry_run=True)
        await app.schedules.skip("report", dry_run=True)
        await app.users.update(user.id, timezone="Asia/Tokyo", dry_run=True)
        began = loop.time()
        await waker.wait(0.3)
        assert loop.time() - began > 0.25
        await app.schedules.reschedule("report", START)
        began = loop.time()
        await waker.wait(5)
        assert loop.time() - began < 4, "as the act itself does"
    assert signals == []


async def test_a_dry_run_in_a_transaction_of_duly_leaves_its_other_writes(app: Duly) -> None:
    async with app.transaction() as tx:
        await tx.execute(EFFECTS)
    created: list[object] = []
    app.observe(created.append, Created)
    async with app.transaction() as tx:
        await tx.execute(EFFECT)
        await app.schedules.put("report", every("1h"), "digest", transaction=tx)
        moved = await app.schedules.put("report", every("2h"), "digest", transaction=tx, dry_run=True)
        assert told(moved).moved[0].to == START + 2 * HOUR
        with pytest.raises(NotFound):
            await app.schedules.skip("nobody", transaction=tx, dry_run=True)
        user = await app.users.add(**a_user(), transaction=tx)
        assert told(await app.users.delete(user.id, transaction=tx, dry_run=True)).cancelled.count == 1
    assert await effects(app) == 1
    assert (await app.schedules.get("report")).next_at == START + HOUR
    assert await app.users.get(user.id) == user
    assert len(created) == 2, "those of the acts alone"


@pytest.fixture
async def on_postgres(clean_postgres: str, clock: ManualClock) -> AsyncIterator[Duly]:
    async with Duly(clean_postgres, clock=clock) as app:
        async with app.transaction() as tx:
            await tx.execute(EFFECTS)
        yield app


async def test_a_dry_run_keeps_no_lock_inside_an_open_transaction(
    on_postgres: Duly, clean_postgres: str, clock: ManualClock
) -> None:
    app = on_postgres
    await app.schedules.put("report", every("1h"), "digest")
    async with app.transaction() as tx, Duly(clean_postgres, clock=clock) as other:
        await app.schedules.skip("report", transaction=tx, dry_run=True)
        skipped = await asyncio.wait_for(other.schedules.skip("report"), 5)
    assert skipped.next_at == START + 2 * HOUR


@pytest.mark.parametrize("kind", ASYNC)
async def test_a_dry_run_in_a_callers_transaction_leaves_its_own_writes(
    on_postgres: Duly, clean_postgres: str, kind: str
) -> None:
    app = on_postgres
    await app.schedules.put("report", every("1h"), "digest")
    user = await app.users.add(**a_user())
    async with ASYNC[kind](clean_postgres) as (connection, execute):
        await execute(EFFECT)
        skipped = await app.schedules.skip("report", transaction=connection, dry_run=True)
        assert told(skipped).skipped.count == 1
        with pytest.raises(Stale):
            await app.schedules.delete("report", expected="other", transaction=connection, dry_run=True)
        changed = await app.users.update(user.id, timezone="Asia/Tokyo", transaction=connection, dry_run=True)
        assert len(told(changed).moved) == 1
    assert await effects(app) == 1
    assert (await app.schedules.get("report")).next_at == START + HOUR
    assert [entry.act for entry in await app.schedules.history("report")] == ["created"]
    assert await app.users.get(user.id) == user


@pytest.fixture
def sync_on_postgres(clean_postgres: str, clock: ManualClock) -> Iterator[Duly]:
    app = Duly(clean_postgres, clock=clock)
    with app.sync:
        with app.sync.transaction() as tx:
            tx.execute(EFFECTS)
        yield app


@pytest.mark.parametrize("kind", SYNC)
def test_a_dry_run_in_a_synchronous_transaction_leaves_its_own_writes(
    sync_on_postgres: Duly, clean_postgres: str, kind: str
) -> None:
    duly = sync_on_postgres.sync
    duly.schedules.put("report", every("1h"), "digest")
    with suppress(Oops), SYNC[kind](clean_postgres) as (connection, execute):
        execute(EFFECT)
        duly.schedules.put("own", every("1h"), "digest", transaction=connection)
        assert told(duly.schedules.skip("report", transaction=connection, dry_run=True)).skipped.count == 1
        assert told(duly.schedules.pause("own", transaction=connection, dry_run=True)).switched == "paused"
        assert duly.schedules.delete("own", transaction=connection, dry_run=True).cancelled.count == 1
    assert duly.schedules.get("report").next_at == START + HOUR
    assert duly.schedules.get("own").enabled
    with duly.transaction() as tx:
        assert tx.fetchval("SELECT count(*) FROM effects") == 1


# -- beside workers


async def test_dry_runs_beside_workers_cost_no_occurrence_and_repeat_none(
    clean_postgres: str, clock: ManualClock
) -> None:
    luck, fired = random.Random(20260101), list[Event]()
    async with AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(Duly(clean_postgres, clock=clock, lease="1d")) for _ in range(3)]
        worker, *people = processes
        worker.on("digest")(fired.append)
        await worker.schedules.put("report", every("1h"), "digest", misfire={"policy": "all", "limit": 1000})

        async def rehearse(app: Duly) -> None:
            act = luck.choice(("skip", "pause", "put", "move"))
            with suppress(Conflict):
                if act == "put":
                    await app.schedules.put("report", cron("30 * * * *"), "digest", dry_run=True)
                elif act == "move":
                    await app.schedules.reschedule("report", clock.now() + 5 * HOUR, dry_run=True)
                else:
                    await getattr(app.schedules, act)("report", dry_run=True)

        for _ in range(15):
            clock.advance(timedelta(minutes=luck.randrange(30, 300)))
            await asyncio.gather(worker.tick(), *(rehearse(app) for app in people for _ in range(3)), worker.tick())
        for _ in range(60):
            await worker.tick()
        hours = (clock.now() - START) // HOUR
        assert sorted(event.scheduled for event in fired if event.scheduled) == [
            START + n * HOUR for n in range(1, hours + 1)
        ]
        assert [entry.act for entry in await worker.schedules.history("report")] == ["created"]


async def test_an_event_whose_turn_comes_during_a_dry_run_is_not_forgotten(
    clean_postgres: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker passes over a head that the dry run has locked, and may have its schedule before the dry run has."""
    began, may_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    options: dict[str, Any] = {"clock": clock, "lease": "1d"}
    async with Duly(clean_postgres, **options) as app, Duly(clean_postgres, **options) as worker:

        async def run(event: Event) -> None:
            began.set()
            await may_end.wait()

        app.on("digest")(run)
        worker.on("digest")(run)
        worker.observe(lambda _: ended.set(), Completed)
        schedule = await app.schedules.put("report", every("1h"), "digest", overlap="queue")
        clock.advance(HOUR)
        running = asyncio.create_task(worker.run(signals=False))
        await began.wait()
        clock.advance(HOUR)
        await app.tick()
        [head] = [event for event in await app.events.find(OfSeries(schedule.series)) if event.head]
        assert head.held == "waits for its predecessor to end"

        async def locked(tx: Any, series: str) -> Event | None:
            found = await lock_head(tx, series)
            may_end.set()
            await ended.wait()
            return found

        monkeypatch.setattr(rehearsal, "lock_head", locked)
        await app.schedules.skip("report", dry_run=True)
        assert (await app.events.get(head.id)).held is None
        worker.stop()
        await running


async def test_a_pause_that_ends_by_itself_tells_what_follows_its_end(app: Duly) -> None:
    await app.schedules.put("hourly", every("1h"), "greet")
    found = told(await app.schedules.pause("hourly", until="90m", dry_run=True))
    assert f"no event starts until {START + 90 * MINUTE:%a %Y-%m-%d %H:%M}" in found.message
    assert found.next[0].due == START + 2 * HOUR
    assert (await app.schedules.get("hourly")).enabled
    await app.schedules.pause("hourly", until="90m")
    assert [one.due for one in await app.schedules.preview("hourly")] == [one.due for one in found.next]
    back = told((await app.schedules.resume("hourly", dry_run=True)).schedule)
    assert back.next[0].due == START + HOUR
