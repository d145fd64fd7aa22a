"""A user's events: at the same time of day wherever the user lives, and as the user is now until they start."""

from typing import Any

import pytest

from duly import Duly, Event, Failed, Invalid, Status
from duly.testing import ManualClock, Recorder
from tests.api.greeting import acts, at, due, everything_of, fire, greetings, planned
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, MICROSECOND, MINUTE, SECOND, START, a_user

# -- 9:00 there


@pytest.mark.parametrize(
    ("zone", "winter", "summer"),
    [
        ("America/New_York", "2026-02-10 14:00", "2026-07-10 13:00"),
        ("Europe/London", "2026-02-10 09:00", "2026-07-10 08:00"),
        ("Asia/Tokyo", "2026-02-10 00:00", "2026-07-10 00:00"),
        ("Australia/Sydney", "2026-02-09 22:00", "2026-07-09 23:00"),
        ("Asia/Kathmandu", "2026-02-10 03:15", "2026-07-10 03:15"),
        ("Australia/Lord_Howe", "2026-02-09 22:00", "2026-07-09 22:30"),
    ],
)
async def test_users_are_greeted_at_nine_where_they_live(
    app: Duly, clock: ManualClock, zone: str, winter: str, summer: str
) -> None:
    greeted = greetings(app)
    for birthday in ("1990-02-10", "1990-07-10"):
        await app.users.add(**a_user(date_of_birth=birthday, timezone=zone))
    for instant in (winter, summer):
        clock.set(at(instant) - MICROSECOND)
        await app.tick()
        assert not greeted
        clock.advance(MICROSECOND)
        await app.tick()
        [event] = greeted
        assert (event.due, event.timezone) == (at(instant), zone)
        assert event.local is not None
        assert event.local.isoformat()[5:] in ("02-10T09:00:00", "07-10T09:00:00")
        greeted.clear()


async def test_the_greeting_has_the_agreed_text(app: Duly, clock: ManualClock) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user())
    event = await fire(app, clock, user)
    assert (event.status, event.due, event.type) == (Status.COMPLETED, at("2026-03-15 13:00"), "birthday")
    assert [one.payload for one in greeted] == [{"message": "Hey, Ada Lovelace it's your birthday"}]
    assert (event.user_id, event.series, event.occurrence) == (user.id, f"user:{user.id}:birthday", "2026-03-15")


async def test_adding_a_user_plans_all_that_the_calendar_holds(app: Duly) -> None:
    user = await app.users.add(
        **a_user(
            anniversary="2015-06-01",
            attributes={
                "reminder": {"on": "2026-05-01", "message": "Passport"},
                "subscription": {"since": "2026-01-31", "every": "month"},
            },
        )
    )
    ahead = await app.users.ahead(user.id)
    assert [(head.type, head.due, head.payload["message"]) for head in ahead] == [
        ("subscription", at("2026-02-28 14:00"), "Hey, Ada Lovelace your subscription is renewed today"),
        ("birthday", at("2026-03-15 13:00"), "Hey, Ada Lovelace it's your birthday"),
        ("reminder", at("2026-05-01 13:00"), "Passport"),
        ("anniversary", at("2026-06-01 13:00"), "Hey, Ada Lovelace it's your anniversary"),
    ]
    assert sorted(event.id for event in await app.users.events(user.id)) == sorted(head.id for head in ahead)


@pytest.mark.parametrize(
    ("now", "next_one"),
    [
        ("2026-03-15 12:59:59.999999", "2026-03-15 13:00"),
        ("2026-03-15 13:00", "2027-03-15 13:00"),
        ("2026-03-15 13:00:00.000001", "2027-03-15 13:00"),
        ("2026-03-16 00:00", "2027-03-15 13:00"),
    ],
)
async def test_a_birthday_at_exactly_nine_now_is_planned_for_next_year(
    app: Duly, clock: ManualClock, now: str, next_one: str
) -> None:
    other = await app.users.add(**a_user(date_of_birth="1990-10-10"))
    clock.set(at(now))
    added = await app.users.add(**a_user())
    updated = await app.users.update(other.id, date_of_birth="1990-03-15")
    assert await due(app, added) == await due(app, updated) == at(next_one)


# -- the years after


