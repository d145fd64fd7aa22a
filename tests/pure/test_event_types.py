"""The registry of event types, and those that come with Duly."""

from datetime import UTC, date, datetime, time
from typing import Any

import pytest

from duly import Anniversary, Birthday, Invalid, Misuse, NotFound, Reminder, Subscription, User, yearly
from duly.decide.calendars.event_types import EventTypes, shipped
from duly.rules.recurrence import OPEN, Rule
from tests.make import make_user

NINE = time(9)


class CatDay:
    name = "cat-day"
    depends_on = ("first_name", "attributes.cat")

    def rule(self, user: User, at: time) -> Rule | None:
        return yearly("08-08", at=at)

    def message(self, user: User) -> str:
        return "Meow"

    def target(self, user: User) -> dict[str, Any] | None:
        return None


# -- the registry


def test_an_event_type_is_found_by_its_name() -> None:
    types, cats = EventTypes(), CatDay()
    assert types.register(cats) is cats
    assert types.get("cat-day") is cats
    assert (types.names(), list(types)) == (["cat-day"], [cats])


def test_an_unknown_event_type_lists_the_known_ones() -> None:
    with pytest.raises(
        NotFound, match=r"no event type 'easter'; registered types: anniversary, birthday, reminder, subs"
    ):
        EventTypes(shipped()).get("easter")
    with pytest.raises(NotFound, match="registered types: none"):
        EventTypes().get("easter")


def test_the_name_of_an_event_type_is_registered_once() -> None:
    types = EventTypes([CatDay()])
    with pytest.raises(Misuse, match="'cat-day' is already registered; remove it first to replace it"):
        types.register(CatDay())
    types.remove("cat-day")
    assert types.names() == []
    types.register(CatDay())
    assert types.names() == ["cat-day"]


def test_only_a_registered_event_type_can_be_removed() -> None:
    with pytest.raises(NotFound, match="cat-day"):
        EventTypes().remove("cat-day")


def test_a_removed_event_type_is_remembered_until_it_is_registered_again() -> None:
    types = EventTypes([CatDay()])
    assert types.removed() == frozenset()
    types.remove("cat-day")
    assert types.removed() == {"cat-day"}
    types.register(CatDay())
    assert types.removed() == frozenset()


def test_an_event_type_is_registered_by_decorating_its_class() -> None:
    types = EventTypes()

    @types.register
    class DogDay(CatDay):
        name = "dog-day"

    assert isinstance(types.get("dog-day"), DogDay)
    assert isinstance(DogDay, type), "it is still the class"


def test_registering_while_iterating_harms_nobody() -> None:
    types = EventTypes(shipped())
    seen = []
    for type in types:
        seen.append(type.name)
        if "cat-day" not in types.names():
            types.register(CatDay())
    assert seen == [type.name for type in shipped()], "those that were there when it began"
    assert "cat-day" in types.names()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"name": None}, "name: expected text, not NoneType"),
        ({"name": ""}, "name: must have 1 to 200 characters, has 0"),
        ({"name": "a\nb"}, "name: has a character that cannot be printed"),
        ({"name": 7}, "name: expected text, not int"),
        ({"rule": None}, "rule: must be a method"),
        ({"message": "Meow"}, "message: must be a method"),
        ({"target": {"webhook": "x"}}, "target: must be a method"),
        ({"depends_on": "first_name"}, "depends_on: must be names of fields of users"),
        ({"depends_on": None}, "depends_on: must be names of fields of users"),
        (
            {"depends_on": ("shoe_size",)},
            "depends_on: 'shoe_size' is not a field of a user; known fields: first_name, ",
        ),
        ({"depends_on": (7,)}, "depends_on: 7 is not a field of a user"),
        ({"name": 7, "rule": 1, "depends_on": 3}, "name: .*; rule: .*; depends_on: "),
    ],
)
def test_an_object_that_is_no_event_type_cannot_be_registered(wrong: dict[str, Any], told: str) -> None:
    types = EventTypes()
    with pytest.raises(Misuse, match=f"cannot be registered as an event type: {told}"):
        types.register(type("Wrong", (CatDay,), wrong))
    with pytest.raises(Misuse):
        types.register(object())
    assert types.names() == []


def test_a_class_that_needs_arguments_says_so() -> None:
    class Needy(CatDay):
        def __init__(self, cat: str) -> None:
            self.cat = cat

    with pytest.raises(Misuse, match="Needy cannot be created without arguments: register an instance of it"):
        EventTypes().register(Needy)


# -- those that come with Duly


