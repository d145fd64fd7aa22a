"""The builders of ``duly.testing``: sensible values, and the words of a test for what matters to it."""

from datetime import UTC, date, datetime, timedelta

import pytest

from duly import Duly, InStatus, Misuse, OfUser, Overdue, Ready, Retry, Status
from duly.testing import EventBuilder, ManualClock, UserBuilder
from tests.make import DAY, HOUR, MINUTE, START


def test_a_user_has_sensible_values_and_says_what_matters() -> None:
    user = UserBuilder().build()
    assert (user.first_name, user.last_name, user.timezone) == ("John", "Doe", "America/New_York")
    assert user.date_of_birth == date(1990, 1, 1)
    jane = UserBuilder().with_id(user.id).with_first_name("Jane").with_last_name("Roe").with_timezone("Europe/London")
    jane = jane.with_date_of_birth("1984-02-29").with_anniversary("2010-06-01").with_attributes(language="en")
    built = jane.with_attributes(plan="gold").with_tenant("acme").with_key("u7").build()
    assert (built.id, built.tenant, built.key, built.first_name, built.last_name, built.timezone) == (
        user.id, "acme", "u7", "Jane", "Roe", "Europe/London",
    )  # fmt: skip
    assert (built.date_of_birth, built.anniversary) == (date(1984, 2, 29), date(2010, 6, 1))
    assert built.attributes == {"language": "en", "plan": "gold"}


def test_each_word_of_a_builder_returns_a_new_one() -> None:
    common = UserBuilder().with_timezone("Asia/Tokyo")
    one, other = common.with_first_name("Ada").build(), common.build()
    assert (one.first_name, other.first_name, one.timezone, other.timezone) == ("Ada", "John", *["Asia/Tokyo"] * 2)
    assert one.id != other.id


def test_an_event_is_somebodys_birthday_tomorrow_unless_the_test_says_otherwise(clock: ManualClock) -> None:
    event = EventBuilder(clock).build()
    assert (event.type, event.status, event.due, event.ready) == ("birthday", Status.PENDING, START + DAY, START + DAY)
    assert event.payload == {"message": "Test message"}
    user = UserBuilder().build()
    own = EventBuilder(clock).with_user_id(user.id).with_type("anniversary").build()
    assert (own.user_id, own.type, own.head) == (user.id, "anniversary", True)
    assert OfUser(user.id).matches(own, START)
    nobodys = EventBuilder(clock).with_user_id(None).build()
    assert (nobodys.user_id, nobodys.series, nobodys.timezone) == (None, None, None)


def test_events_that_are_ready_overdue_or_out_of_retries_are_what_specs_find(clock: ManualClock) -> None:
    ready, overdue = EventBuilder(clock).that_is_ready().build(), EventBuilder(clock).that_is_overdue(hours=2).build()
    assert (ready.due, overdue.due) == (START - 5 * MINUTE, START - 2 * HOUR)
    assert Ready().matches(ready, START)
    assert not Overdue(hours=1).matches(ready, START)
    assert Overdue(hours=1).matches(overdue, START)
    spent = EventBuilder(clock).that_is_ready().with_retry(Retry(max_attempts=5)).with_max_retries().build()
    assert (spent.status, spent.attempts, spent.ready) == (Status.FAILED, 5, None)
    assert InStatus("failed").matches(spent, START)
    done = EventBuilder(clock).with_status("completed").with_target_timestamp(START).build()
    assert (done.status, done.lateness, done.attempts) == (Status.COMPLETED, timedelta(), 1)


async def test_a_built_user_can_be_added_and_has_events(app: Duly) -> None:
    user = await UserBuilder().with_first_name("Jane").with_key("u7").add_to(app)
    assert (await app.users.by_key("u7")) == user
    assert {event.type for event in await app.events.find(OfUser(user.id))} == {"birthday"}
    with pytest.raises(Misuse, match="the store chooses the id"):
        await UserBuilder().with_id(user.id).add_to(app)


async def test_built_events_can_be_added_as_timers(app: Duly, clock: ManualClock) -> None:
    builder = EventBuilder(clock).with_type("invoice.overdue").with_payload({"invoice": 7})
    event = await builder.that_is_ready().with_key("7").add_to(app)
    assert (event.type, event.payload, event.key, event.due) == (
        "invoice.overdue", {"invoice": 7}, "7", START - 5 * MINUTE,
    )  # fmt: skip
    await app.add_many([builder.timer(), builder.that_is_overdue(hours=3).timer()])
    with pytest.raises(Misuse, match="begins as PENDING"):
        builder.with_max_retries().timer()
    with pytest.raises(Misuse, match="a timer has no user"):
        builder.with_user_id(event.id).timer()


def test_without_a_clock_the_present_is_this_machines() -> None:
    due = EventBuilder().that_is_ready().build().due
    assert abs(datetime.now(UTC) - timedelta(minutes=5) - due) < MINUTE