async def test_each_years_greeting_is_delivered(app: Duly, clock: ManualClock) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user(timezone="Europe/London", date_of_birth="1990-03-29"))
    ids = [(await fire(app, clock, user)).id for _ in range(4)]
    assert [event.due for event in greeted] == [
        at("2026-03-29 08:00"),  # clocks were changed that night
        at("2027-03-29 08:00"),
        at("2028-03-29 08:00"),
        at("2029-03-29 08:00"),
    ]
    assert {event.payload["message"] for event in greeted} == {"Hey, Ada Lovelace it's your birthday"}
    assert [event.id for event in greeted] == ids
    assert len(set(ids)) == 4
    assert await due(app, user) == at("2030-03-29 09:00"), "there is no summer time yet"


async def test_next_years_event_goes_where_this_years_went(duly: OpenDuly, clock: ManualClock) -> None:
    hooks = Recorder()
    app = await duly(channels={"webhook": hooks})
    user = await app.users.add(**a_user(target={"webhook": "https://hooks.example/ada"}))
    for _ in range(3):
        await fire(app, clock, user)
    assert [event.target for event in hooks.events] == [{"webhook": "https://hooks.example/ada"}] * 3


async def test_next_years_event_is_planned_when_this_years_is_claimed(app: Duly, clock: ManualClock) -> None:
    seen: list[Event] = []

    async def look(event: Event) -> None:
        seen.append(await planned(app, user))

    greetings(app, also=look)
    user = await app.users.add(**a_user())
    await fire(app, clock, user)
    assert [head.due for head in seen] == [at("2027-03-15 13:00")]


async def test_failures_and_dead_letters_never_stop_the_following_year(app: Duly, clock: ManualClock) -> None:
    greeted: list[Event] = []

    @app.on("birthday")
    async def fail(event: Event) -> None:
        greeted.append(event)
        raise ConnectionError("no post today")

    user = await app.users.add(**a_user())
    for year in (2026, 2027, 2028):
        await fire(app, clock, user)
        for _ in range(5):
            clock.advance(DAY)
            await app.tick()
        assert await due(app, user) == at(f"{year + 1}-03-15 13:00")
    assert [event.due.year for event in greeted] == [2026] * 3 + [2027] * 3 + [2028] * 3
    events = await everything_of(app, user)
    assert [event.status for event in events] == [Status.FAILED] * 3 + [Status.PENDING]


async def test_a_dead_letter_that_is_replayed_says_what_it_said_under_its_id(
    duly: OpenDuly, clock: ManualClock
) -> None:
    hooks = Recorder(*[Failed("503")] * 3)
    app = await duly(channels={"webhook": hooks})
    user = await app.users.add(**a_user(target={"webhook": "https://hooks.example/ada"}))
    dead = await fire(app, clock, user)
    for _ in range(3):
        clock.advance(DAY)
        await app.tick()
    assert (await app.events.get(dead.id)).status is Status.FAILED
    await app.users.update(user.id, last_name="King", target={"webhook": "https://hooks.example/king"})
    await app.events.replay(dead.id)
    await app.tick()
    assert hooks.ids == [dead.id] * 4
    again = hooks.events[-1]
    assert (again.payload, again.target) == (
        {"message": "Hey, Ada Lovelace it's your birthday"},
        {"webhook": "https://hooks.example/ada"},
    )
    assert again.due == at("2026-03-15 13:00")
    this_year = await fire(app, clock, user)
    assert this_year.payload == {"message": "Hey, Ada King it's your birthday"}
    assert [event.due.year for event in await everything_of(app, user)] == [2026, 2027, 2028]


# -- changes of what has not started


async def test_a_user_who_moves_to_los_angeles_is_greeted_three_hours_later_at_nine(app: Duly) -> None:
    user = await app.users.add(**a_user())
    before = await planned(app, user)
    moved = await app.users.update(user.id, timezone="America/Los_Angeles")
    after = await planned(app, moved)
    assert after.due == before.due + 3 * HOUR
    assert (after.local and after.local.hour, after.timezone) == (9, "America/Los_Angeles")
    assert (after.id, after.occurrence) == (before.id, before.occurrence), "it is the same event"
    [entry] = await app.events.history(before.id)
    assert (entry.act, entry.worker) == ("moved", "api")
    assert entry.detail == "due 2026-03-15T13:00:00Z → 2026-03-15T16:00:00Z"