def occurrences(type: Any, user: User, since: datetime, count: int = 3) -> list[str]:
    """On the user's own clocks."""
    rule = type.rule(user, NINE).placed(user.timezone, OPEN)
    found = []
    for _ in range(count):
        occurrence = rule.after(since)
        if occurrence is None:
            break
        since = occurrence.at
        found.append(datetime.fromisoformat(occurrence.at.isoformat()).astimezone(UTC).strftime("%Y-%m-%d %H:%M"))
    return found


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


UTC_USER = {"timezone": "UTC"}


def test_a_birthday_greets_in_the_words_that_were_asked_for() -> None:
    assert Birthday().message(make_user()) == "Hey, Ada Lovelace it's your birthday"


def test_a_birthday_is_every_year_at_the_time_of_day() -> None:
    user = make_user(**UTC_USER)
    assert occurrences(Birthday(), user, at("2026-01-01")) == [
        "2026-03-15 09:00",
        "2027-03-15 09:00",
        "2028-03-15 09:00",
    ]
    early = Birthday().rule(user, time(7, 30))
    assert early is not None
    assert early.to_json() == {"yearly": "03-15", "at": "07:30"}


@pytest.mark.parametrize(
    ("leap", "kept"),
    [
        ("feb28", ["2024-02-29", "2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"]),
        ("mar1", ["2024-02-29", "2025-03-01", "2026-03-01", "2027-03-01", "2028-02-29"]),
        ("skip", ["2024-02-29", "2028-02-29", "2032-02-29", "2036-02-29", "2040-02-29"]),
    ],
)
def test_29_february_is_kept_as_the_user_or_the_type_says(leap: str, kept: list[str]) -> None:
    born = {"date_of_birth": date(1996, 2, 29), **UTC_USER}
    wanted = [f"{day} 09:00" for day in kept]
    assert occurrences(Birthday(), make_user(leap=leap, **born), at("2024-01-01"), 5) == wanted
    assert occurrences(Birthday(leap=leap), make_user(**born), at("2024-01-01"), 5) == wanted
    assert occurrences(Birthday(leap="skip"), make_user(leap=leap, **born), at("2024-01-01"), 5) == wanted


def test_an_anniversary_is_kept_from_the_year_after_on() -> None:
    user = make_user(anniversary=date(2026, 6, 1), **UTC_USER)
    assert occurrences(Anniversary(), user, at("2020-01-01"), 2) == ["2027-06-01 09:00", "2028-06-01 09:00"]
    assert Anniversary().rule(make_user(), NINE) is None
    assert Anniversary().message(user) == "Hey, Ada Lovelace it's your anniversary"


def test_an_anniversary_on_29_february_begins_in_the_year_after() -> None:
    user = make_user(anniversary=date(2024, 2, 29), **UTC_USER)
    assert occurrences(Anniversary(), user, at("2024-01-01"), 2) == ["2025-02-28 09:00", "2026-02-28 09:00"]


def reminding(**asked: Any) -> User:
    return make_user(attributes={"reminder": asked}, **UTC_USER)


def test_a_reminder_at_an_instant_fires_once() -> None:
    user = reminding(on="2027-05-01", message="Renew your passport")
    assert occurrences(Reminder(), user, at("2026-01-01")) == ["2027-05-01 09:00"]
    assert occurrences(Reminder(), user, at("2028-01-01")) == []
    assert occurrences(Reminder(), reminding(on="1815-12-10"), at("2026-01-01")) == []
    assert Reminder().message(user) == "Renew your passport"
    assert Reminder().message(reminding(on="2027-05-01")) == "Hey, Ada Lovelace this is your reminder"


def test_a_reminder_with_a_rule_fires_by_it() -> None:
    monthly = reminding(rule={"rrule": "FREQ=MONTHLY;BYDAY=1MO", "start": "2026-01-01T07:00:00"})
    assert occurrences(Reminder(), monthly, at("2026-01-01"), 2) == ["2026-01-05 07:00", "2026-02-02 07:00"]
    daily = reminding(rule={"cron": "30 8 * * *"})
    assert occurrences(Reminder(), daily, at("2026-01-01"), 1) == ["2026-01-01 08:30"]


def test_a_yearly_reminder_without_a_time_is_at_the_users_delivery_time() -> None:
    assert occurrences(Reminder(), reminding(rule={"yearly": "12-24"}), at("2026-01-01"), 1) == ["2026-12-24 09:00"]
    early = reminding(rule={"yearly": "12-24", "at": "07:00"})
    assert occurrences(Reminder(), early, at("2026-01-01"), 1) == ["2026-12-24 07:00"]


