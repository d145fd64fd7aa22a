"""An event says whose it is: to handlers, to receivers of webhooks, and to whoever reads it."""

import json
from datetime import timedelta
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from cloudevents.core.formats.json import JSONFormat

from duly import Duly, Event, every, to, webhook, yearly
from duly.channels.brokers.registry import write_message, write_task
from duly.records.event import EventUser
from duly.testing import ManualClock
from tests.api.greeting import planned
from tests.api.sending import OPTIONS, body
from tests.conftest import OpenDuly
from tests.make import HOUR, MINUTE, START, a_user
from tests.receivers.obedient import Obedient
from tests.stores.rows import spelled, write

BIRTHDAY = START.replace(month=3, day=15, hour=9)


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    return await duly(**OPTIONS)


async def seen_by_handlers(app: Duly, clock: ManualClock, *instants: Any) -> list[Event]:
    """The events that handlers get at these instants."""
    seen: list[Event] = []

    async def see(event: Event) -> None:
        seen.append(event)

    for type in ("birthday", "digest", "order.due"):
        app.on(type)(see)
    for instant in instants:
        clock.set(instant)
        await app.tick()
    return seen


async def test_a_handler_sees_the_user_also_in_the_years_after(app: Duly, clock: ManualClock) -> None:
    user = await app.users.add(**a_user(key="u7", timezone="UTC"))
    seen = await seen_by_handlers(app, clock, BIRTHDAY, BIRTHDAY.replace(year=2027), BIRTHDAY.replace(year=2029))
    assert [event.user for event in seen] == [EventUser(user.id, "u7")] * 3
    assert {(event.key, event.schedule) for event in seen} == {(None, None)}
    assert seen[-1].stands_for == 2, "and so does one that was decided about"


async def test_a_user_without_a_key_is_told_by_the_id_alone(app: Duly, clock: ManualClock) -> None:
    user = await app.users.add(**a_user(timezone="UTC"))
    [event] = await seen_by_handlers(app, clock, BIRTHDAY)
    assert event.user == EventUser(user.id, None)


async def test_a_handler_sees_the_schedule_or_the_key(app: Duly, clock: ManualClock) -> None:
    await app.schedules.put("hourly", every("1h"), "digest")
    await app.at(START + HOUR, "order.due", key="order-7")
    await app.schedules.trigger("hourly")
    seen = await seen_by_handlers(app, clock, START, START + HOUR, START + 5 * HOUR)
    whose = [(event.type, event.schedule, event.key, event.user) for event in seen]
    assert whose.count(("digest", "hourly", None, None)) == len(seen) - 1 >= 3
    assert whose.count(("order.due", None, "order-7", None)) == 1


async def test_another_key_reaches_the_planned_event(app: Duly, clock: ManualClock) -> None:
    user = await app.users.add(**a_user(key="u7", timezone="UTC"))
    before = await planned(app, user)
    await app.users.update(user.id, key="u8")
    after = await planned(app, user)
    assert (after.id, after.due, after.user) == (before.id, before.due, EventUser(user.id, "u8"))
    assert [entry.act for entry in await app.events.history(after.id)][-1] == "changed"
    await app.users.update(user.id, key=None)
    seen = await seen_by_handlers(app, clock, BIRTHDAY, BIRTHDAY.replace(year=2027))
    assert [event.user for event in seen] == [EventUser(user.id, None)] * 2


class Nameday:
    name = "nameday"
    depends_on = ("first_name",)

    def rule(self, user: Any, at: Any) -> Any:
        return yearly("05-20", at=at)

    def message(self, user: Any) -> str:
        return f"{user.first_name}'s nameday"

    def target(self, user: Any) -> Any:
        return None


async def test_another_key_reaches_events_of_types_that_are_unknown_here(app: Duly, duly: OpenDuly) -> None:
    other = await duly(**OPTIONS)
    other.event_types.register(Nameday())
    user = await other.users.add(**a_user(key="u7"))
    await app.users.update(user.id, key="u8")
    assert {event.type: event.user for event in await app.users.ahead(user.id)} == {
        "birthday": EventUser(user.id, "u8"),
        "nameday": EventUser(user.id, "u8"),
    }


async def test_an_import_that_finds_users_by_key_keeps_it(app: Duly) -> None:
    rows = [a_user(key=f"u{n}", first_name="Ada") for n in range(700)]  # more than are worth copying
    await app.users.import_(rows)
    await app.users.import_([row | {"first_name": "Grace"} for row in rows])
    events = await app.events.find(limit=1000)
    assert {event.user.key for event in events if event.user} == {f"u{n}" for n in range(700)}