@pytest.mark.parametrize(
    ("born", "next_one"),
    [
        ("1990-06-20", "2026-06-20 13:00"),  # later this year
        ("1990-02-20", "2026-02-20 14:00"),  # earlier, and still ahead
        ("1990-01-20", "2027-01-20 14:00"),  # past this year
        ("1985-03-15", "2026-03-15 13:00"),  # another year
    ],
)
async def test_another_date_of_birth_moves_the_greeting(
    app: Duly, clock: ManualClock, born: str, next_one: str
) -> None:
    greetings(app)
    user = await app.users.add(**a_user())
    head = await planned(app, user)
    clock.set(at("2026-02-01 00:00"))
    await app.users.update(user.id, date_of_birth=born)
    moved = await planned(app, user)
    assert (moved.due, moved.id) == (at(next_one), head.id)
    await fire(app, clock, user)
    assert await due(app, user) == at(next_one).replace(year=at(next_one).year + 1)


async def test_a_new_name_reaches_the_message_that_waits(app: Duly, clock: ManualClock) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user())
    head = await planned(app, user)
    await app.users.update(user.id, first_name="Augusta", last_name="King", by="ada")
    assert await acts(app, head) == ["changed"]
    for _ in range(2):
        await fire(app, clock, user)
    assert [event.payload["message"] for event in greeted] == ["Hey, Augusta King it's your birthday"] * 2
    assert greeted[0].due == head.due


async def test_a_new_target_reaches_the_event_that_waits(duly: OpenDuly, clock: ManualClock) -> None:
    hooks = Recorder()
    app = await duly(channels={"webhook": hooks})
    greeted = greetings(app)
    user = await app.users.add(**a_user())
    await app.users.update(user.id, target={"webhook": "https://hooks.example/new"})
    await fire(app, clock, user)
    await app.users.update(user.id, target=None)
    await fire(app, clock, user)
    assert [event.target for event in hooks.events] == [{"webhook": "https://hooks.example/new"}]
    assert [event.due.year for event in greeted] == [2027]


async def test_a_user_may_have_a_delivery_time_of_their_own(app: Duly) -> None:
    user = await app.users.add(**a_user(delivery_time="07:30"))
    assert await due(app, user) == at("2026-03-15 11:30")
    await app.users.update(user.id, delivery_time="20:00:30")
    assert await due(app, user) == at("2026-03-16 00:00:30")
    await app.users.update(user.id, delivery_time=None)
    assert await due(app, user) == at("2026-03-15 13:00")


async def test_users_without_a_delivery_time_are_greeted_when_the_setting_says(
    duly: OpenDuly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_DELIVERY_TIME", "08:15")
    app = await duly()
    assert await due(app, await app.users.add(**a_user())) == at("2026-03-15 12:15")
    assert await due(app, await app.users.add(**a_user(delivery_time="10:00"))) == at("2026-03-15 14:00")


async def test_an_update_to_the_same_values_changes_no_event(app: Duly, clock: ManualClock) -> None:
    said = a_user(key="k", anniversary="2015-06-01", delivery_time="09:00", attributes={"a": 1, "b": [2]}, leap="mar1")
    user = await app.users.add(**said)
    heads = await app.users.ahead(user.id)
    clock.advance(DAY)
    for same in ({}, said, {"first_name": "Ada"}, {"attributes": {"b": [2], "a": 1}}, {"target": None}):
        assert await app.users.update(user.id, **same) == user
    assert await app.users.ahead(user.id) == heads
    assert [entry.act for entry in await app.users.history(user.id)] == ["created"]
    assert [await acts(app, head) for head in heads] == [[], []]


async def test_a_change_of_a_user_leaves_events_that_do_not_depend_on_it(app: Duly, clock: ManualClock) -> None:
    user = await app.users.add(**a_user())
    heads = await app.users.ahead(user.id)
    clock.advance(DAY)
    changed = await app.users.update(user.id, attributes={"cat": "Tom"})
    assert (changed.updated, changed.created) == (clock.now(), START)
    assert await app.users.ahead(user.id) == heads
    assert [await acts(app, head) for head in heads] == [[]]


async def test_a_refused_change_of_a_user_changes_no_event(app: Duly) -> None:
    user = await app.users.add(**a_user())
    heads = await app.users.ahead(user.id)
    for bad in (
        {"first_name": "King", "timezone": "Mars/Olympus"},
        {"date_of_birth": "2026-01-02"},
        {"last_name": "King", "attributes": {"reminder": {"on": "soon"}}},
        {"shoe_size": 38},
        {"timezone": None},
    ):
        with pytest.raises(Invalid):
            await app.users.update(user.id, **bad)
    assert await app.users.get(user.id) == user
    assert await app.users.ahead(user.id) == heads


# -- once is enough


@pytest.mark.parametrize(
    "change",
    [
        {"delivery_time": "10:00"},
        {"timezone": "America/Los_Angeles"},
        {"timezone": "Pacific/Honolulu", "delivery_time": "23:00"},
        {"date_of_birth": "1985-03-15"},
        {"first_name": "Augusta"},
    ],
)
async def test_who_was_greeted_today_is_greeted_next_in_a_year(
    app: Duly, clock: ManualClock, change: dict[str, Any]
) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user())
    await fire(app, clock, user)
    clock.advance(30 * MINUTE)
    changed = await app.users.update(user.id, **change)
    head = await planned(app, changed)
    assert (head.occurrence, head.local and head.local.year) == ("2027-03-15", 2027)
    clock.advance(300 * DAY)
    await app.tick()
    assert len(greeted) == 1


