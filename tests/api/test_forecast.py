"""``duly.forecast``: what it foretells is what happens."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Duly, Event, InStatus, Invalid, Status, cron, every, rrule, yearly
from duly.decide.series import forecast as ranges
from duly.testing import ManualClock
from duly.verbs.figures import forecast as verb
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, MINUTE, a_user

BRUSSELS, NEW_YORK = "Europe/Brussels", "America/New_York"
SPRING = datetime(2028, 2, 25, 12, 20, 7, tzinfo=UTC)  # before 29 February and both changes to summer time
AUTUMN = datetime(2026, 10, 24, 20, 0, tzinfo=UTC)

FORETOLD: list[tuple[str, Any, dict[str, Any]]] = [
    ("daily-in-the-gap", cron("30 2 * * *"), {"timezone": BRUSSELS}),
    ("skips-the-gap", cron("30 2 * * *"), {"timezone": BRUSSELS, "dst": {"gap": "skip", "overlap": "both"}}),
    ("both-in-the-overlap", cron("15 1,2 * * *"), {"timezone": BRUSSELS, "dst": {"overlap": "both"}}),
    ("every-6h", every("6h"), {}),
    ("jitter", cron("0 */8 * * *"), {"jitter": "5h"}),
    ("weekdays", cron("0 9 * * *"), {"timezone": NEW_YORK, "exclude": ["SAT", "SUN", "2026-10-27", "2028-02-29"]}),
    ("two-a-week", rrule("FREQ=WEEKLY;BYDAY=MO,SA;BYHOUR=3;BYMINUTE=0", timezone=NEW_YORK), {}),
    ("counted", rrule("FREQ=DAILY;COUNT=2", timezone=BRUSSELS), {}),
    ("yearly", yearly("02-29", at="09:00", timezone=BRUSSELS), {}),
    ("overlapping", cron("0 */12 * * *"), {"overlap": "skip"}),
]


async def scheduled(app: Duly, now: datetime) -> None:
    """All that a forecast has to know of."""
    for name, rule, options in FORETOLD:
        await app.schedules.put(name, rule, f"type.{name}", **options)
    await app.schedules.put("ends", every("5h"), "ends", end=now + timedelta(hours=31))
    await app.schedules.put("starts", cron("40 */4 * * *"), "starts", start=now + 3 * DAY)
    await app.schedules.put("paused", every("1h"), "paused")
    await app.schedules.pause("paused")
    await app.schedules.put("shadow", every("1h"), "shadow", mode="shadow")
    await app.schedules.put("moved", every("12h"), "moved")
    await app.schedules.reschedule("moved", now + timedelta(hours=40))
    await app.schedules.put("skipped", every("12h"), "skipped")
    await app.schedules.skip("skipped")
    for hours in (1, 1, 5, 70, 1000):
        await app.after(timedelta(hours=hours), "reminder")
    cancelled = await app.after("2h", "reminder")
    await app.cancel(cancelled.id)
    for born in ("1996-02-29", "1992-02-29", "1991-02-28", "1990-03-01", "1985-10-25", "1985-10-26", "1985-07-01"):
        for zone in (BRUSSELS, NEW_YORK, "Asia/Tokyo"):
            await app.users.add(**a_user(date_of_birth=born, timezone=zone))


async def happened(app: Duly, clock: ManualClock, until: datetime) -> Counter[tuple[datetime, str]]:
    """Moves the clock from one event to the next; returns how many were due at each instant, by type."""
    fired: Counter[tuple[datetime, str]] = Counter()

    def fires(event: Event) -> None:
        fired[event.due, event.type] += 1

    types = {f"type.{name}" for name, _, _ in FORETOLD}
    for type in (*types, "ends", "starts", "paused", "shadow", "moved", "skipped", "reminder", "birthday"):
        app.on(type)(fires)
    while True:
        waiting = await app.events.find(InStatus(Status.PENDING), limit=500)
        due = [event.ready for event in waiting if event.ready is not None and event.ready < until]
        if not due:
            return fired
        clock.set(max(min(due), clock.now()))
        await app.tick()


def in_steps(fired: Counter[tuple[datetime, str]], start: datetime, end: datetime, step: timedelta) -> dict[Any, Any]:
    steps: dict[datetime, dict[str, int]] = {start + n * step: {} for n in range(-((start - end) // step))}
    for (due, type), many in fired.items():
        by_type = steps[start + (due - start) // step * step]
        by_type[type] = by_type.get(type, 0) + many
    return steps


@pytest.mark.parametrize(
    ("now", "span", "step"), [(SPRING, 6 * DAY, 7 * HOUR), (SPRING + 27 * DAY, 3 * DAY, HOUR), (AUTUMN, 4 * DAY, HOUR)]
)
async def test_it_equals_what_then_happens(
    duly: OpenDuly, clock: ManualClock, now: datetime, span: timedelta, step: timedelta
) -> None:
    clock.set(now)
    app = await duly()
    await scheduled(app, now)
    told = await app.forecast(now, now + span, step)
    fired = await happened(app, clock, now + span)
    assert {one.at: dict(one.by_type) for one in told.steps} == in_steps(fired, now, now + span, step)
    assert told.count == fired.total() > 50
    assert (told.complete, told.warnings) == (True, ())


async def test_every_year_has_its_birthdays_also_those_of_29_february(app: Duly, clock: ManualClock) -> None:
    clock.set(datetime(2027, 1, 1, tzinfo=UTC))
    for _ in range(3):
        await app.users.add(**a_user(date_of_birth="2000-02-29", timezone="UTC"))
    await app.users.add(**a_user(date_of_birth="2000-02-28", timezone="UTC"))
    told = await app.forecast(datetime(2027, 1, 1, tzinfo=UTC), datetime(2032, 6, 1, tzinfo=UTC), DAY)
    assert {one.at.date().isoformat(): one.count for one in told.steps if one.count} == {
        "2027-02-28": 4,
        "2028-02-28": 1,
        "2028-02-29": 3,
        "2029-02-28": 4,
        "2030-02-28": 4,
        "2031-02-28": 4,
        "2032-02-28": 1,
        "2032-02-29": 3,
    }


async def test_a_range_that_begins_later_counts_only_what_is_due_in_it(app: Duly, clock: ManualClock) -> None:
    await app.schedules.put("hourly", every("1h"), "hourly", jitter="50m")
    await app.users.add(**a_user(date_of_birth="1990-06-01", timezone="UTC"))
    whole = await app.forecast(clock.now(), clock.now() + 1500 * DAY, DAY)
    late = await app.forecast(clock.now() + 1000 * DAY, clock.now() + 1500 * DAY, DAY)
    assert late.steps == whole.steps[1000:]
    assert set(late.by_type) == {"hourly", "birthday"}


async def test_what_is_overdue_is_counted_where_it_was_due_and_missed_occurrences_are_not(
    app: Duly, clock: ManualClock
) -> None:
    begun = clock.now()
    await app.every("hourly", every("1h"), "hourly")
    await app.after("30m", "reminder")
    clock.advance(hours=3, minutes=20)
    told = await app.forecast(begun, begun + 6 * HOUR, HOUR)
    assert [dict(step.by_type) for step in told.steps] == [
        {"reminder": 1},
        {"hourly": 1},
        {},
        {},
        {"hourly": 1},
        {"hourly": 1},
    ]


async def test_a_frequent_rule_is_counted_by_the_step(app: Duly, clock: ManualClock) -> None:
    await app.schedules.put("seconds", cron("* * * * * *", timezone=BRUSSELS), "seconds")
    clock.set(datetime(2026, 3, 28, 12, tzinfo=UTC))
    await app.schedules.put("workdays", cron("* * * * *", timezone=BRUSSELS), "minutes", exclude=["SUN"])
    told = await app.forecast(clock.now(), clock.now() + 365 * DAY, DAY)
    seconds = [step.by_type["seconds"] for step in told.steps]
    assert seconds[1:] == [86_400] * 364
    minutes = [step.by_type.get("minutes", 0) for step in told.steps[:3]]
    assert minutes == [659, 14 * 60, 1440]  # from noon on Saturday to its end at 23:00; Monday from 22:00 on Sunday


async def test_another_tenant_sees_nothing_of_it(app: Duly) -> None:
    await app.schedules.put("hourly", every("1h"), "hourly", tenant="acme")
    await app.after("1h", "reminder", tenant="acme")
    await app.users.add(**a_user(tenant="acme"))
    assert (await app.forecast(tenant="acme")).count == 24
    assert (await app.forecast()).count == 24
    assert (await app.forecast(tenant="globex")).count == 0


async def test_without_a_range_it_begins_with_the_hour_under_way_and_lasts_a_day(app: Duly, clock: ManualClock) -> None:
    clock.advance(minutes=17)
    told = await app.forecast()
    assert (told.from_, told.to, told.step) == (clock.now() - 17 * MINUTE, clock.now() + 1423 * MINUTE, HOUR)
    assert len(told.steps) == 24


@pytest.mark.parametrize(
    ("days", "step"), [(0.04, MINUTE), (0.2, 5 * MINUTE), (1, HOUR), (3, 6 * HOUR), (30, DAY), (365, 7 * DAY)]
)
async def test_without_a_step_there_are_as_many_as_can_be_read(
    app: Duly, clock: ManualClock, days: float, step: timedelta
) -> None:
    told = await app.forecast(clock.now(), clock.now() + timedelta(days=days))
    assert told.step == step
    assert len(told.steps) <= ranges.FEW_STEPS


async def test_the_last_step_may_be_shorter(app: Duly, clock: ManualClock) -> None:
    for minutes in (59, 89, 90):
        await app.after(timedelta(minutes=minutes), "reminder")
    await app.every("each-minute", every("1m"), "tick")
    told = await app.forecast(clock.now(), clock.now() + 90 * MINUTE, HOUR)
    assert [dict(step.by_type) for step in told.steps] == [{"reminder": 1, "tick": 59}, {"reminder": 1, "tick": 30}]


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        (datetime(2, 1, 1, tzinfo=UTC), None, None),
        (datetime(9998, 12, 30, tzinfo=UTC), None, None),
        (datetime(9998, 12, 30, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC), "366d"),
        (datetime(9990, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, 23, tzinfo=UTC), 30 * DAY),
    ],
)
async def test_a_range_may_be_at_either_end_of_time(app: Duly, start: datetime, end: Any, step: Any) -> None:
    await app.every("daily", cron("0 9 * * *", timezone=BRUSSELS), "daily")
    await app.users.add(**a_user())
    told = await app.forecast(start, end, step)
    assert told.complete
    assert ("daily" in told.by_type) == (start.year > 2)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (lambda now: (now, now), "to: must be after"),
        (lambda now: (now, now - HOUR), "to: must be after"),
        (lambda now: (now.replace(tzinfo=None), None), "from: .* no time zone"),
        (lambda now: (None, "tomorrow"), "to: expected a datetime, not str"),
        (lambda now: (now, now + 4000 * DAY), "to: must be at most 3,660 days after"),
        (lambda now: (now, now + 3000 * DAY, HOUR), "72,000 steps, and 2,000 are allowed: 7d would do"),
        (lambda now: (now, None, "often"), "step: 'often' is not a duration"),
        (lambda now: (now, None, timedelta(milliseconds=1)), "step: must be 1s to 366d"),
        (lambda now: (datetime(9998, 12, 31, tzinfo=UTC), None, 366 * DAY), "to"),
    ],
)
async def test_a_range_that_cannot_be_used_is_refused(
    app: Duly, clock: ManualClock, asked: Callable[[datetime], Any], problem: str
) -> None:
    with pytest.raises(Invalid, match=problem):
        await app.forecast(*asked(clock.now()))


async def test_rules_that_take_too_long_are_left_out_and_it_says_so(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    await app.every("hourly", every("1h"), "hourly")
    monkeypatch.setattr(verb, "_enough_after", lambda seconds: lambda: seconds < 10)
    told = await app.forecast()
    assert not told.complete
    assert "the rules of 1 schedules or users were not evaluated" in told.warnings[0]
    assert told.count == 1  # its next event, which is a row


async def test_a_rule_that_cannot_be_evaluated_is_named(
    app: Duly, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcde":
        await app.every(name, cron("0 * * * *"), "hourly")
    await app.every("good", every("1h"), "good")

    def broken(*_: Any) -> Any:
        raise ValueError("out of luck")

    monkeypatch.setattr("duly.rules.recurrence.Local.after", broken)
    told = await app.forecast()
    assert not told.complete
    assert [line.rpartition(": ")[2] for line in told.warnings] == ["out of luck"] * 3 + ["so it is with 2 more"]
    assert told.by_type == {"good": 23, "hourly": 5}


async def test_a_range_that_takes_too_long_to_count_is_refused_with_the_one_that_would_do(
    app: Duly, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.after("1h", "reminder")
    monkeypatch.setattr(verb, "_enough_after", lambda _seconds: lambda: True)
    with pytest.raises(Invalid, match="to: too many events wait in this range; those until 2026-01-01T00:00:00Z were"):
        await app.forecast()


async def test_slow_counting_goes_on_in_smaller_windows(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[timedelta] = []
    original = type(app.store).count_due

    async def watched(self: Any, window: Any, *args: Any, **options: Any) -> Any:
        asked.append(window.until - window.since)
        return await original(self, window, *args, **options)

    monkeypatch.setattr(type(app.store), "count_due", watched)
    for hours in range(48):
        await app.after(timedelta(hours=hours, minutes=30), "reminder")
    whole = await app.forecast(step=2 * HOUR)
    quick = len(asked)
    monkeypatch.setattr(
        app.store, "window_s", 1e-6
    )  # every query is slow, so each window is a quarter of the one before
    monkeypatch.setattr(verb, "MOST_WINDOWS", 30)
    assert await app.forecast(step=2 * HOUR) == whole
    assert whole.count == 48
    assert quick < 10
    assert len(asked) - quick > 20


async def test_rarer_types_are_counted_together(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "MOST_TYPES", 2)
    for type, many in (("a", 1), ("b", 3), ("c", 2), ("d", 1)):
        for _ in range(many):
            await app.after("1h", type)
    await app.every("hourly", every("1h"), "hourly")
    assert (await app.forecast()).by_type == {"hourly": 23, "other": 4, "b": 3}


async def test_synchronous_code_gets_the_same(app: Duly, duly: OpenDuly, url: str, clock: ManualClock) -> None:
    await app.every("hourly", every("1h"), "hourly")

    def asked() -> Any:
        other = Duly(url, clock=clock)
        with other.sync as sync:
            return sync.forecast(step="1h")

    assert await asyncio.to_thread(asked) == await app.forecast(step=HOUR)
