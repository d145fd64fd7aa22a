"""What is stored tells whether it came over HTTP: of events, schedules, users' targets and stored targets."""

from datetime import timedelta
from typing import Any

from duly import Duly, Event, Timer, cron, every, webhook
from duly.decide.targets.origin import OVER_HTTP
from duly.testing import ManualClock
from tests.http.calling import Caller
from tests.make import START, a_user

HOOK = webhook("https://hooks.example/in")
OTHER = webhook("https://hooks.example/other")
DUE = "2030-01-01T00:00:00Z"
EVERY_HOUR = {"every": "1h"}


async def via(app: Duly, key: str) -> str | None:
    return (await app.events.by_key(key)).via


async def head_of(app: Duly, name: str) -> Event:
    [head] = [
        one for one in await app.events.find() if one.head and one.schedule_id == (await app.schedules.get(name)).id
    ]
    return head


async def test_a_timer_tells_whether_it_came_over_http(http: Caller) -> None:
    await http.put("/v1/timers/theirs", {"type": "x", "due_at": DUE})
    await http.post(
        "/v1/timers", {"timers": [{"key": "many", "type": "x", "due_at": DUE}, {"type": "y", "due_at": DUE}]}
    )
    await http.app.at(START, "x", key="ours")
    assert [await via(http.app, key) for key in ("theirs", "many", "ours")] == [OVER_HTTP, OVER_HTTP, None]
    [keyless] = [event for event in await http.app.events.find() if event.type == "y"]
    assert keyless.via == OVER_HTTP


async def test_a_timer_tells_how_it_was_last_put(http: Caller) -> None:
    await http.app.at(START, "x", key="k", target=HOOK)
    await http.put("/v1/timers/k", {"type": "x", "due_at": DUE, "target": HOOK})
    assert await via(http.app, "k") == OVER_HTTP
    again = await http.app.put((await http.app.events.by_key("k")).due, "x", key="k", target=HOOK)
    assert (await via(http.app, "k"), again.change) == (None, "moved")
    history = await http.app.events.history(again.event.id)
    assert [entry.act for entry in history] == ["moved"]  # only its time was ever changed


async def test_timers_added_in_bulk_by_code_did_not_come_over_http(app: Duly) -> None:
    await app.add_many([Timer(START, "x") for _ in range(300)])
    assert {event.via for event in await app.events.find(limit=300)} == {None}


async def test_a_worker_knows_of_a_claimed_event_whether_it_came_over_http(http: Caller, clock: ManualClock) -> None:
    seen: dict[str | None, str | None] = {}

    @http.app.on("x")
    async def x(event: Event) -> None:
        seen[event.key or event.schedule_id] = event.via

    await http.put("/v1/timers/theirs", {"type": "x", "due_at": "2020-01-01T00:00:00Z"})
    await http.app.at(START - timedelta(days=1), "x", key="ours")
    await http.put("/v1/schedules/hourly", {"type": "x", "rule": EVERY_HOUR})
    clock.advance(timedelta(hours=1))
    await http.app.tick()
    schedule = await http.app.schedules.get("hourly")
    assert seen == {"theirs": OVER_HTTP, "ours": None, schedule.id: OVER_HTTP}
    assert (await head_of(http.app, "hourly")).via == OVER_HTTP  # its successor


async def test_a_schedule_and_its_events_tell_that_they_came_over_http(http: Caller, clock: ManualClock) -> None:
    app = http.app
    await http.put("/v1/schedules/hourly", {"type": "x", "rule": EVERY_HOUR, "target": HOOK})
    clock.advance(timedelta(hours=3))
    await http.post("/v1/schedules/hourly/trigger")
    filled = {"from": (START + timedelta(hours=1)).isoformat(), "to": (START + timedelta(hours=3)).isoformat()}
    await http.post("/v1/schedules/hourly/backfill", filled)
    events = await app.events.find()
    assert len(events) == 4
    assert {event.via for event in events} == {OVER_HTTP}


