"""What people want users' events for, played over HTTP from the first request to the message that arrives."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from duly.testing import ManualClock
from tests.api.greeting import at
from tests.api.sending import OPTIONS, body
from tests.claiming import claimed_by_a_worker
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller, paths
from tests.http.test_events import all_of
from tests.make import DAY, HOUR, MINUTE, SECOND, a_user, completed
from tests.receivers.asked import Request
from tests.receivers.obedient import Answer, Obedient

ZONES = {
    "Pacific/Auckland": "2026-03-14T20:00:00Z",
    "Asia/Tokyo": "2026-03-15T00:00:00Z",
    "Asia/Kathmandu": "2026-03-15T03:15:00Z",
    "Europe/London": "2026-03-15T09:00:00Z",
    "America/New_York": "2026-03-15T13:00:00Z",
    "Pacific/Honolulu": "2026-03-15T19:00:00Z",
}
"""When it is nine o'clock there on 15 March 2026. New York has put its clocks forward by then, and London has not."""


@pytest.fixture
async def http(duly: OpenDuly, calling: OpenCaller) -> Caller:
    """An API whose messages may go to this machine."""
    return await calling(await duly(**OPTIONS))


async def add(http: Caller, receiver: Obedient, **fields: Any) -> dict[str, Any]:
    said = a_user(**({"timezone": "UTC", "target": {"webhook": receiver.url()}} | fields))
    user: dict[str, Any] = await http.post("/v1/users", said)
    return user


async def move_to(http: Caller, clock: ManualClock, instant: datetime) -> None:
    clock.set(instant)
    await http.app.tick()


async def events_of(http: Caller, user: dict[str, Any], status: str | None = None) -> list[dict[str, Any]]:
    """The oldest first."""
    found = await all_of(http, {"user_id": user["id"]} | ({"status": status} if status else {}))
    return found[::-1]


async def ahead(http: Caller, user: dict[str, Any]) -> dict[str, Any]:
    [head] = await events_of(http, user, "PENDING")
    return head


def messages(receiver: Obedient) -> list[str]:
    return [body(request)["data"]["message"] for request in receiver.requests]


# -- nine o'clock, wherever somebody lives