async def test_moving_back_and_forth_all_day_greets_once(app: Duly, clock: ManualClock) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user(timezone="Pacific/Kiritimati"))
    clock.set(at("2026-03-14 18:00"))
    for hour in range(48):
        await app.tick()
        zone = ["Pacific/Honolulu", "Asia/Tokyo", "Europe/London", "America/New_York"][hour % 4]
        await app.users.update(user.id, timezone=zone)
        clock.advance(HOUR)
    assert len(greeted) == 1
    assert (await planned(app, user)).occurrence == "2027-03-15"


@pytest.mark.parametrize(
    "change", [{"timezone": "America/Los_Angeles"}, {"last_name": "King"}, {"delivery_time": "10:00"}]
)
async def test_a_greeting_missed_in_downtime_is_still_owed_after_a_change_of_the_user(
    app: Duly, clock: ManualClock, change: dict[str, Any]
) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user())
    clock.set(at("2026-03-17 00:00"))
    changed = await app.users.update(user.id, **change)
    assert (await planned(app, changed)).occurrence == "2026-03-15"
    await app.tick()
    assert [event.occurrence for event in greeted] == ["2026-03-15"]
    assert greeted[0].payload["message"] == f"Hey, Ada {changed.last_name} it's your birthday"
    assert (await planned(app, user)).occurrence == "2027-03-15"


async def test_an_overdue_greeting_waits_for_nine_in_the_new_zone(app: Duly, clock: ManualClock) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user())
    clock.set(at("2026-03-15 14:00"))
    await app.users.update(user.id, timezone="America/Los_Angeles")
    await app.tick()
    assert not greeted
    clock.set(at("2026-03-15 16:00"))
    await app.tick()
    assert [event.lateness for event in await everything_of(app, user) if not event.head] == [0 * SECOND]


@pytest.mark.parametrize(
    "change",
    [{"timezone": "Asia/Tokyo"}, {"delivery_time": "07:30"}, {"timezone": "Europe/London", "last_name": "King"}],
)
async def test_a_greeting_of_today_that_a_change_puts_into_the_past_fires_now_and_once(
    app: Duly, clock: ManualClock, change: dict[str, Any]
) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user())
    clock.set(at("2026-03-15 12:00"))  # 8:00 in New York
    await app.tick()
    await app.users.update(user.id, **change)
    head = await planned(app, user)
    assert (head.occurrence, head.due < clock.now()) == ("2026-03-15", True)
    assert "which is over there: it fires now" in str((await app.events.history(head.id))[-1].detail)
    await app.tick()
    assert [event.occurrence for event in greeted] == ["2026-03-15"]
    assert (await app.events.get(head.id)).lateness == clock.now() - head.due
    await app.users.update(user.id, timezone="Pacific/Honolulu", delivery_time="23:00")
    assert (await planned(app, user)).occurrence == "2027-03-15"
    clock.advance(2 * DAY)
    await app.tick()
    assert len(greeted) == 1