async def test_a_schedule_of_code_counts_as_http_once_it_is_edited_over_http(http: Caller) -> None:
    app = http.app
    for name in ("put", "patched", "paused"):
        await app.schedules.put(name, every("1h"), "x", target=HOOK)
        assert ((await app.schedules.get(name)).via, (await head_of(app, name)).via) == (None, None)
    await http.put("/v1/schedules/put", {"type": "x", "rule": EVERY_HOUR, "target": HOOK})
    await http.patch("/v1/schedules/patched", {"payload": 7})
    await http.post("/v1/schedules/paused/pause")
    await http.post("/v1/schedules/paused/trigger", {"payload": 7})
    for name, expected in {"put": OVER_HTTP, "patched": OVER_HTTP, "paused": None}.items():
        assert ((await app.schedules.get(name)).via, (await head_of(app, name)).via) == (expected, expected)
    assert (await app.schedules.history("put"))[-1].detail == "put over HTTP"


async def test_a_schedule_of_http_counts_as_codes_once_code_puts_it_again(http: Caller) -> None:
    await http.put("/v1/schedules/hourly", {"type": "x", "rule": {"cron": "0 * * * *"}, "target": HOOK})
    await http.app.schedules.put("hourly", cron("0 * * * *"), "x", target=HOOK)
    stored, head = await http.app.schedules.get("hourly"), await head_of(http.app, "hourly")
    assert (stored.via, head.via) == (None, None)


async def ahead(app: Duly, user: Any) -> set[str | None]:
    planned = await app.users.ahead(user if isinstance(user, str) else user["id"])
    assert planned
    return {head.via for head in planned}


async def test_a_user_tells_whether_their_target_came_over_http(http: Caller) -> None:
    app = http.app
    user = await http.post("/v1/users", a_user(target=HOOK))
    assert ((await app.users.get(user["id"])).via, await ahead(app, user)) == (OVER_HTTP, {OVER_HTTP})
    await app.users.update(user["id"], first_name="Augusta")
    assert await ahead(app, user) == {OVER_HTTP}  # their target is still what a request has said
    await app.users.update(user["id"], target=HOOK)
    assert ((await app.users.get(user["id"])).via, await ahead(app, user)) == (None, {None})
    await http.put(f"/v1/users/{user['id']}", {"first_name": "Ada"})
    assert await ahead(app, user) == {None}
    await http.put(f"/v1/users/{user['id']}", {"target": OTHER})
    assert await ahead(app, user) == {OVER_HTTP}
    await http.put(f"/v1/users/{user['id']}", {"target": None})
    assert ((await app.users.get(user["id"])).via, await ahead(app, user)) == (None, {None})


async def test_imported_users_tell_whether_their_target_came_over_http(http: Caller) -> None:
    app = http.app
    rows = [a_user(key="theirs", target=HOOK), a_user(key="of nobody")]
    await http.post("/v1/users/import", {"users": rows})
    await app.users.import_([a_user(key=f"ours {n}", target=HOOK) for n in range(300)])
    expected = {"theirs": OVER_HTTP, "of nobody": None, "ours 7": None}
    for key, how in expected.items():
        user = await app.users.by_key(key)
        assert (user.via, await ahead(app, user.id)) == (how, {how})


async def test_next_years_event_tells_whether_its_target_came_over_http(http: Caller, clock: ManualClock) -> None:
    app = http.app
    user = await http.post("/v1/users", a_user(target=HOOK))
    [first] = await app.users.ahead(user["id"])
    clock.set(first.due)
    await app.tick()
    [second] = await app.users.ahead(user["id"])
    assert second.due.year == first.due.year + 1
    assert second.via == OVER_HTTP


async def test_a_stored_target_tells_how_it_was_last_put(http: Caller) -> None:
    app = http.app
    for name in ("ours", "theirs"):
        await app.targets.put(name, "https://hooks.example/in", channel="http")
    await http.put("/v1/targets/theirs", {"url": "https://hooks.example/other", "channel": "http"})
    assert {one.name: one.via for one in await app.targets.list()} == {"ours": None, "theirs": OVER_HTTP}