async def test_users_in_six_zones_are_greeted_at_nine_their_time(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    for zone in ZONES:
        await add(http, receiver, timezone=zone, first_name=zone.partition("/")[2])
    for number, (zone, due) in enumerate(ZONES.items()):
        instant = datetime.fromisoformat(due)
        await move_to(http, clock, instant - SECOND)
        assert len(receiver.requests) == number, f"never early in {zone}"
        await move_to(http, clock, instant)
        city = zone.partition("/")[2]
        assert messages(receiver)[number:] == [f"Hey, {city} Lovelace it's your birthday"]
    found = await all_of(http, {"status": "COMPLETED"})
    assert {event["timezone"]: event["due_at"] for event in found} == ZONES
    assert {event["local_at"] for event in found} == {"2026-03-15T09:00:00"}


async def test_the_message_arrives_as_agreed(http: Caller, clock: ManualClock, receiver: Obedient) -> None:
    user = await add(http, receiver)
    event = await ahead(http, user)
    assert (event["status"], event["version"], event["attempts"]) == ("PENDING", 1, 0)
    await move_to(http, clock, at("2026-03-15 09:00") + 27 * SECOND)
    [request] = receiver.requests
    sent = body(request)
    assert (sent["type"], sent["data"]) == ("birthday", {"message": "Hey, Ada Lovelace it's your birthday"})
    assert (sent["event"]["id"], sent["event"]["attempt"]) == (event["id"], 1)
    assert request.header("webhook-id") == request.header("idempotency-key") == event["id"]
    done = await http.get(f"/v1/events/{event['id']}")
    assert (done["status"], done["executed_at"]) == ("COMPLETED", "2026-03-15T09:00:27Z")
    assert (done["lateness_seconds"], done["attempts"], done["last_error"]) == (27.0, 1, None)
    assert [entry["act"] for entry in done["history"]][-1] == "delivered"


async def test_who_moves_from_new_york_to_los_angeles_is_greeted_at_nine_there_once(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    user = await add(http, receiver, timezone="America/New_York")
    await http.put(f"/v1/users/{user['id']}", {"timezone": "America/Los_Angeles"})
    assert (await ahead(http, user))["due_at"] == "2026-03-15T16:00:00Z", "not 14:00"
    await move_to(http, clock, at("2026-03-15 13:00"))
    assert receiver.requests == []
    await move_to(http, clock, at("2026-03-15 16:00"))
    assert len(receiver.requests) == 1
    await http.put(f"/v1/users/{user['id']}", {"timezone": "Pacific/Honolulu"})
    await move_to(http, clock, at("2026-03-15 19:00"))
    assert len(receiver.requests) == 1, "who has been greeted today is not greeted again further west"
    assert (await ahead(http, user))["due_at"] == "2027-03-15T19:00:00Z"


async def test_a_birthday_that_changes_moves_its_event(http: Caller, clock: ManualClock, receiver: Obedient) -> None:
    user = await add(http, receiver)
    before = await ahead(http, user)
    await http.put(f"/v1/users/{user['id']}", {"date_of_birth": "1990-04-01"})
    after = await ahead(http, user)
    assert (after["due_at"], len(await events_of(http, user))) == ("2026-04-01T09:00:00Z", 1)
    assert after["id"] == before["id"]
    await move_to(http, clock, at("2026-03-15 09:00"))
    assert receiver.requests == []
    await move_to(http, clock, at("2026-04-01 09:00"))
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("leap", "days"),
    [(None, ["2026-02-28", "2027-02-28", "2028-02-29"]), ("mar1", ["2026-03-01", "2027-03-01", "2028-02-29"]),
     ("skip", ["2028-02-29", "2032-02-29"])],
)  # fmt: skip
async def test_who_is_born_on_29_february_is_greeted_every_year_as_they_like(
    http: Caller, clock: ManualClock, receiver: Obedient, leap: str | None, days: list[str]
) -> None:
    user = await add(http, receiver, date_of_birth="2000-02-29", leap=leap)
    for day in days:
        assert (await ahead(http, user))["due_at"] == f"{day}T09:00:00Z"
        await move_to(http, clock, at(f"{day} 09:00"))
    assert len(receiver.requests) == len(days)


async def test_a_birthday_at_exactly_nine_now_belongs_to_next_year(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    clock.set(at("2026-03-15 09:00"))
    assert (await ahead(http, await add(http, receiver)))["due_at"] == "2027-03-15T09:00:00Z"
    clock.set(at("2026-03-15 08:59"))
    assert (await ahead(http, await add(http, receiver)))["due_at"] == "2026-03-15T09:00:00Z"


async def test_next_years_event_exists_and_arrives(http: Caller, clock: ManualClock, receiver: Obedient) -> None:
    user = await add(http, receiver, timezone="America/New_York")
    for year in range(2026, 2029):
        await move_to(http, clock, at(f"{year}-03-15 13:00"))
        following = await ahead(http, user)
        assert (following["due_at"], following["target"]) == (f"{year + 1}-03-15T13:00:00Z", user["target"])
    assert [event["occurrence"] for event in await events_of(http, user, "COMPLETED")] == [
        "2026-03-15", "2027-03-15", "2028-03-15",
    ]  # fmt: skip
    assert len(set(receiver.ids)) == 3


async def test_an_anniversary_is_one_more_event_and_a_new_kind_of_event_needs_no_other_change(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    user = await add(http, receiver, anniversary="2020-06-01")
    types = {one["name"] for one in (await http.get("/v1/event-types"))["event_types"]}
    assert {"birthday", "anniversary", "reminder", "subscription"} <= types
    await move_to(http, clock, at("2026-06-01 09:00"))
    assert [body(request)["type"] for request in receiver.requests] == ["birthday", "anniversary"]
    assert {event["type"]: event["due_at"] for event in await events_of(http, user, "PENDING")} == {
        "birthday": "2027-03-15T09:00:00Z",
        "anniversary": "2027-06-01T09:00:00Z",
    }


async def test_who_is_deleted_before_the_birthday_is_not_greeted(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    user, other = await add(http, receiver), await add(http, receiver, first_name="Bob")
    await http.delete(f"/v1/users/{user['id']}")
    await move_to(http, clock, at("2026-03-15 09:00"))
    assert messages(receiver) == ["Hey, Bob Lovelace it's your birthday"]
    assert [event["status"] for event in await events_of(http, user)] == ["CANCELLED"]
    assert len(await events_of(http, other)) == 2


async def test_who_is_deleted_while_the_message_is_on_its_way_has_no_next_year(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    user = await add(http, receiver)

    async def delete() -> None:
        await http.delete(f"/v1/users/{user['id']}")

    receiver.pause = delete
    await move_to(http, clock, at("2026-03-15 09:00"))
    assert [event["status"] for event in await events_of(http, user)] == ["COMPLETED", "CANCELLED"]
    await move_to(http, clock, at("2027-03-15 09:00"))
    assert len(receiver.requests) == 1


async def test_a_date_of_birth_that_nobody_can_have_is_refused(http: Caller, receiver: Obedient) -> None:
    for fields in ({"timezone": "Mars/Olympus"}, {"date_of_birth": "2026-02-30"}, {"date_of_birth": "2999-01-01"}):
        assert paths(await http("POST", "/v1/users", a_user(**fields))) == list(fields)
    assert await all_of(http) == []


# -- down, and back


@pytest.mark.parametrize("down", [5 * MINUTE, 2 * HOUR, DAY, 7 * DAY], ids=str)
async def test_messages_missed_while_the_service_was_down_are_sent_once_the_oldest_first(
    duly: OpenDuly, calling: OpenCaller, http: Caller, clock: ManualClock, receiver: Obedient, down: Any
) -> None:
    times = ["09:00", "09:02", "09:03", "10:30", "20:00"]
    for time in times:
        await add(http, receiver, delivery_time=time, first_name=time)
    up_again = at("2026-03-15 09:00") + down
    missed = [time for time in times if at(f"2026-03-15 {time}") <= up_again]
    clock.set(up_again)
    restarted = await calling(await duly(concurrency=1, **OPTIONS))
    await restarted.app.tick()
    assert messages(receiver) == [f"Hey, {time} Lovelace it's your birthday" for time in missed]
    for _ in range(3):
        await restarted.app.tick()
        await http.app.tick()
    assert len(receiver.requests) == len(missed), "and none twice"
    late = await all_of(restarted, {"late_by": "1h"})
    assert len(late) == len([time for time in missed if up_again - at(f"2026-03-15 {time}") > HOUR])
    await move_to(restarted, clock, max(up_again, at("2026-03-15 20:00")))
    assert len(set(receiver.ids)) == len(receiver.ids) == 5, "the others on time"


async def test_a_hundred_messages_missed_in_a_day_are_all_sent_after_it(
    duly: OpenDuly, calling: OpenCaller, clock: ManualClock, receiver: Obedient
) -> None:
    http = await calling(await duly(batch_size=7, **OPTIONS))
    target = {"webhook": receiver.url()}
    people = [
        a_user(key=f"k{n}", target=target, timezone=list(ZONES)[n % 6], delivery_time=f"{n % 24:02}:{n % 60:02}")
        for n in range(100)
    ]
    assert (await http.post("/v1/users/import", {"users": people}))["added"] == 100
    await move_to(http, clock, at("2026-03-17 12:00"))
    assert len(receiver.ids) == len(set(receiver.ids)) == 100
    done = await all_of(http, {"status": "COMPLETED"}, limit=30)
    assert len({event["user_id"] for event in done}) == 100
    following = await all_of(http, {"status": "PENDING"})
    assert {event["occurrence"] for event in following} == {"2027-03-15"}
    assert len(following) == 100


async def test_a_crash_in_the_middle_sends_only_what_was_not_finished(
    duly: OpenDuly, http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    users = [await add(http, receiver, first_name=name) for name in "ABCDE"]
    crashed = await duly(**OPTIONS)
    clock.set(at("2026-03-15 09:00"))
    claimed = await claimed_by_a_worker(crashed, {"webhook": 10}, "gone")
    await crashed.store.settle([completed(event) for event in claimed[:2]], "gone")  # and here the lights go out
    processing = await all_of(http, {"status": "PROCESSING"})
    assert len(processing) == 3
    await http.app.tick()
    assert receiver.requests == [], "they are leased"
    clock.advance(5 * MINUTE)
    await http.app.tick()
    assert sorted(map(str, receiver.ids)) == sorted(event["id"] for event in processing)
    assert {(await http.get(f"/v1/events/{id}"))["interruptions"] for id in map(str, receiver.ids)} == {1}
    assert len(await all_of(http, {"status": "COMPLETED"})) == len(users)


async def test_many_schedulers_at_once_send_each_message_once(
    duly: OpenDuly, http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    people = [a_user(key=f"k{n}", timezone="UTC", target={"webhook": receiver.url()}) for n in range(30)]
    await http.post("/v1/users/import", {"users": people})
    schedulers = [http.app, await duly(batch_size=5, **OPTIONS), await duly(batch_size=5, **OPTIONS)]
    clock.set(at("2026-03-15 09:00"))
    await asyncio.gather(*(one.tick() for one in schedulers))
    assert len(receiver.ids) == len(set(receiver.ids)) == 30
    assert {event["version"] for event in await all_of(http, {"status": "COMPLETED"})} == {2}


# -- receivers that fail


async def test_a_receiver_that_answers_500_is_tried_again_under_the_same_id(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    user = await add(http, receiver)
    event = await ahead(http, user)
    receiver.answer = Answer(500)
    await move_to(http, clock, at("2026-03-15 09:00"))
    waiting = await http.get(f"/v1/events/{event['id']}")
    assert (waiting["status"], waiting["attempts"], "500" in waiting["last_error"]) == ("PENDING", 1, True)
    assert waiting["due_at"] == "2026-03-15T09:00:00Z" < waiting["ready_at"], "what was promised stays"
    assert len(await events_of(http, user, "PENDING")) == 2, "and next year's is planned all the same"
    receiver.answer = Answer()
    await move_to(http, clock, at("2026-03-15 09:05"))
    done = await http.get(f"/v1/events/{event['id']}")
    assert (done["status"], done["attempts"]) == ("COMPLETED", 2)
    assert receiver.ids == [event["id"]] * 2
    assert [entry["act"] for entry in done["history"]][-2:] == ["failed", "delivered"]


async def test_a_message_that_keeps_failing_becomes_a_dead_letter_that_can_be_replayed(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    receiver.answer = Answer(503)
    user = await add(http, receiver)
    event = await ahead(http, user)
    clock.set(at("2026-03-15 09:00"))
    for _ in range(6):
        await http.app.tick()
        clock.advance(HOUR)
    dead = await http.get(f"/v1/events/{event['id']}")
    assert (dead["status"], dead["attempts"], len(receiver.requests)) == ("FAILED", 3, 3)
    assert (await http.get("/v1/dead-letters?type=birthday"))["dead_letters"] == 1
    receiver.answer = Answer()
    assert (await http.post("/v1/events/replay", {"filter": {"user_id": user["id"]}}))["replayed"] == 1
    await http.app.tick()
    assert (await http.get(f"/v1/events/{event['id']}"))["status"] == "COMPLETED"
    assert set(receiver.ids) == {event["id"]}


async def test_one_receiver_that_fails_does_not_stop_the_others(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    def answer(request: Request) -> Answer:
        return Answer(400 if request.path == "/bad" else 200)

    receiver.answer = answer
    users = [
        await add(http, receiver, target={"webhook": receiver.url("/bad" if n == 2 else "/good")}) for n in range(5)
    ]
    await move_to(http, clock, at("2026-03-15 09:00"))
    statuses = [(await events_of(http, user))[0]["status"] for user in users]
    assert statuses == ["COMPLETED", "COMPLETED", "FAILED", "COMPLETED", "COMPLETED"]
    assert [len(await events_of(http, user, "PENDING")) for user in users] == [1] * 5


async def test_overdue_events_can_be_found_by_kind(http: Caller, clock: ManualClock, receiver: Obedient) -> None:
    user = await add(http, receiver, anniversary="2020-03-15")
    clock.set(at("2026-03-16 09:01"))
    overdue = {"status": "PENDING", "due_to": "2026-03-15T09:01:00Z"}
    assert len(await all_of(http, overdue)) == 2
    assert [event["user_id"] for event in await all_of(http, overdue | {"type": "birthday"})] == [user["id"]]
    assert await all_of(http, overdue | {"type": "subscription"}) == []
