"""Why a schedule did not run at an instant: one kind for programs, and a sentence for people. Each kind has its
example; the histories that people can make are in test_why_not_of_every_slot.py."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from duly import Duly, Event, Invalid, NotFound, Retry, cron, every, webhook
from duly.decide.series.slots import MOST_RULES
from duly.decide.series.why_not import WhyNot
from duly.engine.presence.beat import row_of
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, LEASE, MINUTE, START, held
from tests.stores.rows import write

NINE = START + 9 * HOUR
DAILY: dict[str, Any] = {"rule": cron("0 9 * * *"), "type": "x"}
BRUSSELS = cron("30 2 * * *", timezone="Europe/Brussels")
GAP = datetime(2026, 3, 29, 2, 30)  # noqa: DTZ001 - what the clocks do not show
TWICE = datetime(2026, 10, 25, 2, 30)  # noqa: DTZ001 - what they show twice


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    """One that runs the type `x`."""
    app = await duly(retention="2d")

    @app.on("x")
    async def run(event: Event) -> None:
        if event.payload == "fails":
            raise ValueError("the printer is out of paper")

    return app


async def put(app: Duly, **options: Any) -> None:
    await app.schedules.put("it", **{**DAILY, **options}, by="ada")


async def asked(app: Duly, at: datetime | str) -> WhyNot:
    return await app.schedules.why_not("it", at)


async def told(app: Duly, at: datetime | str) -> tuple[str, str]:
    """The kind and the sentence, without ids."""
    answer = await asked(app, at)
    message = answer.message if answer.event_id is None else answer.message.replace(answer.event_id, "E")
    return answer.kind, message


async def later(app: Duly, clock: ManualClock, at: datetime) -> None:
    clock.advance(at - clock.now())
    await app.tick()


# -- by the rules


async def test_the_rule_does_not_name_it(app: Duly) -> None:
    await put(app)
    sentence = "the rule does not name it; the next that it names is 2026-01-02T09:00:00Z"
    assert await told(app, START + 10 * HOUR) == ("not_named", sentence)
    assert (await asked(app, START + 10 * HOUR)).next_at == NINE + DAY
    assert (await asked(app, NINE + MINUTE / 60)).kind == "not_named", "to the second"


async def test_its_day_is_excluded_and_which_exclusion_it_is(app: Duly) -> None:
    await put(app, exclude=["SUN", "2026-01-02/2026-01-03"])
    assert await told(app, NINE + DAY) == ("excluded", "2026-01-02 is excluded, by '2026-01-02/2026-01-03'")
    assert await told(app, NINE + 3 * DAY) == ("excluded", "2026-01-04 is excluded, by 'SUN'")
    assert (await asked(app, NINE + DAY)).next_at == NINE + 4 * DAY


async def test_it_is_before_the_start_or_after_the_end_or_before_the_creation(app: Duly) -> None:
    await put(app, start=NINE + DAY, end=NINE + 2 * DAY)
    assert await told(app, NINE) == ("before_start", "the schedule starts at 2026-01-02T09:00:00Z")
    assert (await asked(app, NINE)).until == NINE + DAY
    assert await told(app, NINE + 3 * DAY) == ("after_end", "the schedule ended at 2026-01-03T09:00:00Z")
    created = "the schedule was created later, at 2026-01-01T00:00:00Z"
    assert await told(app, NINE - DAY) == ("before_creation", created)


async def test_the_clocks_skip_it_and_it_fires_at_another_time(app: Duly, clock: ManualClock) -> None:
    await put(app, rule=BRUSSELS)
    await later(app, clock, datetime(2026, 3, 28, 12, tzinfo=UTC))
    answer = await asked(app, GAP)
    assert (answer.kind, answer.at, answer.local) == ("gap", datetime(2026, 3, 29, 1, tzinfo=UTC), GAP)
    assert answer.next_at == answer.at
    assert answer.message.startswith(
        "the clocks of Europe/Brussels skip 2026-03-29 02:30 that day: it fires at 2026-03-29T01:00:00Z instead: event "
    )
    await later(app, clock, answer.at)
    after = await asked(app, GAP)
    assert (after.kind, after.event_id) == ("gap", answer.event_id)
    assert after.message.endswith("it fired at 2026-03-29T01:00:00Z, 0s after it was due")
    assert (await asked(app, answer.at)).kind == "completed"
    await put(app, rule=BRUSSELS, dst={"gap": "shift"})
    moved = await asked(app, datetime(2027, 3, 28, 2, 30))  # noqa: DTZ001
    assert moved.at == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)


async def test_the_clocks_skip_it_and_it_does_not_fire(app: Duly) -> None:
    await put(app, rule=BRUSSELS, dst={"gap": "skip"})
    skipped = "the clocks of Europe/Brussels skip 2026-03-29 02:30 that day, and"
    policy = f"{skipped} by the policy of the schedule for gaps it does not fire then"
    assert await told(app, GAP) == ("gap", policy)
    assert await told(app, "2026-03-29T02:31") == (
        "gap",
        "the clocks of Europe/Brussels skip 2026-03-29 02:31 that day, and the rule fires nothing for it",
    )
    await put(app, rule=every("30m", start=START), timezone="Europe/Brussels")
    assert await told(app, GAP) == ("gap", f"{skipped} the rule fires nothing for it")


async def test_the_clocks_show_it_twice_and_the_policy_fires_one(app: Duly) -> None:
    await put(app, rule=BRUSSELS)
    first, second = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    answer = await asked(app, TWICE)
    assert (answer.kind, answer.at) == ("scheduled", first)
    about = "this is about 2026-10-25T00:30:00Z, not 2026-10-25T01:30:00Z: it is due at"
    assert answer.message.startswith(f"the clocks of Europe/Brussels show 2026-10-25 02:30 twice, and {about}")
    again = await asked(app, second)
    assert (again.kind, again.next_at) == ("repeated", first)
    assert "twice that day, and the rule fires the other time, 2026-10-25T00:30:00Z" in again.message
    await put(app, rule=BRUSSELS, dst={"overlap": "second"})
    assert (await asked(app, TWICE)).at == second
    assert (await asked(app, first)).kind == "repeated"


async def test_it_was_edited_away_and_by_whom(app: Duly, clock: ManualClock) -> None:
    await put(app)
    clock.advance(HOUR)
    await app.schedules.put("it", cron("0 10 * * *"), "x", by="bob")
    removed = await asked(app, NINE)
    assert (removed.kind, removed.by) == ("edited", "bob")
    assert removed.message == (
        "the rule that names it was in force until 2026-01-01T01:00:00Z, when the schedule was edited by bob"
    )
    clock.advance(8 * HOUR + 30 * MINUTE)
    await app.schedules.put("it", cron("0 9 * * *"), "x", by="eve")
    late = await asked(app, NINE)
    assert (late.kind, late.by) == ("edited", "bob"), "it is the edit of bob that took it away"
    never = await asked(app, START + 10 * HOUR)
    assert (never.kind, never.by) == ("edited", "eve")
    await app.schedules.put("it", cron("30 8 * * *"), "x", by="eve")
    assert await told(app, START + 8 * HOUR + 30 * MINUTE) == (
        "edited",
        "the rule that names it came later, with the edit at 2026-01-01T09:30:00Z by eve",
    )


async def test_its_name_was_used_before_an_edit(app: Duly, clock: ManualClock) -> None:
    await put(app, timezone="Asia/Tokyo", rule=cron("0 9 * * *"))
    await later(app, clock, START + DAY)
    fired = await asked(app, START + DAY)
    await app.schedules.put("it", cron("0 9 * * *"), "x", timezone="America/New_York", by="bob")
    again = await asked(app, START + DAY + 14 * HOUR)
    assert (again.kind, again.by, again.event_id) == ("edited", "bob", fired.event_id)
    assert (
        "its occurrence, 2026-01-02T09:00:00, had its event before the schedule was edited by bob: event "
        in again.message
    )


# -- by people


async def test_it_was_paused_and_by_whom(app: Duly, clock: ManualClock) -> None:
    await put(app)
    await app.schedules.pause("it", by="bob", reason="no paper")
    since = "the schedule was paused by bob at 2026-01-01T00:00:00Z (no paper)"
    assert await told(app, NINE) == ("paused", f"{since}, and has not been resumed: event E waits")
    assert await told(app, NINE + DAY) == (
        "paused",
        f"{since}, and has not been resumed: it will not fire before it is resumed",
    )
    await later(app, clock, NINE + 2 * DAY + HOUR)
    behind = "event E, of 2026-01-01T09:00:00Z, comes first"
    assert await told(app, NINE + DAY) == ("paused", f"{since}, and has not been resumed: {behind}")
    await app.schedules.resume("it", by="eve")
    clock.advance(HOUR)
    await app.schedules.pause("it", by="eve")
    for day in range(3):
        answer = await asked(app, NINE + day * DAY)
        assert (answer.kind, answer.by, answer.until) == ("paused", "bob", NINE + 2 * DAY + HOUR)
        assert answer.message == f"{since}, until 2026-01-03T10:00:00Z: event {answer.event_id} was skipped"


async def test_a_schedule_that_was_created_paused_says_by_whom(app: Duly) -> None:
    await put(app, enabled=False)
    answer = await asked(app, NINE)
    assert (answer.kind, answer.by) == ("paused", "ada")


async def test_it_was_skipped_and_by_whom(app: Duly) -> None:
    await put(app)
    await app.schedules.skip("it", by="bob", reason="a holiday")
    answer = await asked(app, NINE)
    assert (answer.kind, answer.by) == ("skipped", "bob")
    assert await told(app, NINE) == (
        "skipped",
        "event E was skipped at 2026-01-01T00:00:00Z: skipped by bob: a holiday",
    )


async def test_it_was_moved_or_another_one_was_moved_past_it(app: Duly, clock: ManualClock) -> None:
    await put(app, rule=cron("0 * * * *"))
    await app.schedules.reschedule("it", START + 150 * MINUTE, by="bob")
    itself, passed = await asked(app, START + HOUR), await asked(app, START + 2 * HOUR)
    assert (itself.kind, itself.by, itself.next_at) == ("moved", "bob", START + 150 * MINUTE)
    assert "bob moved event E at 2026-01-01T00:00:00Z, to 2026-01-01T02:30:00Z" in (await told(app, START + HOUR))[1]
    assert (passed.kind, passed.by) == ("moved", "bob")
    assert passed.message.endswith("the one before it was moved to 2026-01-01T02:30:00Z by bob")
    await later(app, clock, START + 150 * MINUTE)
    there = await asked(app, START + 150 * MINUTE)
    assert (there.kind, there.event_id, there.by) == ("completed", itself.event_id, "bob")
    assert (await asked(app, START + HOUR)).kind == "moved"


async def test_it_was_cancelled_and_by_whom(app: Duly) -> None:
    await put(app)
    [event] = await app.events.find()
    await app.events.cancel(event.id, by="bob")
    answer = await asked(app, NINE)
    assert (answer.kind, answer.by, answer.event_id) == ("cancelled", "bob", event.id)


# -- by a policy


async def test_another_one_stands_for_it(app: Duly, clock: ManualClock) -> None:
    await put(app, rule=cron("0 * * * *"))
    await later(app, clock, START + 5 * HOUR)
    latest = await asked(app, START + 5 * HOUR)
    assert latest.kind == "completed"
    for hour in range(1, 5):
        answer = await asked(app, START + hour * HOUR)
        assert (answer.kind, answer.event_id) == ("merged", latest.event_id)
        assert "which stands for 5 of them, for 2026-01-01T05:00:00Z; it fired at" in answer.message


@pytest.mark.parametrize("misfire", ["skip", {"policy": "all", "limit": 2}])
async def test_the_misfire_policy_drops_it(app: Duly, clock: ManualClock, misfire: Any) -> None:
    await put(app, rule=cron("0 * * * *"), misfire=misfire)
    await later(app, clock, START + 5 * HOUR + MINUTE)
    kinds = [(await asked(app, START + hour * HOUR)).kind for hour in range(1, 6)]
    assert kinds == (["misfire"] * 5 if misfire == "skip" else ["misfire"] * 3 + ["completed"] * 2)


async def test_the_one_before_was_still_running(app: Duly, clock: ManualClock) -> None:
    await put(app, overlap="skip")
    running = await app.schedules.trigger("it")
    assert await app.store.claim("w2", {running.lane: 1}, 30 * DAY)
    await later(app, clock, NINE)
    assert await told(app, NINE) == (
        "overlap",
        "event E was skipped at 2026-01-01T09:00:00Z: its predecessor is still running",
    )


async def test_it_waits_for_the_one_before(app: Duly, clock: ManualClock) -> None:
    await put(app, overlap="queue")
    running = await app.schedules.trigger("it")
    assert await app.store.claim("w2", {running.lane: 1}, 30 * DAY)
    await later(app, clock, NINE)
    assert (await asked(app, NINE)).kind == "limit"
    clock.advance(DAY)
    behind = await asked(app, NINE + DAY)
    assert (behind.kind, behind.event_id) == ("limit", (await asked(app, NINE)).event_id)
    assert "of 2026-01-01T09:00:00Z, comes first: it is held: waits for its predecessor to end" in behind.message


async def test_what_it_depends_on_has_not_succeeded(app: Duly, clock: ManualClock) -> None:
    await app.schedules.put("load", cron("0 3 * * *"), "nobody's")
    await put(app, depends_on={"schedule": "load", "within": "1h"})
    await later(app, clock, NINE)
    assert await told(app, NINE) == (
        "dependency",
        "event E was skipped at 2026-01-01T09:00:00Z: 'load' has not succeeded within the 1h before",
    )


async def test_its_schedule_is_a_shadow(app: Duly, clock: ManualClock) -> None:
    await put(app, mode="shadow")
    assert (await asked(app, NINE + DAY)).message.endswith("as a shadow: it will be recorded, and not delivered")
    await later(app, clock, NINE)
    assert (await asked(app, NINE)).kind == "shadow"


async def test_it_has_expired(app: Duly, clock: ManualClock) -> None:
    await put(app, expires="1h")
    await later(app, clock, NINE + 2 * HOUR)
    answer = await asked(app, NINE)
    assert (answer.kind, answer.by) == ("expired", None)


# -- errors, and what is not known any more


@pytest.mark.broken_rows("a rule that nobody can put", "schedules_go_on")
async def test_an_error_has_halted_its_schedule(app: Duly, clock: ManualClock) -> None:
    await put(app)
    broken = """UPDATE duly.schedules SET rule = '{"cron": "0 9 * * BLAH"}'"""
    await write(app.store, broken)
    await later(app, clock, NINE)
    answer = await asked(app, NINE + DAY)
    assert answer.kind == "halted"
    assert (await app.schedules.history("it"))[-1].act == "halted"
    clock.advance(2 * DAY)
    await app.schedules.put("it", **DAILY, by="bob")
    answer = await asked(app, NINE + DAY)
    assert (answer.kind, answer.until) == ("halted", NINE + 2 * DAY)


async def test_its_record_is_gone(app: Duly, clock: ManualClock) -> None:
    await put(app)
    for day in range(12):
        await later(app, clock, NINE + day * DAY)
    assert (await asked(app, NINE)).kind == "completed"
    clock.advance(DAY)
    await app.prune()
    assert await told(app, NINE) == (
        "gone",
        "no event of it is left: finished events of that time have been deleted, as the retention says",
    )
    assert (await asked(app, NINE + 11 * DAY)).kind == "completed"


async def test_the_rule_of_its_time_is_not_remembered(app: Duly, clock: ManualClock) -> None:
    await put(app)
    await later(app, clock, NINE)
    for number in range(MOST_RULES + 2):
        clock.advance(DAY)
        await app.tick()
        await app.schedules.put("it", cron(f"{number} 9 * * *"), "x")
    assert (await asked(app, NINE)).kind == "completed", "its event is there"
    assert await told(app, NINE + HOUR) == (
        "gone",
        "the schedule has been edited often, and its rules until 2026-01-03T09:00:00Z are not remembered",
    )


# -- it waits, runs or ran


async def test_it_is_not_due_yet(app: Duly) -> None:
    await put(app)
    first, second = await asked(app, NINE), await asked(app, NINE + DAY)
    assert (first.kind, first.next_at, second.kind, second.next_at) == ("scheduled", NINE, "scheduled", NINE + DAY)
    assert (first.event_id is not None, second.event_id) == (True, None)


async def test_with_jitter_it_is_due_a_little_later(app: Duly, clock: ManualClock) -> None:
    await put(app, jitter="10m")
    later_on = await asked(app, NINE + DAY)
    assert later_on.next_at is not None
    assert NINE + DAY < later_on.next_at < NINE + DAY + 10 * MINUTE
    first = await asked(app, NINE)
    assert first.next_at is not None
    await later(app, clock, first.next_at)
    assert (await asked(app, NINE)).kind == "completed"
    assert (await asked(app, first.next_at)).event_id == first.event_id, "also by the time at which it fired"


async def test_nobody_serves_its_lane(app: Duly, clock: ManualClock) -> None:
    await put(app, type="nobody's")
    clock.advance(10 * HOUR)
    assert (await asked(app, NINE)).kind == "unserved"
    clock.advance(DAY)
    behind = await asked(app, NINE + DAY)
    assert (behind.kind, behind.event_id) == ("unserved", (await asked(app, NINE)).event_id)


async def test_it_runs_or_its_worker_has_vanished(app: Duly, clock: ManualClock) -> None:
    await put(app)
    clock.advance(NINE - START)
    await app.store.beat(row_of("w1", ["handler:x"], app.settings, tick=False), timedelta(), begins=True)
    assert (await asked(app, NINE)).kind == "waiting"
    [event] = await app.store.claim("w1", {"handler:x": 1}, LEASE)
    answer = await asked(app, NINE)
    assert (answer.kind, answer.event_id, answer.next_at) == ("running", event.id, NINE + LEASE)
    assert "worker w1 began attempt 1" in answer.message
    hidden = await app.schedules.why_not_told("it", NINE, tenant="default", discreet=True)
    assert "w1" not in hidden.message
    clock.advance(LEASE)
    await app.store.beat(row_of("w2", ["handler:x"], app.settings, tick=False), timedelta(), begins=True)
    assert (await asked(app, NINE)).kind == "interrupted"


async def test_its_target_is_parked_or_its_broker_is_down(app: Duly, clock: ManualClock) -> None:
    await put(app, target=webhook("https://hooks.example/duly"))
    clock.advance(NINE - START)
    row = row_of("w1", ["webhook"], app.settings, tick=False)
    await app.store.beat(msgspec.structs.replace(row, closed_json='{"webhook":"no route"}'), timedelta(), begins=True)
    assert (await asked(app, NINE)).kind == "down"
    await app.store.beat(row, timedelta(), begins=True)
    [event] = await app.store.claim("w1", {"webhook": 1}, LEASE)
    await app.store.park("default", "https://hooks.example", "503", timedelta(minutes=1))
    await app.store.settle([held(event, "503")], "w1")
    assert (await asked(app, NINE)).kind == "parked"


async def test_it_failed_and_is_tried_again(app: Duly, clock: ManualClock) -> None:
    await put(app, payload="fails", retry=Retry(max_attempts=2))
    await later(app, clock, NINE)
    answer = await asked(app, NINE)
    assert (answer.kind, answer.next_at is not None) == ("retrying", True)
    await later(app, clock, NINE + HOUR)
    assert await told(app, NINE) == (
        "failed",
        "event E: it failed after 2 of 2 attempts: ValueError: the printer is out of paper. Replay it when the cause "
        "is fixed, or discard it",
    )


async def test_it_was_backfilled_later(app: Duly, clock: ManualClock) -> None:
    await put(app, misfire="skip")
    await later(app, clock, NINE + HOUR)
    filled = await app.schedules.backfill("it", NINE, NINE + MINUTE)
    answer = await asked(app, NINE)
    assert answer.kind == "misfire"
    assert answer.message.endswith(f"It was backfilled, as event {filled.ids[0]}")


# -- what is asked


@pytest.mark.parametrize("at", ["tomorrow", "2026-13-01", 7, None, "0001-01-01T00:00:00Z", "9999-01-01", ""])
async def test_what_is_no_instant_is_refused(app: Duly, at: Any) -> None:
    await put(app)
    with pytest.raises(Invalid, match="at: "):
        await asked(app, at)


async def test_a_schedule_that_does_not_exist_is_not_found(app: Duly) -> None:
    with pytest.raises(NotFound, match="there is no schedule 'nobody'"):
        await app.schedules.why_not("nobody", NINE)


@pytest.mark.parametrize("at", ["0002-01-01T00:00:00Z", "9998-12-31T23:59:59Z", "0002-01-01", "9998-12-31T23:59"])
async def test_the_ends_of_the_calendar_have_an_answer(app: Duly, at: str) -> None:
    await put(app, rule=BRUSSELS)
    assert (await asked(app, at)).kind in ("before_creation", "not_named")
