"""Statistics of runs: equal to the histories, whatever was rolled up, pruned, repeated or lost on the way."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from duly import Duly, Event, Invalid, NotFound, Rejected, Retry, every
from duly.decide.figures.roll_up import DAYS_KEPT, HOURS_KEPT, RollUps
from duly.engine.figures import roll_up
from duly.engine.figures.roll_up import TASK, roll_up_some
from duly.records.figures.stats import Percentiles
from duly.stores.figures.stats import StatsQueries
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, MINUTE, SECOND, START, a_user, completed
from tests.runs_by_history import runs_of, stats_are_those_of_the_histories
from tests.stores.rows import ask
from tests.worker.running_worker import until, working

NOTHING = Percentiles(None, None, None)


@pytest.fixture
async def app(duly: OpenDuly, clock: ManualClock) -> Duly:
    app = await duly(retention="1h")

    async def act(event: Event) -> Rejected | None:
        """Takes as long as the payload says, or fails."""
        if event.payload == "reject":
            return Rejected("nobody is there")
        if event.payload == "fail":
            raise ValueError("not today")
        if isinstance(event.payload, float):
            clock.advance(timedelta(seconds=event.payload))
        return None

    for type in ("sync", "digest", "greet", "birthday"):
        app.on(type)(act)
    return app


async def rows(app: Duly) -> tuple[int, int]:
    """The rows of what has ended and is not rolled up, and those of roll-ups."""
    counted = [await ask(app.store, f"SELECT count(*) FROM duly.{table}") for table in ("ended_runs", "roll_ups")]
    return counted[0], counted[1]


async def everything(app: Duly, clock: ManualClock) -> None:
    """Every way in which an event ends, over some days."""
    await app.schedules.put("sync", every("1h"), "sync", 0.2)
    await app.schedules.put("digest", every("7h"), "digest", "fail", retry=Retry(max_attempts=2), tenant="acme")
    await app.schedules.put("shadow", every("9h"), "sync", mode="shadow")
    await app.schedules.put("strict", every("5h"), "sync", misfire={"policy": "skip", "tolerance": "1m"})
    await app.users.add(**a_user(date_of_birth="1990-01-03", timezone="UTC"))
    letter = await app.at(START + HOUR, "greet", "reject", key="k")
    for hour in range(60):
        await app.after(timedelta(seconds=hour % 7), "greet", hour / 20)
        await app.after(timedelta(minutes=3), "greet", expires="1m")
        clock.advance(HOUR)
        await app.tick()
        if hour == 20:
            await app.events.replay(letter.id)
        if hour == 30:
            await app.schedules.skip("sync")
        if hour == 40:
            await app.events.discard(letter.id)
            await app.schedules.pause("sync")
        if hour == 50:
            await app.schedules.resume("sync")


async def test_they_are_those_of_the_histories_and_outlive_the_events(app: Duly, clock: ManualClock) -> None:
    await everything(app, clock)
    runs = await runs_of(app)
    assert {(run.status, run.event.type) for run in runs} >= {
        ("COMPLETED", "sync"),
        ("COMPLETED", "birthday"),
        ("FAILED", "digest"),
        ("FAILED", "greet"),
        ("SKIPPED", "greet"),
        ("SKIPPED", "sync"),
    }
    assert len([run for run in runs if run.event.key == "k"]) == 2  # a replay is a run of its own
    await stats_are_those_of_the_histories(app, runs)
    while await roll_up_some(app.store, "w"):
        pass
    assert (await rows(app))[0] == 0
    await stats_are_those_of_the_histories(app, runs)
    clock.advance(2 * HOUR)
    assert (await app.prune()).events > 100
    assert len(await runs_of(app)) < len(runs)
    await stats_are_those_of_the_histories(app, runs)


async def test_each_tick_rolls_up_and_what_ended_since_is_told_as_well(app: Duly, clock: ManualClock) -> None:
    await app.after(0, "greet", 2.0)
    await app.tick()
    ended, rolled_up = await rows(app)
    assert (ended, rolled_up) == (0, 2)  # an hour and a day
    letter = await app.after(0, "greet", "reject")
    await app.tick()
    await app.events.replay(letter.id)
    await app.schedules.put("sync", every("1h"), "sync")
    await app.schedules.skip("sync")
    assert (await rows(app))[0] == 1
    await stats_are_those_of_the_histories(app)


async def test_a_worker_rolls_up_by_itself(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll_up, "EVERY_S", 0.01)
    async with working(app):
        for _ in range(3):
            event = await app.after(0, "greet")
            await until(lambda id=event.id: _has_ended(app, id), "it has ended")
            await until(lambda: _is_empty(app), "it is rolled up")
    assert (await rows(app))[1] == 2
    await stats_are_those_of_the_histories(app)


async def _has_ended(app: Duly, id: str) -> bool:
    return (await app.events.get(id)).status == "COMPLETED"


async def _is_empty(app: Duly) -> bool:
    return (await rows(app))[0] == 0


async def test_a_crash_while_rolling_up_counts_nothing_twice_and_loses_nothing(
    app: Duly, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(_: object, __: RollUps) -> None:
        raise ZeroDivisionError

    for seconds in (1.0, 2.0):
        await app.after(0, "greet", seconds)
    await app.tick()
    await app.after(0, "greet", "reject")
    await app.tick()
    with monkeypatch.context() as patched:
        patched.setattr(StatsQueries, "put_roll_ups", crash)
        await app.schedules.put("sync", every("1h"), "sync")
        await app.schedules.skip("sync")
        before = await rows(app)
        with pytest.raises(ZeroDivisionError):
            await roll_up_some(app.store, "w")
        assert await rows(app) == before
    for _ in range(2):
        await roll_up_some(app.store, "w")
    assert (await rows(app))[0] == 0
    await stats_are_those_of_the_histories(app)


async def test_workers_that_roll_up_at_once_count_each_run_once(duly: OpenDuly, clock: ManualClock) -> None:
    apps = [await duly() for _ in range(3)]
    for app in apps:

        @app.on("greet")
        async def greet(event: Event) -> None:
            pass

    for _ in range(10):
        for _ in range(3):
            await apps[0].after(0, "greet")
            await settled(apps[0])
        await asyncio.gather(*(roll_up_some(app.store, f"w{nth}") for nth, app in enumerate(apps)))
    await stats_are_those_of_the_histories(apps[0])
    assert (await apps[0].stats()).total.runs == 30


async def settled(app: Duly) -> None:
    """Completes what is ready, and rolls nothing up."""
    claimed = await app.store.claim("w", {"handler:greet": 10}, MINUTE)
    await app.store.settle([completed(event) for event in claimed], "w")


async def test_a_worker_that_does_not_have_the_task_rolls_up_nothing(app: Duly, clock: ManualClock) -> None:
    async with app.store.begin() as tx:
        assert await tx.take_upkeep(TASK, "another", MINUTE) is not None
    await app.after(0, "greet")
    await app.tick()
    assert (await rows(app))[0] == 1
    clock.advance(MINUTE)
    await roll_up_some(app.store, "w")
    assert (await rows(app))[0] == 0


async def test_an_effect_that_was_rolled_back_is_no_run(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly()

    @app.on("ledger", transactional=True)
    async def close(event: Event, tx: Any) -> None:
        if event.attempt == 1:
            raise ValueError("not yet")

    await app.after(0, "ledger", retry=Retry(max_attempts=2, base=MINUTE))
    await app.tick()
    assert (await app.stats()).total.runs == 0
    clock.advance(2 * MINUTE)
    await app.tick()
    assert (await app.stats()).total.completed == 1
    await stats_are_those_of_the_histories(app)


async def test_a_verdict_on_a_lost_claim_is_no_run(app: Duly, clock: ManualClock) -> None:
    lease = MINUTE
    for _ in range(3):
        await app.at(START, "greet")
    lost = await app.store.claim("a", {"handler:greet": 3}, lease)
    clock.advance(2 * MINUTE)
    [over] = await app.store.claim_interrupted("b", ["handler:greet"], lease)
    settled = await app.store.settle([completed(event) for event in lost], "a")
    assert len(settled) == 2
    assert over.event.id not in settled
    assert (await app.stats()).total.completed == 2
    await stats_are_those_of_the_histories(app)


# -- ranges


async def test_a_range_has_whole_hours_and_further_back_whole_days(app: Duly, clock: ManualClock) -> None:
    for _ in range(48):
        await app.after(0, "greet")
        await app.tick()
        clock.advance(HOUR)
    found = await app.stats(START + 90 * MINUTE, START + 26 * HOUR - MINUTE)
    assert (found.from_, found.to, found.total.runs) == (START + HOUR, START + 26 * HOUR, 25)
    assert [(day.day, day.runs) for day in found.days] == [(date(2026, 1, 1), 23), (date(2026, 1, 2), 2)]
    clock.advance(15 * DAY)
    found = await app.stats(START + 90 * MINUTE, START + 26 * HOUR)
    assert (found.from_, found.to, found.total.runs) == (START, START + 2 * DAY, 48)


async def test_without_a_range_it_has_30_days_until_now(app: Duly, clock: ManualClock) -> None:
    clock.set(START + 40 * DAY + 90 * MINUTE)
    found = await app.stats()
    assert (found.from_, found.to) == (START + 10 * DAY, START + 40 * DAY + 2 * HOUR)
    assert len(found.days) == 31
    assert (found.total.runs, found.total.success_rate, found.total.duration) == (0, None, NOTHING)
    assert found.groups == ()


async def test_roll_ups_of_hours_and_days_are_forgotten_in_their_time(app: Duly, clock: ManualClock) -> None:
    async def forget() -> int:
        return await app.store.forget_roll_ups(HOURS_KEPT, DAYS_KEPT, 10)

    await app.after(0, "greet")
    await app.tick()
    clock.advance(HOURS_KEPT)
    assert await forget() == 0
    clock.advance(SECOND)
    assert (await forget(), await rows(app)) == (1, (0, 1))
    assert (await app.stats(START, clock.now())).total.runs == 1
    clock.advance(DAYS_KEPT)
    assert (await forget(), await rows(app)) == (1, (0, 0))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"from_": START.replace(tzinfo=None)}, "from: .* no time zone"),
        ({"from_": "2026"}, "from: expected a datetime, not str"),
        ({"from_": START, "to": START}, "to: must be after the start"),
        ({"from_": START - 401 * DAY, "to": START}, "from: must be at most 400 days before the end"),
        ({"by": "schedule"}, "by: expected type or lane, not 'schedule'"),
        ({"tenant": ""}, "tenant"),
    ],
)
async def test_a_range_that_cannot_be_used_is_refused_with_the_reason(
    app: Duly, given: dict[str, Any], problem: str
) -> None:
    with pytest.raises(Invalid, match=problem):
        await app.stats(**given)


@pytest.mark.parametrize("edge", [datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, 23, 58, tzinfo=UTC)])
async def test_the_ends_of_time_are_ranges_too(app: Duly, edge: datetime) -> None:
    assert (await app.stats(edge, edge + MINUTE)).total.runs == 0
    assert (await app.stats(to=edge + MINUTE)).total.runs == 0


async def test_a_schedule_that_does_not_exist_has_none(app: Duly) -> None:
    with pytest.raises(NotFound, match="there is no schedule 'x'"):
        await app.schedules.stats("x")


async def test_the_runs_of_a_tenant_are_its_own(app: Duly, clock: ManualClock) -> None:
    for tenant in ("acme", "acme", "globex"):
        await app.schedules.put("sync", every("1h"), "sync", tenant=tenant)
        await app.after(0, "greet", tenant=tenant)
    clock.advance(HOUR)
    await app.tick()
    for tenant, greeted in (("acme", 2), ("globex", 1), ("nobody", 0)):
        assert (await app.stats(tenant=tenant)).total.runs == greeted + (tenant != "nobody")
    assert (await app.schedules.stats("sync", tenant="acme")).total.runs == 1
