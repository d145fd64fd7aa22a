"""The options of verbs: each is listed once, with its type, and is the field that it is named after."""

import inspect
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from duly import Duly, Invalid, Timer, every
from duly.client import Client
from duly.decide.calendars import users
from duly.records.event import TimerOptions
from duly.records.schedule import ScheduleOptions
from duly.records.user import UserChanges, UserFields
from duly.rules import policies
from duly.rules.policies import PolicyOptions
from duly.verbs.schedules.schedules import Schedules

GROUPS = ("events", "schedules", "users", "targets", "event_types")


def verbs(of: Duly | Client) -> Iterator[Callable[..., Any]]:
    for holder in (of, *(getattr(of, group) for group in GROUPS)):
        names = (name for name in dir(type(holder)) if not name.startswith("_") and name != "keys")
        yield from (verb for name in names if inspect.ismethod(verb := getattr(holder, name)))


@pytest.mark.parametrize("of", [Duly("sqlite://"), Client("https://duly.example")], ids=["Duly", "Client"])
def test_no_verb_takes_options_without_names(of: Duly | Client) -> None:
    seen = 0
    for verb in verbs(of):
        signature = inspect.signature(verb)
        if signature.return_annotation is not NoReturn:  # what refuses everything may be called anyhow
            options = [one for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD]
            assert not [one for one in options if one.annotation is Any], verb
            seen += 1
    assert seen > 45


def test_the_options_of_a_verb_are_the_fields_of_its_record() -> None:
    assert ["due", "type", "payload", *TimerOptions.__annotations__] == list(Timer.__struct_fields__)
    assert tuple(PolicyOptions.__annotations__) == policies.FIELDS
    assert sorted(UserFields.__annotations__) == sorted(UserChanges.__annotations__) == sorted(users.FIELDS)
    assert sorted(UserFields.__required_keys__) == sorted(users.REQUIRED)
    assert not UserChanges.__required_keys__


def test_the_verb_every_takes_what_putting_a_schedule_takes() -> None:
    put = inspect.signature(Schedules.put).parameters.values()
    named = {one.name for one in put if one.kind is one.KEYWORD_ONLY}
    assert set(ScheduleOptions.__annotations__) - set(PolicyOptions.__annotations__) == named


async def test_an_unknown_option_of_a_verb_is_refused(url: str) -> None:
    async with Duly(url) as duly:
        unknown: dict[str, Any] = {"colour": "red"}
        with pytest.raises(TypeError, match="colour"):
            await duly.after(timedelta(hours=1), "x", **unknown)
        with pytest.raises(Invalid, match="colour: is unknown; known: misfire"):
            await duly.every("a", every("1h"), "x", **unknown)
        with pytest.raises(Invalid, match="colour: is not a field of a user; known fields: first_name"):
            await duly.users.add(first_name="A", last_name="B", date_of_birth="1990-01-01", timezone="UTC", **unknown)
        assert await duly.events.find() == []
