"""What pages ask of many occurrences at once: recent runs, and the days of a calendar."""

from datetime import date, timedelta

import pytest

from duly import Duly, Event, Invalid, Rejected, cron, every, rrule
from duly.ids import first_id_of
from duly.records.event import Status
from duly.testing import ManualClock

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


async def test_recent_runs_are_the_newest_of_each_schedule_and_never_its_next_event(
    app: Duly, clock: ManualClock
) -> None:
    @app.on("fine")
    async def fine(event: Event) -> None: ...

    @app.on("bad")
    async def bad(event: Event) -> Rejected:
        return Rejected("nobody wants it")

    schedules = [await app.schedules.put(type, every("1h"), type) for type in ("fine", "bad", "never")]
    for _ in range(3):
        clock.advance(HOUR)
        await app.tick()
    clock.advance(4 * HOUR)
    await app.tick()
    await app.schedules.skip("fine", reason="a holiday", by="ada")
    runs = await app.schedules.recent_runs(schedules, limit=3)
    good, poor, never = (runs[one.id] for one in schedules)
    assert [(run.status, run.missed, run.reason) for run in good] == [
        (Status.SKIPPED, 0, "skipped by ada: a holiday"),
        (Status.COMPLETED, 3, None),
        (Status.COMPLETED, 0, None),
    ]
    assert [(run.status, run.reason) for run in poor] == [(Status.FAILED, "nobody wants it")] * 3
    assert good[1].lateness == timedelta()
    assert {run.status for run in never} <= {Status.PENDING}
    assert await app.schedules.recent_runs([]) == {}


async def test_recent_runs_can_end_before_an_id(app: Duly) -> None:
    schedule = await app.schedules.put("a", every("1h"), "x")
    first, second = [await app.schedules.trigger("a") for _ in range(2)]
    runs = await app.schedules.recent_runs([schedule], before=second.id)
    assert [run.id for run in runs[schedule.id]] == [first.id]
    long_ago = first_id_of(first.created - timedelta(days=9999))
    assert (await app.schedules.recent_runs([schedule], before=long_ago))[schedule.id] == []


async def test_too_many_runs_are_refused(app: Duly) -> None:
    schedule = await app.schedules.put("a", every("1h"), "x")
    with pytest.raises(Invalid, match="can be shown together"):
        await app.schedules.recent_runs([schedule], limit=2001)


async def test_days_tell_how_often_a_schedule_fires_and_why_not(app: Duly) -> None:
    await app.schedules.put(
        "a", cron("30 2 * * *"), "x", timezone="Europe/Brussels", exclude=["2026-03-28", "holidays:BE"]
    )
    days = await app.schedules.days("a", date(2026, 3, 27), date(2026, 4, 6), times=5)
    said = {day.day.isoformat(): (day.expected, day.excluded, day.clocks) for day in days}
    assert said["2026-03-27"] == (1, None, None)
    assert said["2026-03-28"] == (0, "2026-03-28", None)
    assert said["2026-03-29"] == (1, None, "clocks go forward 1 h at 02:00")
    assert said["2026-04-06"] == (0, "holidays:BE (Easter Monday)", None)
    assert [f"{at:%H:%M}" for at in days[2].first] == ["01:00"]  # right after the gap, in UTC
    assert [f"{at:%H:%M}" for at in days[1].first] == ["01:30"]  # what does not fire on the excluded day
    assert days[2].ends - days[2].starts == timedelta(hours=23)


async def test_days_before_a_schedule_was_made_expect_nothing(app: Duly, clock: ManualClock) -> None:
    clock.advance(12 * HOUR)
    await app.schedules.put("a", cron("0 */6 * * *"), "x")
    days = await app.schedules.days("a", clock.now().date() - DAY, clock.now().date() + DAY)
    assert [day.expected for day in days] == [0, 2, 4]


async def test_days_before_an_edit_keep_the_rule_of_their_time(app: Duly, clock: ManualClock) -> None:
    await app.schedules.put("a", cron("0 6 * * *"), "x")
    clock.advance(3 * DAY)
    await app.schedules.put("a", cron("0 */6 * * *"), "x")
    first = clock.now().date() - 2 * DAY
    days = await app.schedules.days("a", first, first + 3 * DAY, times=9)
    assert [day.expected for day in days[-1:]] == [4]
    assert [day.expected for day in days[:2]] == [1, 1]


async def test_the_days_of_a_calendar_agree_with_what_fires(app: Duly, clock: ManualClock) -> None:
    @app.on("x")
    async def x(event: Event) -> None: ...

    schedule = await app.schedules.put("a", cron("0 */7 * * *"), "x", timezone="America/New_York", exclude=["SUN"])
    first = clock.now().date() + DAY
    expected = await app.schedules.days("a", first, first + 8 * DAY, times=10)
    while clock.now() < expected[-1].ends:
        clock.advance(HOUR)
        await app.tick()
    runs = (await app.schedules.recent_runs([schedule], limit=100))[schedule.id]
    fired = sorted(run.at for run in runs if expected[0].starts <= run.at < expected[-1].ends)
    assert fired == [at for day in expected if day.excluded is None for at in day.first]
    assert sum(day.expected or 0 for day in expected) == len(fired)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (date(2026, 1, 2), date(2026, 1, 1)),
        (date(2026, 1, 1), date(2028, 1, 1)),
        (date(1, 1, 1), date(1, 1, 2)),
        (date(9999, 12, 1), date(9999, 12, 31)),
    ],
)
async def test_days_that_cannot_be_shown_are_refused(app: Duly, first: date, last: date) -> None:
    await app.schedules.put("a", every("1h"), "x")
    with pytest.raises(Invalid):
        await app.schedules.days("a", first, last)


async def test_days_are_left_open_when_there_is_no_more_time(app: Duly) -> None:
    await app.schedules.put("a", rrule("FREQ=DAILY"), "x")
    turns = iter([False, False, True])
    days = await app.schedules.days("a", date(2026, 3, 1), date(2026, 3, 5), enough=lambda: next(turns))
    assert [day.expected for day in days] == [1, 1, None, None, None]
