"""After downtime: whatever was missed is sent, oldest first, each once. There is no recovery mode; this is the path."""

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from duly import Duly, Event, ExecutedLate, Failed, InStatus, Overdue, Rejected, Status, Stuck, User
from duly.observers.logs import Line
from duly.testing import ManualClock, Recorder
from tests.api.greeting import at, due, everything_of, greetings, planned
from tests.claiming import claimed_by_a_worker
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, LEASE, MINUTE, SECOND, a_user, completed

LANE = "handler:birthday"
NINE = at("2026-03-15 09:00")


async def born_today(app: Duly, *times: str, **fields: Any) -> list[User]:
    """Users in UTC with a birthday on 15 March, each written to at a time of their own."""
    return [await app.users.add(**a_user(timezone="UTC", delivery_time=time, **fields)) for time in times]


async def all_in(app: Duly, status: Status) -> list[Event]:
    return await app.events.find(InStatus(status), limit=1000)


async def test_after_five_minutes_down_both_missed_messages_are_sent(app: Duly, clock: ManualClock) -> None:
    greeted = greetings(app)
    await born_today(app, "09:02", "09:03", "09:06")
    clock.set(NINE)
    await app.tick()
    clock.set(NINE + 5 * MINUTE)
    await app.tick()
    assert [event.due for event in greeted] == [NINE + 2 * MINUTE, NINE + 3 * MINUTE]
    late = [event.lateness or timedelta() for event in await all_in(app, Status.COMPLETED)]
    assert sorted(late) == [2 * MINUTE, 3 * MINUTE]
    clock.set(NINE + 6 * MINUTE)
    await app.tick()
    assert [event.due for event in greeted][2:] == [NINE + 6 * MINUTE], "the next one is on time"


async def test_after_two_hours_down_messages_that_come_later_are_not_sent_yet(app: Duly, clock: ManualClock) -> None:
    greeted = greetings(app)
    a, b, c, d = await born_today(app, "09:00", "09:15", "09:30", "11:00")
    clock.set(at("2026-03-15 10:00"))
    await app.tick()
    assert [event.user_id for event in greeted] == [a.id, b.id, c.id]
    assert await due(app, d) == at("2026-03-15 11:00")


async def test_after_a_day_down_all_hundred_messages_are_sent_the_oldest_first_each_once(
    duly: OpenDuly, clock: ManualClock
) -> None:
    app = await duly(batch_size=7, concurrency=1)
    greeted = greetings(app)
    zones = ["Pacific/Auckland", "Asia/Kathmandu", "Europe/London", "America/New_York", "Pacific/Honolulu"]
    people = [
        a_user(key=f"k{n}", timezone=zones[n % 5], delivery_time=f"{n % 24:02}:{n % 60:02}", date_of_birth="1990-03-15")
        for n in range(100)
    ]
    await app.users.import_(people)
    clock.set(at("2026-03-17 12:00"))
    await app.tick()
    assert len(greeted) == len({event.user_id for event in greeted}) == 100
    assert [event.due for event in greeted] == sorted(event.due for event in greeted)
    assert len(await all_in(app, Status.COMPLETED)) == 100
    assert {event.occurrence for event in greeted} == {"2026-03-15"}
    ahead = await all_in(app, Status.PENDING)
    assert {event.occurrence for event in ahead} == {"2027-03-15"}
    assert len(ahead) == 100
    await app.tick()
    assert len(greeted) == 100, "and none again"


@pytest.mark.parametrize("down", [DAY, 7 * DAY, 364 * DAY])
async def test_a_missed_message_is_sent_once_however_long_the_downtime_was(
    app: Duly, clock: ManualClock, down: timedelta
) -> None:
    greeted = greetings(app)
    [user] = await born_today(app, "09:00")
    clock.set(NINE + down)
    for _ in range(3):
        await app.tick()
    assert [(event.due, event.stands_for) for event in greeted] == [(NINE, 1)]
    assert await due(app, user) == at("2027-03-15 09:00")


async def test_after_years_down_the_latest_greeting_is_sent_and_says_for_how_many_it_stands(
    app: Duly, clock: ManualClock
) -> None:
    greeted = greetings(app)
    [user] = await born_today(app, "09:00")
    clock.set(at("2029-01-01 00:00"))
    await app.tick()
    assert [(event.occurrence, event.stands_for) for event in greeted] == [("2028-03-15", 3)]
    assert await due(app, user) == at("2029-03-15 09:00")


async def test_a_crash_in_the_middle_of_a_batch_repeats_only_what_was_not_finished(
    duly: OpenDuly, clock: ManualClock
) -> None:
    crashed, app = await duly(), await duly()
    greeted = greetings(app)
    await born_today(app, *(f"09:0{n}" for n in range(5)))
    clock.set(NINE + 10 * MINUTE)
    claimed = await claimed_by_a_worker(crashed, {LANE: 10}, "gone")
    assert len(claimed) == 5
    await crashed.store.settle([completed(event) for event in claimed[:2]], "gone")  # and here the lights go out
    await app.tick()
    assert not greeted, "they are leased"
    clock.advance(LEASE + SECOND)
    await app.tick()
    assert sorted(event.id for event in greeted) == sorted(event.id for event in claimed[2:])
    assert {event.version for event in greeted} == {3}
    assert len(await all_in(app, Status.COMPLETED)) == 5
    assert [event.occurrence for event in await all_in(app, Status.PENDING)] == ["2027-03-15"] * 5
    for event in claimed[2:]:
        assert [entry.act for entry in await app.events.history(event.id)] == ["interrupted", "delivered"]


