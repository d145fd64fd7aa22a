"""A head that carries its successor is fired by the claim itself; all others are decided about first. Both ways lead to
the same rows."""

import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Duly, DulyError, Event, OfTenant, Rule, cron, every, rrule, yearly
from duly.decide.series.successor import carrying
from duly.engine.series.careful_heads import CarefulHeads
from duly.engine.series.successors import Successors
from duly.records.event import NextState
from duly.testing import ManualClock
from tests.make import DAY, HOUR, MINUTE, SECOND, START, a_user
from tests.stores.rows import spelled, write

TYPE = "beat"

RULES: list[Rule] = [
    every("7m"),
    every("1h"),
    cron("*/20 * * * *", timezone="America/New_York"),
    cron("30 2 * * *", timezone="Europe/Brussels"),
    cron("0 9 * * MON", timezone="Australia/Lord_Howe"),
    rrule("FREQ=DAILY;INTERVAL=2;BYHOUR=1,13", start="2025-12-30T01:30:00", timezone="America/St_Johns"),
    yearly("01-03", at="09:00", timezone="Asia/Kathmandu"),
]

POLICIES: list[dict[str, Any]] = [
    {},
    {"misfire": "all"},
    {"misfire": {"policy": "all", "limit": 2}},
    {"misfire": "skip"},
    {"misfire": {"policy": "skip", "tolerance": "2h"}},
    {"exclude": ["SAT", "2026-01-02"]},
    {"exclude": ["holidays:BE"]},
    {"end": datetime(2027, 1, 10, tzinfo=UTC)},
    {"expires": "10m"},
    {"overlap": "skip"},
    {"mode": "shadow"},
]

SPANS = [SECOND, MINUTE, 7 * MINUTE, 20 * MINUTE, HOUR, 5 * HOUR, DAY, 9 * DAY]


async def silent(_event: Event) -> None: ...


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many heads were decided about, by each decision."""
    many: list[int] = []
    original = CarefulHeads.decide_about

    async def counted(self: CarefulHeads, reserved: Any, ending_within: timedelta) -> Any:
        many.append(len(reserved))
        return await original(self, reserved, ending_within)

    monkeypatch.setattr(CarefulHeads, "decide_about", counted)
    return many


async def states(app: Duly) -> list[str | None]:
    async with app.store.begin() as tx:
        found = await tx.fetch(spelled(app.store, "SELECT next_state FROM duly.events WHERE head"))
    return [row[0] for row in found]


async def test_a_schedule_that_fires_on_time_is_never_decided_about(
    app: Duly, clock: ManualClock, decisions: list[int]
) -> None:
    app.on(TYPE)(silent)
    schedule = await app.every("pulse", every("1h"), TYPE, {"n": 1})
    for hour in range(1, 4):
        clock.advance(HOUR)
        await app.tick()
        head = await app.store.head(schedule.series)
        assert head is not None
        assert (head.due, head.payload, await states(app)) == (START + (hour + 1) * HOUR, {"n": 1}, [NextState.KNOWN])
    assert decisions == []
    assert len(await app.events.find()) == 4


async def test_a_birthday_a_week_late_is_not_decided_about(app: Duly, clock: ManualClock, decisions: list[int]) -> None:
    app.on("birthday")(silent)
    await app.users.add(**a_user(date_of_birth="1990-03-15", timezone="UTC"))
    clock.set(START.replace(month=3, day=22))
    await app.tick()
    assert sorted(event.occurrence or "" for event in await app.events.find()) == ["2026-03-15", "2027-03-15"]
    assert decisions == []


async def test_a_head_whose_successor_is_not_known_yet_is_decided_about(
    app: Duly, clock: ManualClock, decisions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker was killed before it was completed."""
    monkeypatch.setattr(Successors, "add", lambda *_: None)
    app.on(TYPE)(silent)
    await app.every("pulse", every("1h"), TYPE)
    for _ in range(3):
        clock.advance(HOUR)
        await app.tick()
    assert len(await app.events.find()) == 4
    assert decisions == [1], "the second one; what is planted with a decision carries its successor again"


async def rescheduled(app: Duly) -> None:
    await app.schedules.reschedule("pulse", START + 3 * HOUR)


async def moved_by_hand(app: Duly) -> None:
    later = "+ interval '2 hours'" if app.store.dialect == "postgres" else "+ 7200000000"
    await write(app.store, f"UPDATE duly.events SET due = due {later}, ready = ready {later}")


async def paused_by_hand(app: Duly) -> None:
    await write(app.store, "UPDATE duly.schedules SET enabled = false, paused_since = updated")


async def given_another_rule_by_hand(app: Duly) -> None:
    await write(app.store, """UPDATE duly.schedules SET rule = '{"every":"2h","start":"2026-01-01T00:00:00Z"}'""")


