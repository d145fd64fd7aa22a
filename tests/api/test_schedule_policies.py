"""What the policies of a schedule do, through the public calls, on both stores."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Duly, Event, Failed, Invalid, OfSeries, Retry, Schedule, cron, every, yearly
from duly.testing import ManualClock
from tests.api.test_schedules import ticks
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, MINUTE, SECOND, START
from tests.worker.running_worker import until, working


async def events_of(app: Duly, schedule: Schedule, status: str) -> list[Event]:
    """Oldest first."""
    found = await app.events.find(OfSeries(schedule.series), limit=1000)
    return sorted((event for event in found if event.status == status), key=lambda event: event.due)


async def told(app: Duly, event: Event) -> list[tuple[str, str | None]]:
    return [(entry.act, entry.detail) for entry in await app.events.history(event.id)]


# -- misfires: five missed minutes


MISSED = 5 * MINUTE + 31 * SECOND  # those of minutes 1 to 5, the last one 31 s late


async def test_of_five_missed_minutes_the_latest_fires(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("minutely", cron("* * * * *"), "digest")
    clock.advance(MISSED)
    await app.tick()
    await app.tick()
    assert [(event.scheduled, event.stands_for) for event in fired] == [(START + 5 * MINUTE, 5)]
    [event] = await events_of(app, schedule, "COMPLETED")
    assert event.lateness == 31 * SECOND
    assert await told(app, event) == [
        ("caught up", "stands for 5 occurrences, 2026-01-01T00:01:00Z to 2026-01-01T00:05:00Z: only the latest fires"),
        ("delivered", None),
    ]


async def test_of_five_missed_minutes_the_policy_skip_fires_none(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("minutely", cron("* * * * *"), "digest", misfire="skip")
    clock.advance(MISSED)
    await app.tick()
    assert fired == []
    [event] = await events_of(app, schedule, "SKIPPED")
    assert event.stands_for == 5
    assert await told(app, event) == [("skipped", "5 occurrences were more than 30s late")]
    clock.set(START + 6 * MINUTE)
    await app.tick()
    assert [(event.scheduled, event.stands_for) for event in fired] == [(START + 6 * MINUTE, 1)], "on time, it fires"


async def test_the_policy_skip_fires_what_is_within_its_tolerance_in_one_tick(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    await app.schedules.put("minutely", cron("* * * * *"), "digest", misfire={"policy": "skip", "tolerance": "150s"})
    clock.advance(MISSED)
    await app.tick()
    assert [event.scheduled for event in fired] == [START + n * MINUTE for n in (4, 5)], (
        "that of minute 3 is 151 s late"
    )


async def test_of_five_missed_minutes_the_policy_all_fires_each_once_oldest_first(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    await app.schedules.put("minutely", cron("* * * * *"), "digest", misfire="all")
    clock.advance(MISSED)
    await app.tick()
    await app.tick()
    assert [(event.scheduled, event.stands_for) for event in fired] == [(START + n * MINUTE, 1) for n in range(1, 6)]


async def test_the_policy_all_fires_the_most_recent_up_to_its_limit_and_records_the_others(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("minutely", cron("* * * * *"), "digest", misfire={"policy": "all", "limit": 3})
    clock.advance(DAY)
    await app.tick()
    assert [event.scheduled for event in fired] == [START + DAY - n * MINUTE for n in (2, 1, 0)]
    [event] = await events_of(app, schedule, "SKIPPED")
    assert event.stands_for == 1437
    assert await told(app, event) == [("skipped", "1,440 occurrences were missed, and only the latest 3 are caught up")]


@pytest.mark.parametrize(("misfire", "each"), [("latest", 1), ("skip", 0), ({"policy": "all", "limit": 24}, 24)])
async def test_a_day_of_downtime_is_no_stampede(app: Duly, clock: ManualClock, misfire: Any, each: int) -> None:
    fired = ticks(app)
    for number in range(20):
        await app.schedules.put(f"hourly-{number}", cron("0 * * * *"), "digest", misfire=misfire)
    clock.advance(DAY + MINUTE)
    await app.tick()
    assert Counter(Counter(event.series for event in fired).values()) == ({each: 20} if each else {})
    clock.set(START + DAY + HOUR)
    await app.tick()
    assert len(fired) == 20 * each + 20


# -- so many at a time


LEASE = "1d"  # so that moving the clock by hours does not end it
NOT_YET = Failed("not yet", retry_after=DAY)


class Slow:
    """A handler that begins, and ends when it is told to."""

    def __init__(self, app: Duly) -> None:
        self.began: list[Event] = []
        self._going_on = asyncio.Semaphore(0)
        self._outcomes: list[Failed | None] = []

        @app.on("slow")
        async def slow(event: Event) -> Failed | None:
            self.began.append(event)
            await self._going_on.acquire()
            return self._outcomes.pop(0)

    def end_one(self, outcome: Failed | None = None) -> None:
        self._outcomes.append(outcome)
        self._going_on.release()

    async def has_begun(self, many: int) -> None:
        await until(lambda: len(self.began) == many, f"{many} have begun")


@asynccontextmanager
async def ticking(*apps: Duly) -> AsyncIterator[None]:
    """A pass of each, at the same time; it has ended when this is left."""
    async with asyncio.TaskGroup() as group:
        for app in apps:
            group.create_task(app.tick())
        yield


async def state(app: Duly, name: str = "slow") -> tuple[datetime | None, str | None]:
    shown = await app.schedules.get(name)
    return shown.next_at, shown.held


async def test_a_queued_event_waits_visibly_until_its_predecessor_has_ended(duly: OpenDuly, clock: ManualClock) -> None:
    app, other = await duly(lease=LEASE, shutdown_grace="1s"), await duly(lease=LEASE, shutdown_grace="1s")
    slow, late = Slow(app), Slow(other)
    schedule = await app.schedules.put("slow", every("1h"), "slow", overlap="queue")
    clock.advance(HOUR)
    async with ticking(app):
        await slow.has_begun(1)
        clock.advance(3 * HOUR)
        await other.tick()
        assert (late.began, await state(app)) == ([], (START + 2 * HOUR, "waits for its predecessor to end"))
        [waiting] = await events_of(app, schedule, "PENDING")
        assert (waiting.ready, waiting.head) == (None, True)
        slow.end_one()
    async with ticking(app):
        await slow.has_begun(2)
        assert await state(app) == (START + 5 * HOUR, None)
        slow.end_one()
    assert [(event.scheduled, event.stands_for) for event in slow.began] == [
        (START + HOUR, 1),
        (START + 4 * HOUR, 3),
    ], "one run stands for all that came due meanwhile"
    assert [act for act, _ in await told(app, waiting)] == ["held", "released", "caught up", "delivered"]


async def test_an_event_is_left_out_while_its_predecessor_is_under_way(duly: OpenDuly, clock: ManualClock) -> None:
    app, other = await duly(lease=LEASE, shutdown_grace="1s"), await duly(lease=LEASE, shutdown_grace="1s")
    slow = Slow(app)
    Slow(other)
    schedule = await app.schedules.put("slow", every("1h"), "slow", overlap="skip")
    clock.advance(HOUR)
    async with ticking(app):
        await slow.has_begun(1)
        clock.advance(HOUR)
        await other.tick()
        [skipped] = await events_of(app, schedule, "SKIPPED")
        assert await told(app, skipped) == [("skipped", "its predecessor is still running")]
        assert await state(app) == (START + 3 * HOUR, None)
        slow.end_one()
    clock.advance(HOUR)
    async with ticking(app):
        await slow.has_begun(2)
        slow.end_one()


async def test_by_default_events_of_a_schedule_overlap(duly: OpenDuly, clock: ManualClock) -> None:
    app, other = await duly(lease=LEASE, shutdown_grace="1s"), await duly(lease=LEASE, shutdown_grace="1s")
    slow, also = Slow(app), Slow(other)
    schedule = await app.schedules.put("slow", every("1h"), "slow")
    clock.advance(HOUR)
    async with ticking(app):
        await slow.has_begun(1)
        clock.advance(HOUR)
        async with ticking(other):
            await also.has_begun(1)
            assert len(await events_of(app, schedule, "PROCESSING")) == 2
            slow.end_one()
            also.end_one()


async def test_no_more_are_under_way_than_the_schedule_allows(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly(lease=LEASE, shutdown_grace="1s")
    slow = Slow(app)
    schedule = await app.schedules.put("slow", every("1h"), "slow", max_concurrent=2, misfire="all")
    clock.advance(5 * HOUR)
    async with working(app):
        for done in range(5):
            await slow.has_begun(min(5, 2 + done))
            assert len(await events_of(app, schedule, "PROCESSING")) <= 2
            if done < 3:
                await until(lambda: state_is(app, "waits for one of 2 to end"), "the next one waits")
            slow.end_one()
    assert [event.scheduled for event in slow.began] == [START + n * HOUR for n in range(1, 6)]


async def state_is(app: Duly, reason: str) -> bool:
    return (await state(app))[1] == reason


@pytest.mark.parametrize("fails", [True, False])
async def test_a_predecessor_that_is_retried_has_not_ended(duly: OpenDuly, clock: ManualClock, fails: bool) -> None:
    app = await duly(lease=LEASE, shutdown_grace="1s")
    slow = Slow(app)
    schedule = await app.schedules.put("slow", every("1h"), "slow", overlap="queue", retry=Retry(max_attempts=2))
    clock.advance(HOUR)
    async with ticking(app):
        await slow.has_begun(1)
        slow.end_one(NOT_YET)
    clock.advance(HOUR)
    await app.tick()
    assert await state(app) == (START + 2 * HOUR, "waits for its predecessor to end")
    clock.advance(DAY)
    async with ticking(app):
        await slow.has_begun(2)
        slow.end_one(NOT_YET if fails else None)
        await slow.has_begun(3)
        slow.end_one()
    assert [event.attempt for event in slow.began] == [1, 2, 1]
    assert len(await events_of(app, schedule, "FAILED")) == int(fails)


async def test_cancelling_a_predecessor_that_waits_to_be_retried_lets_the_next_one_go(
    duly: OpenDuly, clock: ManualClock
) -> None:
    app = await duly(lease=LEASE, shutdown_grace="1s")
    slow = Slow(app)
    await app.schedules.put("slow", every("1h"), "slow", overlap="queue")
    clock.advance(HOUR)
    async with ticking(app):
        await slow.has_begun(1)
        slow.end_one(NOT_YET)
    clock.advance(HOUR)
    await app.tick()
    await app.events.cancel(slow.began[0].id)
    assert await state(app) == (START + 2 * HOUR, None)
    async with ticking(app):
        await slow.has_begun(2)
        slow.end_one()


async def test_triggers_and_backfills_wait_for_the_limit_of_their_schedule(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly(lease=LEASE, shutdown_grace="1s")
    slow = Slow(app)
    schedule = await app.schedules.put("slow", cron("0 * * * *"), "slow", max_concurrent=1)
    filled = await app.schedules.backfill("slow", START - 3 * HOUR, START)
    triggered = await app.schedules.trigger("slow")
    assert (triggered.held, triggered.ready) == ("waits for its turn", None)
    async with ticking(app):
        for number in range(4):
            await slow.has_begun(number + 1)
            assert len(await events_of(app, schedule, "PROCESSING")) == 1
            slow.end_one()
    assert [event.id for event in slow.began] == [*filled.ids, triggered.id]


async def test_raising_the_limit_of_a_schedule_releases_waiting_events_at_once(
    duly: OpenDuly, clock: ManualClock
) -> None:
    app, other = await duly(lease=LEASE, shutdown_grace="1s"), await duly(lease=LEASE, shutdown_grace="1s")
    slow, also = Slow(app), Slow(other)
    await app.schedules.put("slow", every("1h"), "slow", max_concurrent=1)
    clock.advance(HOUR)
    async with ticking(app):
        await slow.has_begun(1)
        clock.advance(HOUR)
        await other.tick()
        assert (await state(app))[1] == "waits for its predecessor to end"
        assert (await app.schedules.put("slow", every("1h"), "slow", max_concurrent=2)).held is None
        async with ticking(other):
            await also.has_begun(1)
            also.end_one()
            slow.end_one()


async def test_a_limit_counts_also_events_that_began_before_it(duly: OpenDuly, clock: ManualClock) -> None:
    app, other = await duly(lease=LEASE, shutdown_grace="1s"), await duly(lease=LEASE, shutdown_grace="1s")
    slow = Slow(app)
    Slow(other)
    await app.schedules.put("slow", every("1h"), "slow")
    clock.advance(HOUR)
    async with ticking(app):
        await slow.has_begun(1)
        await app.schedules.put("slow", every("1h"), "slow", overlap="queue")
        clock.advance(HOUR)
        await other.tick()
        assert (await state(app))[1] == "waits for its predecessor to end"
        slow.end_one()
    async with ticking(app):  # the one that ended did not know of the limit: the next pass finds it
        await slow.has_begun(2)
        slow.end_one()


async def test_a_pause_holds_also_waiting_triggers_and_backfills(duly: OpenDuly, clock: ManualClock) -> None:
    app = await duly()
    fired = ticks(app)
    schedule = await app.schedules.put("hourly", cron("0 * * * *"), "digest")
    await app.schedules.backfill("hourly", START - 3 * HOUR, START)
    await app.schedules.pause("hourly")
    await app.tick()
    assert fired == []
    assert {event.held for event in await events_of(app, schedule, "PENDING")} == {"paused"}
    await app.schedules.resume("hourly")
    await app.tick()
    assert len(fired) == 3


async def test_an_event_that_has_begun_goes_on_through_a_pause_and_a_trigger_waits_for_it_alone(
    duly: OpenDuly, clock: ManualClock
) -> None:
    app = await duly(lease=LEASE, shutdown_grace="1s")
    slow = Slow(app)
    await app.schedules.put("slow", cron("0 * * * *"), "slow", max_concurrent=1)
    await app.schedules.backfill("slow", START - 2 * HOUR, START)
    async with ticking(app):
        await slow.has_begun(1)
        slow.end_one(NOT_YET)
    await app.schedules.pause("slow")
    triggered = await app.schedules.trigger("slow")
    assert triggered.held == "waits for its turn"
    clock.advance(DAY)
    async with ticking(app):
        await slow.has_begun(2)
        assert slow.began[1].id == slow.began[0].id, "it is retried"
        slow.end_one()
        await slow.has_begun(3)
        assert slow.began[2].id == triggered.id
        slow.end_one()
    await app.schedules.resume("slow")
    async with ticking(app):
        await slow.has_begun(4)
        assert slow.began[3].scheduled == START - HOUR, "what the pause had held"
        slow.end_one()


@pytest.mark.parametrize("policies", [{"overlap": "queue"}, {"max_concurrent": 1}])
async def test_a_held_event_is_released_when_its_reason_ends_and_not_at_the_next_poll(
    url: str, policies: dict[str, Any]
) -> None:
    async with Duly(url, poll_interval="1h", shutdown_grace="1s") as app:
        slow = Slow(app)
        await app.schedules.put("slow", every("1s"), "slow", **policies)
        async with working(app):
            await slow.has_begun(1)
            await until(lambda: state_is(app, "waits for its predecessor to end"), "the next one waits")
            slow.end_one()
            await slow.has_begun(2)
            await app.schedules.pause("slow")
            slow.end_one()
            await app.schedules.resume("slow")
            await slow.has_begun(3)
            await app.schedules.pause("slow")
            slow.end_one()


# -- dependencies


async def test_a_schedule_fires_only_if_the_one_it_depends_on_has_succeeded_lately(
    app: Duly, clock: ManualClock
) -> None:
    loaded, reported = ticks(app, "load"), ticks(app, "report")
    await app.schedules.put("load", cron("0 0 * * *"), "load")
    report = await app.schedules.put(
        "report", cron("30 * * * *"), "report", depends_on={"schedule": "load", "within": "2h"}
    )
    for _ in range(48):
        clock.advance(30 * MINUTE)
        await app.tick()
    assert [event.scheduled for event in loaded] == [START + DAY]
    assert reported == []
    skipped = await events_of(app, report, "SKIPPED")
    assert len(skipped) == 24
    assert await told(app, skipped[0]) == [("skipped", "'load' has not succeeded within the 2h before")]
    for _ in range(6):
        clock.advance(30 * MINUTE)
        await app.tick()
    assert [event.scheduled for event in reported] == [START + DAY + n * HOUR + 30 * MINUTE for n in (0, 1)]


async def test_a_schedule_does_not_fire_if_the_one_it_depends_on_has_failed(app: Duly, clock: ManualClock) -> None:
    reported = ticks(app, "report")

    @app.on("load")
    async def load(event: Event) -> None:
        raise ValueError("no data")

    await app.schedules.put("load", cron("0 * * * *"), "load", retry=Retry(max_attempts=1))
    await app.schedules.put("report", cron("1 * * * *"), "report", depends_on={"schedule": "load", "within": "1h"})
    clock.advance(HOUR)
    await app.tick()
    clock.advance(MINUTE)
    await app.tick()
    assert reported == []


@pytest.mark.parametrize(
    ("depends_on", "message"),
    [
        ({"schedule": "nobody", "within": "1h"}, "there is no schedule 'nobody'"),
        ({"schedule": "b", "within": "1h"}, "'b' would wait for itself"),
        ({"schedule": "c", "within": "1h"}, "'b' would wait for itself"),
        ({"schedule": "", "within": "1h"}, "give the name of the schedule"),
        ({"schedule": "a", "within": "0s"}, "must be 1s to"),
        ({"schedule": "a"}, "within"),
        ({"schedule": "a", "within": "1h", "else": "fail"}, r"depends_on.else: is unknown"),
        ("a", "expected an object"),
    ],
)
async def test_a_bad_dependency_is_refused(app: Duly, depends_on: Any, message: str) -> None:
    await app.schedules.put("a", every("1h"), "digest")
    await app.schedules.put("b", every("1h"), "digest")
    await app.schedules.put("c", every("1h"), "digest", depends_on={"schedule": "b", "within": "1h"})
    with pytest.raises(Invalid, match=message):
        await app.schedules.put("b", every("1h"), "digest", depends_on=depends_on)


# -- rest, bounds, jitter, shadow


async def test_a_schedule_leaves_out_holidays_weekends_and_dates(app: Duly) -> None:
    await app.schedules.put(
        "report",
        cron("0 9 * * *"),
        "digest",
        timezone="Europe/Brussels",
        exclude=["holidays:BE", "saturday", "SUN", "2026-04-07", "2026-04-13/2026-04-20", "04-28"],
    )
    shown = await app.schedules.preview("report", after=datetime(2026, 4, 1, 12, tzinfo=UTC), count=9)
    assert [one.local.day for one in shown] == [2, 3, 8, 9, 10, 21, 22, 23, 24], "6 April 2026 is Easter Monday"


async def test_a_schedule_begins_and_ends(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put(
        "weekend", every("6h", start=START), "digest", timezone="Asia/Tokyo", start="2026-01-02", end="2026-01-03"
    )
    for _ in range(30):
        clock.advance(2 * HOUR)
        await app.tick()
    tokyo = datetime(2026, 1, 1, 15, tzinfo=UTC)  # midnight there
    assert [event.due for event in fired] == [tokyo + n * 6 * HOUR + 3 * HOUR for n in range(4)]
    assert (await app.schedules.get("weekend")).halted == "ended"
    assert (await app.store.schedules([schedule.id]))[0].enabled


async def test_jitter_moves_an_occurrence_but_not_what_it_was_scheduled_for(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    put = await app.schedules.put("hourly", cron("0 * * * *"), "digest", jitter="30m")
    assert put.next_at is not None
    off = put.next_at - START - HOUR
    assert timedelta() < off < timedelta(minutes=30)
    again = await app.schedules.put("hourly", cron("0 * * * *"), "digest", {"n": 2}, jitter="30m")
    assert again.next_at == put.next_at
    for _ in range(3 * 60):
        clock.advance(MINUTE)
        await app.tick()
    assert [event.scheduled for event in fired] == [START + n * HOUR for n in (1, 2, 3)][: len(fired)]
    assert len({event.due - (event.scheduled or START) for event in fired}) == len(fired) >= 2
    assert {event.stands_for for event in fired} == {1}
    with pytest.raises(Invalid, match="jitter: 1h is not shorter than the 1h between two occurrences"):
        await app.schedules.put("hourly", cron("0 * * * *"), "digest", jitter="1h")


async def test_a_shadow_records_what_would_have_fired_and_delivers_nothing(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("canary", cron("0 * * * *"), "digest", mode="shadow")
    for _ in range(3):
        clock.advance(HOUR)
        await app.tick()
    await app.schedules.trigger("canary")
    await app.schedules.backfill("canary", START, START + HOUR)
    await app.tick()
    assert fired == []
    shadows = await events_of(app, schedule, "SKIPPED")
    assert len(shadows) == 5
    assert {(await told(app, event))[-1][0] for event in shadows} == {"shadowed"}
    await app.schedules.put("canary", cron("0 * * * *"), "digest", mode="live")
    clock.advance(HOUR)
    await app.tick()
    assert [event.scheduled for event in fired] == [START + 4 * HOUR]


# -- zones


async def test_an_hourly_cron_that_moves_to_another_zone_misses_and_repeats_no_hour(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    for hour in range(1, 25):
        zone = "Asia/Tokyo" if hour % 2 else "America/New_York"
        await app.schedules.put("hourly", cron("0 * * * *", timezone=zone), "digest")
        clock.set(START + hour * HOUR)  # due by now, and not yet claimed when the zone changes
        if hour % 3:
            await app.tick()
    await app.tick()
    assert sum(event.stands_for for event in fired) == 24
    assert len({event.scheduled for event in fired}) == len(fired)


async def test_a_fixed_time_that_moves_to_another_zone_fires_once_a_day(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    await app.schedules.put("nine", cron("0 9 * * *", timezone="Asia/Tokyo"), "digest")
    clock.set(datetime(2026, 1, 2, 0, 0, tzinfo=UTC))  # 9:00 in Tokyo
    await app.tick()
    moved = await app.schedules.put("nine", cron("0 9 * * *", timezone="America/New_York"), "digest")
    assert moved.next_at == datetime(2026, 1, 3, 14, tzinfo=UTC), "2 January was had, in Tokyo"
    assert len(fired) == 1


async def test_a_rule_that_is_changed_and_changed_back_has_its_head(app: Duly) -> None:
    nine, ten = cron("0 9 * * *"), cron("0 10 * * *")
    first = await app.schedules.put("daily", nine, "digest")
    head = await app.store.head(first.series)
    assert (await app.schedules.put("daily", ten, "digest")).next_at == START + 10 * HOUR
    back = await app.schedules.put("daily", nine, "digest")
    assert back.next_at == START + 9 * HOUR
    again = await app.store.head(first.series)
    assert head is not None
    assert again is not None
    assert (again.id, again.occurrence, again.due) == (head.id, head.occurrence, head.due)


async def test_an_event_tells_its_local_time(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    await app.schedules.put("leap", yearly("02-29", at="09:00", leap="mar1", timezone="Asia/Kathmandu"), "digest")
    clock.set(datetime(2026, 3, 1, 3, 15, tzinfo=UTC))
    await app.tick()
    [event] = fired
    assert (event.timezone, event.local) == ("Asia/Kathmandu", datetime(2026, 3, 1, 9))  # noqa: DTZ001 - on the wall
    assert event.zone_data is not None


@pytest.mark.parametrize(
    ("options", "paths"),
    [
        ({"timezone": "Mars/Olympus", "misfire": "sometimes"}, {"timezone", "misfire.policy"}),
        ({"misfire": {"policy": "all", "limit": 0}}, {"misfire.limit"}),
        ({"misfire": {"tolerance": "soon"}}, {"misfire.tolerance"}),
        ({"overlap": "perhaps", "max_concurrent": 0, "mode": "dark"}, {"overlap", "max_concurrent", "mode"}),
        ({"start": "2026-02-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"}, {"end"}),
        ({"start": "soon"}, {"start"}),
        ({"dst": {"gap": "hope"}}, {"dst.gap"}),
        ({"dst": "after"}, {"dst"}),
        ({"jitter": "-5s"}, {"jitter"}),
        ({"exclude": ["2026-02-30", "holidays:XX", 7]}, {"exclude[0]", "exclude[1]", "exclude[2]"}),
        ({"exclude": {"SAT": True}}, {"exclude"}),
        ({"colour": "red"}, {"colour"}),
    ],
)
async def test_bad_policies_are_refused_with_all_their_problems(
    app: Duly, options: dict[str, Any], paths: set[str]
) -> None:
    with pytest.raises(Invalid) as refused:
        await app.schedules.put("daily", cron("0 9 * * *"), "digest", **options)
    assert {problem.path for problem in refused.value.problems} == paths
    assert await app.schedules.list() == []


async def test_a_rule_that_never_fires_is_refused(app: Duly) -> None:
    with pytest.raises(Invalid, match="no occurrence is left"):
        await app.schedules.put("xmas", yearly("12-25"), "digest", exclude=["12-25"])
    never = cron("30 2 * 3 7L", timezone="Europe/Brussels", gap="skip")
    with pytest.raises(Invalid, match="every one falls into a gap of the local time"):
        await app.schedules.put("never", never, "digest", start="2040-01-01T00:00:00Z")
