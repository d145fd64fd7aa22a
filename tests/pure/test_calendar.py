"""What a user's calendar holds, where heads belong, and what a type of somebody else's may not do to others."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import msgspec
import pytest

from duly import Anniversary, Birthday, Invalid, Reminder, User, cron, every, once, rrule, yearly
from duly.decide.calendars.calendar import aim, begun, calendar, concerned, continues, differs, first_after
from duly.decide.calendars.event_types import EventType, shipped
from duly.decide.series.due_head import head_of
from duly.ids import new_id
from duly.records.event import Event
from duly.records.series import Series, carried
from duly.rules.recurrence import Rule
from duly.values.instants import write_instant
from tests.make import DAY, HOUR, MICROSECOND, START, make_event, make_user

NINE = time(9)


class Custom:
    """An event type that answers what the test says, or raises it."""

    name = "custom"
    depends_on = ("attributes.cat",)

    def __init__(self, rule: Any = None, message: Any = "Meow", target: Any = None) -> None:
        self._rule, self._message, self._target = rule, message, target

    def rule(self, user: User, at: time) -> Rule | None:
        rule: Rule | None = _answer(self._rule)
        return rule

    def message(self, user: User) -> str:
        message: str = _answer(self._message)
        return message

    def target(self, user: User) -> dict[str, Any] | None:
        target: dict[str, Any] | None = _answer(self._target)
        return target


def _answer(given: Any) -> Any:
    if isinstance(given, Exception):
        raise given
    return given


def of(user: User, *types: Any, at: time = NINE) -> dict[str, Series]:
    return calendar(user, types, at, {"webhook"})


def test_there_is_a_series_for_each_type_that_has_something_to_say() -> None:
    assert list(of(make_user(), *shipped())) == ["birthday"]
    busy = make_user(
        anniversary=date(2015, 6, 1),
        attributes={"reminder": {"on": "2027-05-01"}, "subscription": {"since": "2026-01-31"}},
    )
    series = of(busy, *shipped())
    assert list(series) == ["birthday", "anniversary", "reminder", "subscription"]
    for name, one in series.items():
        assert one.name == f"user:{busy.id}:{name}"
        assert (one.type, one.tenant, one.timezone) == (name, "default", "America/New_York")


def test_a_series_carries_the_message_and_the_target() -> None:
    user = make_user(target={"webhook": "https://hooks.example"})
    birthday = of(user, Birthday())["birthday"]
    assert msgspec.json.decode(birthday.payload_json) == {"message": "Hey, Ada Lovelace it's your birthday"}
    assert (birthday.target, birthday.lane) == ({"webhook": "https://hooks.example"}, "webhook")
    assert of(make_user(), Birthday())["birthday"].lane == "handler:birthday"


def test_the_users_own_delivery_time_wins_also_at_midnight() -> None:
    assert of(make_user(), Birthday(), at=time(7))["birthday"].timetable.rule.to_json()["at"] == "07:00"
    assert (
        of(make_user(delivery_time=time(0)), Birthday(), at=time(7))["birthday"].timetable.rule.to_json()["at"]
        == "00:00"
    )


# -- types of somebody else's


@pytest.mark.parametrize(
    ("type", "told"),
    [
        (Custom(RuntimeError("boom")), "custom: its event type cannot use this user: RuntimeError: boom"),
        (Custom(KeyError("cat")), "custom: its event type cannot use this user: KeyError: 'cat'"),
        (Custom("daily"), "custom: its event type must return a rule or None, not 'daily'"),
        (Custom(datetime(2027, 1, 1, tzinfo=UTC)), "custom: its event type must return a rule or None, not"),
        (Custom(every), "custom: its event type must return a rule or None, not <function"),
        (Custom(yearly), "custom: its event type must return a rule or None, not <function"),
        (Custom(type(every("1d"))), "custom: "),
        (Custom(every("1d"), ValueError("no words")), "custom: its event type cannot use this user: ValueError: no"),
        (Custom(every("1d"), None), "custom: its message must be text, and nothing was given"),
        (Custom(every("1d"), 7), "custom: its message must be text, not 7"),
        (Custom(every("1d"), "\ud800"), "custom: has text with half of a surrogate pair"),
        (Custom(every("1d"), object()), "custom: "),
        (Custom(every("1d"), "x" * 2_000_000), "custom: is 2,000,014 bytes of JSON"),
        (Custom(every("1d"), "Meow", {"pigeon": 1}), "custom.target: unknown channel 'pigeon'; known: webhook"),
        (Custom(every("1d"), "Meow", "https://hooks.example"), "custom.target: expected an object with one channel"),
        (Custom(every("1d"), "Meow", OSError("no target")), "custom: its event type cannot use this user: OSError"),
        (Custom(every("1d"), "Meow", {"webhook": object()}), "custom.target: cannot be encoded as JSON"),
        (Custom(every("1d"), "Meow", {"webhook": float("nan")}), "custom.target: has a number that is not finite"),
    ],
)  # fmt: skip
def test_an_event_type_that_raises_is_told_with_its_name(type: Custom, told: str) -> None:
    with pytest.raises(Invalid) as refused:
        of(make_user(), Birthday(), type)
    [problem] = refused.value.problems
    assert str(problem).startswith(told)


def test_a_rule_that_its_own_type_writes_wrongly_is_told_with_the_types_name() -> None:
    class Wrong(Custom):
        def rule(self, user: User, at: time) -> Rule | None:
            return cron("nonsense")

    with pytest.raises(Invalid, match=r"^custom\.rule\.cron: "):
        of(make_user(), Wrong())


def test_the_problems_of_all_event_types_are_told_at_once() -> None:
    user = make_user(attributes={"reminder": 7, "subscription": {"since": "x"}})
    with pytest.raises(Invalid) as refused:
        of(user, *shipped(), Custom(RuntimeError("boom")))
    assert [problem.path for problem in refused.value.problems] == [
        "attributes.reminder",
        "attributes.subscription.since",
        "custom",
    ]


def test_a_rule_that_cannot_be_written_down_is_told_with_its_types_name() -> None:
    class Moody:
        """It does what rules do, but no store could keep it."""

        timezone, local = None, False

        def placed(self, timezone: str, dst: Any) -> "Moody":
            return self

        def to_json(self) -> dict[str, Any]:
            return {"mood": "good"}

    with pytest.raises(Invalid, match=r"^custom\.rule: "):
        of(make_user(), Custom(Moody()))


# -- what depends on what


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"attributes", "attributes.dog"}, []),
        ({"attributes", "attributes.cat"}, ["custom"]),
        ({"attributes", "attributes.reminder"}, ["reminder"]),
        ({"first_name"}, ["birthday", "anniversary", "reminder"]),
        ({"attributes", "attributes.language"}, ["birthday", "anniversary", "reminder"]),
        ({"date_of_birth"}, ["birthday"]),
        ({"anniversary"}, ["anniversary"]),
        ({"leap"}, ["birthday", "anniversary"]),
        *(
            ({field}, ["birthday", "anniversary", "reminder", "custom"])
            for field in ("timezone", "delivery_time", "target", "key")
        ),
    ],
)
def test_an_event_type_is_asked_only_when_a_field_changes_that_it_uses(changed: set[str], names: list[str]) -> None:
    types: list[EventType] = [Birthday(), Anniversary(), Reminder(), Custom()]
    assert [type.name for type in concerned(types, changed)] == names


# -- where heads belong


def series(rule: Rule, timezone: str = "UTC", **fields: Any) -> Series:
    return msgspec.structs.replace(of(make_user(timezone=timezone), Custom(rule))["custom"], **fields)


def rule_of(series: Series) -> Any:
    return msgspec.json.decode(series.rule_json)


def head(of: Series, at: datetime, **fields: Any) -> Event:
    """The head of a series, as the store would tell of it."""
    found = first_after(of, at)
    assert found is not None
    new = head_of(of, found, new_id)
    written = {name: getattr(new, name) for name in ("occurrence", "series", "timezone", "scheduled", "rule_json")}
    return make_event(type="custom", head=True, due=new.due, **(written | {"payload_json": of.payload_json} | fields))


def test_the_first_occurrence_lies_after_now_and_is_cached_correctly() -> None:
    birthday = series(yearly("03-15"))
    nine = datetime(2026, 3, 15, 9, tzinfo=UTC)
    for now, year in (
        (START, 2026),
        (nine - MICROSECOND, 2026),
        (nine, 2027),
        (nine + DAY, 2027),
        (START, 2026),
        (datetime(2020, 1, 1, tzinfo=UTC), 2020),
    ):
        found = first_after(birthday, now)
        assert found is not None
        assert (found.name, found.at.year) == (f"{year}-03-15", year), now
    assert first_after(series(once(START)), START) is None


def test_the_head_of_a_users_series_carries_all_that_its_successor_needs() -> None:
    user = make_user(target={"webhook": "https://hooks.example"}, via="http")
    birthday = of(user, Birthday())["birthday"]
    stored = head(birthday, START, tenant=user.tenant, target_json=birthday.target_json, retry_json=None, via="http")
    assert carried(msgspec.structs.replace(stored, type="birthday")) == birthday
    assert carried(make_event(series="schedule:s", head=True)) is None, "a schedule has its rule itself"


def test_an_interval_begins_when_its_series_does_and_keeps_its_phase() -> None:
    asked = series(every("1d"))
    fixed = begun(asked, START)
    assert rule_of(fixed) == {"every": "1d", "start": write_instant(START)}
    stored = head(fixed, START)
    for again in (begun(asked, START + HOUR, stored), begun(fixed, START + HOUR)):
        assert rule_of(again) == rule_of(fixed), "it does not begin anew"
        assert continues(stored, again)
    for other in (every("2d"), every("1d", start=START + HOUR)):
        assert not continues(stored, begun(series(other), START + HOUR, stored))


def test_an_interval_keeps_its_phase_in_another_zone() -> None:
    stored = head(begun(series(every("1d")), START), START)
    moved = begun(series(every("1d"), "Asia/Tokyo"), START + HOUR, stored)
    assert rule_of(moved) == {"every": "1d", "start": write_instant(START)}
    assert not continues(stored, moved), "for it has another zone now"


def test_a_recurrence_without_a_start_keeps_the_one_that_it_got() -> None:
    asked = series(rrule("FREQ=WEEKLY"), "Asia/Tokyo")
    fixed = begun(asked, START)
    assert rule_of(fixed)["start"] == "2026-01-01T09:00:00"
    assert rule_of(begun(asked, START + HOUR, head(fixed, START))) == rule_of(fixed)
    assert rule_of(begun(series(rrule("FREQ=WEEKLY")), START + HOUR, head(fixed, START))) == rule_of(fixed)


def test_a_head_that_is_owed_stays_owed_when_the_zone_changes() -> None:
    old = series(yearly("03-15"), "America/New_York")
    found = head(old, START)
    anew = msgspec.structs.replace(old, timezone="America/Los_Angeles")
    moved = aim(found, anew, found.due + HOUR)
    assert moved is not None
    assert (moved.name, moved.at) == ("2026-03-15", found.due + 3 * HOUR)
    assert aim(found, anew, found.due + 3 * DAY) == moved


def test_a_head_that_somebody_has_put_off_is_owed() -> None:
    old = series(yearly("03-15"))
    found = head(old, START)
    put_off = msgspec.structs.replace(found, due=found.due + 5 * HOUR)
    later = msgspec.structs.replace(old, rule_json=series(yearly("03-15", at="10:00")).rule_json)
    moved = aim(put_off, later, found.due + 2 * HOUR)
    assert moved is not None
    assert moved.at == found.due + HOUR


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (yearly("03-15"), yearly("03-20")),
        (yearly("03-15"), cron("0 8 * * *")),
        (cron("0 8 * * *"), yearly("03-15")),
        (every("1d", start=START), cron("0 8 * * *")),
        (every("1d", start=START), yearly("03-15")),
        (every("1d", start=START), rrule("FREQ=DAILY", start="2026-01-01T07:00:00")),
        (cron("*/5 * * * *"), cron("0 8 * * *")),
        (once(START + DAY), cron("0 8 * * *")),
        (cron("0 8 * * *"), once(datetime(2026, 5, 1, 9), timezone="UTC")),  # noqa: DTZ001 - on the wall
    ],
)
def test_an_owed_head_goes_by_the_new_kind_of_rule_of_its_series(old: Rule, new: Rule) -> None:
    found, anew = head(series(old), START), series(new)
    now = found.due + HOUR
    assert aim(found, anew, now) == first_after(anew, now)


def test_only_fields_that_a_head_depends_on_make_it_differ() -> None:
    birthday = of(make_user(), Birthday())["birthday"]
    found = first_after(birthday, START)
    assert found is not None
    anew = head_of(birthday, found, new_id)
    same = head(birthday, START, lane=anew.lane, payload_json=birthday.payload_json, retry_json=anew.retry_json)
    assert not differs(same, anew)
    assert differs(same, msgspec.structs.replace(anew, due=anew.due and anew.due + timedelta(hours=1)))
    assert differs(same, msgspec.structs.replace(anew, payload_json='{"message":"Hi"}'))