async def test_a_date_of_birth_that_becomes_today_after_the_hour_begins_next_year(
    app: Duly, clock: ManualClock
) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user(date_of_birth="1990-03-16"))
    clock.set(at("2026-03-15 14:00"))
    await app.users.update(user.id, date_of_birth="1990-03-15", timezone="Asia/Tokyo")
    assert (await planned(app, user)).occurrence == "2027-03-15"
    await app.tick()
    assert greeted == []


async def test_a_greeting_owed_for_a_date_that_is_no_longer_the_users_is_left_out_with_the_reason(
    app: Duly, clock: ManualClock
) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user())
    owed = await planned(app, user)
    clock.set(at("2026-03-15 15:00"))  # nobody was at work at nine
    await app.users.update(user.id, date_of_birth="1990-06-20", by="ada")
    left_out = await app.events.get(owed.id)
    assert (left_out.status, left_out.occurrence, left_out.head) == (Status.SKIPPED, "2026-03-15", False)
    entry = (await app.events.history(owed.id))[-1]
    assert (entry.act, entry.worker) == ("skipped", "ada")
    assert "does not have this date any more" in str(entry.detail)
    await app.tick()
    assert greeted == []
    assert await due(app, user) == at("2026-06-20 13:00")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"since": "2025-12-20", "every": "month"}, "it was late, and its user does not have this date any more"),
        (None, "its user has no such event any more"),
    ],
)
async def test_all_occurrences_owed_for_a_date_that_is_no_longer_the_users_are_left_out(
    app: Duly, clock: ManualClock, change: dict[str, str] | None, why: str
) -> None:
    greetings(app, "subscription")
    monthly = {"subscription": {"since": "2025-12-10", "every": "month"}}
    user = await app.users.add(**a_user(timezone="UTC", attributes=monthly))
    clock.set(at("2026-03-12 00:00"))  # nobody has worked since January
    await app.users.update(user.id, attributes={"subscription": change}, by="ada")
    left_out = [event for event in await everything_of(app, user) if event.status is Status.SKIPPED]
    assert {event.occurrence for event in left_out} == {"2026-01-10", "2026-02-10", "2026-03-10"}
    for event in left_out:
        entry = (await app.events.history(event.id))[-1]
        assert (entry.act, entry.worker, entry.detail) == ("skipped", "ada", why)
    ahead = [event.occurrence for event in await app.users.ahead(user.id) if event.type == "subscription"]
    assert ahead == (["2026-03-20"] if change else [])


# -- changes of what has started


async def test_an_event_under_way_is_delivered_as_it_was_before_the_user_changed(app: Duly, clock: ManualClock) -> None:
    async def rename(event: Event) -> None:
        await app.users.update(user.id, last_name="King", timezone="America/Los_Angeles")

    greeted = greetings(app, also=rename)
    user = await app.users.add(**a_user())
    first = await fire(app, clock, user)
    assert (first.status, first.due) == (Status.COMPLETED, at("2026-03-15 13:00"))
    assert first.payload == greeted[0].payload == {"message": "Hey, Ada Lovelace it's your birthday"}
    assert first.timezone == "America/New_York"
    second = await fire(app, clock, user)
    assert (second.due, second.payload) == (at("2027-03-15 16:00"), {"message": "Hey, Ada King it's your birthday"})


async def test_an_event_being_retried_is_delivered_as_it_was_before_the_user_changed(
    duly: OpenDuly, clock: ManualClock
) -> None:
    hooks = Recorder(Failed("503"))
    app = await duly(channels={"webhook": hooks})
    user = await app.users.add(**a_user(target={"webhook": "https://hooks.example/ada"}))
    event = await fire(app, clock, user)
    assert (event.status, event.attempts) == (Status.PENDING, 1)
    await app.users.update(
        user.id, last_name="King", timezone="Asia/Tokyo", target={"webhook": "https://hooks.example/king"}
    )
    clock.advance(HOUR)
    await app.tick()
    done = await app.events.get(event.id)
    assert (done.status, done.due, done.payload) == (Status.COMPLETED, event.due, event.payload)
    assert [one.target for one in hooks.events] == [{"webhook": "https://hooks.example/ada"}] * 2
    following = await planned(app, user)
    assert (following.due, following.target) == (at("2027-03-15 00:00"), {"webhook": "https://hooks.example/king"})
    assert following.payload == {"message": "Hey, Ada King it's your birthday"}


# -- the end of a user


