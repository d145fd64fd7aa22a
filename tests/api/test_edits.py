"""Edits of schedules: what is owed stays owed under its own name, and nothing disappears without a trace."""

import shlex
from datetime import datetime
from typing import Any

import pytest

from duly import Conflict, Duly, Event, HaltKind, PassedOver, Retry, Rule, Schedule, Status, cron, every, once, yearly
from duly.decide.series.edits import MOST_EARLIER, MOST_LISTED, MOST_OWING, MOST_ROWS
from duly.rules.timetable import read_earlier
from duly.testing import ManualClock
from tests.api.greeting import everything_of, greetings, planned
from tests.api.test_schedule_verbs import events_of, head_of
from tests.api.test_schedules import ticks
from tests.make import DAY, HOUR, MINUTE, START, a_user
from tests.stores.rows import write


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}Z")


NINE = cron("0 9 * * *")

# -- what is owed


@pytest.mark.parametrize(
    ("rule", "more"),
    [
        (cron("0 8 * * *"), {}),
        (cron("0 9 * * *", timezone="Asia/Tokyo"), {}),
        (every("1h"), {}),
        (cron("0 9 * * *"), {"exclude": ["2026-01-01"]}),
        (cron("0 9 * * *"), {"end": at("2026-01-01T08:00")}),
        (cron("0 9 * * *"), {"start": at("2026-02-01T00:00")}),
        (cron("0 9 * * *"), {"jitter": "10m"}),
        (once(at("2025-01-01T00:00")), {}),
    ],
)
async def test_what_is_owed_stays_owed_under_its_own_name_through_an_edit(
    app: Duly, clock: ManualClock, rule: Rule, more: dict[str, Any]
) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("daily", NINE, "digest", "old")
    before = await head_of(app, schedule)
    clock.set(at("2026-01-01T09:30"))  # nobody was at work at nine
    edited = await app.schedules.put("daily", rule, "digest", "new", **more)
    assert (edited.next_at, edited.halted) == (at("2026-01-01T09:00"), None)
    await app.tick()
    assert [(event.id, event.due, event.occurrence, event.stands_for) for event in fired] == [
        (before.id, at("2026-01-01T09:00"), "2026-01-01T09:00:00", 1)
    ]
    assert fired[0].payload == "new"
    assert fired[0].local == datetime(2026, 1, 1, 9), "on the clocks of the zone that it was due by"  # noqa: DTZ001 - on the wall
    following = (await app.schedules.get("daily")).next_at
    assert following is None or following > clock.now(), "an edit never makes a run in the past"