async def test_a_message_that_fails_does_not_stop_the_others(app: Duly, clock: ManualClock) -> None:
    fails: set[str] = set()

    async def fail(event: Event) -> None:
        if event.user_id in fails:
            raise ConnectionError("no post today")

    greetings(app, also=fail)
    users = await born_today(app, *(f"09:0{n}" for n in range(5)))
    fails.add(users[2].id)
    clock.set(NINE + HOUR)
    await app.tick()
    statuses = [(await everything_of(app, user))[0].status for user in users]
    assert statuses == [Status.COMPLETED] * 2 + [Status.PENDING] + [Status.COMPLETED] * 2
    fails.clear()
    clock.advance(HOUR)
    await app.tick()
    assert len(await all_in(app, Status.COMPLETED)) == 5


async def test_a_message_that_keeps_failing_is_tried_three_times_and_can_be_replayed(
    duly: OpenDuly, clock: ManualClock
) -> None:
    hooks = Recorder(*[Failed("Network timeout")] * 3)
    app = await duly(channels={"webhook": hooks})
    [user] = await born_today(app, "09:00", target={"webhook": "https://hooks.example"})
    event = await planned(app, user)
    clock.set(NINE)
    for _ in range(6):
        await app.tick()
        clock.advance(HOUR)
    dead = await app.events.get(event.id)
    assert (dead.status, dead.attempts, dead.last_error) == (Status.FAILED, 3, "Network timeout")
    assert [(entry.act, entry.attempt) for entry in await app.events.history(event.id)] == [
        ("failed", 1),
        ("failed", 2),
        ("failed", 3),
    ]
    assert hooks.ids == [event.id] * 3
    await app.events.replay(event.id, by="ada")
    await app.tick()
    done = await app.events.get(event.id)
    assert (done.status, done.due, done.payload) == (Status.COMPLETED, NINE, event.payload)
    assert hooks.ids == [event.id] * 4, "the receiver sees one id"


async def test_a_rejected_message_is_not_tried_again(duly: OpenDuly, clock: ManualClock) -> None:
    hooks = Recorder(Rejected("410 Gone"))
    app = await duly(channels={"webhook": hooks})
    [user] = await born_today(app, "09:00", target={"webhook": "https://hooks.example"})
    clock.set(NINE)
    for _ in range(3):
        await app.tick()
        clock.advance(DAY)
    assert len(hooks.events) == 1
    assert [event.status for event in await everything_of(app, user)] == [Status.FAILED, Status.PENDING]


def facts(record: logging.LogRecord) -> Mapping[str, Any]:
    assert isinstance(record.msg, Line)
    return record.msg.facts


async def test_an_event_more_than_an_hour_late_is_logged_without_the_users_name(
    app: Duly, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    greetings(app)
    users = await born_today(app, "09:00", "10:29", "10:50", "10:58")
    clock.set(at("2026-03-15 11:30"))
    with caplog.at_level(logging.INFO, "duly"):
        await app.tick()
    late = [record for record in caplog.records if record.getMessage().startswith("event.late")]
    ids = [(await everything_of(app, user))[0].id for user in users]
    told = {facts(record)["event"]: (record.levelname, facts(record)["late"]) for record in late}
    assert told == {
        ids[0]: ("WARNING", 9000.0),
        ids[1]: ("WARNING", 3660.0),
        ids[2]: ("INFO", 2400.0),
        ids[3]: ("INFO", 1920.0),
    }
    assert not [record for record in caplog.records if "Lovelace" in record.getMessage()]
    assert [facts(record)["user"] for record in late] == [user.id for user in users]
    assert all("tenant=default type=birthday user=" in record.getMessage() for record in late)


async def test_late_and_stuck_events_can_be_found(app: Duly, clock: ManualClock) -> None:
    async def fail(event: Event) -> None:
        if event.user_id in (users[0].id, users[1].id):
            raise ConnectionError("no post today")

    greetings(app, also=fail)
    users = await born_today(app, "09:00", "09:50", "09:01", "09:56")
    unclaimed = (await born_today(app, "09:30", attributes={"reminder": {"on": "2026-03-15"}}))[0]
    clock.set(at("2026-03-15 10:00"))
    await app.tick()
    firsts = [(await everything_of(app, user))[0].id for user in users]
    late = [event.id for event in await app.events.find(ExecutedLate())]
    assert firsts[2] in late
    assert firsts[3] not in late, "four minutes are not late"
    assert len(await app.events.find(ExecutedLate(by=timedelta(hours=2)))) == 0
    clock.set(at("2026-03-15 10:45"))
    reminder = await planned(app, unclaimed, "reminder")
    stuck = {event.id for event in await app.events.find(Stuck())}
    assert stuck == {firsts[0], reminder.id}, "that of 9:50 has a while yet"
    clock.set(at("2026-03-16 10:00"))
    for _ in range(4):
        await app.tick()
        clock.advance(HOUR)
    assert [event.id for event in await all_in(app, Status.FAILED)] == firsts[1::-1]
    stuck = {event.id for event in await app.events.find(Stuck())}
    assert stuck == {*firsts[:2], reminder.id}, "dead letters are"
    assert {event.id for event in await app.events.find(Overdue())} == {reminder.id}, "but nobody waits for them"
