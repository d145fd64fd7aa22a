"""What can be said of a user, and what cannot. All that is wrong is told at once."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from duly import Invalid, User
from duly.decide.calendars.users import FIELDS, MOST_ATTRIBUTES, changed_user, changes_of, new_user
from duly.ids import new_id
from tests.make import DAY, START, a_user, make_user

CHANNELS = ("webhook",)


def made(**fields: Any) -> User:
    return new_user(fields, new_id(), "default", CHANNELS, START)


def made_at(now: datetime, **fields: Any) -> User:
    return new_user({**a_user(), **fields}, new_id(), "default", CHANNELS, now)


def problems(**fields: Any) -> dict[str, str]:
    """What is wrong with the usual user if so much is said differently."""
    with pytest.raises(Invalid) as refused:
        made(**a_user(**fields))
    told = [(problem.path, problem.message) for problem in refused.value.problems]
    assert len(dict(told)) == len(told), f"a field is told of twice: {told}"
    return dict(told)


def test_a_user_has_the_given_fields() -> None:
    said = a_user(
        key="crm-7",
        anniversary="2015-06-01",
        delivery_time="08:30",
        leap="mar1",
        target={"webhook": "https://hooks.example"},
        attributes={"cat": ["Tom", 3, None]},
    )
    user = made(**said)
    assert (user.first_name, user.last_name, user.timezone, user.key) == (
        "Ada",
        "Lovelace",
        "America/New_York",
        "crm-7",
    )
    assert (user.date_of_birth, user.anniversary) == (date(1990, 3, 15), date(2015, 6, 1))
    assert (user.delivery_time, user.leap) == (time(8, 30), "mar1")
    assert (user.target, user.attributes) == ({"webhook": "https://hooks.example"}, {"cat": ["Tom", 3, None]})
    assert set(said) == set(FIELDS)


def test_optional_fields_of_a_user_may_be_left_out_or_none() -> None:
    user = made(**a_user(key=None, anniversary=None, delivery_time=None, leap=None, target=None, attributes=None))
    assert (user.key, user.anniversary, user.delivery_time, user.leap, user.target) == (None,) * 5
    assert user.attributes == {}
    assert made(**a_user(attributes={})).attributes_json is None


def test_dates_and_times_of_a_user_may_be_objects() -> None:
    user = made(**a_user(date_of_birth=date(1990, 3, 15), anniversary=date(2015, 6, 1), delivery_time=time(8, 30, 1)))
    assert (user.date_of_birth, user.anniversary) == (date(1990, 3, 15), date(2015, 6, 1))
    assert user.delivery_time == time(8, 30, 1)


def test_all_problems_of_a_user_are_told_at_once() -> None:
    with pytest.raises(Invalid) as refused:
        new_user(
            {
                "first_name": "",
                "last_name": 7,
                "date_of_birth": "1990-02-30",
                "timezone": "Mars/Olympus",
                "key": " ",
                "anniversary": "yesterday",
                "delivery_time": "25:00",
                "leap": "mar2",
                "target": {"pigeon": "coop"},
                "attributes": [],
                "nickname": "Countess",
            },
            new_id(),
            "\n",
            CHANNELS,
            START,
        )
    assert [problem.path for problem in refused.value.problems] == [
        "tenant",
        *FIELDS[:8],
        "attributes",
        "nickname",
        "target",
    ]


def test_a_missing_required_field_of_a_user_is_a_problem() -> None:
    with pytest.raises(Invalid) as refused:
        made(first_name=None, last_name="Lovelace")
    told = [(problem.path, problem.message) for problem in refused.value.problems]
    assert told == [(field, "is missing") for field in ("first_name", "date_of_birth", "timezone")]


@pytest.mark.parametrize("field", ["first_name", "last_name"])
def test_the_name_of_a_user_has_one_to_a_hundred_characters(field: str) -> None:
    for name in ("X", "x" * 100, "🎂" * 100):
        assert getattr(made(**a_user(**{field: name})), field) == name
    assert problems(**{field: ""}) == {field: "must have 1 to 100 characters, has 0"}
    assert problems(**{field: "x" * 101}) == {field: "must have 1 to 100 characters, has 101"}


@pytest.mark.parametrize("blank", [" ", "   ", "\u3000", "\xa0\xa0", "\u200d", "\u200c "])
def test_a_blank_name_is_no_name(blank: str) -> None:
    assert problems(last_name=blank) == {"last_name": "is blank"}


@pytest.mark.parametrize("bad", ["\x00", "\n", "\t", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\ud800"])
def test_a_name_has_no_control_characters(bad: str) -> None:
    assert problems(first_name=f"A{bad}da") == {
        "first_name": f"has a character that cannot be printed: U+{ord(bad):04X}"
    }


@pytest.mark.parametrize(
    "name",
    [
        "O'Brien",
        "Jean-Luc",
        "Zoë",
        "李",
        "Ñandú",
        "Иван",
        "علی\u200cرضا",  # noqa: RUF001 - in Persian
        "ශ්\u200dරී",
        "山田\u3000太郎",
        "de\xa0Gaulle",
        "X Æ A-12",
        "{name}",
    ],
)
def test_people_are_called_what_they_are_called(name: str) -> None:
    assert made(**a_user(first_name=name, last_name=name)).last_name == name


@pytest.mark.parametrize("written", [7, True, b"Ada", ["Ada"], 1.5])
def test_a_name_is_text(written: Any) -> None:
    assert problems(first_name=written) == {"first_name": f"expected text, not {type(written).__name__}"}


@pytest.mark.parametrize("field", ["date_of_birth", "anniversary"])
@pytest.mark.parametrize(
    "written",
    [
        "1990-02-30",
        "1900-02-29",
        "1990-13-01",
        "1990-00-10",
        "0000-01-01",
    ],
)
def test_a_date_that_no_calendar_has_is_refused(field: str, written: str) -> None:
    [(path, message)] = problems(**{field: written}).items()
    assert (path, message.partition(":")[0]) == (field, f"{written} is not a valid date")


@pytest.mark.parametrize("field", ["date_of_birth", "anniversary"])
@pytest.mark.parametrize(
    "written",
    [
        19900315,
        1990.0,
        True,
        "",
        "15.03.1990",
        "1990-3-15",
        "19900315",
        "1990-W11-4",
        "1990-03-15T00:00:00",
        "1990-03-15\n",
        " 1990-03-15",
        "90-03-15",
        datetime(1990, 3, 15, tzinfo=UTC),
        datetime(1990, 3, 15),  # noqa: DTZ001 - refused all the same
        ["1990-03-15"],
        {},
    ],
)
def test_a_date_is_a_date_object_or_its_iso_spelling(field: str, written: Any) -> None:
    [(path, message)] = problems(**{field: written}).items()
    assert path == field
    assert message.startswith("expected a date such as 1990-03-15, not ")


def test_digits_of_other_scripts_make_no_date() -> None:
    thai = {ord("0") + digit: 0xE50 + digit for digit in range(10)}
    assert set(problems(date_of_birth="1990-03-15".translate(thai))) == {"date_of_birth"}
    assert set(problems(delivery_time="09:00".translate(thai))) == {"delivery_time"}


@pytest.mark.parametrize("written", ["09:00", "00:00", "23:59:59", time(9), time(0)])
def test_a_delivery_time_is_a_time_of_day(written: Any) -> None:
    assert isinstance(made(**a_user(delivery_time=written)).delivery_time, time)


@pytest.mark.parametrize(
    "written",
    [9, 900, True, "9:00", "9", "24:00", "09:60", "09:00:00.5", "09:00Z", "09:00+01:00", "", time(9, tzinfo=UTC),
     time(9, 0, 0, 1), timedelta(hours=9), datetime(2026, 1, 1, 9, tzinfo=UTC)],
)  # fmt: skip
def test_a_delivery_time_that_is_no_time_of_day_is_refused(written: Any) -> None:
    assert set(problems(delivery_time=written)) == {"delivery_time"}


@pytest.mark.parametrize(
    "name", ["America/New_York", "Asia/Kathmandu", "UTC", "Etc/GMT+12", "Pacific/Kiritimati", "Asia/Calcutta"]
)
def test_a_zone_is_an_iana_name(name: str) -> None:
    assert made(**a_user(timezone=name)).timezone == name


@pytest.mark.parametrize(
    "written",
    ["", "EST5EDT4", "New York", "america/new_york", "America", "../UTC", "/etc/localtime", "UTC\x00", "\ud800",
     "GMT+1", "+01:00", "localtime", "tzdata.zi", "x" * 10_000, 5, True, ["UTC"], {}, b"UTC"],
)  # fmt: skip
def test_a_zone_that_is_no_iana_name_is_refused(written: Any) -> None:
    told = problems(timezone=written)
    assert set(told) == {"timezone"}
    assert len(told["timezone"]) < 300


@pytest.mark.parametrize("written", ["feb29", "", 28, True, ["feb28"], {}])
def test_the_leap_of_a_user_is_one_of_three_values(written: Any) -> None:
    assert problems(leap=written)["leap"].startswith("must be one of feb28, mar1, skip, not ")


@pytest.mark.parametrize("written", ["", " a", "a ", "a\nb", "x" * 501, 7, ["a"], {}, "\ud800", "\x00"])
def test_a_key_is_text_that_every_store_can_carry(written: Any) -> None:
    assert set(problems(key=written)) == {"key"}


@pytest.mark.parametrize("written", ["https://hooks.example", {}, {"webhook": 1, "nats": 2}, {"pigeon": 1}, 7, {1: 2}])
def test_a_target_names_one_known_channel(written: Any) -> None:
    assert set(problems(target=written)) == {"target"}


@pytest.mark.parametrize("written", [[], "cat", 7, {1: 2}, {"n": float("nan")}, {"s": {1, 2}}, {"t": "\ud800"}])
def test_attributes_are_an_object_of_json(written: Any) -> None:
    assert set(problems(attributes=written)) == {"attributes"}


def test_attributes_of_a_user_have_a_largest_size() -> None:
    assert made(**a_user(attributes={"a": "x" * (MOST_ATTRIBUTES - 8)})).attributes
    assert "store it elsewhere" in problems(attributes={"a": "x" * (MOST_ATTRIBUTES - 7)})["attributes"]


@pytest.mark.parametrize("name", ["id", "tenant", "created", "updated", "created_by", "target_json", "", "x" * 500, 7])
def test_an_unknown_field_of_a_user_is_refused(name: Any) -> None:
    with pytest.raises(Invalid) as refused:
        new_user({**a_user(), name: "x"}, new_id(), "default", CHANNELS, START)
    [problem] = refused.value.problems
    assert problem.path == str(name)[:50]
    assert problem.message == f"is not a field of a user; known fields: {', '.join(FIELDS)}"


# -- born in the future: by the user's own calendar


@pytest.mark.parametrize(
    ("zone", "utc", "today"),
    [
        ("Pacific/Kiritimati", datetime(2026, 3, 14, 9, 59, 59, tzinfo=UTC), date(2026, 3, 14)),
        ("Pacific/Kiritimati", datetime(2026, 3, 14, 10, tzinfo=UTC), date(2026, 3, 15)),
        ("Etc/GMT+12", datetime(2026, 3, 15, 11, 59, 59, tzinfo=UTC), date(2026, 3, 14)),
        ("Etc/GMT+12", datetime(2026, 3, 15, 12, tzinfo=UTC), date(2026, 3, 15)),
        ("UTC", datetime(2026, 3, 14, 23, 59, 59, 999_999, tzinfo=UTC), date(2026, 3, 14)),
        ("UTC", datetime(2026, 3, 15, tzinfo=UTC), date(2026, 3, 15)),
    ],
)
def test_nobody_is_born_after_today_where_they_live(zone: str, utc: datetime, today: date) -> None:
    tomorrow = today + timedelta(days=1)
    for born in (today, today - timedelta(days=1), date(1, 1, 1)):
        assert made_at(utc, timezone=zone, date_of_birth=born).date_of_birth == born
    with pytest.raises(Invalid) as refused:
        made_at(utc, timezone=zone, date_of_birth=tomorrow)
    [problem] = refused.value.problems
    assert problem.path == "date_of_birth"
    assert problem.message == f"{tomorrow} is in the future: it is {today} in {zone}"


def test_a_birth_in_the_future_is_told_also_where_the_zone_is_unknown() -> None:
    with pytest.raises(Invalid) as refused:
        made_at(START, timezone="Mars", date_of_birth="2030-01-01")
    assert [problem.path for problem in refused.value.problems] == ["timezone", "date_of_birth"]


def test_moving_a_user_does_not_check_the_date_of_birth_again() -> None:
    born_today = make_user(timezone="Pacific/Kiritimati", date_of_birth=(START + DAY).date())
    moved = changed_user(born_today, {"timezone": "Pacific/Honolulu"}, CHANNELS, START)
    assert moved.timezone == "Pacific/Honolulu"


# -- changes


def test_a_change_of_a_user_leaves_the_other_fields() -> None:
    old = made(**a_user(key="k", attributes={"cat": 1}))
    new = changed_user(old, {"last_name": "King"}, CHANNELS, START)
    assert (new.last_name, new.first_name, new.key, new.attributes) == ("King", "Ada", "k", {"cat": 1})
    assert changes_of(old, new) == {"last_name"}
    assert changes_of(old, old) == set()


def test_optional_fields_of_a_user_can_be_removed_and_required_ones_cannot() -> None:
    full = made(**a_user(key="k", anniversary="2015-06-01", delivery_time="08:00", leap="skip", attributes={"a": 1}))
    optional = ("key", "anniversary", "delivery_time", "leap", "target", "attributes")
    bare = changed_user(full, dict.fromkeys(optional), CHANNELS, START)
    assert changes_of(bare, made(**a_user())) == set()
    with pytest.raises(Invalid) as refused:
        changed_user(full, dict.fromkeys(("first_name", "last_name", "date_of_birth", "timezone")), CHANNELS, START)
    assert [problem.message for problem in refused.value.problems] == ["cannot be removed"] * 4


def test_a_change_of_a_user_is_checked_as_a_new_user_is() -> None:
    with pytest.raises(Invalid) as refused:
        changed_user(
            make_user(), {"first_name": "", "timezone": 5, "nickname": "x", "target": {"x": 1}}, CHANNELS, START
        )
    assert [problem.path for problem in refused.value.problems] == ["first_name", "timezone", "nickname", "target"]


def test_each_attribute_of_a_user_that_changed_is_named() -> None:
    old, new = make_user(attributes={"a": 1, "b": 2, "c": 3}), make_user(attributes={"a": 1, "b": 9, "d": 4})
    assert changes_of(old, new) == {"attributes", "attributes.b", "attributes.c", "attributes.d"}


def test_attributes_of_a_user_in_another_order_are_the_same() -> None:
    assert changes_of(make_user(attributes={"a": 1, "b": 2}), make_user(attributes={"b": 2, "a": 1})) == set()
    there, back = {"webhook": {"url": "x", "secret": "y"}}, {"webhook": {"secret": "y", "url": "x"}}
    assert changes_of(make_user(target=there), make_user(target=back)) == set()


def test_values_that_python_takes_for_equal_are_a_change_all_the_same() -> None:
    for one, other in ((1, True), (0, False), (1, 1.5), (None, False), ([1], [True])):
        changed = changes_of(make_user(attributes={"cat": one, "a": 1}), make_user(attributes={"cat": other, "a": 1}))
        assert changed == {"attributes", "attributes.cat"}
