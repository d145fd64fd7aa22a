"""Pauses with a note and an end: they end by themselves, at their instant, exactly once, and say what they passed."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from duly import Duly, Event, Invalid, OfSeries, Schedule, cron, every
from duly.records.schedule import HaltKind, Passed
from duly.testing import ManualClock
from duly.values.instants import write_instant
from tests.api.test_schedules import ticks
from tests.make import DAY, HOUR, MINUTE, SECOND, START
from tests.stores.rows import write


async def acts(app: Duly, name: str) -> list[tuple[str, str | None, str | None]]:
    return [(entry.act, entry.worker, entry.detail) for entry in await app.schedules.history(name)]


async def fired(app: Duly, schedule: Schedule) -> list[datetime]:
    """The instants of the occurrences that have fired, by the rule."""
    found = await app.events.find(OfSeries(schedule.series))
    return sorted(one.scheduled or one.due for one in found if one.status == "COMPLETED")


async def skipped(app: Duly, schedule: Schedule) -> list[datetime]:
    found = await app.events.find(OfSeries(schedule.series))
    return sorted(one.scheduled or one.due for one in found if one.status == "SKIPPED")


@pytest.fixture(autouse=True)
def seen(app: Duly) -> list[Event]:
    return ticks(app)


async def hourly(app: Duly, name: str = "hourly", **more: Any) -> Schedule:
    return await app.schedules.put(name, every("1h", start=START), "digest", **more)


# -- what a pause says


async def test_a_pause_shows_its_note_its_end_and_what_becomes_of_what_passes(app: Duly) -> None:
    await hourly(app)
    until = START + 150 * MINUTE
    paused = await app.schedules.pause("hourly", reason="migration", until=until, passed="fire", by="ada")
    told = (paused.enabled, paused.paused_since, paused.paused_until, paused.pause_reason, paused.pause_passed)
    assert told == (False, START, until, "migration", Passed.FIRE)
    assert await app.schedules.get("hourly") == paused == (await app.schedules.list())[0]
    [_, (act, by, detail)] = await acts(app, "hourly")
    assert (act, by) == ("paused", "ada")
    assert detail == f"until {write_instant(until)}, what passes meanwhile fires by the misfire policy: migration"


@pytest.mark.parametrize("until", [2 * HOUR, 7200, 7200.0, "2h", write_instant(START + 2 * HOUR), START + 2 * HOUR])
async def test_the_end_of_a_pause_is_an_instant_or_a_span(app: Duly, until: Any) -> None:
    await hourly(app)
    assert (await app.schedules.pause("hourly", until=until)).paused_until == START + 2 * HOUR


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"until": START}, "until"),
        ({"until": START - HOUR}, "until"),
        ({"until": 0}, "until"),
        ({"until": "-2h"}, "until"),
        ({"until": "tomorrow"}, "until"),
        ({"until": True}, "until"),
        ({"until": float("inf")}, "until"),
        ({"until": (START + DAY).replace(tzinfo=None)}, "until"),
        ({"until": timedelta(days=800_000)}, "until"),
        ({"until": 10**400}, "until"),
        ({"passed": "later"}, "passed"),
        ({"reason": 7}, "reason"),
    ],
)
async def test_a_pause_that_cannot_be_is_refused_with_its_field(app: Duly, said: Any, field: str) -> None:
    await hourly(app)
    with pytest.raises(Invalid) as refused:
        await app.schedules.pause("hourly", **said)
    assert [problem.path for problem in refused.value.problems] == [field]
    assert (await app.schedules.get("hourly")).enabled


async def test_a_second_pause_replaces_the_note_and_the_end(app: Duly, clock: ManualClock) -> None:
    await hourly(app)
    await app.schedules.pause("hourly", reason="one", until="3h", by="ada")
    clock.advance(MINUTE)
    again = await app.schedules.pause("hourly", reason="two", until=START + 5 * HOUR, by="bob")
    assert (again.paused_since, again.paused_until, again.pause_reason) == (START, START + 5 * HOUR, "two")
    assert await app.schedules.pause("hourly", reason="two", until=START + 5 * HOUR) == again
    assert await app.schedules.pause("hourly") == again, "it says nothing new"
    assert [(by, detail) for act, by, detail in await acts(app, "hourly") if act == "paused"] == [
        ("ada", f"until {write_instant(START + 3 * HOUR)}: one"),
        ("bob", f"until {write_instant(START + 5 * HOUR)}: two"),
    ]
    endless = await app.schedules.pause("hourly", reason="for good")
    assert (endless.paused_until, endless.pause_reason) == (None, "for good")
    clock.advance(DAY)
    await app.tick()
    assert not (await app.schedules.get("hourly")).enabled


# -- its end


async def test_a_pause_ends_by_itself_and_what_passed_is_skipped(app: Duly, clock: ManualClock) -> None:
    put = await hourly(app)
    await app.schedules.pause("hourly", until=START + 150 * MINUTE)
    clock.set(START + 150 * MINUTE - SECOND)
    await app.tick()
    assert not (await app.schedules.get("hourly")).enabled
    clock.set(START + 150 * MINUTE)
    await app.tick()
    resumed = await app.schedules.get("hourly")
    assert (resumed.enabled, resumed.next_at) == (True, START + 3 * HOUR)
    assert (resumed.paused_since, resumed.paused_until, resumed.pause_reason, resumed.pause_passed) == (None,) * 4
    assert await skipped(app, put) == [START + HOUR, START + 2 * HOUR]
    [*_, (act, by, detail)] = await acts(app, "hourly")
    assert (act, by) == ("resumed", "schedule")
    assert detail == (
        f"the pause ended at {write_instant(START + 150 * MINUTE)}: 2 occurrences were missed during the pause, and "
        f"were skipped; the next is due {write_instant(START + 3 * HOUR)}"
    )
    clock.advance(HOUR)
    await app.tick()
    assert await fired(app, put) == [START + 3 * HOUR]


@pytest.mark.parametrize("policy", ["latest", "all"])
async def test_a_pause_that_says_so_fires_what_passed(app: Duly, clock: ManualClock, policy: str) -> None:
    put = await hourly(app, misfire={"policy": policy})
    await app.schedules.pause("hourly", until=START + 150 * MINUTE, passed="fire")
    clock.set(START + 150 * MINUTE)
    await app.tick()
    one, two = START + HOUR, START + 2 * HOUR
    assert await fired(app, put) == ([one, two] if policy == "all" else [two])


@pytest.mark.parametrize("policy", ["latest", "all", "skip"])
@pytest.mark.parametrize("passed", ["skip", "fire"])
@pytest.mark.parametrize("how", ["a tick", "resume", "put", "reschedule"])
async def test_a_pause_that_ended_during_downtime_is_as_if_somebody_had_resumed_then(
    app: Duly, clock: ManualClock, policy: str, passed: str, how: str
) -> None:
    """One schedule is resumed by hand at that instant; nobody notices the end of the other one until hours later."""
    until = START + 150 * MINUTE
    by_hand = await hourly(app, "by hand", misfire={"policy": policy})
    put = await hourly(app, misfire={"policy": policy})
    await app.schedules.pause("by hand", passed=passed)
    await app.schedules.pause("hourly", until=until, passed=passed)
    clock.set(until)
    await app.schedules.resume("by hand")
    clock.set(START + 6 * HOUR + MINUTE)
    if how == "resume":
        resumed = await app.schedules.resume("hourly", by="ada")
        assert (resumed.passed, resumed.fires) == (2, passed == "fire")
    elif how == "put":
        await app.schedules.put("hourly", every("1h", start=START), "digest", {"n": 1}, misfire={"policy": policy})
    elif how == "reschedule":
        await app.schedules.reschedule("hourly", START + 6 * HOUR + 30 * MINUTE)
        await app.schedules.reschedule("by hand", START + 6 * HOUR + 30 * MINUTE)
    for _ in range(10):
        await app.tick()
    clock.set(START + 7 * HOUR)
    await app.tick()
    assert await fired(app, put) == await fired(app, by_hand)
    assert await skipped(app, put) == await skipped(app, by_hand)
    ends = [(by, detail) for act, by, detail in await acts(app, "hourly") if act == "resumed"]
    assert [by for by, _ in ends] == ["schedule"]
    assert str(ends[0][1]).startswith(f"the pause ended at {write_instant(until)}: 2 occurrences were missed")


async def test_what_was_owed_before_the_pause_fires_at_its_end(app: Duly, clock: ManualClock) -> None:
    put = await hourly(app)
    clock.set(START + HOUR + MINUTE)  # due, and nobody was there
    await app.schedules.pause("hourly", until="30m")
    clock.advance(30 * MINUTE)
    await app.tick()
    assert await fired(app, put) == [START + HOUR]


async def test_a_resumption_before_the_end_does_what_the_pause_has_said(app: Duly, clock: ManualClock) -> None:
    put = await hourly(app)
    await app.schedules.pause("hourly", until="1d", passed="fire")
    clock.advance(90 * MINUTE)
    assert (await app.schedules.resume("hourly")).fires
    await app.tick()
    assert await fired(app, put) == [START + HOUR]
    await app.schedules.pause("hourly", until="1d", passed="fire")
    clock.advance(HOUR)
    assert not (await app.schedules.resume("hourly", passed="skip")).fires, "unless it says something else"
    clock.advance(DAY)
    assert (await app.schedules.get("hourly")).enabled


async def test_many_workers_end_a_pause_once(app: Duly, clock: ManualClock) -> None:
    for number in range(5):
        await hourly(app, f"hourly-{number}")
        await app.schedules.pause(f"hourly-{number}", until="90m")
    clock.advance(2 * HOUR)
    await asyncio.gather(*(app.tick() for _ in range(4)))
    for number in range(5):
        assert [act for act, _, _ in await acts(app, f"hourly-{number}")] == ["created", "paused", "resumed"]


async def test_a_rule_that_cannot_be_evaluated_stays_paused_and_its_neighbour_resumes(
    app: Duly, clock: ManualClock
) -> None:
    await hourly(app, "a-neighbour")
    broken = await hourly(app, "broken")
    for name in ("a-neighbour", "broken"):
        await app.schedules.pause(name, until="90m")
    stored = await app.store.schedule_named("default", "broken")
    assert stored is not None
    await app.store.put_schedule(msgspec.structs.replace(stored, policies_json='{"exclude": ["holidays:XX"]}'))
    clock.advance(2 * HOUR)
    await app.tick()
    await app.tick()
    assert (await app.schedules.get("a-neighbour")).enabled
    shown = await app.schedules.get("broken")
    assert (shown.enabled, shown.paused_until, shown.halt_kind) == (False, None, HaltKind.ERROR)
    [*_, (act, by, detail)] = await acts(app, "broken")
    assert (act, by) == ("halted", "schedule")
    assert "stays paused" in str(detail)
    await app.schedules.put("broken", every("1h", start=START), "digest")
    await app.schedules.resume("broken")
    clock.advance(HOUR)
    await app.tick()
    assert await fired(app, broken) == [START + 3 * HOUR]


# -- edits while it is paused


async def test_an_edit_keeps_the_pause(app: Duly, clock: ManualClock) -> None:
    await hourly(app)
    until = START + 150 * MINUTE
    await app.schedules.pause("hourly", until=until, reason="migration")
    for enabled in (None, False):
        edited = await app.schedules.put("hourly", every("30m", start=START), "digest", enabled=enabled)
        assert (edited.paused_until, edited.pause_reason, edited.next_at) == (until, "migration", START + 3 * HOUR)
    clock.set(until)
    await app.tick()
    assert (await app.schedules.get("hourly")).next_at == START + 3 * HOUR


async def test_enabled_pauses_without_an_end_and_resumes(app: Duly) -> None:
    rule = every("1h", start=START)
    await hourly(app)
    await app.schedules.pause("hourly", until="2h", reason="migration")
    resumed = await app.schedules.put("hourly", rule, "digest", enabled=True)
    assert (resumed.enabled, resumed.paused_until, resumed.pause_reason) == (True, None, None)
    paused = await app.schedules.put("hourly", rule, "digest", enabled=False)
    assert (paused.enabled, paused.paused_until, paused.pause_reason) == (False, None, None)


# -- what knows of it


async def test_the_next_event_of_a_paused_schedule_is_the_one_that_will_fire(app: Duly, clock: ManualClock) -> None:
    await app.schedules.put("daily", cron("0 9 * * *", timezone="Europe/Brussels"), "digest")
    nine = (await app.schedules.get("daily")).next_at
    assert nine is not None
    later = await app.schedules.pause("daily", until=nine - MINUTE)
    assert later.next_at == nine
    over = await app.schedules.pause("daily", until=nine + DAY + MINUTE)
    assert over.next_at == nine + 2 * DAY
    fires = await app.schedules.pause("daily", until=nine + DAY + MINUTE, passed="fire")
    assert fires.next_at == nine + DAY + MINUTE
    ahead = await app.schedules.preview("daily", count=3)
    assert [one.due for one in ahead] == [nine + DAY + MINUTE, nine + 2 * DAY, nine + 3 * DAY]
    assert str(ahead[0].note).endswith("it fires when the pause ends, by the misfire policy")
    await app.schedules.pause("daily", until=nine + DAY + MINUTE)
    assert [one.due for one in await app.schedules.preview("daily", count=2)] == [nine + 2 * DAY, nine + 3 * DAY]
    after = await app.schedules.preview("daily", count=1, after=START)
    assert [one.due for one in after] == [nine + 2 * DAY]


@pytest.mark.parametrize("policy", ["latest", "all", "skip"])
@pytest.mark.parametrize("passed", ["skip", "fire"])
@pytest.mark.parametrize("owed", [False, True])
async def test_the_forecast_knows_when_a_pause_ends(
    app: Duly, clock: ManualClock, policy: str, passed: str, owed: bool
) -> None:
    """What the forecast says is what then fires, in each half hour."""
    put = await hourly(app, misfire={"policy": policy, "tolerance": "2h"})
    if owed:
        clock.set(START + HOUR)
    await app.schedules.pause("hourly", until=START + 255 * MINUTE, passed=passed)
    start, half = clock.now(), 30 * MINUTE
    forecast = await app.forecast(start, start + 8 * HOUR, half)
    firings: list[datetime] = []
    while clock.now() < start + 8 * HOUR - 15 * MINUTE:
        clock.advance(15 * MINUTE)
        await app.tick()
    for event in await app.events.find(OfSeries(put.series)):
        if event.status == "COMPLETED":
            assert event.executed is not None
            firings.append(event.executed)
    assert [step.count for step in forecast.steps] == [
        sum(step.at <= at < step.at + half for at in firings) for step in forecast.steps
    ]


async def test_a_held_event_says_until_when_and_what_then(app: Duly, clock: ManualClock) -> None:
    put = await hourly(app)
    head = await app.store.head_id(put.series)
    assert head is not None
    until = START + 150 * MINUTE
    for passed, fate in (("skip", "it is skipped then"), ("fire", "then it fires by the misfire policy")):
        await app.schedules.pause("hourly", until=until, reason="migration", passed=passed)
        why = await app.events.why(head)
        assert (why.kind, why.next_at) == ("held", until)
        assert f"held until {write_instant(until)}" in why.message
        assert "(migration)" in why.message
        assert fate in why.message
        assert "duly schedules resume hourly" in why.message
    await app.schedules.pause("hourly", until=START + 30 * MINUTE)
    assert f"it fires at {write_instant(START + HOUR)}" in (await app.events.why(head)).message
    await app.schedules.pause("hourly", reason="for good")
    assert (await app.events.why(head)).next_at is None


async def test_a_process_that_knows_no_ends_of_pauses_leaves_none_behind(app: Duly, clock: ManualClock) -> None:
    """One of an earlier version enables a schedule and pauses it again: the second pause does not end as the first."""
    await hourly(app)
    await app.schedules.pause("hourly", until="2h", reason="migration", passed="fire")
    await write(
        app.store, "UPDATE duly.schedules SET enabled = true, halted = NULL, halt_kind = NULL, paused_since = NULL"
    )
    await write(app.store, "UPDATE duly.events SET held = NULL, hold_kind = NULL, ready = due")
    shown = await app.schedules.get("hourly")
    assert (shown.enabled, shown.paused_until, shown.pause_reason, shown.pause_passed) == (True, None, None, None)


async def test_a_pause_in_a_transaction_that_is_rolled_back_never_was(app: Duly) -> None:
    await hourly(app)

    async def paused_for_nothing() -> None:
        async with app.transaction() as tx:
            await app.schedules.pause("hourly", until="1h", transaction=tx)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await paused_for_nothing()
    assert (await app.schedules.get("hourly")).enabled


async def test_a_triggered_event_fires_during_a_pause(app: Duly, seen: list[Event]) -> None:
    await app.schedules.put("hourly", every("1h", start=START), "digest")
    await app.schedules.pause("hourly", until="2h")
    await app.schedules.trigger("hourly")
    await app.tick()
    assert len(seen) == 1
    assert not (await app.schedules.get("hourly")).enabled