async def test_events_of_a_deleted_user_still_say_whose_they_were(app: Duly) -> None:
    user = await app.users.add(**a_user(key="u7"))
    await app.users.delete(user.id)
    [event] = await app.events.find()
    assert event.user == EventUser(user.id, "u7")


# -- what receivers get


async def test_a_webhook_says_whose_it_is(app: Duly, clock: ManualClock, receiver: Obedient) -> None:
    user = await app.users.add(**a_user(key="u7", timezone="UTC", target=webhook(receiver.url("/user"))))
    await app.every("digest", every("1h"), "digest.send", target=webhook(receiver.url("/schedule")))
    await app.at(START, "order.due", key="order-7", target=webhook(receiver.url("/timer")))
    for instant in (START + HOUR, BIRTHDAY):
        clock.set(instant)
        await app.tick()
    told = {request.target: body(request)["event"] for request in receiver.requests}
    whose = {place: (one["key"], one["schedule"], one["user"]) for place, one in told.items()}
    assert whose == {
        "/user": (None, None, {"id": user.id, "key": "u7"}),
        "/schedule": (None, "digest", None),
        "/timer": ("order-7", None, None),
    }


async def test_the_subject_of_a_cloud_event_is_whom_it_is_about(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    def cloud(place: str) -> Any:
        return webhook(receiver.url(place), format="cloudevents")

    keyed = await app.users.add(**a_user(key="u7", timezone="UTC", target=cloud("/keyed")))
    keyless = await app.users.add(**a_user(timezone="UTC", target=cloud("/keyless")))
    await app.every("digest", every("1h"), "digest.send", target=cloud("/schedule"))
    await app.at(START, "order.due", key="order-7", target=cloud("/timer"))
    await app.at(START, "order.due", target=cloud("/nobody"))
    for instant in (START + HOUR, BIRTHDAY):
        clock.set(instant)
        await app.tick()
    read = {
        request.target: from_structured_event(
            HTTPMessage({"content-type": "application/cloudevents+json"}, request.body or b""), JSONFormat()
        )
        for request in receiver.requests
    }
    assert {place: one.get_subject() for place, one in read.items()} == {
        "/keyed": "u7",
        "/keyless": keyless.id,
        "/schedule": "digest",
        "/timer": "order-7",
        "/nobody": None,
    }
    assert {place: one.get_extension("schedule") for place, one in read.items() if one.get_extension("schedule")} == {
        "/schedule": "digest"
    }
    assert (read["/keyed"].get_extension("userid"), read["/keyed"].get_extension("userkey")) == (keyed.id, "u7")
    assert (read["/keyless"].get_extension("userid"), read["/keyless"].get_extension("userkey")) == (keyless.id, None)


async def test_messages_to_brokers_and_tasks_say_whose_they_are(app: Duly) -> None:
    user = await app.users.add(**a_user(key="u7", target=to.nats("greetings")))
    event = await planned(app, user)
    assert json.loads(write_message(event).body)["event"]["user"] == {"id": user.id, "key": "u7"}
    await app.users.update(user.id, target=to.celery("shop.greet"))
    task = write_task(await planned(app, user))
    assert {name: value for name, value in task.headers.items() if "user" in name} == {
        "duly_user_id": user.id,
        "duly_user_key": "u7",
    }
    timer = write_task(await app.at(START, "order.due", key="order-7", target=to.celery("shop.remind")))
    assert timer.headers["duly_key"] == "order-7"
    schedule = await app.every("digest", every("1h"), "digest.send", target=to.celery("shop.digest"))
    [head] = [event for event in await app.events.find() if event.series == schedule.series]
    assert write_task(head).headers["duly_schedule"] == "digest"


# -- while processes of the version before still run


async def test_a_head_that_the_version_before_has_planted_gets_the_name_of_its_schedule(
    app: Duly, clock: ManualClock
) -> None:
    await app.schedules.put("hourly", every("1h"), "digest")
    await write(app.store, spelled(app.store, "UPDATE duly.events SET owner = NULL"))
    seen = await seen_by_handlers(app, clock, START + HOUR, START + 2 * HOUR + MINUTE)
    assert [event.schedule for event in seen] == [None, "hourly"]
    assert timedelta() <= clock.now() - seen[1].due <= MINUTE
