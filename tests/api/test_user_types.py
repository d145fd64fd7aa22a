"""Event types of one's own: registered, changed and removed, also in only some of the processes."""

from datetime import time
from typing import Any

import pytest

from duly import Birthday, Duly, Invalid, NotFound, Status, User, yearly
from duly.rules.recurrence import Rule
from duly.testing import ManualClock
from tests.api.greeting import acts, at, due, fire, greetings, planned
from tests.conftest import OpenDuly
from tests.make import DAY, HOUR, a_user


class CatDay:
    """On 8 August, for who has a cat."""

    name = "cat-day"
    depends_on = ("attributes.cat",)

    def __init__(self, day: str = "08-08", words: str = "Meow") -> None:
        self.day, self.words, self.asked = day, words, 0

    def rule(self, user: User, at: time) -> Rule | None:
        self.asked += 1
        return yearly(self.day, at=at) if user.attributes.get("cat") else None

    def message(self, user: User) -> str:
        return f"{self.words}, {user.attributes['cat']}"

    def target(self, user: User) -> dict[str, Any] | None:
        return None


WITH_CAT = a_user(attributes={"cat": "Tom"})


async def types_of(app: Duly, user: User) -> list[str]:
    return [head.type for head in await app.users.ahead(user.id)]


async def test_an_event_type_of_ones_own_fires_year_after_year(app: Duly, clock: ManualClock) -> None:
    meows = greetings(app, "cat-day")
    app.event_types.register(CatDay())
    user = await app.users.add(**WITH_CAT)
    for _ in range(3):
        await fire(app, clock, user, "cat-day")
    assert [(event.due, event.payload) for event in meows] == [
        (at(f"{year}-08-08 13:00"), {"message": "Meow, Tom"}) for year in (2026, 2027, 2028)
    ]


async def test_an_event_type_is_asked_only_when_a_field_changes_that_it_depends_on(app: Duly) -> None:
    cats = app.event_types.register(CatDay())
    user = await app.users.add(**WITH_CAT)
    asked = cats.asked
    head = await planned(app, user, "cat-day")
    await app.users.update(user.id, first_name="Augusta", attributes={"cat": "Tom", "dog": "Rex"})
    assert cats.asked == asked
    assert await acts(app, head) == []
    await app.users.update(user.id, attributes={"cat": "Felix", "dog": "Rex"})
    assert cats.asked > asked
    assert (await planned(app, user, "cat-day")).payload == {"message": "Meow, Felix"}
    await app.users.update(user.id, attributes={"cat": None})
    assert await types_of(app, user) == ["birthday"]


async def test_the_engine_asks_no_event_type_while_events_fire(app: Duly, clock: ManualClock) -> None:
    greetings(app, "cat-day")
    cats = app.event_types.register(CatDay())
    user = await app.users.add(**WITH_CAT)
    asked = cats.asked
    await fire(app, clock, user, "cat-day")
    assert cats.asked == asked