def test_who_asks_for_no_reminder_has_none() -> None:
    for attributes in (None, {"cat": 1}, {"reminder": None}):
        assert Reminder().rule(make_user(attributes=attributes), NINE) is None


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ({"rule": {"rrule": "FREQ=MONTHLY;BYDAY=1MO"}}, "attributes.reminder.rule.start"),
        ("tomorrow", "attributes.reminder"),
        ([], "attributes.reminder"),
        ({}, "attributes.reminder"),
        ({"message": "x"}, "attributes.reminder"),
        ({"on": "2027-05-01", "rule": {"every": "1d"}}, "attributes.reminder"),
        ({"on": "2027-05-01", "when": 1}, "attributes.reminder"),
        ({"on": "2027-02-30"}, "attributes.reminder.on"),
        ({"on": 20270501}, "attributes.reminder.on"),
        ({"on": None}, "attributes.reminder.on"),
        ({"on": "2027-W18-6"}, "attributes.reminder.on"),
        ({"on": "20270501"}, "attributes.reminder.on"),
        ({"on": "9998-05-01"}, "attributes.reminder.on"),
        ({"rule": {"cron": "nonsense"}}, "attributes.reminder.rule.cron"),
        ({"rule": "daily"}, "attributes.reminder.rule"),
        ({"rule": {"every": "1ms"}}, "attributes.reminder.rule.every"),
    ],
)
def test_a_reminder_that_makes_no_sense_is_refused(asked: Any, path: str) -> None:
    with pytest.raises(Invalid) as refused:
        Reminder().rule(make_user(attributes={"reminder": asked}), NINE)
    assert [problem.path for problem in refused.value.problems] == [path]


def test_what_a_reminder_says_is_text() -> None:
    with pytest.raises(Invalid, match=r"attributes\.reminder\.message: expected text, not 7"):
        Reminder().message(reminding(on="2027-05-01", message=7))


def subscribed(**asked: Any) -> User:
    return make_user(attributes={"subscription": asked}, **UTC_USER)


def test_a_subscription_since_the_31st_is_renewed_on_the_last_day_of_shorter_months() -> None:
    user = subscribed(since="2026-01-31", every="month")
    assert occurrences(Subscription(), user, at("2025-01-01"), 6) == [
        f"2026-{day} 09:00" for day in ("02-28", "03-31", "04-30", "05-31", "06-30", "07-31")
    ]
    assert occurrences(Subscription(), user, at("2028-02-01"), 2) == ["2028-02-29 09:00", "2028-03-31 09:00"]


@pytest.mark.parametrize(
    ("day", "february", "march"),
    [(1, "02-01", "03-01"), (28, "02-28", "03-28"), (29, "02-28", "03-29"), (30, "02-28", "03-30")],
)
def test_a_subscription_is_renewed_on_its_day_where_the_month_has_it(day: int, february: str, march: str) -> None:
    user = subscribed(since=f"2026-01-{day:02}", every="month")
    assert occurrences(Subscription(), user, at("2025-01-01"), 2) == [f"2026-{february} 09:00", f"2026-{march} 09:00"]


def test_a_subscription_since_december_is_renewed_in_january() -> None:
    user = subscribed(since="2025-12-31", every="month")
    assert occurrences(Subscription(), user, at("2025-12-31"), 2) == ["2026-01-31 09:00", "2026-02-28 09:00"]


def test_a_yearly_subscription_is_first_renewed_a_year_later() -> None:
    assert occurrences(Subscription(), subscribed(since="2026-05-10"), at("2026-01-01"), 2) == [
        "2027-05-10 09:00",
        "2028-05-10 09:00",
    ]
    leap = subscribed(since="2024-02-29", every="year")
    assert occurrences(Subscription(), leap, at("2024-01-01"), 1) == ["2025-02-28 09:00"]


def test_an_old_subscription_is_still_renewed() -> None:
    old = subscribed(since="1965-01-31", every="month")
    assert occurrences(Subscription(), old, at("2026-02-01"), 1) == ["2026-02-28 09:00"]


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("yes", "attributes.subscription"),
        ({"since": "2026-01-01", "until": "2027-01-01"}, "attributes.subscription"),
        ({}, "attributes.subscription.since"),
        ({"since": "2026-02-30"}, "attributes.subscription.since"),
        ({"since": "2026-01-01", "every": "week"}, "attributes.subscription.every"),
        ({"since": "2026-01-01", "every": None}, "attributes.subscription.every"),
        ({"since": "9999-12-31", "every": "month"}, "attributes.subscription.since"),
        ({"since": "9999-12-31"}, "attributes.subscription.since"),
    ],
)
def test_a_subscription_that_makes_no_sense_is_refused(asked: Any, path: str) -> None:
    with pytest.raises(Invalid) as refused:
        Subscription().rule(make_user(attributes={"subscription": asked}), NINE)
    assert [problem.path for problem in refused.value.problems] == [path]


def test_events_of_every_shipped_type_go_to_the_users_target() -> None:
    target = {"webhook": "https://hooks.example"}
    for type in shipped():
        assert type.target(make_user(target=target)) == target
        assert type.target(make_user()) is None