async def test_a_deleted_user_gets_nothing_more(app: Duly, clock: ManualClock) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user(anniversary="2015-06-01"))
    heads = await app.users.ahead(user.id)
    assert await app.users.delete(user.id, by="ada", reason="asked us to") == user
    for head in heads:
        event = await app.events.get(head.id)
        assert (event.status, event.head, event.ready) == (Status.CANCELLED, False, None)
        [entry] = await app.events.history(head.id)
        assert (entry.act, entry.worker, entry.detail) == ("cancelled", "ada", "asked us to")
    clock.advance(3 * 365 * DAY)
    await app.tick()
    assert (greeted, len(await everything_of(app, user))) == ([], 2)


async def test_an_event_under_way_when_its_user_is_deleted_completes_and_nothing_follows(
    app: Duly, clock: ManualClock
) -> None:
    async def delete(event: Event) -> None:
        await app.users.delete(user.id)

    greetings(app, also=delete)
    user = await app.users.add(**a_user())
    event = await fire(app, clock, user)
    assert event.status is Status.COMPLETED
    assert [one.status for one in await everything_of(app, user)] == [Status.COMPLETED, Status.CANCELLED]
    assert not [one for one in await everything_of(app, user) if one.head]


async def test_an_event_being_retried_when_its_user_is_deleted_completes(duly: OpenDuly, clock: ManualClock) -> None:
    hooks = Recorder(Failed("503"))
    app = await duly(channels={"webhook": hooks})
    user = await app.users.add(**a_user(target={"webhook": "https://hooks.example/ada"}))
    event = await fire(app, clock, user)
    await app.users.delete(user.id)
    clock.advance(HOUR)
    await app.tick()
    assert (await app.events.get(event.id)).status is Status.COMPLETED
    assert [one.status for one in await everything_of(app, user)] == [Status.COMPLETED, Status.CANCELLED]


async def test_deleting_a_user_leaves_the_events_of_the_others(app: Duly, clock: ManualClock) -> None:
    greeted = greetings(app)
    ada, bob = [await app.users.add(**a_user(first_name=name)) for name in ("Ada", "Bob")]
    await app.users.delete(ada.id)
    await fire(app, clock, bob)
    assert [event.user_id for event in greeted] == [bob.id]


# -- by hand


async def test_a_cancelled_greeting_is_left_out_for_good(app: Duly, clock: ManualClock) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user())
    head = await planned(app, user)
    await app.events.cancel(head.id, reason="on holiday")
    cancelled = await app.events.get(head.id)
    assert (cancelled.status, cancelled.head) == (Status.CANCELLED, False)
    assert await due(app, user) == at("2027-03-15 13:00")
    changes: list[dict[str, Any]] = [
        {"timezone": "America/Los_Angeles"},
        {"delivery_time": "10:00"},
        {"last_name": "King"},
    ]
    for change in changes:
        await app.users.update(user.id, **change)
        assert (await planned(app, user)).occurrence == "2027-03-15"
    clock.set(at("2026-12-31 00:00"))
    await app.tick()
    assert not greeted
    await fire(app, clock, user)
    assert len(greeted) == 1


async def test_a_rescheduled_greeting_fires_at_its_new_time_and_the_next_as_ever(app: Duly, clock: ManualClock) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user())
    await app.events.reschedule((await planned(app, user)).id, at("2026-03-17 20:00"))
    await app.users.update(user.id, last_name="King")
    assert await due(app, user) == at("2026-03-17 20:00"), "a new name does not move it"
    await fire(app, clock, user)
    assert [(event.due, event.payload["message"]) for event in greeted] == [
        (at("2026-03-17 20:00"), "Hey, Ada King it's your birthday")
    ]
    assert await due(app, user) == at("2027-03-15 13:00")


async def test_a_greeting_that_somebody_has_put_off_is_not_lost_when_the_user_changes(
    app: Duly, clock: ManualClock
) -> None:
    user = await app.users.add(**a_user())
    await app.events.reschedule((await planned(app, user)).id, at("2026-03-15 20:00"))
    clock.set(at("2026-03-15 15:00"))
    await app.users.update(user.id, timezone="America/Los_Angeles")
    head = await planned(app, user)
    assert (head.occurrence, head.due) == ("2026-03-15", at("2026-03-15 16:00"))


# -- anniversaries come and go


