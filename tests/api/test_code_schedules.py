"""Schedules that code declares."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from duly import Duly, Event, HaltKind, Invalid, Misuse, OfSeries, Status, cron, every, once
from duly.signals import Orphaned
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, MINUTE, START
from tests.stores.rows import write
from tests.worker.running_worker import Told, until, working


def declare(app: Duly, name: str = "report", rule: Any = None, **options: Any) -> list[Event]:
    fired: list[Event] = []

    @app.schedule(rule or every("1h", start=START), name=name, **options)
    async def report(event: Event) -> None:
        fired.append(event)

    return fired


async def test_a_declared_schedule_is_written_at_start_with_its_policies(app: Duly) -> None:
    declare(app, rule=cron("0 9 * * MON", timezone="Europe/Brussels"), misfire="skip", exclude=["SAT"], payload=7)
    assert await app.schedules.list() == []
    await app.tick()
    shown = await app.schedules.get("report")
    assert (shown.type, shown.timezone, shown.payload) == ("report", "Europe/Brussels", 7)
    assert (shown.policies.misfire.policy, shown.policies.exclude) == ("skip", ("SAT",))
    assert shown.origin == "tests.api.test_code_schedules:declare.<locals>.report"


async def test_a_deploy_leaves_what_an_operator_paused_and_moved(duly: OpenDuly) -> None:
    first = await duly()
    declare(first)
    await first.tick()
    await first.schedules.reschedule("report", START + 90 * MINUTE)
    await first.schedules.pause("report")
    second = await duly()
    declare(second)
    await second.tick()
    shown = await second.schedules.get("report")
    assert (shown.enabled, shown.next_at, shown.held) == (False, START + 90 * MINUTE, "paused")
    third = await duly()
    declare(third, rule=every("2h", start=START))
    await third.tick()
    shown = await third.schedules.get("report")
    assert (shown.enabled, shown.next_at, shown.held) == (False, START + 2 * HOUR, "paused"), "a new rule is a new time"


async def test_schedules_that_no_code_declares_any_more_are_told_of_and_kept(
    duly: OpenDuly, clock: ManualClock
) -> None:
    before = await duly()
    for name in ("kept", "removed"):
        declare(before, name)
    await before.tick()
    await before.schedules.put("by-hand", every("1h"), "digest")
    await write(before.store, "UPDATE duly.schedules SET origin = $1 WHERE name = $2", "elsewhere.jobs:run", "by-hand")
    after = await duly()
    told = Told(after)
    declare(after, "kept")
    await after.tick()
    assert [signal.schedules for signal in told.of(Orphaned)] == [["removed"]], "another program's are its own affair"
    assert (await after.schedules.get("removed")).next_at == START + HOUR
    last = await duly()

    @last.on("another")
    async def another(event: Event) -> None: ...

    assert [schedule.name for schedule in await last.orphans()] == ["kept", "removed"], "it declares none any more"


async def test_what_depends_on_another_may_be_declared_before_it(app: Duly) -> None:
    declare(app, "report", depends_on={"schedule": "load", "within": "1h"})
    declare(app, "load", depends_on={"schedule": "fetch", "within": "1h"})
    declare(app, "fetch")
    await app.tick()
    assert [one.name for one in await app.schedules.list()] == ["fetch", "load", "report"]


async def test_a_declared_schedule_that_cannot_be_is_refused_where_it_is_declared(app: Duly) -> None:
    with pytest.raises(Invalid, match=r"misfire.policy"):
        declare(app, misfire="sometimes")
    with pytest.raises(Misuse, match="must decorate a function"):
        app.schedule(every("1h"))(42)  # type: ignore[type-var]
    declare(app, depends_on={"schedule": "nobody", "within": "1h"})
    with pytest.raises(Invalid, match=r"schedule 'report' \(tests.api.test_code_schedules:.*\): depends_on.schedule"):
        await app.tick()


# -- many schedules, many workers


async def test_ten_workers_and_one_due_schedule_make_one_event(duly: OpenDuly, clock: ManualClock) -> None:
    crew = [await duly() for _ in range(10)]
    fired = [declare(app) for app in crew]
    for app in crew:
        await app.tick()
    clock.advance(HOUR)
    await asyncio.gather(*(app.tick() for app in crew))
    [event] = [event for each in fired for event in each]
    assert (event.scheduled, event.stands_for) == (START + HOUR, 1)
    schedule = await crew[0].schedules.get("report")
    statuses = Counter(event.status for event in await crew[0].events.find(OfSeries(schedule.series)))
    assert statuses == {Status.COMPLETED: 1, Status.PENDING: 1}


async def test_ten_workers_at_work_fire_every_schedule_once_each_time(url: str) -> None:
    """Really at work, all at once, on a clock of nobody's."""
    crew = [Duly(url, concurrency=20) for _ in range(4)]
    fired: list[Event] = []
    for app in crew:

        @app.on("tick")
        async def tick(event: Event) -> None:
            fired.append(event)

    async with crew[0] as app:
        for number in range(30):
            await app.schedules.put(f"each-{number}", every("1s"), "tick")
        async with asyncio.TaskGroup() as group:
            stop = asyncio.Event()

            async def work(app: Duly) -> None:
                async with app, working(app):
                    await stop.wait()

            for one in crew:
                group.create_task(work(one))
            await until(lambda: len(fired) >= 120, "each has fired four times")
            stop.set()
    identities = Counter((event.series, event.occurrence) for event in fired)
    assert set(identities.values()) == {1}
    assert len({event.series for event in fired}) == 30


