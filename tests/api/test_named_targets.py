"""Stored targets that events name: one that is not there is refused, and one in use is not deleted in silence."""

import pytest

from duly import Conflict, Duly, Invalid, Timer, cron, to
from duly.testing import ManualClock
from tests.api.greeting import greetings
from tests.api.sending import OPTIONS
from tests.conftest import OpenDuly
from tests.make import HOUR, a_user

CRM = to.webhook(target="crm")
MISSING = "target.webhook.target: there is no target 'crm' in tenant 'default': create it first"


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    app = await duly(**OPTIONS)
    greetings(app)
    return app


async def with_target(app: Duly) -> None:
    await app.targets.put("crm", "https://crm.example/hook")


async def test_an_event_that_names_a_target_which_is_not_there_is_refused(app: Duly) -> None:
    for act in (
        lambda: app.after(HOUR, "greet", target=CRM),
        lambda: app.after(HOUR, "greet", target=CRM, key="one"),
        lambda: app.every("daily", cron("0 9 * * *"), "greet", target=CRM),
        lambda: app.users.add(**a_user(target=CRM)),
    ):
        with pytest.raises(Invalid, match="create it first") as refused:
            await act()
        assert str(refused.value) == MISSING
    assert not (await app.events.find(limit=10))


async def test_each_of_many_timers_that_names_a_missing_target_is_told(app: Duly) -> None:
    timers = [Timer(HOUR, "a"), Timer(HOUR, "b", target=CRM), Timer(HOUR, "c", target=CRM, key="c")]
    with pytest.raises(Invalid) as refused:
        await app.add_many([*timers[:2], Timer(HOUR, "d", target=CRM)])
    assert [problem.path for problem in refused.value.problems] == [
        "[1].target.webhook.target",
        "[2].target.webhook.target",
    ]
    assert not (await app.events.find(limit=10))
    with pytest.raises(Invalid):
        await app.add_many(timers)
    assert not (await app.events.find(limit=10))


async def test_a_named_target_is_found_in_its_own_tenant_alone(app: Duly) -> None:
    await with_target(app)
    await app.after(HOUR, "greet", target=CRM)
    await app.every("daily", cron("0 9 * * *"), "greet", target=CRM)
    await app.users.add(**a_user(target=CRM))
    with pytest.raises(Invalid, match="in tenant 'acme'"):
        await app.after(HOUR, "greet", target=CRM, tenant="acme")
    async with app.transaction() as tx:
        await app.after(HOUR, "greet", target=CRM, transaction=tx)


async def test_a_user_who_is_given_a_missing_target_is_refused_alone(app: Duly) -> None:
    user = await app.users.add(**a_user(key="ada"))
    with pytest.raises(Invalid, match="create it first"):
        await app.users.update(user.id, target=CRM)
    done = await app.users.import_([a_user(key="ada", target=CRM), a_user(key="bob"), a_user(key="eve", target=CRM)])
    assert (done.added, done.changed, done.refused) == (1, 0, 2)
    assert {str(problem) for bad in done.problems for problem in bad.problems} == {MISSING}
    await with_target(app)
    assert (await app.users.update(user.id, target=CRM)).target == CRM


@pytest.mark.parametrize("what", ["a timer", "a schedule", "a user", "a paused schedule"])
async def test_a_target_that_is_in_use_is_not_deleted_unless_by_force(app: Duly, clock: ManualClock, what: str) -> None:
    await with_target(app)
    await app.targets.put("crm", "https://crm.example/hook", tenant="acme")
    if what == "a timer":
        await app.after(HOUR, "greet", target=CRM)
    elif what == "a user":
        await app.users.add(**a_user(target=CRM))
    else:
        await app.every("daily", cron("0 9 * * *"), "greet", target=CRM)
        if what == "a paused schedule":
            await app.schedules.pause("daily")
    with pytest.raises(Conflict, match=r"target 'crm' is still needed for 1 event.* delete the target with force"):
        await app.targets.delete("crm")
    assert (await app.targets.delete("crm", tenant="acme")).name == "crm", "theirs is another one"
    assert (await app.targets.delete("crm", force=True)).name == "crm"


async def test_a_cancelled_event_does_not_keep_its_target_from_being_deleted(app: Duly) -> None:
    await with_target(app)
    event = await app.after(HOUR, "greet", target=CRM)
    assert await app.events.cancel(event.id) == "cancelled"
    assert (await app.targets.delete("crm")).name == "crm"
