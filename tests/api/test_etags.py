"""Whoever names the tag of what they have read does not undo what somebody else has changed since."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from duly import Duly, NotFound, Schedule, Stale, User, every
from duly.testing import ManualClock
from tests.api.greeting import greetings
from tests.conftest import AnyTransaction, OpenDuly
from tests.make import HOUR, a_user
from tests.stores.rows import write

RULE = every("1h")
Edit = Callable[[Duly, Any, Any], Awaitable[Any]]


async def test_a_schedule_is_replaced_only_as_it_was_seen(app: Duly) -> None:
    seen = await app.schedules.put("hourly", RULE, "digest", {"n": 1})
    changed = await app.schedules.put("hourly", RULE, "digest", {"n": 2}, expected=seen.tag)
    assert changed.tag == (await app.schedules.get("hourly")).tag != seen.tag
    with pytest.raises(Stale, match="schedule 'hourly' has been changed since you read it: read it again"):
        await app.schedules.put("hourly", RULE, "digest", {"n": 3}, expected=seen.tag)
    with pytest.raises(Stale):
        await app.schedules.delete("hourly", expected=seen.tag)
    assert (await app.schedules.get("hourly")).payload == {"n": 2}
    assert await app.schedules.delete("hourly", expected=changed.tag) == 1


async def test_ticks_and_triggers_change_no_tag(app: Duly, clock: ManualClock) -> None:
    greetings(app, "digest")
    seen = await app.schedules.put("hourly", RULE, "digest", {"n": 1})
    clock.advance(HOUR)
    await app.tick()
    await app.schedules.trigger("hourly")
    now = await app.schedules.get("hourly")
    assert now != seen
    assert now.tag == seen.tag
    await app.schedules.put("hourly", RULE, "digest", {"n": 2}, expected=seen.tag)


async def test_a_pause_is_an_edit(app: Duly) -> None:
    seen = await app.schedules.put("hourly", RULE, "digest")
    await app.schedules.pause("hourly")
    with pytest.raises(Stale):
        await app.schedules.put("hourly", RULE, "digest", enabled=True, expected=seen.tag)
    await app.schedules.resume("hourly")
    await app.schedules.put("hourly", RULE, "digest", expected=seen.tag)


async def test_a_deleted_schedule_is_not_made_again_by_who_wanted_to_change_it(app: Duly) -> None:
    seen = await app.schedules.put("hourly", RULE, "digest")
    await app.schedules.delete("hourly")
    with pytest.raises(Stale, match="the schedule 'hourly' has been deleted since you read it"):
        await app.schedules.put("hourly", RULE, "digest", {"n": 1}, expected=seen.tag)
    with pytest.raises(NotFound):
        await app.schedules.delete("hourly", expected=seen.tag)
    assert await app.schedules.list() == []
    again = await app.schedules.put("hourly", RULE, "digest")
    assert again.tag != seen.tag, "it is another one, whatever it says"


async def test_fields_in_another_order_are_the_same_schedule(app: Duly) -> None:
    seen = await app.schedules.put("hourly", RULE, "digest", {"a": 1, "b": 2})
    await write(app.store, 'UPDATE duly.schedules SET payload = \'{"b": 2, "a": 1}\'')
    stored = await app.schedules.get("hourly")
    assert stored.payload_json != seen.payload_json
    await app.schedules.put("hourly", RULE, "digest", {"n": 1}, expected=seen.tag)


async def test_a_user_is_changed_only_as_it_was_seen(app: Duly) -> None:
    seen = await app.users.add(**a_user(attributes={"cat": "Puff", "dog": None}))
    changed = await app.users.update(seen.id, first_name="Augusta", expected=seen.tag)
    assert changed.tag == (await app.users.get(seen.id)).tag != seen.tag
    with pytest.raises(Stale, match=f"user {seen.id} has been changed since you read it: read it again"):
        await app.users.update(seen.id, first_name="Ida", expected=seen.tag)
    with pytest.raises(Stale):
        await app.users.delete(seen.id, expected=seen.tag)
    assert (await app.users.get(seen.id)).first_name == "Augusta"
    await app.users.delete(seen.id, expected=changed.tag)
    for act in (app.users.update, app.users.delete):
        with pytest.raises(NotFound):
            await act(seen.id, expected=changed.tag)


async def test_another_tenants_user_is_not_there_whatever_its_tag(app: Duly) -> None:
    theirs = await app.users.add(**a_user(), tenant="theirs")
    with pytest.raises(NotFound):
        await app.users.update(theirs.id, tenant="ours", first_name="Ida", expected="other")
    with pytest.raises(NotFound):
        await app.users.delete(theirs.id, tenant="ours", expected=theirs.tag)


# -- races


async def put(app: Duly, schedule: Schedule, tx: AnyTransaction | None) -> None:
    await app.schedules.put("hourly", RULE, "digest", {"by": id(app)}, expected=schedule.tag, transaction=tx)


async def delete(app: Duly, schedule: Schedule, _tx: AnyTransaction | None) -> None:
    await app.schedules.delete("hourly", expected=schedule.tag)


async def update(app: Duly, user: User, tx: AnyTransaction | None) -> None:
    await app.users.update(user.id, first_name=f"Ada {id(app)}", expected=user.tag, transaction=tx)


async def remove(app: Duly, user: User, tx: AnyTransaction | None) -> None:
    await app.users.delete(user.id, expected=user.tag, transaction=tx)


async def race(edit: Edit, apps: list[Duly], seen: Any) -> list[Any]:
    return await asyncio.gather(*(edit(app, seen, None) for app in apps), return_exceptions=True)


async def race_in_transactions(edit: Edit, apps: list[Duly], seen: Any) -> list[Any]:
    async def alone(app: Duly) -> None:
        async with app.transaction() as tx:
            await edit(app, seen, tx)

    return await asyncio.gather(*(alone(app) for app in apps), return_exceptions=True)


@pytest.mark.parametrize("racing", [race, race_in_transactions])
@pytest.mark.parametrize("edit", [put, update])
async def test_of_editors_who_have_seen_the_same_state_one_wins(duly: OpenDuly, racing: Any, edit: Edit) -> None:
    apps = [await duly() for _ in range(4)]
    for _ in range(5):
        if edit is put:
            seen: Any = await apps[0].schedules.put("hourly", RULE, "digest", {"by": "nobody"})
        else:
            seen = await apps[0].users.add(**a_user())
        done = await racing(edit, apps, seen)
        assert [type(each) for each in done if each is not None] == [Stale] * 3
        winner = id(apps[done.index(None)])
        if edit is put:
            assert (await apps[0].schedules.get("hourly")).payload == {"by": winner}
        else:
            assert (await apps[0].users.get(seen.id)).first_name == f"Ada {winner}"


async def test_an_edit_and_a_deletion_that_expect_the_same_state_do_not_both_happen(duly: OpenDuly) -> None:
    one, other = await duly(), await duly()
    for _ in range(10):
        schedule = await one.schedules.put("hourly", RULE, "digest", {"by": "nobody"})
        user = await one.users.add(**a_user())
        edits = put(one, schedule, None), delete(other, schedule, None), update(one, user, None)
        done = await asyncio.gather(*edits, remove(other, user, None), return_exceptions=True)
        for pair in (done[:2], done[2:]):
            assert pair.count(None) == 1, pair
            assert isinstance(next(each for each in pair if each is not None), Stale | NotFound)


def test_synchronous_code_can_say_which_state_it_expects(url: str) -> None:
    with Duly(url).sync as sync:
        seen = sync.schedules.put("hourly", RULE, "digest", {"n": 1})
        sync.schedules.put("hourly", RULE, "digest", {"n": 2}, expected=seen.tag)
        user = sync.users.add(**a_user())
        sync.users.update(user.id, first_name="Ida", expected=user.tag)
        for act in (
            lambda: sync.schedules.put("hourly", RULE, "digest", {"n": 3}, expected=seen.tag),
            lambda: sync.schedules.delete("hourly", expected=seen.tag),
            lambda: sync.users.update(user.id, first_name="Eve", expected=user.tag),
            lambda: sync.users.delete(user.id, expected=user.tag),
        ):
            with pytest.raises(Stale):
                act()