async def test_all_that_the_old_rule_owes_fires_before_the_new_rule_begins(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    await app.schedules.put("runs", every("1h"), "digest", misfire="all")
    clock.set(START + 3 * HOUR + MINUTE)
    await app.schedules.put("runs", every("20m", start=START), "digest", misfire="all")
    clock.set(START + 4 * HOUR)
    await app.schedules.put("runs", cron("30 * * * *"), "digest", misfire="all")
    clock.set(START + 4 * HOUR + 30 * MINUTE)
    for _ in range(8):
        await app.tick()
    hourly, often, last = [1, 2, 3], [3 + 1 / 3, 3 + 2 / 3, 4], [4.5]
    assert [(event.due - START) / HOUR for event in fired] == pytest.approx(hourly + often + last)
    assert {event.stands_for for event in fired} == {1}


async def test_the_latest_occurrence_stands_for_what_each_rule_named_while_it_was_in_force(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    await app.schedules.put("runs", every("1h"), "digest")
    clock.set(START + 3 * HOUR + MINUTE)
    await app.schedules.put("runs", every("20m", start=START), "digest")
    clock.set(START + 4 * HOUR + MINUTE)
    await app.tick()
    assert [(event.due, event.stands_for) for event in fired] == [(START + 4 * HOUR, 6)]
    assert (await app.schedules.get("runs")).next_at == START + 4 * HOUR + 20 * MINUTE


async def test_an_occurrence_that_another_stood_for_does_not_fire_when_its_hour_comes_again_in_another_zone(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    thrice = "0 9,12,15 * * *"
    await app.schedules.put("runs", cron(thrice, timezone="Asia/Tokyo"), "digest")
    clock.set(at("2026-01-01T06:30"))  # 15:30 in Tokyo
    await app.tick()
    assert [(event.occurrence, event.stands_for) for event in fired] == [("2026-01-01T15:00:00", 2)]
    edited = await app.schedules.put("runs", cron("0 8,9,12,15,18 * * *", timezone="America/New_York"), "digest")
    assert edited.next_at == at("2026-01-01T13:00")
    for _ in range(30):
        clock.advance(HOUR)
        await app.tick()
    assert [event.occurrence for event in fired[1:]] == [f"2026-01-01T{hour}:00:00" for hour in ("08", "09", "18")]


async def test_what_a_rule_owes_is_owed_also_while_it_is_paused_and_edited(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    await app.schedules.put("runs", every("1h"), "digest")
    clock.set(START + 2 * HOUR)
    await app.schedules.pause("runs")
    edited = await app.schedules.put("runs", cron("30 * * * *"), "digest")
    assert (edited.next_at, edited.held) == (START + HOUR, "paused")
    await app.schedules.resume("runs")
    await app.tick()
    assert [(event.due, event.stands_for) for event in fired] == [(START + 2 * HOUR, 2)]


async def test_jitter_that_lies_ahead_is_waited_for_also_by_another_rule(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    put = await app.schedules.put("runs", cron("0 * * * *"), "digest", jitter="50m")
    due = put.next_at
    assert due is not None
    clock.set(START + HOUR)
    edited = await app.schedules.put("runs", every("10s"), "digest")
    assert edited.next_at == due
    clock.set(due)
    await app.tick()
    assert [event.stands_for for event in fired] == [1 + (due - START - HOUR) // (10 * MINUTE / 60)]


async def test_a_run_that_was_moved_forward_and_is_owed_does_not_keep_the_new_rule_waiting(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    await app.schedules.put("weekly", cron("0 9 * * MON"), "digest")
    await app.schedules.reschedule("weekly", START + HOUR)
    clock.set(START + HOUR + MINUTE)
    await app.schedules.put("weekly", every("1h", start=START), "digest")
    await app.tick()
    assert [event.occurrence for event in fired] == ["2026-01-05T09:00:00"]
    assert (await app.schedules.get("weekly")).next_at == START + 2 * HOUR


async def test_a_schedule_forgets_old_rules_that_owe_nothing(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("runs", every("1h", start=START), "digest")
    for edit in range(MOST_EARLIER + 5):
        clock.advance(HOUR)
        await app.tick()
        clock.advance(MINUTE)
        await app.schedules.put("runs", every(f"{61 + edit}m", start=START), "digest")
    assert fired
    [stored] = await app.store.schedules([schedule.id])
    assert len(read_earlier(stored.earlier_json)) == MOST_EARLIER


async def test_a_schedule_remembers_more_rules_while_they_owe_something(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    await app.schedules.put("runs", every("1h", start=START), "digest")
    await app.schedules.pause("runs")
    for edit in range(MOST_OWING):
        clock.advance(DAY)
        await app.schedules.put("runs", every(f"{1 + edit % 3}h", start=START + (1 + edit) * MINUTE), "digest")
    clock.advance(DAY)
    with pytest.raises(Conflict, match="run a worker and, if the schedule is paused, resume it"):
        await app.schedules.put("runs", every("2h", start=START), "digest")
    await app.schedules.resume("runs", passed="fire")
    await app.tick()
    hours = sum(24 // (1 + edit % 3) for edit in range(MOST_OWING))
    assert [event.stands_for for event in fired] == [24 + hours]
    assert (await app.schedules.put("runs", every("2h", start=START), "digest")).next_at == clock.now() + 2 * HOUR


def hours_from_start(event: Event) -> float:
    assert event.scheduled is not None
    return (event.scheduled - START) / HOUR


async def test_a_backfill_goes_by_the_rule_that_was_in_force(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    await app.schedules.put("runs", every("1h", start=START), "digest")
    clock.set(START + 3 * HOUR + MINUTE)
    await app.tick()
    await app.schedules.put("runs", cron("30 * * * *"), "digest")
    clock.set(START + 5 * HOUR)
    await app.tick()
    fired.clear()
    await app.schedules.backfill("runs", START - HOUR, START + 5 * HOUR)
    await app.tick()
    assert [hours_from_start(event) for event in fired] == [-0.0, 1, 2, 3, 3.5, 4.5]


# -- what is passed over


def told(schedule: Schedule) -> PassedOver:
    assert schedule.passed_over is not None
    return schedule.passed_over


async def skipped(app: Duly, schedule: Schedule) -> list[Event]:
    """What is passed over under its own name, the first one first."""
    found = [event for event in await events_of(app, schedule, "SKIPPED") if str(event.occurrence)[0] == "2"]
    return sorted(found, key=lambda event: event.due)


async def test_what_a_head_is_moved_past_is_passed_over_with_a_row_for_each(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("daily", NINE, "digest")
    moved = await app.schedules.reschedule("daily", at("2026-01-04T09:00"), by="ada")
    days = [at(f"2026-01-0{day}T09:00") for day in (2, 3, 4)]
    command = "duly schedules backfill daily --from 2026-01-02T09:00:00Z --to 2026-01-02T09:00:01Z"
    assert told(moved) == PassedOver(3, tuple(days), command)
    rows = await skipped(app, schedule)
    assert [(row.scheduled, row.due, row.stands_for, row.head) for row in rows] == [
        (day, day, 1, False) for day in days
    ]
    [entry] = await app.events.history(rows[0].id)
    assert (entry.act, entry.worker, entry.at) == ("skipped", "ada", START)
    assert entry.detail == "the one before it was moved to 2026-01-04T09:00:00Z by ada"
    assert "3 occurrences passed over" in str((await app.schedules.history("daily"))[-1].detail)
    for _ in range(5):
        clock.advance(DAY)
        await app.tick()
    assert [event.occurrence for event in fired] == ["2026-01-01T09:00:00", "2026-01-05T09:00:00"]


async def test_the_command_in_an_answer_fires_the_first_occurrence_that_was_passed_over(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    await app.schedules.put("daily", NINE, "digest")
    moved = await app.schedules.reschedule("daily", at("2026-01-04T09:00"))
    clock.set(at("2026-01-04T12:00"))
    await app.tick()
    words = told(moved).fire_with.split()
    start, end = (datetime.fromisoformat(words[words.index(option) + 1]) for option in ("--from", "--to"))
    assert len((await app.schedules.backfill(words[3], start, end)).ids) == 1
    await app.tick()
    assert [event.scheduled for event in fired] == [at("2026-01-01T09:00"), at("2026-01-02T09:00")]


async def test_the_command_in_an_answer_can_be_typed_whatever_the_names_are(app: Duly) -> None:
    await app.schedules.put("-x y", NINE, "digest", tenant="acme corp")
    left_out = await app.schedules.skip("-x y", tenant="acme corp")
    words = shlex.split(told(left_out).fire_with)
    assert words[:5] == ["duly", "schedules", "backfill", "--tenant", "acme corp"]
    assert words[-2:] == ["--", "-x y"]


async def test_what_a_head_is_moved_back_before_is_open_again(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("daily", NINE, "digest")
    await app.schedules.reschedule("daily", at("2026-01-04T09:00"))
    back = await app.schedules.reschedule("daily", at("2026-01-02T10:00"), by="bob")
    assert back.passed_over is None
    assert [row.scheduled for row in await skipped(app, schedule)] == [at("2026-01-02T09:00")]
    on = await app.schedules.reschedule("daily", at("2026-01-03T10:00"))
    assert (told(on).count, told(on).first) == (1, (at("2026-01-03T09:00"),)), "only what is passed over by this move"
    await app.schedules.reschedule("daily", at("2026-01-01T09:00"))
    assert await skipped(app, schedule) == []
    named_again = await events_of(app, schedule, "SKIPPED")
    assert len(named_again) == 4
    assert [entry.act for entry in await app.events.history(named_again[0].id)] == ["skipped", "named again"]
    for _ in range(4):
        clock.advance(DAY)
        await app.tick()
    assert [event.occurrence for event in fired] == [f"2026-01-0{day}T09:00:00" for day in (1, 2, 3, 4)]


async def test_moving_a_head_as_an_event_passes_over_the_same_occurrences_as_moving_its_schedule(app: Duly) -> None:
    schedule = await app.schedules.put("daily", NINE, "digest")
    head = await head_of(app, schedule)
    await app.events.reschedule(head.id, at("2026-01-03T12:00"))
    assert [row.due.day for row in await skipped(app, schedule)] == [2, 3]
    told_of = "; 2 occurrences passed over, from 2026-01-02T09:00:00Z on"
    assert str((await app.events.history(head.id))[-1].detail).endswith(told_of)
    await app.events.reschedule(head.id, head.due)
    assert await skipped(app, schedule) == []


async def test_many_occurrences_that_are_passed_over_are_one_row_that_says_how_many(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("often", every("1m"), "digest")
    moved = await app.schedules.reschedule("often", START + 100 * MINUTE)
    assert (told(moved).count, len(told(moved).first)) == (99, MOST_LISTED)
    [row] = await skipped(app, schedule)
    assert (row.stands_for, row.due, row.scheduled) == (99, START + 2 * MINUTE, START + 100 * MINUTE)
    assert "it stands for 99 occurrences" in str((await app.events.history(row.id))[-1].detail)
    clock.set(START + 50 * MINUTE)
    await app.schedules.reschedule("often", START + 60 * MINUTE)
    [row] = await skipped(app, schedule)
    assert (row.stands_for, row.scheduled) == (59, START + 60 * MINUTE), "the others are open again"
    edited = await app.schedules.put("often", every("2m", start=START), "digest")
    assert edited.next_at == START + 52 * MINUTE, "by the new rule, from now on"
    rows = await skipped(app, schedule)
    assert sum(row.stands_for for row in rows) == 50, "from the first minute, which had been put off, to now"
    clock.set(START + 52 * MINUTE)
    await app.tick()
    assert [event.due for event in fired] == [START + 52 * MINUTE]


@pytest.mark.parametrize("misfire", ["latest", "all"])
async def test_moving_a_head_back_reopens_no_passed_over_occurrence_whose_time_has_come(
    app: Duly, clock: ManualClock, misfire: str
) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("often", every("1m"), "digest", misfire=misfire)
    await app.schedules.reschedule("often", START + 100 * MINUTE)
    clock.set(START + 30 * MINUTE)
    back = await app.schedules.reschedule("often", START + MINUTE)
    assert back.next_at == START + 30 * MINUTE, "when the last of those was that are still passed over"
    clock.set(START + 32 * MINUTE)
    for _ in range(4):
        await app.tick()
    [row] = await skipped(app, schedule)
    assert (row.due, row.scheduled, row.stands_for) == (START + 2 * MINUTE, START + 30 * MINUTE, 29)
    assert {event.scheduled for event in fired} <= {START + minute * MINUTE for minute in (1, 31, 32)}
    assert sum(event.stands_for for event in fired) == 3, "the first minute, and what has come since"
    assert (await app.schedules.get("often")).next_at == START + 33 * MINUTE


async def test_a_few_occurrences_that_are_passed_over_have_rows_of_their_own(app: Duly) -> None:
    schedule = await app.schedules.put("often", every("1m"), "digest")
    await app.schedules.reschedule("often", START + (1 + MOST_ROWS) * MINUTE)
    assert [row.stands_for for row in await skipped(app, schedule)] == [1] * MOST_ROWS
    await app.schedules.put("often", every("1m", start=START), "digest", tenant="acme corp")
    moved = await app.schedules.reschedule("often", START + (2 + MOST_ROWS) * MINUTE, tenant="acme corp")
    assert told(moved).count == MOST_ROWS + 1
    assert "--tenant 'acme corp'" in told(moved).fire_with


@pytest.mark.parametrize(
    ("rule", "fires"),
    [
        (cron("0 9 * * *", timezone="Europe/Berlin"), "2026-01-02T08:00"),
        (cron("0 8 * * *"), "2026-01-02T08:00"),
        (cron("0 6,7,8 * * *"), "2026-01-02T08:00"),
    ],
)
async def test_a_run_of_today_that_an_edit_puts_into_the_past_is_passed_over_and_told(
    app: Duly, clock: ManualClock, rule: Rule, fires: str
) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("daily", NINE, "digest")
    clock.set(at("2026-01-01T09:00"))
    await app.tick()
    clock.set(at("2026-01-02T08:30"))
    edited = await app.schedules.put("daily", rule, "digest", by="ada")
    assert (told(edited).count, told(edited).first) == (1, (at("2026-01-02T09:00"),))
    assert told(edited).fire_with == "duly schedules trigger daily", "no rule has named it while it was in force"
    [row] = await skipped(app, schedule)
    assert (row.occurrence, row.status) == ("2026-01-02T09:00:00", Status.SKIPPED)
    entry = (await app.events.history(row.id))[-1]
    assert (entry.act, entry.worker) == ("skipped", "ada")
    assert f"by the new rule it was due {fires}:00Z, which is in the past" in str(entry.detail)
    await app.tick()
    assert len(fired) == 1, "an edit never makes a run in the past"
    again = await app.schedules.put("daily", NINE, "digest")
    assert (again.next_at, await skipped(app, schedule)) == (at("2026-01-02T09:00"), []), "its time had not come"
    clock.set(at("2026-01-02T09:00"))
    await app.tick()
    assert [event.occurrence for event in fired] == ["2026-01-01T09:00:00", "2026-01-02T09:00:00"]


@pytest.mark.parametrize(
    "rule",
    [
        cron("0 21 * * *"),  # later today
        cron("0 9 * * MON"),  # another day
        every("1h"),  # it begins now
        cron("0 9 * * *", timezone="America/New_York"),  # later today
    ],
)
async def test_an_edit_that_puts_nothing_into_the_past_passes_nothing_over(
    app: Duly, clock: ManualClock, rule: Rule
) -> None:
    schedule = await app.schedules.put("daily", NINE, "digest")
    clock.set(at("2026-01-01T08:30"))
    assert (await app.schedules.put("daily", rule, "digest")).passed_over is None
    assert await skipped(app, schedule) == []


async def test_a_run_that_was_put_off_is_passed_over_when_its_rule_is_edited(app: Duly, clock: ManualClock) -> None:
    schedule = await app.schedules.put("daily", NINE, "digest")
    await app.schedules.reschedule("daily", at("2026-01-04T09:00"))
    clock.set(at("2026-01-02T12:00"))
    edited = await app.schedules.put("daily", cron("0 18 * * *"), "digest", by="ada")
    assert edited.next_at == at("2026-01-02T18:00")
    assert told(edited).first == (at("2026-01-01T09:00"),)
    assert [str(row.occurrence)[:10] for row in await skipped(app, schedule)] == ["2026-01-02", "2026-01-01"]
    assert (await app.schedules.backfill("daily", at("2026-01-01T09:00"), at("2026-01-01T09:00:01"))).ids


async def test_a_skipped_occurrence_comes_back_when_an_edit_names_it_before_its_time(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("daily", NINE, "digest")
    left_out = await app.schedules.skip("daily", by="ada")
    assert told(left_out).first == (at("2026-01-01T09:00"),)
    await app.schedules.put("daily", NINE, "digest", exclude=["2026-01-03"])
    assert await skipped(app, schedule) == []
    for _ in range(2):
        clock.advance(DAY)
        await app.tick()
    await app.schedules.put("daily", NINE, "digest", exclude=["2026-01-04"])
    assert [event.occurrence for event in fired] == ["2026-01-01T09:00:00", "2026-01-02T09:00:00"]


async def test_a_skipped_occurrence_stays_skipped_when_its_time_has_come(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("daily", cron("0 9 * * *", timezone="Asia/Tokyo"), "digest")
    await app.schedules.skip("daily")
    clock.set(at("2026-01-02T06:00"))  # 15:00 in Tokyo, of the day that was left out; in New York, nine comes later
    await app.schedules.put("daily", cron("0 9 * * *", timezone="America/New_York"), "digest")
    for _ in range(24):
        clock.advance(HOUR)
        await app.tick()
    assert fired == []
    assert [row.occurrence for row in await skipped(app, schedule)] == ["2026-01-02T09:00:00"]


async def test_occurrences_that_pass_during_a_pause_have_their_rows(app: Duly, clock: ManualClock) -> None:
    schedule = await app.schedules.put("hourly", every("1h"), "digest")
    await app.schedules.pause("hourly")
    clock.advance(5 * HOUR + MINUTE)
    resumed = await app.schedules.resume("hourly", by="ada")
    assert (resumed.passed, told(resumed.schedule).count) == (5, 5)
    rows = await skipped(app, schedule)
    assert [row.scheduled for row in rows] == [START + n * HOUR for n in range(1, 6)]
    histories = [(await app.events.history(row.id))[-1] for row in rows]
    assert {(entry.act, entry.worker, entry.detail) for entry in histories} == {
        ("skipped", "ada", "its schedule was paused when its time came")
    }
    await app.schedules.pause("hourly")
    clock.advance(3 * HOUR)
    on = await app.schedules.put("hourly", every("1h"), "digest", enabled=True)
    assert told(on).count == 3


async def test_a_user_s_event_that_is_moved_past_others_passes_them_over(app: Duly, clock: ManualClock) -> None:
    greetings(app, "subscription")
    asked = {"subscription": {"since": "2026-01-10", "every": "month"}}
    user = await app.users.add(**a_user(timezone="UTC", attributes=asked))
    head = await planned(app, user, "subscription")
    await app.events.reschedule(head.id, at("2026-04-01T00:00"))
    passed = [event for event in await everything_of(app, user) if event.status is Status.SKIPPED]
    assert [event.occurrence for event in passed] == ["2026-03-10"]
    await app.users.update(user.id, timezone="Asia/Tokyo")
    assert (await planned(app, user, "subscription")).occurrence == "2026-02-10"
    clock.set(at("2026-02-10T12:00"))
    await app.tick()
    assert (await planned(app, user, "subscription")).occurrence == "2026-03-10"


async def test_what_was_cancelled_is_neither_stood_for_nor_passed_over(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("daily", NINE, "digest")
    await app.events.cancel((await head_of(app, schedule)).id)
    await app.events.cancel((await head_of(app, schedule)).id)
    await app.schedules.put("daily", cron("0 9 * * *"), "digest", exclude=["2026-01-07"])
    assert (await app.schedules.get("daily")).next_at == at("2026-01-03T09:00"), "what is cancelled stays cancelled"
    await app.events.reschedule((await head_of(app, schedule)).id, at("2026-01-01T10:00"))
    clock.set(at("2026-01-01T10:00"))
    await app.tick()
    await app.schedules.put("daily", cron("0 9,18 * * *"), "digest")
    moved = await app.schedules.reschedule("daily", at("2026-01-03T18:00"))
    assert told(moved).count == 2, "of the 2nd and the 3rd, only the evenings are left"
    back = await app.schedules.reschedule("daily", at("2026-01-01T18:00"))
    assert back.passed_over is None
    clock.set(at("2026-01-03T19:00"))
    await app.tick()
    assert (fired[-1].occurrence, fired[-1].stands_for) == ("2026-01-03T18:00:00", 3)


async def test_a_date_by_which_an_occurrence_is_named_is_passed_over_once(app: Duly, clock: ManualClock) -> None:
    schedule = await app.schedules.put("yearly", yearly("01-01", at="09:00"), "digest")
    clock.set(at("2026-01-01T08:30"))
    edited = await app.schedules.put("yearly", yearly("01-01", at="08:00"), "digest")
    assert (told(edited).count, edited.next_at) == (1, at("2027-01-01T08:00"))
    back = await app.schedules.put("yearly", yearly("01-01", at="10:00"), "digest")
    assert (back.passed_over, back.next_at, await skipped(app, schedule)) == (None, at("2026-01-01T10:00"), [])


# -- what is no edit of the rule, and what is an odd one


@pytest.mark.parametrize(
    "change",
    [
        {"payload": 7},
        {"type": "report"},
        {"target": {"webhook": "https://hooks.example/duly"}},
        {"retry": Retry(max_attempts=2)},
        {"misfire": "all"},
        {"overlap": "skip"},
        {"max_concurrent": 3},
        {"mode": "shadow"},
        {"enabled": False},
        {},
    ],
)
async def test_an_edit_of_anything_but_rule_zone_and_bounds_moves_no_occurrence(
    app: Duly, clock: ManualClock, change: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {"rule": NINE, "type": "digest"}
    schedule = await app.schedules.put("daily", **asked)
    await app.schedules.reschedule("daily", at("2026-01-03T12:00"))
    clock.set(at("2026-01-02T12:00"))
    edited = await app.schedules.put("daily", **{**asked, **change})
    assert (edited.passed_over, edited.next_at) == (None, at("2026-01-03T12:00")), "where somebody has put it"
    assert [row.due.day for row in await skipped(app, schedule)] == [2, 3], "and what that has passed over stays so"
    [stored] = await app.store.schedules([schedule.id])
    assert stored.earlier_json is None, "nothing is remembered that is not needed"


@pytest.mark.parametrize("broken", ['{"every": "often"}', "[]"])
async def test_what_is_owed_by_a_rule_that_nobody_can_read_stays_owed(
    app: Duly, clock: ManualClock, broken: str
) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("daily", NINE, "digest")
    await write(app.store, "UPDATE duly.schedules SET rule = $1 WHERE id = $2", broken, schedule.id)
    clock.set(at("2026-01-02T10:00"))
    mended = await app.schedules.put("daily", cron("0 12 * * *"), "digest")
    assert (mended.next_at, mended.halted) == (at("2026-01-01T09:00"), None)
    await app.tick()
    assert [(event.occurrence, event.stands_for) for event in fired] == [("2026-01-01T09:00:00", 1)]
    assert (await app.schedules.get("daily")).next_at == at("2026-01-02T12:00")


@pytest.mark.parametrize("broken", ['{"every": "often"}', "[]"])
async def test_a_run_of_a_rule_that_nobody_can_read_can_be_moved_and_left_out(app: Duly, broken: str) -> None:
    schedule = await app.schedules.put("daily", NINE, "digest")
    await write(app.store, "UPDATE duly.schedules SET rule = $1 WHERE id = $2", broken, schedule.id)
    moved = await app.schedules.reschedule("daily", at("2026-01-04T09:00"))
    assert (moved.next_at, moved.passed_over) == (at("2026-01-04T09:00"), None), "nobody knows what it was moved past"
    left_out = await app.schedules.skip("daily")
    assert told(left_out) == PassedOver(1, (at("2026-01-01T09:00"),), "duly schedules trigger daily")
    assert (left_out.halt_kind, str(left_out.halted).partition(":")[0]) == (HaltKind.ERROR, "Invalid")
    again = await app.schedules.put("daily", NINE, "digest")
    assert (again.next_at, again.halted) == (at("2026-01-01T09:00"), None), "its time had not come"


async def test_a_single_time_that_is_moved_fires_there_and_once_it_is_owed_it_fires_as_well(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    await app.schedules.put("launch", once(at("2026-01-01T10:00")), "digest")
    moved = await app.schedules.put("launch", once(at("2026-01-01T12:00")), "digest")
    assert (moved.next_at, moved.passed_over) == (at("2026-01-01T12:00"), None)
    clock.set(at("2026-01-01T12:30"))
    again = await app.schedules.put("launch", once(at("2026-01-01T14:00")), "digest")
    assert again.next_at == at("2026-01-01T12:00"), "it is owed"
    clock.set(at("2026-01-01T14:00"))
    for _ in range(2):
        await app.tick()
    assert [(event.occurrence, event.stands_for) for event in fired] == [("2026-01-01T14:00:00Z", 2)]
    assert (await app.schedules.get("launch")).halted == "ended"
    over = await app.schedules.put("launch", once(at("2026-01-01T13:00")), "digest")
    assert (over.next_at, over.halted) == (None, "ended"), "an edit never makes a run in the past"
    await app.schedules.put("launch", once(at("2026-01-01T14:00")), "digest")
    assert (await app.schedules.get("launch")).next_at is None, "what was fired is not fired again"


async def test_many_edits_in_the_same_microsecond_are_as_good_as_the_last(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    await app.schedules.put("runs", every("1h", start=START), "digest", misfire="all")
    clock.set(START + 2 * HOUR)
    for minutes in range(1, 3 * MOST_EARLIER):
        await app.schedules.put("runs", every(f"{minutes}m", start=START), "digest", misfire="all")
    await app.schedules.put("runs", every("90m", start=START), "digest", misfire="all")
    clock.set(START + 3 * HOUR)
    for _ in range(4):
        await app.tick()
    assert [(event.due - START) / HOUR for event in fired] == [1, 2, 3]


@pytest.mark.parametrize(
    ("before", "after", "fires"),
    [
        ("2026-03-29T00:30", "2026-03-29T01:10", ["2026-03-29T03:00:00", "2026-03-29T03:30:00"]),  # there is no 2:30
        ("2026-10-25T00:10", "2026-10-25T01:10", ["2026-10-25T02:30:00", "2026-10-25T03:30:00"]),  # 2:30 comes twice
    ],
)
async def test_an_edit_on_a_day_when_clocks_are_changed_loses_and_repeats_nothing(
    app: Duly, clock: ManualClock, before: str, after: str, fires: list[str]
) -> None:
    fired = ticks(app)
    clock.set(at(before))
    await app.schedules.put("runs", cron("30 2 * * *", timezone="Europe/Berlin"), "digest")
    clock.set(at(after))
    await app.tick()
    edited = await app.schedules.put("runs", cron("30 2,3 * * *", timezone="Europe/Berlin"), "digest")
    assert edited.passed_over is None
    for _ in range(24):
        clock.advance(HOUR)
        await app.tick()
    assert [event.occurrence for event in fired][:2] == fires
    assert len({event.occurrence for event in fired}) == len(fired)


async def test_what_is_owed_before_an_edit_that_pauses_fires_after_one_that_resumes(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("runs", every("1h", start=START), "digest")
    clock.set(START + 90 * MINUTE)
    paused = await app.schedules.put("runs", cron("30 * * * *"), "digest", enabled=False)
    assert (paused.next_at, paused.held) == (START + HOUR, "paused")
    clock.set(START + 4 * HOUR)
    on = await app.schedules.put("runs", cron("45 * * * *"), "digest", enabled=True)
    assert (on.passed_over, on.held) == (None, None)
    await app.tick()
    assert [(event.due, event.stands_for) for event in fired] == [(START + 3.5 * HOUR, 3)], "1:00, 2:30 and 3:30"
    assert (await skipped(app, schedule), (await app.schedules.get("runs")).next_at) == ([], START + 4.75 * HOUR)


async def test_an_edit_that_resumes_tells_what_passed_during_the_pause_by_the_rule_that_was_in_force(
    app: Duly, clock: ManualClock
) -> None:
    schedule = await app.schedules.put("runs", every("1h", start=START), "digest", enabled=False)
    clock.set(START + 150 * MINUTE)
    on = await app.schedules.put("runs", every("20m", start=START), "digest", enabled=True)
    assert (told(on).first, on.next_at) == ((START + HOUR, START + 2 * HOUR), START + 160 * MINUTE)
    assert [row.scheduled for row in await skipped(app, schedule)] == [START + HOUR, START + 2 * HOUR]


async def test_what_an_edit_that_resumes_has_planned_by_the_new_rule_is_not_passed_over_as_the_old_one_s(
    app: Duly, clock: ManualClock
) -> None:
    schedule = await app.schedules.put("runs", cron("0 9 * * *", timezone="Pacific/Honolulu"), "digest")
    await app.schedules.pause("runs")
    clock.set(at("2026-01-01T19:00"))  # nine in Honolulu
    on = await app.schedules.put("runs", cron("30 1,2 * * *", timezone="Asia/Tokyo"), "digest", enabled=True)
    assert told(on).first == (at("2026-01-01T19:00"),)
    assert on.next_at == at("2026-01-02T16:30"), "half past one in Tokyo"
    assert len(await skipped(app, schedule)) == 1
