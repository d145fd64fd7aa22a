import asyncio
from datetime import timedelta
from typing import Any

import pytest

from duly import (
    Conflict,
    Duly,
    Event,
    HaltKind,
    InStatus,
    Invalid,
    OfSeries,
    Retry,
    Schedule,
    Status,
    Timer,
    every,
    once,
)
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, MICROSECOND, MINUTE, START
from tests.stores.rows import ask, write


def ticks(app: Duly, type: str = "digest") -> list[Event]:
    fired: list[Event] = []

    @app.on(type)
    async def tick(event: Event) -> None:
        fired.append(event)

    return fired


async def head_of(app: Duly, schedule: Schedule) -> Event | None:
    return await app.store.head(schedule.series)


async def next_at(app: Duly, schedule: Schedule) -> Any:
    head = await head_of(app, schedule)
    return head and head.due


# -- firing


async def test_a_schedule_fires_an_interval_after_it_was_made_and_goes_on(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.every("hourly", every("1h"), "digest", {"n": 1})
    assert (schedule.halted, await next_at(app, schedule)) == (None, START + HOUR)
    for hour in (1, 2, 3):
        clock.set(START + hour * HOUR - MICROSECOND)
        await app.tick()
        assert len(fired) == hour - 1
        clock.advance(MICROSECOND)
        await app.tick()
        assert await next_at(app, schedule) == START + (hour + 1) * HOUR
    assert [(event.due, event.stands_for, event.payload) for event in fired] == [
        (START + n * HOUR, 1, {"n": 1}) for n in (1, 2, 3)
    ]
    assert len({event.id for event in fired}) == 3


async def test_occurrences_missed_in_downtime_fire_once_and_say_how_many_they_stand_for(
    app: Duly, clock: ManualClock
) -> None:
    fired = ticks(app)
    schedule = await app.every("hourly", every("1h"), "digest")
    clock.advance(DAY + MINUTE)
    await app.tick()
    assert [(event.due, event.stands_for) for event in fired] == [(START + DAY, 24)]
    assert await next_at(app, schedule) == START + DAY + HOUR
    stored = await app.events.get(fired[0].id)
    assert (stored.due, stored.stands_for, stored.head) == (START + DAY, 24, False)


async def test_a_start_in_the_future_is_the_first_occurrence(app: Duly, clock: ManualClock) -> None:
    schedule = await app.every("hourly", every("1h", start=START + DAY), "digest")
    assert await next_at(app, schedule) == START + DAY


async def test_a_start_in_the_past_only_sets_the_phase(app: Duly) -> None:
    schedule = await app.every("hourly", every("1h", start=START - DAY + MINUTE), "digest")
    assert await next_at(app, schedule) == START + MINUTE


async def test_a_rule_that_fires_once_has_ended_after_that(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.every("launch", once(START + HOUR), "digest")
    clock.advance(DAY)
    await app.tick()
    await app.tick()
    assert [(event.due, event.stands_for) for event in fired] == [(START + HOUR, 1)]
    [stored] = await app.store.schedules([schedule.id])
    assert (stored.halted, await head_of(app, schedule)) == ("ended", None)


async def test_a_failing_delivery_does_not_stop_the_next(app: Duly, clock: ManualClock) -> None:
    @app.on("digest")
    async def fail(_: Event) -> None:
        raise ConnectionError

    schedule = await app.every("hourly", every("1h"), "digest", retry=Retry(max_attempts=1))
    for _ in range(3):
        clock.advance(HOUR)
        await app.tick()
    assert len(await app.events.find(InStatus("FAILED") & OfSeries(schedule.series))) == 3
    assert await next_at(app, schedule) == START + 4 * HOUR


async def test_an_occurrence_never_fires_twice(app: Duly, duly: OpenDuly, clock: ManualClock) -> None:
    fired, other = ticks(app), await duly()
    also_fired = ticks(other)
    await app.every("hourly", every("1h"), "digest")
    for _ in range(5):
        clock.advance(HOUR)
        await asyncio.gather(app.tick(), other.tick())
    assert sorted(event.due for event in fired + also_fired) == [START + n * HOUR for n in range(1, 6)]


# -- putting it again


async def test_putting_an_unchanged_schedule_again_keeps_its_head(app: Duly, clock: ManualClock) -> None:
    first = await app.every("hourly", every("1h"), "digest", {"n": 1})
    head = await head_of(app, first)
    assert head is not None
    clock.advance(40 * MINUTE)
    again = await app.every("hourly", every("1h"), "digest", {"n": 1})
    assert (again, await head_of(app, first)) == (first, head)
    assert await app.events.history(head.id) == []


async def test_changing_the_interval_of_a_schedule_moves_its_head_in_place(app: Duly, clock: ManualClock) -> None:
    schedule = await app.every("hourly", every("1h"), "digest")
    head = await head_of(app, schedule)
    clock.advance(MINUTE)
    changed = await app.every("hourly", every("15m"), "digest")
    moved = await head_of(app, schedule)
    assert head is not None
    assert moved is not None
    assert (changed.id, moved.id, moved.due, moved.version) == (schedule.id, head.id, START + 16 * MINUTE, 1)
    assert [entry.act for entry in await app.events.history(head.id)] == ["moved"]
    assert len(await app.events.find()) == 1


async def test_changing_the_payload_of_a_schedule_keeps_the_time_and_id_of_its_head(
    app: Duly, clock: ManualClock
) -> None:
    schedule = await app.every("hourly", every("1h"), "digest", 1)
    head = await head_of(app, schedule)
    clock.advance(MINUTE)
    await app.every("hourly", every("1h"), "other", 2, retry=Retry(max_attempts=9))
    changed = await head_of(app, schedule)
    assert head is not None
    assert changed is not None
    assert (changed.id, changed.due, changed.occurrence) == (head.id, head.due, head.occurrence)
    assert (changed.payload, changed.lane, changed.retry.max_attempts) == (2, "handler:other", 9)


async def test_an_occurrence_that_has_started_keeps_its_time_and_payload(app: Duly, clock: ManualClock) -> None:
    schedule = await app.every("hourly", every("1h"), "digest", "old")
    clock.advance(HOUR)

    @app.on("digest")
    async def change_meanwhile(_: Event) -> None:
        await app.every("hourly", every("2h"), "digest", "new")

    await app.tick()
    [done] = await app.events.find(InStatus("COMPLETED"))
    assert (done.due, done.payload) == (START + HOUR, "old")
    head = await head_of(app, schedule)
    assert head is not None
    assert (head.payload, head.due) == ("new", START + 3 * HOUR)


async def test_changing_to_a_rule_that_has_ended_skips_the_head(app: Duly) -> None:
    schedule = await app.every("hourly", every("1h"), "digest")
    head = await head_of(app, schedule)
    ended = await app.every("hourly", once(START - HOUR), "digest")
    assert head is not None
    assert (ended.halted, await head_of(app, schedule)) == ("ended", None)
    skipped = await app.events.get(head.id)
    assert skipped.status is Status.SKIPPED
    entry = (await app.events.history(head.id))[-1]
    assert (entry.act, entry.detail) == ("skipped", "its rule ended")


async def test_a_schedule_that_had_ended_goes_on_with_a_new_rule(app: Duly) -> None:
    await app.every("launch", every("1h"), "digest")
    assert (await app.every("launch", once(START - HOUR), "digest")).halted == "ended"
    schedule = await app.every("launch", every("1h"), "digest")
    assert (schedule.halted, await next_at(app, schedule)) == (None, START + HOUR)
    [stored] = await app.store.schedules([schedule.id])
    assert stored.halted is None


async def test_putting_one_schedule_from_many_processes_makes_one(app: Duly, duly: OpenDuly) -> None:
    others = [await duly() for _ in range(4)]
    put = [other.every("hourly", every("1h"), "digest") for other in [app, *others] for _ in range(3)]
    schedules = await asyncio.gather(*put)
    assert len({schedule.id for schedule in schedules}) == 1
    [head] = await app.events.find()
    assert (head.head, head.due) == (True, START + HOUR)


async def test_changing_one_schedule_from_many_processes_leaves_one_head(app: Duly, duly: OpenDuly) -> None:
    others = [await duly() for _ in range(3)]
    await app.every("hourly", every("1h"), "digest")
    put = [other.every("hourly", every(timedelta(hours=n + 2)), "digest") for n, other in enumerate(others)]
    done = await asyncio.gather(*put, return_exceptions=True)
    assert all(isinstance(each, Schedule | Conflict) for each in done)
    [head] = await app.events.find()
    assert head.series is not None
    [stored] = await app.store.schedules([head.series.partition(":")[2]])
    assert stored.rule_json == f'{{"every":"{(head.due - START) // HOUR}h","start":"2026-01-01T00:00:00Z"}}'


async def test_one_name_in_two_tenants_is_two_schedules(app: Duly) -> None:
    ours = await app.every("hourly", every("1h"), "digest", tenant="a")
    theirs = await app.every("hourly", every("2h"), "digest", tenant="b")
    assert ours.id != theirs.id
    assert [event.due for event in await app.events.find(tenant="a")] == [START + HOUR]
    assert [event.due for event in await app.events.find(tenant="b")] == [START + 2 * HOUR]


@pytest.mark.parametrize("rule", [None, "1h", {"daily": "1h"}, 7])
async def test_a_bad_schedule_is_refused_with_all_its_problems(app: Duly, rule: Any) -> None:
    with pytest.raises(Invalid) as refused:
        await app.every("", rule, "a\x00", object(), tenant=" ", target={"pigeon": 1}, retry=3)  # type: ignore[arg-type]
    paths = {problem.path for problem in refused.value.problems}
    assert paths == {"name", "rule", "type", "payload", "tenant", "target", "retry"}
    assert await app.events.find() == []


# -- heads that people act upon


async def test_cancelling_the_head_plans_the_next_occurrence(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.every("hourly", every("1h"), "digest")
    head = await head_of(app, schedule)
    assert head is not None
    await app.events.cancel(head.id, by="ada", reason="holiday")
    cancelled = await app.events.get(head.id)
    assert (cancelled.status, cancelled.head, cancelled.due) == (Status.CANCELLED, False, START + HOUR)
    assert await next_at(app, schedule) == START + 2 * HOUR
    clock.advance(2 * HOUR)
    await app.tick()
    assert [event.due for event in fired] == [START + 2 * HOUR]


async def test_cancelling_the_last_occurrence_ends_the_schedule(app: Duly) -> None:
    schedule = await app.every("launch", once(START + HOUR), "digest")
    head = await head_of(app, schedule)
    assert head is not None
    await app.events.cancel(head.id)
    [stored] = await app.store.schedules([schedule.id])
    assert (stored.halted, await head_of(app, schedule)) == ("ended", None)


@pytest.mark.parametrize("to", [START + 10 * MINUTE, START + 90 * MINUTE, START + 3 * HOUR + MINUTE])
async def test_a_head_that_was_rescheduled_fires_then_and_the_rule_goes_on(
    app: Duly, clock: ManualClock, to: Any
) -> None:
    fired = ticks(app)
    schedule = await app.every("hourly", every("1h"), "digest")
    head = await head_of(app, schedule)
    assert head is not None
    await app.events.reschedule(head.id, to)
    clock.set(to)
    await app.tick()
    assert [(event.id, event.due, event.stands_for) for event in fired] == [(head.id, to, 1)]
    following = await head_of(app, schedule)
    assert following is not None
    assert following.due > to
    assert (following.due - START) % HOUR == timedelta()
    assert following.occurrence != head.occurrence


# -- a rule that breaks


@pytest.mark.parametrize(
    "broken", ['{"every": "often"}', '{"cron": "* * 30 2 *"}', "[]", '{"every": "1h", "start": 7}']
)
async def test_a_broken_rule_halts_only_its_own_schedule(app: Duly, clock: ManualClock, broken: str) -> None:
    fired = ticks(app)
    bad = await app.every("bad", every("1h"), "digest", "bad")
    good = await app.every("good", every("1h"), "digest", "good")
    timers = await app.add_many([Timer(START + HOUR, "digest", "timer") for _ in range(3)])
    await write(app.store, "UPDATE duly.schedules SET rule = $1 WHERE id = $2", broken, bad.id)
    clock.advance(HOUR)
    await app.tick()
    assert sorted(event.payload for event in fired) == ["bad", "good", *["timer"] * len(timers)], "promised is promised"
    assert await next_at(app, good) == START + 2 * HOUR
    assert await head_of(app, bad) is None
    [stored] = await app.store.schedules([bad.id])
    assert stored.halt_kind is HaltKind.ERROR
    assert stored.halted is not None
    assert stored.halted.startswith("Invalid: rule")
    assert await ask(app.store, "SELECT halted FROM duly.schedules WHERE id = $1", good.id) is None


async def test_a_broken_rule_is_healed_by_putting_the_schedule_again(app: Duly, clock: ManualClock) -> None:
    ticks(app)
    schedule = await app.every("bad", every("1h"), "digest")
    await write(app.store, "UPDATE duly.schedules SET rule = $1 WHERE id = $2", '{"every": "often"}', schedule.id)
    clock.advance(HOUR)
    await app.tick()
    healed = await app.every("bad", every("1h"), "digest")
    assert (healed.id, healed.halted, await next_at(app, schedule)) == (schedule.id, None, START + 2 * HOUR)


async def test_a_rule_mended_by_hand_goes_on_when_the_schedule_is_put_again(app: Duly, clock: ManualClock) -> None:
    ticks(app)
    schedule = await app.every("bad", every("1h"), "digest")
    mend = "UPDATE duly.schedules SET rule = $1 WHERE id = $2"
    await write(app.store, mend, '{"every": "often"}', schedule.id)
    clock.advance(HOUR)
    await app.tick()
    await write(app.store, mend, schedule.rule_json, schedule.id)
    healed = await app.every("bad", every("1h"), "digest")
    assert (healed.halted, await next_at(app, schedule)) == (None, START + 2 * HOUR)


async def test_cancelling_the_head_of_a_broken_rule_halts_its_schedule(app: Duly) -> None:
    schedule = await app.every("bad", every("1h"), "digest")
    head = await head_of(app, schedule)
    assert head is not None
    await write(app.store, "UPDATE duly.schedules SET rule = $1 WHERE id = $2", "[]", schedule.id)
    assert await app.events.cancel(head.id) == "cancelled"
    [stored] = await app.store.schedules([schedule.id])
    assert stored.halted is not None
    assert (stored.halt_kind, stored.halted.partition(":")[0]) == (HaltKind.ERROR, "Invalid")


async def test_a_schedule_that_was_disabled_in_the_table_is_paused(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.every("hourly", every("1h"), "digest")
    off = "false" if app.store.dialect == "postgres" else "0"
    await write(app.store, f"UPDATE duly.schedules SET enabled = {off} WHERE id = $1", schedule.id)
    clock.advance(HOUR)
    await app.tick()
    [stored] = await app.store.schedules([schedule.id])
    head = await head_of(app, schedule)
    assert (stored.halted, head and head.held, fired) == ("paused", "paused", [])
    again = await app.every("hourly", every("2h"), "digest")
    assert (again.enabled, again.halted) == (False, "paused"), "what an operator paused stays paused"


async def test_a_deleted_schedule_fires_what_it_had_promised_and_ends(app: Duly, clock: ManualClock) -> None:
    fired = ticks(app)
    schedule = await app.every("hourly", every("1h"), "digest")
    await write(app.store, "DELETE FROM duly.schedules WHERE id = $1", schedule.id)
    clock.advance(HOUR)
    await app.tick()
    assert len(fired) == 1
    assert await head_of(app, schedule) is None


# -- @duly.schedule


async def test_a_decorated_function_runs_by_its_rule(app: Duly, clock: ManualClock) -> None:
    fired: list[Event] = []

    @app.schedule(every("1h"), name="report", payload={"to": "ada"})
    async def report(event: Event) -> None:
        fired.append(event)

    await app.tick()
    clock.advance(HOUR)
    await app.tick()
    await app.tick()
    assert [(event.type, event.payload) for event in fired] == [("report", {"to": "ada"})]
    [head] = await app.events.find(InStatus("PENDING"))
    assert head.due == START + 2 * HOUR


async def test_a_decorated_function_is_named_after_itself(app: Duly) -> None:
    @app.schedule(every("1h"))
    def nightly(event: Event) -> None: ...

    await app.tick()
    [head] = await app.events.find()
    assert head.type.endswith("nightly")
