"""Every verb that makes something ready wakes the workers that sleep, wherever it is called."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from duly import Duly, Event, Retry, Timer, cron, every, webhook
from duly.testing import ManualClock, Recorder
from tests.api.test_replan import NewLaw, new_law
from tests.conftest import OpenDuly
from tests.dead_letters import dead
from tests.make import DAY, HOUR, SECOND, START, a_user
from tests.worker.running_worker import Watched, until, working

__all__ = ["new_law"]

NAME = "digest"
SOON = datetime(2026, 3, 15, 8, 59, 58, tzinfo=UTC)
"""Two seconds before users in UTC are greeted whose birthday it is."""

Act = Callable[[Duly, Any], Awaitable[Any]]


class Verb(NamedTuple):
    name: str
    before: Callable[[Duly], Awaitable[Any]]  # what the verb is for: an id, for most
    act: Act
    at: datetime = START


# -- what there is before


async def nothing(_: Duly) -> None: ...


async def in_an_hour(duly: Duly) -> str:
    return (await duly.at(START + HOUR, "greet", key="one")).id


async def a_dead_letter(duly: Duly) -> str:
    [id] = await dead(duly.store, due=START)
    return id


async def a_schedule(duly: Duly) -> str:
    return (await duly.every(NAME, every("1d", start=START - 3 * DAY + HOUR), "greet")).name


async def a_paused_schedule(duly: Duly) -> str:
    await duly.every(NAME, every("1s", start=START - 5 * SECOND), "greet")
    return (await duly.schedules.pause(NAME)).name


async def one_that_keeps_another_waiting(duly: Duly) -> str:
    await duly.every(NAME, every("1d"), "fail", max_concurrent=1, retry=Retry(base=HOUR, max=DAY))
    first = await duly.schedules.trigger(NAME)
    await duly.tick()  # it failed, and is tried again in an hour
    await duly.schedules.trigger(NAME)
    return first.id


async def a_disabled_target(duly: Duly) -> str:
    await duly.targets.put("crm", "https://crm.example/in")
    await duly.targets.disable("crm")
    await duly.at(START, "greet", target=webhook(target="crm"))
    await duly.tick()  # which finds it disabled, and holds the event
    return "crm"


async def a_user_without_a_birthday_today(duly: Duly) -> str:
    return (await duly.users.add(**a_user(date_of_birth="1990-07-10", timezone="UTC", key="ada"))).id


VERBS = [
    Verb("at", nothing, lambda duly, _: duly.at(START, "greet")),
    Verb("put", in_an_hour, lambda duly, _: duly.put(START, "greet", key="one")),
    Verb("add_many", nothing, lambda duly, _: duly.add_many(Timer(START, "greet") for _ in range(3))),
    Verb("events.reschedule", in_an_hour, lambda duly, id: duly.events.reschedule(id, START)),
    Verb("events.replay", a_dead_letter, lambda duly, id: duly.events.replay(id)),
    Verb("events.replay_all", a_dead_letter, lambda duly, _: duly.events.replay_all()),
    Verb("events.cancel", one_that_keeps_another_waiting, lambda duly, id: duly.events.cancel(id)),
    Verb("schedules.put", nothing, lambda duly, _: duly.schedules.put(NAME, every("1s"), "greet")),
    Verb("schedules.put, again", a_schedule, lambda duly, name: duly.schedules.put(name, every("1s"), "greet")),
    Verb("schedules.resume", a_paused_schedule, lambda duly, name: duly.schedules.resume(name)),
    Verb("schedules.reschedule", a_schedule, lambda duly, name: duly.schedules.reschedule(name, START)),
    Verb("schedules.trigger", a_schedule, lambda duly, name: duly.schedules.trigger(name)),
    Verb("schedules.backfill", a_schedule, lambda duly, name: duly.schedules.backfill(name, START - 3 * DAY, START)),
    Verb("targets.enable", a_disabled_target, lambda duly, name: duly.targets.enable(name)),
    Verb("targets.delete", a_disabled_target, lambda duly, name: duly.targets.delete(name, force=True)),
    Verb("users.add", nothing, lambda duly, _: duly.users.add(**a_user(timezone="UTC")), SOON),
    Verb(
        "users.update",
        a_user_without_a_birthday_today,
        lambda duly, id: duly.users.update(id, date_of_birth="1990-03-15"),
        SOON,
    ),
    Verb("users.import_", nothing, lambda duly, _: duly.users.import_([a_user(timezone="UTC")]), SOON),
]


async def asleep(watched: Watched) -> int:
    """How often it has slept, once it sleeps for long."""
    await until(lambda: watched.asleep and watched.asleep > 60, "it sleeps")
    return len(watched.sleeps)


@pytest.fixture
async def sleeper(duly: OpenDuly) -> Duly:
    """A worker's, that by itself looks again in an hour."""
    app = await duly(poll_interval="1h", lease="1d", secret_key="k" * 40, channels={"webhook": Recorder()})

    @app.on("greet")
    async def greet(event: Event) -> None: ...

    @app.on("birthday")
    async def congratulate(event: Event) -> None: ...

    @app.on("fail")
    async def fail(event: Event) -> None:
        raise ConnectionError("not today")

    return app


async def woken(sleeper: Duly, caller: Duly, act: Act, subject: Any) -> None:
    watched = Watched(sleeper)
    async with working(sleeper):
        slept = await asleep(watched)
        await act(caller, subject)
        await until(lambda: len(watched.sleeps) > slept, "it is woken, an hour before it would look by itself")


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
async def test_a_verb_that_is_called_elsewhere_wakes_a_worker(
    duly: OpenDuly, sleeper: Duly, clock: ManualClock, verb: Verb
) -> None:
    clock.set(verb.at)
    caller = await duly(secret_key="k" * 40)
    await woken(sleeper, caller, verb.act, await verb.before(sleeper))


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)  # which has a way of its own to tell its own worker
async def test_a_verb_that_is_called_beside_a_worker_wakes_it(sleeper: Duly, clock: ManualClock, verb: Verb) -> None:
    clock.set(verb.at)
    await woken(sleeper, sleeper, verb.act, await verb.before(sleeper))


async def test_a_refresh_of_users_wakes_a_worker(duly: OpenDuly, sleeper: Duly, clock: ManualClock) -> None:
    clock.set(SOON - HOUR)
    await sleeper.users.add(**a_user(timezone="UTC"))  # who is written to at 9:00, and then at 8:00
    caller = await duly(delivery_time="08:00")
    await woken(sleeper, caller, lambda caller, _: caller.users.refresh(), None)


async def test_a_replan_wakes_a_worker(duly: OpenDuly, sleeper: Duly, clock: ManualClock, new_law: NewLaw) -> None:
    clock.set(datetime(2026, 1, 1, 6, 59, 58, tzinfo=UTC))
    await sleeper.every(NAME, cron("0 9 * * *", timezone="Europe/Brussels"), "greet")  # at 8:00, and then at 7:00
    caller = await duly()

    async def replan(caller: Duly, _: None) -> None:
        new_law(Brussels="Europe/Athens")
        assert await caller.schedules.replan()

    await woken(sleeper, caller, replan, None)