@pytest.mark.parametrize("broken", ["rule", "message", "target"])
async def test_an_event_type_that_raises_harms_no_user_who_is_there(
    app: Duly, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def boom(*_: Any) -> Any:
        raise RuntimeError("boom")

    cats = app.event_types.register(CatDay())
    user = await app.users.add(**WITH_CAT)
    heads = await app.users.ahead(user.id)
    monkeypatch.setattr(cats, broken, boom)
    with pytest.raises(Invalid, match="cat-day: its event type cannot use this user: RuntimeError: boom"):
        await app.users.add(**WITH_CAT)
    with pytest.raises(Invalid, match="cat-day"):
        await app.users.update(user.id, timezone="Asia/Tokyo")
    assert await app.users.get(user.id) == user
    assert await app.users.ahead(user.id) == heads
    refreshed = await app.users.refresh()
    assert (refreshed.users, refreshed.events, list(refreshed.refused)) == (1, 0, [user.id])
    assert "boom" in str(refreshed.refused[user.id])


# -- refresh


async def test_users_older_than_an_event_type_get_its_events_by_a_refresh(app: Duly) -> None:
    user, without = await app.users.add(**WITH_CAT), await app.users.add(**a_user())
    app.event_types.register(CatDay())
    assert await types_of(app, user) == ["birthday"]
    assert await app.users.refresh() == (2, 1, {})
    assert (await types_of(app, user), await types_of(app, without)) == (["birthday", "cat-day"], ["birthday"])
    assert await app.users.refresh() == (2, 0, {}), "once is enough"


async def test_a_changed_event_type_moves_its_events_that_have_not_started(app: Duly) -> None:
    app.event_types.register(CatDay())
    user = await app.users.add(**WITH_CAT)
    head = await planned(app, user, "cat-day")
    app.event_types.remove("cat-day")
    app.event_types.register(CatDay("10-10", "Purr"))
    assert (await app.users.refresh(by="ada")).events == 1
    moved = await planned(app, user, "cat-day")
    assert (moved.id, moved.due, moved.payload) == (head.id, at("2026-10-10 13:00"), {"message": "Purr, Tom"})
    [entry] = await app.events.history(head.id)
    assert (entry.act, entry.worker) == ("moved", "ada")
    assert len(await app.users.history(user.id)) == 1, "it is no change of the user"


async def test_another_leap_for_all_is_an_event_type_of_ones_own(app: Duly) -> None:
    user = await app.users.add(**a_user(date_of_birth="1996-02-29"))
    own = await app.users.add(**a_user(date_of_birth="1996-02-29", leap="skip"))
    app.event_types.remove("birthday")
    app.event_types.register(Birthday(leap="mar1"))
    await app.users.refresh()
    assert await due(app, user) == at("2026-03-01 14:00")
    assert await due(app, own) == at("2028-02-29 14:00")


async def test_a_refresh_cancels_the_events_of_a_removed_type(app: Duly, clock: ManualClock) -> None:
    meows = greetings(app, "cat-day")
    app.event_types.register(CatDay())
    refreshed, changed = [await app.users.add(**WITH_CAT) for _ in range(2)]
    heads = [await planned(app, user, "cat-day") for user in (refreshed, changed)]
    app.event_types.remove("cat-day")
    await app.users.update(changed.id, last_name="King")
    assert (await types_of(app, changed), await types_of(app, refreshed)) == (["birthday"], ["birthday", "cat-day"])
    assert (await app.users.refresh()).events == 1
    assert await types_of(app, refreshed) == ["birthday"]
    assert [(await app.events.get(head.id)).status for head in heads] == [Status.SKIPPED] * 2
    clock.advance(400 * DAY)
    await app.tick()
    assert not meows
    with pytest.raises(NotFound, match="registered types: anniversary, birthday, reminder, subscription"):
        app.event_types.get("cat-day")


async def test_a_removed_type_that_comes_back_still_fires_this_year(app: Duly) -> None:
    user = await app.users.add(**a_user())
    app.event_types.remove("birthday")
    await app.users.refresh()
    assert await types_of(app, user) == []
    app.event_types.register(Birthday())
    await app.users.refresh()
    assert await due(app, user) == at("2026-03-15 13:00")


async def test_another_delivery_time_for_all_moves_users_without_one_of_their_own(app: Duly, duly: OpenDuly) -> None:
    usual, own = await app.users.add(**a_user()), await app.users.add(**a_user(delivery_time="07:00"))
    later = await duly(delivery_time="10:00")
    assert await later.users.refresh() == (2, 1, {})
    assert await due(app, usual) == at("2026-03-15 14:00")
    assert await due(app, own) == at("2026-03-15 11:00")


async def test_a_refresh_after_todays_greeting_does_not_greet_twice(
    app: Duly, duly: OpenDuly, clock: ManualClock
) -> None:
    greeted = greetings(app)
    user = await app.users.add(**a_user())
    await fire(app, clock, user)
    later = await duly(delivery_time="10:00")
    await later.users.refresh()
    clock.advance(2 * HOUR)
    await app.tick()
    assert len(greeted) == 1
    assert await due(app, user) == at("2027-03-15 14:00")


async def test_a_refresh_keeps_owed_events(app: Duly, duly: OpenDuly, clock: ManualClock) -> None:
    user = await app.users.add(**a_user())
    clock.set(at("2026-03-16 00:00"))
    later = await duly(delivery_time="10:00")
    await later.users.refresh()
    assert (await planned(app, user)).occurrence == "2026-03-15"


async def test_a_refresh_is_for_one_tenant_or_all_and_goes_in_portions(
    app: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.verbs.users.users.USERS_PER_TRANSACTION", 3)
    for number in range(10):
        await app.users.add(**WITH_CAT, tenant="a" if number < 4 else "b")
    app.event_types.register(CatDay())
    assert await app.users.refresh(tenant="a") == (4, 4, {})
    assert await app.users.refresh() == (10, 6, {})


# -- processes that do not know a type


async def test_a_process_that_does_not_know_an_event_type_leaves_its_events_alone(
    app: Duly, duly: OpenDuly, clock: ManualClock
) -> None:
    app.event_types.register(CatDay())
    meows = greetings(app, "cat-day")
    user = await app.users.add(**WITH_CAT)
    head = await planned(app, user, "cat-day")
    stranger = await duly()
    await stranger.users.update(user.id, first_name="Augusta", attributes={"cat": "Felix"}, delivery_time="10:00")
    await stranger.users.refresh()
    assert await planned(app, user, "cat-day") == head
    await fire(stranger, clock, user, "cat-day")
    assert not meows, "it has no handler for them either"
    await app.tick()
    assert [event.payload for event in meows] == [{"message": "Meow, Tom"}]


async def test_a_process_that_does_not_know_an_event_type_moves_its_events_to_the_users_new_zone(
    app: Duly, duly: OpenDuly, clock: ManualClock
) -> None:
    app.event_types.register(CatDay())
    greetings(app, "cat-day")
    user = await app.users.add(**WITH_CAT)
    head = await planned(app, user, "cat-day")
    stranger = await duly()
    await stranger.users.update(user.id, timezone="America/Los_Angeles")
    moved = await planned(app, user, "cat-day")
    assert (moved.id, moved.due, moved.payload) == (head.id, head.due + 3 * HOUR, head.payload)
    await fire(app, clock, user, "cat-day")
    assert await due(app, user, "cat-day") == at("2027-08-08 16:00"), "and so are the years after"
    clock.advance(HOUR)
    await stranger.users.update(user.id, timezone="Pacific/Honolulu")
    assert await due(app, user, "cat-day") == at("2027-08-08 19:00"), "nobody is greeted twice"


async def test_a_process_that_does_not_know_an_event_type_cancels_its_events_with_their_user(
    app: Duly, duly: OpenDuly
) -> None:
    app.event_types.register(CatDay())
    user = await app.users.add(**WITH_CAT)
    head = await planned(app, user, "cat-day")
    await (await duly()).users.delete(user.id)
    assert (await app.events.get(head.id)).status is Status.CANCELLED
