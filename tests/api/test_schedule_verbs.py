"""What people do to schedules, through the public calls, on both stores."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Conflict, Duly, Event, Invalid, NotFound, OfSeries, Retry, Schedule, Status, cron, every, once, yearly
from duly.rules.timetable import Timetable
from duly.testing import ManualClock
from tests.api.test_schedules import ticks
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, MICROSECOND, MINUTE, START


async def head_of(app: Duly, schedule: Schedule) -> Event:
    head = await app.store.head(schedule.series)
    assert head is not None
    return head


async def acts(app: Duly, name: str) -> list[str]:
    return [entry.act for entry in await app.schedules.history(name)]


async def events_of(app: Duly, schedule: Schedule, status: str | None = None) -> list[Event]:
    found = await app.events.find(OfSeries(schedule.series))
    return [event for event in found if status is None or event.status == status]


# -- looking


async def put_ended(app: Duly, name: str) -> None:
    """A schedule whose rule is over since it was changed."""
    await app.schedules.put(name, every("1h"), "digest")
    assert (await app.schedules.put(name, once(START - HOUR), "digest")).halted == "ended"


async def test_a_schedule_is_shown_with_its_next_and_last_firing(app: Duly, clock: ManualClock) -> None:
    ticks(app)
    put = await app.schedules.put("hourly", every("1h"), "digest", {"n": 1}, timezone="Asia/Tokyo")
    assert (put.next_at, put.last_at, put.enabled, put.timezone) == (START + HOUR, None, True, "Asia/Tokyo")
    clock.advance(HOUR + MINUTE)
    await app.tick()
    shown = await app.schedules.get("hourly")
    assert (shown.next_at, shown.last_at) == (START + 2 * HOUR, START + HOUR + MINUTE)
    assert (shown.payload, shown.created, shown.rule["every"]) == ({"n": 1}, START, "1h")


async def test_a_schedule_is_shown_with_how_its_last_event_went(app: Duly, clock: ManualClock) -> None:
    errors: list[Exception] = []

    @app.on("digest")
    async def digest(_: Event) -> None:
        if errors:
            raise errors[0]

    retry = Retry(max_attempts=2, base=timedelta(minutes=1))
    put = await app.schedules.put("hourly", every("1h"), "digest", retry=retry)
    other = await app.schedules.put("quiet", every("1h"), "digest", enabled=False)
    assert (put.last_status, other.last_status) == (None, None)
    seen = []
    for error in (None, ValueError("no paper"), None):
        errors[:] = [error] if error else []
        clock.advance(HOUR)
        for _ in range(2):
            await app.tick()
            seen.append((await app.schedules.get("hourly")).last_status)
            clock.advance(5 * MINUTE)
    assert seen == [
        Status.COMPLETED, Status.COMPLETED, Status.PENDING, Status.FAILED, Status.COMPLETED, Status.COMPLETED,
    ]  # fmt: skip
    listed = {one.name: one for one in await app.schedules.list()}
    assert listed["hourly"] == await app.schedules.get("hourly")
    assert (listed["quiet"].last_at, listed["quiet"].last_status) == (None, None)


async def test_schedules_are_listed_by_tenant_and_name_in_pages(app: Duly) -> None:
    for name in ("b", "a", "c"):
        await app.schedules.put(name, every("1h"), "digest")
    await app.schedules.put("a", every("1h"), "digest", tenant="acme")
    everything = await app.schedules.list()
    assert [(one.tenant, one.name) for one in everything] == [
        ("acme", "a"), ("default", "a"), ("default", "b"), ("default", "c"),
    ]  # fmt: skip
    assert [one.name for one in await app.schedules.list(tenant="default", limit=2)] == ["a", "b"]
    rest = await app.schedules.list(tenant="default", after=everything[2])
    assert [one.name for one in rest] == ["c"]
    with pytest.raises(Invalid, match="limit"):
        await app.schedules.list(limit=0)


async def test_an_unknown_schedule_is_not_found_by_any_verb(app: Duly) -> None:
    await app.schedules.put("theirs", every("1h"), "digest", tenant="acme")
    verbs = app.schedules
    for name in ("nobody", "theirs", "", "a\x00b"):
        for call in (
            verbs.get(name),
            verbs.history(name),
            verbs.pause(name),
            verbs.resume(name),
            verbs.trigger(name),
            verbs.skip(name),
            verbs.reschedule(name, START),
            verbs.backfill(name, START - DAY, START),
            verbs.preview(name),
            verbs.delete(name),
        ):
            with pytest.raises(NotFound, match="there is no schedule"):
                await call


# -- pause and resume


async def test_a_paused_schedule_holds_its_next_event_where_it_is(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("hourly", every("1h"), "digest")
    paused = await app.schedules.pause("hourly", by="ada", reason="too loud")
    assert (paused.enabled, paused.next_at, paused.held, paused.halted) == (False, START + HOUR, "paused", "paused")
    clock.advance(DAY)
    await app.tick()
    assert fired == []
    head = await head_of(app, schedule)
    assert (head.status, head.ready, head.due) == (Status.PENDING, None, START + HOUR)
    [_, entry] = await app.schedules.history("hourly")
    assert (entry.act, entry.worker, entry.detail) == ("paused", "ada", "too loud")
    await app.schedules.pause("hourly")
    assert await acts(app, "hourly") == ["created", "paused"], "pausing twice is pausing once"


async def test_occurrences_that_pass_during_a_pause_are_left_out(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    await app.schedules.put("hourly", every("1h"), "digest")
    await app.schedules.pause("hourly")
    clock.advance(5 * HOUR + MINUTE)
    resumed = await app.schedules.resume("hourly", by="ada")
    assert (resumed.passed, resumed.fires) == (5, False)
    assert (resumed.schedule.enabled, resumed.schedule.next_at, resumed.schedule.held) == (True, START + 6 * HOUR, None)
    assert resumed.schedule.halted is None
    await app.tick()
    assert fired == []
    clock.advance(HOUR)
    await app.tick()
    assert [(event.due, event.stands_for) for event in fired] == [(START + 6 * HOUR, 1)]
    entry = (await app.schedules.history("hourly"))[-1]
    assert (entry.act, entry.worker) == ("resumed", "ada")
    assert "5 occurrences were missed during the pause, and were skipped" in str(entry.detail)


async def test_occurrences_that_pass_during_a_pause_can_be_caught_up(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    await app.schedules.put("hourly", every("1h"), "digest")
    await app.schedules.pause("hourly")
    clock.advance(5 * HOUR + MINUTE)
    resumed = await app.schedules.resume("hourly", passed="fire")
    assert (resumed.passed, resumed.fires) == (5, True)
    await app.tick()
    assert [(event.due, event.stands_for) for event in fired] == [(START + 5 * HOUR, 5)]


async def test_a_short_pause_passes_over_nothing(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    await app.schedules.put("hourly", every("1h"), "digest")
    await app.schedules.reschedule("hourly", START + 30 * MINUTE)
    await app.schedules.pause("hourly")
    clock.advance(10 * MINUTE)
    resumed = await app.schedules.resume("hourly")
    assert (resumed.passed, resumed.schedule.next_at) == (0, START + 30 * MINUTE), "as somebody had moved it"
    clock.advance(20 * MINUTE)
    await app.tick()
    assert len(fired) == 1


async def test_an_occurrence_that_was_due_before_the_pause_is_owed(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    await app.schedules.put("hourly", every("1h"), "digest")
    await app.schedules.put("moved", cron("0 12 * * *"), "digest")
    await app.schedules.reschedule("moved", START + HOUR)
    clock.advance(2 * HOUR)
    for name in ("hourly", "moved"):
        await app.schedules.pause(name)
    clock.advance(MINUTE)
    resumed = [await app.schedules.resume(name) for name in ("hourly", "moved")]
    assert [(one.passed, one.fires) for one in resumed] == [(0, True), (0, True)]
    await app.tick()
    assert sorted((event.due, event.stands_for) for event in fired) == [(START + HOUR, 1), (START + 2 * HOUR, 2)]


async def test_an_occurrence_that_an_end_had_cut_off_comes_back_when_the_end_does_not_hold_any_more(app: Duly) -> None:
    noon = cron("0 12 * * *")
    first = await app.schedules.put("noon", noon, "digest")
    assert (await app.schedules.put("noon", noon, "digest", end=START)).halted == "ended"
    assert (await app.schedules.put("noon", noon, "digest")).next_at == first.next_at


async def test_lines_of_a_recurrence_rule_bring_their_zone(app: Duly) -> None:
    lines = "DTSTART;TZID=Europe/Brussels:20260101T090000\nRRULE:FREQ=DAILY"
    put = await app.schedules.put("daily", {"rrule": lines}, "digest")
    assert (put.timezone, put.next_at) == ("Europe/Brussels", START + 8 * HOUR)


async def test_resuming_a_schedule_that_is_not_paused_changes_nothing(app: Duly) -> None:
    await app.schedules.put("hourly", every("1h"), "digest")
    resumed = await app.schedules.resume("hourly")
    assert (resumed.passed, resumed.schedule.next_at) == (0, START + HOUR)
    assert await acts(app, "hourly") == ["created"]
    with pytest.raises(Invalid, match="passed"):
        await app.schedules.resume("hourly", passed="maybe")


async def test_a_rule_that_ends_during_a_pause_has_ended(app: Duly, clock: ManualClock) -> None:
    schedule = await app.schedules.put("launch", once(START + HOUR), "digest")
    await app.schedules.pause("launch")
    clock.advance(DAY)
    resumed = await app.schedules.resume("launch")
    assert (resumed.schedule.halted, resumed.schedule.next_at) == ("ended", None)
    [left_out] = await events_of(app, schedule)
    assert left_out.status is Status.SKIPPED


async def test_a_schedule_that_is_put_paused_stays_paused_until_somebody_resumes_it(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    await app.schedules.put("hourly", every("1h"), "digest", enabled=False)
    again = await app.schedules.put("hourly", every("2h"), "digest")
    assert (again.enabled, again.held) == (False, "paused")
    clock.advance(DAY)
    await app.tick()
    assert fired == []
    on = await app.schedules.put("hourly", every("2h"), "digest", enabled=True)
    assert (on.enabled, on.held, on.next_at) == (True, None, START + DAY + 2 * HOUR)
    off = await app.schedules.put("hourly", every("2h"), "digest", enabled=False)
    assert (off.enabled, off.held, off.halted) == (False, "paused", "paused")


async def test_a_schedule_that_was_enabled_in_the_table_goes_on(app: Duly, clock: ManualClock) -> None:
    from tests.stores.rows import write

    fired = ticks(app)
    schedule = await app.schedules.put("hourly", every("1h"), "digest")
    await app.schedules.pause("hourly")
    clock.advance(5 * HOUR + MINUTE)
    on = "true" if app.store.dialect == "postgres" else "1"
    await write(app.store, f"UPDATE duly.schedules SET enabled = {on} WHERE id = $1", schedule.id)
    await app.tick()
    assert fired == [], "a pause is not a misfire, whoever ends it"
    clock.advance(HOUR)
    await app.tick()
    assert [event.due for event in fired] == [START + 6 * HOUR]


# -- trigger


async def test_a_trigger_fires_now_and_leaves_the_next_event_alone(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("hourly", every("1h"), "digest", {"n": 1})
    before = await head_of(app, schedule)
    clock.advance(10 * MINUTE)
    event = await app.schedules.trigger("hourly", by="ada", correlation_id="c1")
    assert (event.due, event.scheduled, event.head, event.payload) == (
        START + 10 * MINUTE,
        START + 10 * MINUTE,
        False,
        {"n": 1},
    )
    assert event.correlation_id == "c1"
    await app.tick()
    assert [one.id for one in fired] == [event.id]
    assert await head_of(app, schedule) == before
    again = await app.schedules.trigger("hourly", payload={"n": 2})
    await app.tick()
    assert [(one.id, one.payload) for one in fired] == [(event.id, {"n": 1}), (again.id, {"n": 2})]
    assert (await app.events.history(event.id))[0].detail == "triggered by ada"
    assert await acts(app, "hourly") == ["created", "triggered", "triggered"]


async def test_a_trigger_fires_also_while_the_schedule_is_paused_or_has_ended(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    await app.schedules.put("hourly", every("1h"), "digest")
    await app.schedules.pause("hourly")
    await put_ended(app, "launch")
    await app.schedules.trigger("hourly")
    await app.schedules.trigger("launch")
    await app.tick()
    assert len(fired) == 2


@pytest.mark.parametrize("options", [{"payload": object()}, {"payload": float("nan")}, {"correlation_id": "\n"}])
async def test_a_bad_trigger_is_refused(app: Duly, options: dict[str, Any]) -> None:
    schedule = await app.schedules.put("hourly", every("1h"), "digest")
    with pytest.raises(Invalid):
        await app.schedules.trigger("hourly", **options)
    assert len(await events_of(app, schedule)) == 1


# -- reschedule and skip


@pytest.mark.parametrize("off", [-30 * MINUTE, 30 * MINUTE])
async def test_the_next_event_can_be_moved_and_the_rule_goes_on(app: Duly, clock: ManualClock, off: Any) -> None:
    fired = ticks(app)
    await app.schedules.put("hourly", every("1h"), "digest")
    moved = await app.schedules.reschedule("hourly", START + HOUR + off, by="ada")
    assert moved.next_at == START + HOUR + off
    for hour in range(1, 4):
        clock.set(START + hour * HOUR + 30 * MINUTE)
        await app.tick()
    assert [event.due - START for event in fired] == [HOUR + off, 2 * HOUR, 3 * HOUR]
    assert [event.scheduled for event in fired] == [START + n * HOUR for n in (1, 2, 3)]


async def test_a_schedule_without_a_next_event_cannot_be_moved_or_skipped(app: Duly) -> None:
    await put_ended(app, "launch")
    for call in (app.schedules.reschedule("launch", START + HOUR), app.schedules.skip("launch")):
        with pytest.raises(Conflict, match="has no next event: ended"):
            await call
    with pytest.raises(Invalid, match="due"):
        await app.schedules.reschedule("launch", datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
    with pytest.raises(Invalid, match="due"):
        await app.schedules.reschedule("launch", HOUR)  # type: ignore[arg-type]


async def test_the_next_event_can_be_skipped(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("hourly", every("1h"), "digest")
    skipped = await app.schedules.skip("hourly", by="ada", reason="a holiday of ours")
    assert skipped.next_at == START + 2 * HOUR
    clock.advance(2 * HOUR)
    await app.tick()
    assert [event.due for event in fired] == [START + 2 * HOUR]
    [left_out] = await events_of(app, schedule, "SKIPPED")
    [entry] = await app.events.history(left_out.id)
    assert (left_out.due, entry.act, entry.detail) == (START + HOUR, "skipped", "skipped by ada: a holiday of ours")


async def test_skipping_the_next_event_of_a_paused_schedule_keeps_it_paused(app: Duly) -> None:
    await app.schedules.put("hourly", every("1h"), "digest")
    await app.schedules.pause("hourly")
    skipped = await app.schedules.skip("hourly")
    assert (skipped.next_at, skipped.held) == (START + 2 * HOUR, "paused")


async def test_cancelling_a_head_goes_on_with_the_one_after_it(app: Duly) -> None:
    schedule = await app.schedules.put("hourly", every("1h"), "digest")
    await app.events.cancel((await head_of(app, schedule)).id)
    assert (await app.schedules.get("hourly")).next_at == START + 2 * HOUR


# -- backfill


async def test_a_range_is_backfilled_oldest_first_beside_the_rule(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.schedules.put("daily", cron("0 9 * * *", timezone="Asia/Tokyo"), "digest")
    before = await head_of(app, schedule)
    filled = await app.schedules.backfill("daily", START - 3 * DAY, START, label="repair", by="ada")
    assert (filled.label, len(filled.ids), filled.existing) == ("repair", 3, 0)
    await app.tick()
    assert [event.scheduled for event in fired] == [START - n * DAY for n in (3, 2, 1)]
    assert all(START - MINUTE < event.due <= START for event in fired), "they are due now, so none of them is late"
    assert {event.correlation_id for event in fired} == {"backfill:repair"}
    assert await head_of(app, schedule) == before
    again = await app.schedules.backfill("daily", START - 4 * DAY, START, label="repair")
    assert (len(again.ids), again.existing) == (1, 3), "what a label has filled is not filled again"
    other = await app.schedules.backfill("daily", START - 3 * DAY, START)
    assert (len(other.ids), other.existing) == (3, 0)
    assert (await app.schedules.backfill("daily", START - 3 * DAY, START)).existing == 3


async def test_no_occurrence_is_backfilled_twice_without_a_label_whatever_the_ranges(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    await app.schedules.put("daily", cron("0 9 * * *", timezone="Asia/Tokyo"), "digest")
    await app.schedules.backfill("daily", START - 3 * DAY, START)
    clock.advance(MINUTE)
    until = START + MINUTE
    told = await app.schedules.backfill("daily", START - 4 * DAY, until, dry_run=True)
    assert (told.occurrences, told.existing) == ([START - 4 * DAY, START], 3), (
        "a dry run leaves out what was backfilled"
    )
    done = await app.schedules.backfill("daily", START - 4 * DAY, until)
    assert (done.label, done.occurrences, done.existing) == ("default", told.occurrences, 3)
    await app.tick()
    assert (len(fired), {event.scheduled for event in fired}) == (5, {START - n * DAY for n in range(5)})


async def test_a_dry_run_of_a_backfill_tells_what_would_fire_and_fires_nothing(app: Duly) -> None:
    schedule = await app.schedules.put("daily", cron("0 9 * * *", timezone="Asia/Tokyo"), "digest")
    await app.schedules.backfill("daily", START - DAY, START, label="repair")
    before = await events_of(app, schedule), await app.schedules.history("daily")
    told = await app.schedules.backfill("daily", START - 3 * DAY, START, label="repair", dry_run=True)
    assert (told.occurrences, told.ids, told.existing) == ([START - 3 * DAY, START - 2 * DAY], [], 1)
    assert (await events_of(app, schedule), await app.schedules.history("daily")) == before
    done = await app.schedules.backfill("daily", START - 3 * DAY, START, label="repair")
    assert (done.occurrences, len(done.ids), done.existing) == (told.occurrences, 2, 1)


async def test_a_backfill_has_a_largest_number_of_events(app: Duly) -> None:
    schedule = await app.schedules.put("minutely", cron("* * * * *"), "digest")
    with pytest.raises(Invalid, match="1,440 occurrences are more than 100"):
        await app.schedules.backfill("minutely", START - DAY, START)
    assert len(await events_of(app, schedule)) == 1
    filled = await app.schedules.backfill("minutely", START - DAY, START, limit=2000)
    assert len(filled.ids) == 1440


async def test_a_backfill_does_not_step_through_a_thousand_years_of_excluded_days(
    app: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.schedules.put("weekdays", cron("0 9 * * *"), "digest", exclude=["SAT", "SUN"])
    monkeypatch.setattr(Timetable, "count", lambda *_: pytest.fail("day by day, that takes half a minute"))
    with pytest.raises(Invalid, match="there are more than 5: raise the limit"):
        await app.schedules.backfill("weekdays", datetime(1000, 1, 1, tzinfo=UTC), START, limit=5)
    assert len((await app.schedules.backfill("weekdays", START - 7 * DAY, START, limit=5)).ids) == 5


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"start": START, "end": START - DAY}, "end"),
        ({"end": START + MICROSECOND}, "end"),
        ({"start": datetime(2026, 1, 1)}, "start"),  # noqa: DTZ001 - that is the point
        ({"start": "yesterday"}, "start"),
        ({"limit": 0}, "limit"),
        ({"limit": 10_001}, "limit"),
        ({"limit": True}, "limit"),
        ({"label": ""}, "label"),
    ],
)
async def test_a_bad_backfill_is_refused(app: Duly, options: dict[str, Any], path: str) -> None:
    await app.schedules.put("hourly", every("1h"), "digest")
    with pytest.raises(Invalid) as refused:
        await app.schedules.backfill("hourly", **({"start": START - DAY, "end": START} | options))
    assert {problem.path for problem in refused.value.problems} == {path}


# -- preview


async def test_a_preview_tells_what_clocks_do(app: Duly) -> None:
    rule = cron("30 2 * * *", timezone="Europe/Brussels")
    await app.schedules.put("nightly", rule, "digest")
    spring = await app.schedules.preview("nightly", after=datetime.fromisoformat("2026-03-28T00:00Z"), count=3)
    assert [f"{one.local:%d %H:%M}" for one in spring] == ["28 02:30", "29 03:00", "30 02:30"]
    assert [one.note for one in spring] == [None, "2026-03-29 has no 02:30: it fires right after the gap", None]
    autumn = await app.schedules.preview(rule, after=datetime.fromisoformat("2026-10-24T12:00Z"), count=2)
    assert autumn[0].note == "the clocks show 02:30 twice, and this is the first time"
    assert autumn[1].note is None
    skipping = await app.schedules.preview(
        {"cron": "30 2 * * *"},
        timezone="Europe/Brussels",
        dst={"gap": "skip"},
        after=datetime.fromisoformat("2026-03-28T12:00Z"),
        count=1,
    )
    assert [(f"{one.local:%d %H:%M}", one.note) for one in skipping] == [
        ("30 02:30", "2026-03-29 has no 02:30: it does not fire then")
    ]


async def test_a_preview_tells_of_excluded_days_and_ends_with_the_rule(app: Duly) -> None:
    shown = await app.schedules.preview(cron("0 9 * * *"), exclude=["SAT", "SUN"], end="2026-01-06T00:00:00Z", count=50)
    assert [f"{one.due:%a %d}" for one in shown] == ["Thu 01", "Fri 02", "Mon 05"]
    assert shown[-1].note == "excluded: 2026-01-03, 2026-01-04"


@pytest.mark.parametrize(
    ("what", "options", "path"),
    [
        ({"cron": "61 * * * *"}, {}, "rule.cron"),
        ({"every": "1h"}, {"timezone": "Mars/Olympus"}, "timezone"),
        ({"every": "1h"}, {"count": 0}, "count"),
        ({"every": "1h"}, {"after": "now"}, "after"),
        ({"every": "1h"}, {"exclude": ["someday"]}, "exclude[0]"),
        ({"every": "1h"}, {"misfires": "all"}, "misfires"),
        (7, {}, "rule"),
    ],
)
async def test_a_bad_preview_is_refused(app: Duly, what: Any, options: dict[str, Any], path: str) -> None:
    with pytest.raises(Invalid) as refused:
        await app.schedules.preview(what, **options)
    assert [problem.path for problem in refused.value.problems] == [path]


async def test_a_preview_of_a_schedule_begins_with_its_next_event_as_it_is(app: Duly) -> None:
    await app.schedules.put("daily", cron("0 9 * * *"), "digest")
    await app.schedules.skip("daily")
    shown = await app.schedules.preview("daily", count=2)
    assert [one.due for one in shown] == [START + DAY + 9 * HOUR, START + 2 * DAY + 9 * HOUR]
    await app.schedules.reschedule("daily", START + 3 * DAY)
    shown = await app.schedules.preview("daily", count=2)
    assert [one.due for one in shown] == [START + 3 * DAY, START + 3 * DAY + 9 * HOUR]
    assert [one.note for one in shown] == ["moved by hand from 2026-01-02T09:00:00Z", None]
    by_the_rule = await app.schedules.preview("daily", count=1, after=START)
    assert [one.due for one in by_the_rule] == [START + 9 * HOUR]


async def test_pausing_a_schedule_that_has_ended_leaves_it_ended(app: Duly) -> None:
    await put_ended(app, "launch")
    assert (await app.schedules.pause("launch")).halted == "ended"
    assert (await app.schedules.resume("launch")).schedule.halted == "ended"


# -- delete


async def test_deleting_a_schedule_cancels_waiting_events_and_lets_running_ones_end(
    duly: OpenDuly, clock: ManualClock
) -> None:
    app = await duly()
    began, go_on = asyncio.Event(), asyncio.Event()

    @app.on("digest")
    async def digest(event: Event) -> None:
        began.set()
        await go_on.wait()

    schedule = await app.schedules.put("hourly", every("1h"), "digest")
    clock.advance(HOUR)
    ticking = asyncio.create_task(app.tick())
    await began.wait()
    assert await app.schedules.delete("hourly", by="ada") == 1, "the head that follows the one under way"
    go_on.set()
    await ticking
    assert {event.status for event in await events_of(app, schedule)} == {Status.COMPLETED, Status.CANCELLED}
    assert await app.schedules.list() == []
    assert [entry.act for entry in await app.store.history(schedule.id)] == ["created", "deleted"]
    anew = await app.schedules.put("hourly", every("1h"), "digest")
    assert anew.id != schedule.id
    assert anew.next_at == START + 2 * HOUR


async def test_a_schedule_that_others_depend_on_is_not_deleted(app: Duly) -> None:
    await app.schedules.put("load", every("1h"), "digest")
    await app.schedules.put("report", every("1h"), "digest", depends_on={"schedule": "load", "within": "1h"})
    with pytest.raises(Conflict, match="cannot delete schedule 'load': report depends on it"):
        await app.schedules.delete("load")
    await app.schedules.delete("report")
    await app.schedules.delete("load")


# -- the same for synchronous code


async def test_synchronous_code_has_every_verb_of_schedules(app: Duly, clock: ManualClock) -> None:
    def all_of_them() -> list[Any]:
        verbs = app.sync.schedules
        verbs.put("yearly", yearly("02-29", timezone="Asia/Tokyo"), "digest")
        return [
            verbs.get("yearly").next_at,
            [one.name for one in verbs.list()],
            verbs.reschedule("yearly", START + DAY).next_at,
            verbs.skip("yearly").next_at,
            verbs.pause("yearly").enabled,
            verbs.resume("yearly").schedule.enabled,
            verbs.trigger("yearly").head,
            len(verbs.preview("yearly", count=3)),
            len(verbs.backfill("yearly", START - 800 * DAY, START).ids),
            verbs.replan(dry_run=True),
            len(verbs.history("yearly")),
            verbs.delete("yearly"),
        ]

    kept = datetime.fromisoformat("2026-02-28T00:00Z"), datetime.fromisoformat("2027-02-28T00:00Z")
    assert await asyncio.to_thread(all_of_them) == [
        kept[0], ["yearly"], START + DAY, kept[1], False, True, False, 3, 2, [], 7, 4,
    ]  # fmt: skip