async def test_an_anniversary_that_is_removed_and_set_again_still_fires_this_year(
    app: Duly, clock: ManualClock
) -> None:
    fired = greetings(app, "anniversary")
    user = await app.users.add(**a_user())
    assert [head.type for head in await app.users.ahead(user.id)] == ["birthday"]
    await app.users.update(user.id, anniversary="2015-06-01")
    first = await planned(app, user, "anniversary")
    assert first.due == at("2026-06-01 13:00")
    await app.users.update(user.id, anniversary=None)
    assert [head.type for head in await app.users.ahead(user.id)] == ["birthday"]
    assert (await app.events.get(first.id)).status is Status.SKIPPED
    await app.users.update(user.id, anniversary="2015-06-01")
    await fire(app, clock, user, "anniversary")
    assert [event.due for event in fired] == [at("2026-06-01 13:00")]
    assert await due(app, user, "anniversary") == at("2027-06-01 13:00")


async def test_an_anniversary_that_is_owed_and_removed_is_left_out_with_the_reason(
    app: Duly, clock: ManualClock
) -> None:
    kept = greetings(app, "anniversary")
    user = await app.users.add(**a_user(anniversary="2015-06-01"))
    owed = await planned(app, user, "anniversary")
    clock.set(at("2026-06-01 15:00"))
    await app.users.update(user.id, anniversary=None)
    left_out = await app.events.get(owed.id)
    assert (left_out.status, left_out.occurrence) == (Status.SKIPPED, "2026-06-01")
    reason = "its user has no such event any more"
    assert [(entry.act, entry.detail) for entry in await app.events.history(owed.id)] == [("skipped", reason)]
    assert [(entry.act, entry.detail) for entry in await app.users.history(user.id)][-1] == (
        "halted", f"anniversary: {reason}"
    )  # fmt: skip
    await app.users.update(user.id, anniversary="2015-06-01")
    await app.tick()
    assert (kept, await due(app, user, "anniversary")) == ([], at("2027-06-01 13:00"))


async def test_an_anniversary_that_was_kept_this_year_is_not_kept_again(app: Duly, clock: ManualClock) -> None:
    user = await app.users.add(**a_user(anniversary="2015-06-01", delivery_time="08:00"))
    greetings(app, "anniversary")
    await fire(app, clock, user, "anniversary")
    await app.users.update(user.id, anniversary=None, delivery_time=None)
    await app.users.update(user.id, anniversary="2015-06-01")
    assert await due(app, user, "anniversary") == at("2027-06-01 13:00")


async def test_an_anniversary_is_not_kept_in_the_year_of_the_wedding(app: Duly) -> None:
    user = await app.users.add(**a_user(anniversary="2026-06-01"))
    assert await due(app, user, "anniversary") == at("2027-06-01 13:00")


# -- reminders and subscriptions


async def test_a_reminder_once_ends_and_the_user_is_told_why(app: Duly, clock: ManualClock) -> None:
    reminded = greetings(app, "reminder")
    user = await app.users.add(**a_user(attributes={"reminder": {"on": "2026-05-01", "message": "Passport"}}))
    await fire(app, clock, user, "reminder")
    assert [event.payload for event in reminded] == [{"message": "Passport"}]
    assert [head.type for head in await app.users.ahead(user.id)] == ["birthday"]
    assert [(entry.act, entry.detail) for entry in await app.users.history(user.id)] == [
        ("created", None),
        ("halted", "reminder: ended"),
    ]
    await app.users.update(user.id, attributes={"reminder": {"on": "2026-06-01"}})
    assert await due(app, user, "reminder") == at("2026-06-01 13:00")


async def test_a_reminder_that_is_withdrawn_does_not_come(app: Duly, clock: ManualClock) -> None:
    reminded = greetings(app, "reminder")
    user = await app.users.add(**a_user(attributes={"cat": 1, "reminder": {"on": "2026-05-01"}}))
    withdrawn = await app.users.update(user.id, attributes={"reminder": None})
    assert withdrawn.attributes == {"cat": 1}, "the others stay"
    clock.set(at("2026-06-01 00:00"))
    await app.tick()
    assert not reminded