@pytest.mark.parametrize("act", [rescheduled, moved_by_hand, given_another_rule_by_hand, paused_by_hand])
@pytest.mark.broken_rows("they were edited by hand")
async def test_a_head_that_somebody_has_changed_is_decided_about(
    app: Duly, clock: ManualClock, decisions: list[int], act: Callable[[Duly], Awaitable[None]]
) -> None:
    app.on(TYPE)(silent)
    await app.every("pulse", every("1h"), TYPE)
    await act(app)
    assert await states(app) == [NextState.CAREFUL]
    clock.advance(3 * HOUR)
    await app.tick()
    assert sum(decisions) >= 1


async def test_a_schedule_that_was_deleted_by_hand_fires_no_more(app: Duly, clock: ManualClock) -> None:
    app.on(TYPE)(silent)
    await app.every("pulse", every("1h"), TYPE)
    await write(app.store, "DELETE FROM duly.schedules")
    clock.advance(HOUR)
    await app.tick()
    assert len(await app.events.find()) == 1


async def test_an_edit_before_the_completion_is_not_undone_by_it(app: Duly, clock: ManualClock) -> None:
    """The successor was computed by the old rule, and the head has the new one by now."""
    app.on(TYPE)(silent)
    await app.every("pulse", every("1h", start=START), TYPE)
    await write(app.store, "UPDATE duly.events SET next_state = NULL")
    [(head, stored)] = await app.store.heads_without_successors([(await app.events.find())[0].id])
    assert stored is not None
    outdated = carrying(head, stored.as_series)
    assert outdated.next_due == START + 2 * HOUR
    await app.every("pulse", every("3h", start=START - 2 * HOUR), TYPE)
    await app.store.carry([outdated])
    clock.advance(HOUR)
    await app.tick()
    assert sorted(event.due for event in await app.events.find()) == [START + HOUR, START + 4 * HOUR]


# -- both ways


AT_ONCE = "at once"
DECIDED = "decided about"
"""Two tenants with the same schedules. All heads of the second one are decided about."""

Row = tuple[Any, ...]


async def rows(app: Duly, tenant: str) -> list[Row]:
    names = {schedule.series: schedule.name for schedule in await app.schedules.list(tenant=tenant)}
    found = await app.store.find(OfTenant(tenant), limit=5000)
    assert len(found) < 5000
    return sorted(
        (
            names[event.series or ""],
            str(event.scheduled),
            "by hand" if "trigger" in (event.occurrence or "") else event.occurrence,
            str(event.due),
            str(event.ready) if event.head else "",
            event.status.value,
            event.stands_for,
            event.head,
            event.held or "",
            event.timezone,
            event.zone_data or "",
            event.payload_json,
        )
        for event in found
    )


async def act_on_both(app: Duly, luck: random.Random) -> None:
    name = luck.choice(await app.schedules.list(tenant=AT_ONCE)).name
    act = getattr(app.schedules, luck.choice(["pause", "resume", "skip"]))
    told = []
    for tenant in (AT_ONCE, DECIDED):
        try:
            await act(name, tenant=tenant)
            told.append("done")
        except DulyError as refused:
            told.append(type(refused).__name__)
    assert told[0] == told[1]


@pytest.mark.parametrize("seed", range(8))
async def test_firing_at_once_and_deciding_first_lead_to_the_same_rows(
    app: Duly, clock: ManualClock, seed: int, decisions: list[int]
) -> None:
    luck = random.Random(seed)
    app.on(TYPE)(silent)
    clock.set(luck.choice([START, datetime(2026, 3, 28, 20, tzinfo=UTC), datetime(2026, 10, 24, 20, tzinfo=UTC)]))
    for n in range(8):
        rule, policies = luck.choice(RULES), luck.choice(POLICIES)
        for tenant in (AT_ONCE, DECIDED):
            await app.schedules.put(f"pulse-{n}", rule, TYPE, {"n": n}, tenant=tenant, **policies)
    for _ in range(25):
        clock.advance(luck.choice(SPANS))
        if luck.random() < 0.2:
            await act_on_both(app, luck)
        await write(app.store, f"UPDATE duly.events SET next_state = 'careful' WHERE head AND tenant = '{DECIDED}'")
        await app.tick()
        await app.tick()  # the second one fires what the first one has planted in the past
    assert await rows(app, AT_ONCE) == await rows(app, DECIDED)
    assert await rows(app, AT_ONCE)
    fired = sum(1 for event in await app.store.find(OfTenant(AT_ONCE), limit=5000) if not event.head)
    assert sum(decisions) < 2 * fired, "some heads were fired at once"
