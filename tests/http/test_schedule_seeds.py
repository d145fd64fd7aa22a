"""What people want schedules for, played over HTTP: seen, paused, triggered, moved, and fired once by many workers."""

import asyncio

import pytest

from duly.testing import ManualClock
from tests.api.sending import OPTIONS
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller
from tests.http.test_events import all_of
from tests.make import HOUR, MINUTE
from tests.receivers.obedient import Obedient

NAME = "email_digest_hourly"


@pytest.fixture
async def http(duly: OpenDuly, calling: OpenCaller) -> Caller:
    """An API whose messages may go to this machine."""
    return await calling(await duly(**OPTIONS))


async def put_digest(http: Caller, receiver: Obedient) -> None:
    said = {"type": "digest", "rule": {"cron": "@hourly"}, "target": {"webhook": receiver.url()}}
    await http.put(f"/v1/schedules/{NAME}", said)


async def test_all_schedules_are_seen_with_when_they_fire(http: Caller, clock: ManualClock, receiver: Obedient) -> None:
    await put_digest(http, receiver)
    await http.put("/v1/schedules/nightly", {"type": "cleanup", "rule": {"cron": "0 3 * * *"}, "enabled": False})
    clock.advance(HOUR)
    await http.app.tick()
    shown = (await http.get("/v1/schedules"))["schedules"]
    assert [(one["name"], one["type"], one["rule"], one["enabled"]) for one in shown] == [
        (NAME, "digest", {"cron": "0 * * * *"}, True),
        ("nightly", "cleanup", {"cron": "0 3 * * *"}, False),
    ]
    assert [(one["next_at"], one["last_at"]) for one in shown] == [
        ("2026-01-01T02:00:00Z", "2026-01-01T01:00:00Z"),
        ("2026-01-01T03:00:00Z", None),
    ]


async def test_a_trigger_runs_at_once_and_the_next_run_stays(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    await put_digest(http, receiver)
    clock.advance(10 * MINUTE)
    event = await http.post(f"/v1/schedules/{NAME}/trigger")
    await http.app.tick()
    assert receiver.ids == [event["id"]]
    assert (await http.get(f"/v1/schedules/{NAME}"))["next_at"] == "2026-01-01T01:00:00Z"
    clock.set(clock.now() + 50 * MINUTE)
    await http.app.tick()
    assert len(receiver.requests) == 2


async def test_the_next_run_can_be_put_off_by_half_an_hour(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    await put_digest(http, receiver)
    moved = await http.post(f"/v1/schedules/{NAME}/reschedule", {"due_at": "2026-01-01T01:30:00Z"})
    assert moved["next_at"] == "2026-01-01T01:30:00Z"
    clock.advance(HOUR)
    await http.app.tick()
    assert receiver.requests == []
    clock.advance(30 * MINUTE)
    await http.app.tick()
    assert len(receiver.requests) == 1
    assert (await http.get(f"/v1/schedules/{NAME}"))["next_at"] == "2026-01-01T02:00:00Z", "the rule goes on"


async def test_a_paused_schedule_does_not_run_until_it_is_enabled(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    await put_digest(http, receiver)
    await http.patch(f"/v1/schedules/{NAME}", {"enabled": False})
    clock.advance(3 * HOUR)
    await http.app.tick()
    assert receiver.requests == []
    await http.patch(f"/v1/schedules/{NAME}", {"enabled": True})
    await http.app.tick()
    assert receiver.requests == [], "a pause is not a misfire"
    clock.advance(HOUR)
    await http.app.tick()
    assert len(receiver.requests) == 1


async def test_an_edited_schedule_fires_by_its_new_rule_without_a_restart(
    http: Caller, duly: OpenDuly, clock: ManualClock, receiver: Obedient
) -> None:
    worker = await duly(**OPTIONS)
    await put_digest(http, receiver)
    await http.patch(f"/v1/schedules/{NAME}", {"rule": {"cron": "*/10 * * * *"}})
    for _ in range(3):
        clock.advance(10 * MINUTE)
        await worker.tick()
    assert len(receiver.requests) == 3


async def test_the_runs_of_a_schedule_are_its_history(http: Caller, clock: ManualClock, receiver: Obedient) -> None:
    await put_digest(http, receiver)
    for _ in range(3):
        clock.advance(HOUR)
        await http.app.tick()
    runs = await all_of(http, {"schedule": NAME, "status": "COMPLETED"})
    assert [run["due_at"][11:16] for run in runs] == ["03:00", "02:00", "01:00"]
    assert {run["schedule"] for run in runs} == {NAME}


async def test_many_workers_fire_each_run_once(
    http: Caller, duly: OpenDuly, clock: ManualClock, receiver: Obedient
) -> None:
    workers = [http.app, await duly(**OPTIONS), await duly(**OPTIONS)]
    await put_digest(http, receiver)
    for _ in range(3):
        clock.advance(HOUR)
        await asyncio.gather(*(worker.tick() for worker in workers))
    assert len(receiver.ids) == len(set(receiver.ids)) == 3


async def test_missed_runs_are_caught_up_as_the_schedule_says(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    for policy in ("latest", "all", "skip"):
        said = {"type": "digest", "rule": {"cron": "@hourly"}, "target": {"webhook": receiver.url(f"/{policy}")}}
        await http.put(f"/v1/schedules/{policy}", said | {"misfire": {"policy": policy}})
    clock.advance(5 * HOUR + MINUTE)
    for _ in range(3):
        await http.app.tick()
    fired = [request.path for request in receiver.requests]
    assert {policy: fired.count(f"/{policy}") for policy in ("latest", "all", "skip")} == {
        "latest": 1,
        "all": 5,
        "skip": 0,
    }


async def test_a_shadow_tells_what_would_have_fired_and_sends_nothing(
    http: Caller, clock: ManualClock, receiver: Obedient
) -> None:
    await put_digest(http, receiver)
    await http.patch(f"/v1/schedules/{NAME}", {"mode": "shadow"})
    clock.advance(HOUR)
    await http.app.tick()
    assert receiver.requests == []
    [would] = await all_of(http, {"schedule": NAME, "status": "SKIPPED"})
    assert "would have fired" in (await http.get(f"/v1/events/{would['id']}"))["history"][-1]["detail"]
