"""When users are written to: once for each date, whatever becomes of the time of day and of the setting."""

import asyncio
from typing import Any

import pytest

from duly import Duly, NotFound, Status
from duly.testing import ManualClock
from tests.api.greeting import at, due, everything_of, fire, greetings, planned
from tests.conftest import OpenDuly
from tests.make import a_user

ASKED: dict[str, dict[str, Any]] = {
    "birthday": {"date_of_birth": "1990-06-15"},
    "anniversary": {"anniversary": "2015-06-15"},
    "reminder": {"attributes": {"reminder": {"on": "2026-06-15"}}},
    "subscription": {"attributes": {"subscription": {"since": "2026-01-15", "every": "month"}}},
}
each_type = pytest.mark.parametrize("type", ASKED)


def asked_for(type: str, **fields: Any) -> dict[str, Any]:
    return a_user(timezone="UTC", **{"date_of_birth": "1990-12-24", **ASKED[type], **fields})


@each_type
async def test_nobody_is_written_to_twice_when_the_time_of_day_moves_on(
    app: Duly, clock: ManualClock, type: str
) -> None:
    told = greetings(app, type)
    clock.set(at("2026-06-01 00:00"))
    user = await app.users.add(**asked_for(type))
    await fire(app, clock, user, type)
    for later in ("10:00", "11:00", None):
        await app.users.update(user.id, delivery_time=later)
    await app.users.update(user.id, timezone="America/Los_Angeles", delivery_time="09:00")
    clock.set(at("2026-06-16 12:00"))
    await app.tick()
    assert len(told) == 1


@each_type
async def test_an_owed_greeting_stays_owed_when_the_time_of_day_moves_back(
    app: Duly, clock: ManualClock, type: str
) -> None:
    told = greetings(app, type)
    clock.set(at("2026-06-01 00:00"))
    user = await app.users.add(**asked_for(type))
    clock.set(at("2026-06-15 12:00"))  # nobody was at work at nine
    await app.users.update(user.id, delivery_time="08:00")
    await app.tick()
    assert [event.due for event in told] == [at("2026-06-15 08:00")]


async def test_a_subscription_that_becomes_yearly_on_its_day_is_not_told_twice(app: Duly, clock: ManualClock) -> None:
    told = greetings(app, "subscription")
    clock.set(at("2027-01-01 00:00"))
    user = await app.users.add(**asked_for("subscription"))
    await fire(app, clock, user, "subscription")
    yearly = {"subscription": {"since": "2026-01-15", "every": "year"}}
    await app.users.update(user.id, attributes=yearly, delivery_time="18:00")
    clock.set(at("2027-06-01 00:00"))
    await app.tick()
    assert len(told) == 1
    assert await due(app, user, "subscription") == at("2028-01-15 18:00")


async def test_a_process_with_another_setting_leaves_times_alone(app: Duly, duly: OpenDuly) -> None:
    user = await app.users.add(**a_user(timezone="UTC", key="7"))
    other = await duly(delivery_time="23:30")
    await other.users.update(user.id, first_name="Augusta")
    await other.users.import_([{"key": "7", "last_name": "King"}])
    head = await planned(app, user)
    assert (head.due.hour, head.payload["message"]) == (9, "Hey, Augusta King it's your birthday")
    await other.users.update(user.id, timezone="Asia/Tokyo")
    assert str((await planned(app, user)).local)[11:16] == "09:00"
    assert (await other.users.refresh()).events == 1
    assert str((await planned(app, user)).local)[11:16] == "23:30"
    await app.users.update(user.id, first_name="Ada")
    assert str((await planned(app, user)).local)[11:16] == "23:30", "this process has the setting of 9:00"


async def test_a_user_is_deleted_once(app: Duly, duly: OpenDuly) -> None:
    other = await duly()
    user = await app.users.add(**a_user())
    ends = await asyncio.gather(*(one.users.delete(user.id) for one in (app, other) * 3), return_exceptions=True)
    assert sorted(type(end).__name__ for end in ends) == ["NotFound"] * 5 + ["User"]
    assert all(isinstance(end, NotFound) for end in ends if isinstance(end, Exception))
    assert [event.status for event in await everything_of(app, user)] == [Status.CANCELLED]