async def test_a_reminder_by_interval_keeps_its_phase_whatever_changes(app: Duly, clock: ManualClock) -> None:
    asked = {"reminder": {"rule": {"every": "10d"}, "message": "Water the plants"}}
    user = await app.users.add(**a_user(attributes=asked))
    clock.advance(9 * DAY)
    changes: list[dict[str, Any]] = [{"last_name": "King"}, {"timezone": "Asia/Tokyo"}, {"delivery_time": "08:00"}]
    for change in changes:
        await app.users.update(user.id, **change)
        assert await due(app, user, "reminder") == START + 10 * DAY
    await app.users.update(user.id, attributes={"reminder": {"rule": {"every": "5d"}}})
    assert await due(app, user, "reminder") == START + 14 * DAY


async def test_an_overdue_reminder_goes_by_the_new_kind_of_its_rule(app: Duly, clock: ManualClock) -> None:
    user = await app.users.add(**a_user(attributes={"reminder": {"rule": {"every": "1d"}}}))
    clock.advance(DAY + HOUR)
    await app.users.update(user.id, attributes={"reminder": {"rule": {"cron": "0 12 * * *"}}})
    assert await due(app, user, "reminder") == at("2026-01-02 17:00")


async def test_a_reminder_whose_rule_never_fires_is_refused_or_plans_nothing(app: Duly) -> None:
    for rule in ({"cron": "0 0 30 2 *"}, {"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}):
        try:
            user = await app.users.add(**a_user(attributes={"reminder": {"rule": rule}}))
        except Invalid:
            continue
        assert [head.type for head in await app.users.ahead(user.id)] == ["birthday"]


async def test_a_monthly_subscription_goes_through_february(app: Duly, clock: ManualClock) -> None:
    renewed = greetings(app, "subscription")
    user = await app.users.add(**a_user(attributes={"subscription": {"since": "2026-01-31", "every": "month"}}))
    for _ in range(4):
        await fire(app, clock, user, "subscription")
    assert [str(event.local)[:16] for event in renewed] == [
        f"2026-{day} 09:00" for day in ("02-28", "03-31", "04-30", "05-31")
    ]


# -- 29 February


@pytest.mark.parametrize(
    ("leap", "kept"),
    [
        (None, ["2024-02-29", *(f"{year}-02-28" for year in (2025, 2026, 2027)), "2028-02-29",
                *(f"{year}-02-28" for year in (2029, 2030, 2031)), "2032-02-29"]),
        ("mar1", ["2024-02-29", *(f"{year}-03-01" for year in (2025, 2026, 2027)), "2028-02-29",
                  *(f"{year}-03-01" for year in (2029, 2030, 2031)), "2032-02-29"]),
        ("skip", ["2024-02-29", "2028-02-29", "2032-02-29"]),
    ],
)  # fmt: skip
async def test_who_was_born_on_29_february_is_greeted_each_year_as_asked(
    app: Duly, clock: ManualClock, leap: str | None, kept: list[str]
) -> None:
    clock.set(at("2024-01-01 00:00"))
    greeted = greetings(app)
    user = await app.users.add(**a_user(date_of_birth="1996-02-29", leap=leap))
    for _ in kept:
        await fire(app, clock, user)
    assert [f"{event.local:%Y-%m-%d %H:%M}" for event in greeted] == [f"{day} 09:00" for day in kept]


@pytest.mark.parametrize(
    ("before", "after", "next_one"),
    [("feb28", "mar1", "2027-03-01"), ("feb28", "skip", "2028-02-29"), ("mar1", "feb28", "2027-02-28")],
)
async def test_another_leap_after_the_greeting_does_not_greet_twice(
    app: Duly, clock: ManualClock, before: str, after: str, next_one: str
) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user(date_of_birth="1996-02-29", leap=before))
    await fire(app, clock, user)
    clock.advance(HOUR)
    await app.users.update(user.id, leap=after)
    head = await planned(app, user)
    assert f"{head.local:%Y-%m-%d}" == next_one
    clock.set(at("2026-12-31 00:00"))
    await app.tick()
    assert len(greeted) == 1


async def test_another_leap_before_the_greeting_moves_it(app: Duly) -> None:
    user = await app.users.add(**a_user(date_of_birth="1996-02-29"))
    for leap, day in (("mar1", "2026-03-01"), ("skip", "2028-02-29"), (None, "2026-02-28")):
        await app.users.update(user.id, leap=leap)
        assert f"{(await planned(app, user)).local:%Y-%m-%d %H:%M}" == f"{day} 09:00"