async def test_a_recurrence_that_would_run_for_ever_is_an_error_on_its_own_schedule(
    app: Duly, clock: ManualClock
) -> None:
    endless = '{"rrule": "FREQ=DAILY;INTERVAL=7;BYDAY=MO", "start": "2026-01-01T00:00:00"}'
    fired: list[Event] = []

    @app.on("tick")
    async def tick(event: Event) -> None:
        fired.append(event)

    for name in ("a", "bad", "z"):
        await app.schedules.put(name, every("1h"), "tick", name)
    await write(app.store, "UPDATE duly.schedules SET rule = $1 WHERE name = $2", endless, "bad")
    clock.advance(HOUR)
    await app.tick()
    clock.advance(HOUR)
    await app.tick()
    assert Counter(event.payload for event in fired) == {"a": 2, "z": 2, "bad": 1}
    bad = await app.schedules.get("bad")
    assert bad.next_at is None
    assert bad.halt_kind is HaltKind.ERROR
    assert str(bad.halted).startswith("TooMuchWork: gave up after 10,000 steps")
    mended = await app.schedules.put("bad", every("1h"), "tick", "bad")
    assert (mended.halted, mended.next_at) == (None, START + 3 * HOUR)


async def test_an_impossible_recurrence_is_refused_when_it_is_put(app: Duly) -> None:
    with pytest.raises(Invalid, match=r"rule: gave up after 10,000 steps, .* without finding"):
        await app.schedules.put(
            "never", {"rrule": "FREQ=DAILY;INTERVAL=7;BYDAY=MO", "start": "2026-01-01T00:00:00"}, "tick"
        )
    with pytest.raises(Invalid, match=r"rule\.rrule: BYSETPOS=5 never matches: .* at most 1 to choose from"):
        await app.schedules.put("never", {"rrule": "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=5"}, "tick")
    with pytest.raises(Invalid, match="rule: it never fires"):
        await app.schedules.put("never", {"rrule": "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"}, "tick")


@pytest.mark.parametrize(
    ("rule", "bounds", "why"),
    [
        (
            {"rrule": "FREQ=DAILY;UNTIL=20251230T000000", "start": "2025-01-01T00:00:00"},
            {},
            "its last was 2025-12-30T00:00:00Z",
        ),
        ({"at": "2025-01-01T00:00:00Z"}, {}, "its last was 2025-01-01T00:00:00Z"),
        ({"cron": "0 9 * * *"}, {"end": START - DAY}, "its last was 2025-12-30T09:00:00Z"),
        (
            {"rrule": "FREQ=DAILY;COUNT=3"},
            {"start": START + 7 * DAY},
            "its start, end and exclusions leave no occurrence",
        ),
    ],
)
async def test_a_rule_that_is_over_at_once_is_refused_with_the_reason(
    app: Duly, rule: dict[str, Any], bounds: dict[str, Any], why: str
) -> None:
    with pytest.raises(Invalid, match=f"rule: it is over before it begins: {why}, and nothing would fire"):
        await app.schedules.put("over", rule, "tick", **bounds)
    assert await app.schedules.list() == []


async def test_a_program_that_declares_what_is_over_starts_all_the_same(app: Duly) -> None:
    declare(app, rule=once(START - DAY))
    await app.tick()
    assert (await app.schedules.get("report")).halted == "ended"


@pytest.mark.parametrize("text", ["FREQ=DAILY;COUNT=3", "FREQ=DAILY;BYHOUR=0,1;COUNT=3", "FREQ=SECONDLY;COUNT=3"])
async def test_a_count_without_a_start_counts_what_fires(app: Duly, clock: ManualClock, text: str) -> None:
    fired: list[Event] = []

    @app.on("tick")
    async def tick(event: Event) -> None:
        fired.append(event)

    await app.schedules.put("three", {"rrule": text}, "tick", misfire="all")
    for _ in range(5):
        clock.advance(DAY)
        await app.tick()
    assert [event.stands_for for event in fired] == [1, 1, 1]
    assert fired[0].due > START
    assert (await app.schedules.get("three")).halted == "ended"


async def test_putting_a_rule_with_a_count_of_one_again_keeps_its_only_occurrence(
    app: Duly, clock: ManualClock
) -> None:
    put = await app.schedules.put("one", {"rrule": "FREQ=DAILY;COUNT=1"}, "tick")
    assert put.next_at == START + DAY
    again = await app.schedules.put("one", {"rrule": "FREQ=DAILY;COUNT=1"}, "tick")
    assert again.next_at == START + DAY, "it is the same rule, and keeps its start"


async def test_a_day_of_downtime_with_many_hourly_schedules_fires_each_once(app: Duly, clock: ManualClock) -> None:
    fired: list[Event] = []

    @app.on("tick")
    async def tick(event: Event) -> None:
        fired.append(event)

    for number in range(300):
        await app.schedules.put(f"hourly-{number}", cron(f"{number % 60} * * * *"), "tick")
    clock.advance(DAY)
    await app.tick()
    assert (len(fired), sum(event.stands_for for event in fired)) == (300, 300 * 24)
