"""What people do to schedules over HTTP: pause, resume, trigger, move, skip, backfill, preview, delete."""

import asyncio
from typing import Any

import pytest

from duly import Event
from duly.testing import ManualClock
from tests.http.calling import Caller, paths
from tests.http.test_schedules import acts, put
from tests.make import DAY, HOUR, MINUTE, START

HOURLY = {"every": "1h"}


def reports(http: Caller) -> list[Event]:
    """Those that are delivered from now on."""
    fired: list[Event] = []
    http.app.on("report")(fired.append)
    return fired


# -- pause and resume


async def test_a_paused_schedule_fires_nothing_until_it_is_resumed(http: Caller, clock: ManualClock) -> None:
    fired = reports(http)
    await put(http, rule=HOURLY)
    paused = await http.post("/v1/schedules/daily/pause", {"reason": "the printer is out of paper"})
    assert (paused["enabled"], paused["held"], paused["halted"]) == (False, "paused", "paused")
    assert (paused["hold_kind"], paused["halt_kind"]) == ("paused", "paused")
    assert paused["paused_since"] == "2026-01-01T00:00:00Z"
    clock.advance(5 * HOUR + MINUTE)
    await http.app.tick()
    assert fired == []
    resumed = await http.post("/v1/schedules/daily/resume")
    assert (resumed["passed"], resumed["fires"], resumed["next_at"]) == (5, False, "2026-01-01T06:00:00Z")
    assert {resumed[field] for field in ("hold_kind", "halt_kind", "paused_since")} == {None}
    clock.advance(HOUR)
    await http.app.tick()
    assert [event.stands_for for event in fired] == [1]
    assert await acts(http) == ["created", "paused", "resumed"]


async def test_occurrences_that_a_pause_passed_over_can_be_fired(http: Caller, clock: ManualClock) -> None:
    fired = reports(http)
    await put(http, rule=HOURLY)
    await http.post("/v1/schedules/daily/pause")
    clock.advance(5 * HOUR + MINUTE)
    resumed = await http("POST", "/v1/schedules/daily/resume", {"passed": "fire"})
    assert (resumed.json()["passed"], resumed.json()["fires"]) == (5, True)
    assert resumed.headers["etag"] == (await http("GET", "/v1/schedules/daily")).headers["etag"]
    await http.app.tick()
    assert [event.stands_for for event in fired] == [5]
    for bad in ({"passed": "maybe"}, {"passed": 5}, {"passd": "fire"}):
        assert paths(await http("POST", "/v1/schedules/daily/resume", bad)) == list(bad)


async def test_a_pause_has_a_note_and_an_end(http: Caller, clock: ManualClock) -> None:
    fired = reports(http)
    await put(http, rule=HOURLY)
    said = {"reason": "migration", "until": "150m", "passed": "fire"}
    paused = await http.post("/v1/schedules/daily/pause", said)
    shown = {field: paused[field] for field in ("enabled", "paused_until", "pause_reason", "pause_passed", "next_at")}
    assert shown == {
        "enabled": False, "paused_until": "2026-01-01T02:30:00Z", "pause_reason": "migration", "pause_passed": "fire",
        "next_at": "2026-01-01T02:30:00Z",
    }  # fmt: skip
    again = await http.post("/v1/schedules/daily/pause", said | {"until": 9000})
    assert again == paused
    body = await http.get("/v1/schedules/daily")
    put_back = await http("PUT", "/v1/schedules/daily", body)
    assert put_back.json()["paused_until"] == "2026-01-01T02:30:00Z", "what a GET answers can be sent back"
    clock.advance(4 * HOUR + MINUTE)
    patched = await http("PATCH", "/v1/schedules/daily", {"payload": {"n": 1}})
    assert patched.json()["enabled"], "its pause has ended, though no worker has noticed"
    await http.app.tick()
    assert [event.stands_for for event in fired] == [4]
    assert await acts(http) == ["created", "paused", "resumed", "changed"]


async def test_what_is_wrong_with_a_pause_is_told_at_once(http: Caller) -> None:
    await put(http, rule=HOURLY)
    path = "/v1/schedules/daily/pause"
    bad = {"reason": 5, "until": "tomorrow", "passed": "later"}
    assert paths(await http("POST", path, {"reason": 5, "until": "tomorrow"})) == ["reason", "until"]
    for field, value in bad.items():
        assert paths(await http("POST", path, {field: value})) == [field]
    until: Any
    for until in ("2020-01-01T00:00:00Z", 0, -1, True, 1e300, "9999999d", [], {}):
        assert paths(await http("POST", path, {"until": until})) == ["until"]
    assert paths(await http("POST", path, {"end": "2h"})) == ["end"]
    assert (await http.get("/v1/schedules/daily"))["enabled"]


# -- trigger


async def test_a_trigger_fires_now_and_leaves_the_next_event_alone(http: Caller, clock: ManualClock) -> None:
    fired = reports(http)
    await put(http, payload={"of": "all"})
    before = await http.get("/v1/schedules/daily")
    usual = await http("POST", "/v1/schedules/daily/trigger")
    own = await http.post("/v1/schedules/daily/trigger", {"payload": {"of": "today"}, "correlation_id": "c1"})
    null = await http.post("/v1/schedules/daily/trigger", {"payload": None})
    assert (usual.status_code, usual.headers["location"]) == (201, f"/v1/events/{usual.json()['id']}")
    assert (await http.get(usual.headers["location"]))["schedule"] == "daily"
    assert (own["correlation_id"], own["schedule"], own["head"]) == ("c1", "daily", False)
    await http.app.tick()
    payloads = {usual.json()["id"]: {"of": "all"}, own["id"]: {"of": "today"}, null["id"]: None}
    assert {event.id: event.payload for event in fired} == payloads
    after = await http.get("/v1/schedules/daily")
    assert after["next_at"] == before["next_at"] == "2026-01-01T08:00:00Z"
    for bad in ({"payload": 1, "correlation_id": "\n"}, {"correlation_id": 5}):
        assert paths(await http("POST", "/v1/schedules/daily/trigger", bad)) == ["correlation_id"]


async def test_a_trigger_that_prefers_to_wait_is_answered_when_the_event_is_done(http: Caller) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    @http.app.on("report")
    async def report(event: Event) -> None:
        began.set()
        await may_end.wait()

    await put(http)
    asked = asyncio.create_task(http("POST", "/v1/schedules/daily/trigger", prefer="respond-async, wait=99999"))
    working = asyncio.create_task(_tick_until(http, began))
    await asyncio.wait_for(began.wait(), 20)
    assert not asked.done()
    may_end.set()
    answer = await asyncio.wait_for(asked, 20)
    await working
    assert (answer.status_code, answer.json()["status"]) == (201, "COMPLETED")
    assert answer.headers["preference-applied"] == "wait=60"


async def _tick_until(http: Caller, done: asyncio.Event) -> None:
    while not done.is_set():
        await http.app.tick()


async def test_a_trigger_that_waits_is_told_of_a_failed_attempt_and_does_not_wait_for_ever(http: Caller) -> None:
    await put(http)
    late = await http("POST", "/v1/schedules/daily/trigger", prefer="wait=0")
    assert (late.status_code, late.json()["status"], late.headers["preference-applied"]) == (201, "PENDING", "wait=0")
    plain = await http("POST", "/v1/schedules/daily/trigger", prefer="handling=lenient")
    assert (plain.status_code, "preference-applied" in plain.headers) == (201, False)

    failed = asyncio.Event()

    @http.app.on("report")
    async def report(event: Event) -> None:
        failed.set()
        raise ConnectionError("no paper")

    asked = asyncio.create_task(http("POST", "/v1/schedules/daily/trigger", prefer="wait=30"))
    await _tick_until(http, failed)
    while not asked.done():
        await http.app.tick()
    shown = asked.result().json()
    assert (shown["status"], shown["attempts"]) == ("PENDING", 1)
    assert "no paper" in shown["last_error"]


# -- reschedule and skip


async def test_the_next_event_alone_can_be_moved_or_skipped_over_http(http: Caller, clock: ManualClock) -> None:
    fired = reports(http)
    await put(http, rule=HOURLY)
    moved = await http.post("/v1/schedules/daily/reschedule", {"due_at": "2026-01-01T02:30:00+01:00"})
    assert moved["next_at"] == "2026-01-01T01:30:00Z"
    clock.advance(HOUR + 30 * MINUTE)
    await http.app.tick()
    skipped = await http.post("/v1/schedules/daily/skip", {"reason": "a holiday"})
    assert skipped["next_at"] == "2026-01-01T03:00:00Z"
    clock.advance(HOUR)
    await http.app.tick()
    assert len(fired) == 1
    clock.advance(HOUR)
    await http.app.tick()
    assert len(fired) == 2
    [left_out] = (await http.get("/v1/events?status=SKIPPED"))["events"]
    assert "a holiday" in (await http.get(f"/v1/events/{left_out['id']}"))["history"][-1]["detail"]


async def test_an_answer_tells_what_is_passed_over_and_what_would_fire_it(http: Caller, clock: ManualClock) -> None:
    await put(http, rule={"cron": "0 9 * * *"}, timezone="UTC")
    moved = await http.post("/v1/schedules/daily/reschedule", {"due_at": "2026-01-09T09:00:00Z"})
    assert moved["passed_over"] == {
        "count": 8,
        "first": [f"2026-01-0{day}T09:00:00Z" for day in (2, 3, 4, 5, 6)],
        "fire_with": "duly schedules backfill daily --from 2026-01-02T09:00:00Z --to 2026-01-02T09:00:01Z",
    }
    assert len((await http.get("/v1/events?status=SKIPPED"))["events"]) == 8
    assert (await http.get("/v1/schedules/daily"))["passed_over"] is None
    back = await http.post("/v1/schedules/daily/reschedule", {"due_at": "2026-01-01T09:00:00Z"})
    assert back["passed_over"] is None
    clock.set(START + 8 * HOUR + 30 * MINUTE)
    edited = (await http("PATCH", "/v1/schedules/daily", {"rule": {"cron": "0 8 * * *"}})).json()
    assert edited["passed_over"]["first"] == ["2026-01-01T09:00:00Z"]
    assert edited["passed_over"]["fire_with"] == "duly schedules trigger daily"
    assert (await http.put("/v1/schedules/daily", edited))["passed_over"] is None, "what is shown can be sent back"
    skipped = await http.post("/v1/schedules/daily/skip")
    assert skipped["passed_over"]["count"] == 1
    await http.post("/v1/schedules/daily/pause")
    clock.set(START + 100 * HOUR)
    resumed = await http.post("/v1/schedules/daily/resume")
    assert (resumed["passed"], resumed["passed_over"]["count"]) == (2, 2)


async def test_a_schedule_without_a_next_event_cannot_be_moved_or_skipped(http: Caller) -> None:
    await put(http)
    await put(http, rule={"at": "2025-01-01T00:00:00"})
    for verb, body in (("reschedule", {"due_at": "2027-01-01T00:00:00Z"}), ("skip", {})):
        refused = await http("POST", f"/v1/schedules/daily/{verb}", body)
        assert (refused.status_code, "has no next event: ended" in refused.json()["detail"]) == (409, True)
    for bad in ({}, {"due_at": 5}, {"due_at": "tomorrow"}, {"due_at": "2027-01-01T00:00:00"}, {"due_at": None}):
        assert paths(await http("POST", "/v1/schedules/daily/reschedule", bad)) == ["due_at"]


# -- backfill


async def test_past_occurrences_can_be_backfilled_once_for_each_label(http: Caller, clock: ManualClock) -> None:
    fired = reports(http)
    await put(http, rule={"cron": "0 9 * * *"}, timezone="UTC")
    span = {"from": "2025-12-25T00:00:00Z", "to": "2025-12-28T09:00:00Z"}
    before = await http.get("/v1/schedules/daily")
    done = await http.post("/v1/schedules/daily/backfill", {**span, "label": "christmas"})
    assert (len(done["events"]), done["existing"], done["label"]) == (3, 0, "christmas"), "the end is not among them"
    again = await http.post("/v1/schedules/daily/backfill", {**span, "label": "christmas"})
    assert (again["events"], again["existing"]) == ([], 3)
    other = await http.post("/v1/schedules/daily/backfill", span)
    assert len(other["events"]) == 3
    await http.app.tick()
    assert sorted(f"{event.scheduled:%d}" for event in fired) == ["25", "25", "26", "26", "27", "27"]
    assert (await http.get("/v1/schedules/daily"))["next_at"] == before["next_at"]
    too_many = await http("POST", "/v1/schedules/daily/backfill", {**span, "limit": 2})
    assert paths(too_many) == ["limit"]
    assert "3 occurrences are more than 2" in too_many.json()["errors"][0]["message"]


async def test_a_dry_run_of_a_backfill_fires_nothing_over_http(http: Caller) -> None:
    await put(http, rule={"cron": "0 9 * * *"}, timezone="UTC")
    span = {"from": "2025-12-25T00:00:00Z", "to": "2025-12-27T00:00:00Z"}
    told = await http.post("/v1/schedules/daily/backfill?dry_run=true", span)
    assert (told["events"], told["existing"]) == ([], 0)
    assert told["occurrences"] == ["2025-12-25T09:00:00Z", "2025-12-26T09:00:00Z"]
    assert len((await http.get("/v1/events"))["events"]) == 1
    assert paths(await http("POST", "/v1/schedules/daily/backfill?dry_run=1", span | {"limit": 0})) == [
        "dry_run",
        "limit",
    ]
    done = await http.post("/v1/schedules/daily/backfill?dry_run=false", span)
    assert (len(done["events"]), done["occurrences"]) == (2, told["occurrences"])


async def test_a_bad_backfill_is_refused_in_the_callers_own_words(http: Caller) -> None:
    await put(http)
    good = {"from": "2025-12-25T00:00:00Z", "to": "2025-12-28T00:00:00Z"}
    for change, wanted in (
        ({"to": "2026-06-01T00:00:00Z"}, ["to"]),
        ({"to": "2025-12-25T00:00:00Z"}, ["to"]),
        ({"from": None, "to": 5}, ["from", "to"]),
        ({"limit": 0}, ["limit"]),
        ({"limit": 10_001}, ["limit"]),
        ({"limit": "5"}, ["limit"]),
        ({"limit": True}, ["limit"]),
        ({"label": ""}, ["label"]),
        ({"start": "2025-12-25T00:00:00Z"}, ["start"]),
    ):
        assert paths(await http("POST", "/v1/schedules/daily/backfill", good | change)) == wanted, change
    assert len((await http.get("/v1/events"))["events"]) == 1


# -- preview


async def test_a_preview_tells_what_follows_and_what_is_odd_about_it(http: Caller) -> None:
    rule = {"rule": {"cron": "30 2 * * *"}, "timezone": "Europe/Brussels", "count": 3}
    spring = await http.post("/v1/schedules/preview", {**rule, "after": "2026-03-27T01:30:00Z"})
    assert [(one["due_at"], one["local_at"]) for one in spring["occurrences"]] == [
        ("2026-03-28T01:30:00Z", "2026-03-28T02:30:00"),
        ("2026-03-29T01:00:00Z", "2026-03-29T03:00:00"),
        ("2026-03-30T00:30:00Z", "2026-03-30T02:30:00"),
    ], "strictly after it"
    notes = [one["note"] for one in spring["occurrences"]]
    assert notes == [None, "2026-03-29 has no 02:30: it fires right after the gap", None]
    autumn = await http.post("/v1/schedules/preview", {**rule, "after": "2026-10-24T12:00:00Z", "count": 2})
    assert [one["due_at"] for one in autumn["occurrences"]] == ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    assert "twice" in autumn["occurrences"][0]["note"]
    skipping = await http.post(
        "/v1/schedules/preview", {**rule, "after": "2026-03-28T02:00:00Z", "count": 1, "dst": {"gap": "skip"}}
    )
    assert skipping["occurrences"][0]["due_at"] == "2026-03-30T00:30:00Z"
    assert (await http.get("/v1/schedules"))["schedules"] == [], "nothing is stored"


async def test_a_schedule_is_previewed_as_it_is(http: Caller) -> None:
    await put(http, exclude=["2026-01-02"])
    await http.post("/v1/schedules/daily/reschedule", {"due_at": "2026-01-01T07:00:00Z"})
    ahead = await http.get("/v1/schedules/daily/preview?count=2")
    assert [one["due_at"] for one in ahead["occurrences"]] == ["2026-01-01T07:00:00Z", "2026-01-03T08:00:00Z"]
    later = await http.get("/v1/schedules/daily/preview?count=1&after=2026-06-01T09:00:00%2B02:00")
    assert [one["due_at"] for one in later["occurrences"]] == ["2026-06-02T07:00:00Z"]
    assert len((await http.get("/v1/schedules/daily/preview"))["occurrences"]) == 10
    assert (await http("GET", "/v1/schedules/nobody/preview")).status_code == 404
    assert paths(await http("GET", "/v1/schedules/daily/preview?count=0&after=now")) == ["count", "after"]
    assert paths(await http("GET", "/v1/schedules/daily/preview?counts=5")) == ["query.counts"]


async def test_a_bad_preview_is_refused(http: Caller) -> None:
    good: dict[str, Any] = {"rule": {"cron": "30 2 * * *"}}
    for change, wanted in (
        ({"rule": None}, ["rule"]),
        ({"count": 0, "after": None}, ["count"]),
        ({"count": "5", "after": 5, "timezone": 7}, ["timezone", "after", "count"]),
        ({"timezone": "Mars"}, ["timezone"]),
        ({"dst": {"gap": "maybe"}}, ["dst.gap"]),
        ({"dst": 5}, ["dst"]),
        ({"exclude": ["all", "2026-02-30"]}, ["exclude[0]", "exclude[1]"]),
        ({"name": "daily"}, ["name"]),
    ):
        assert paths(await http("POST", "/v1/schedules/preview", good | change)) == wanted, change


async def test_a_rule_that_ends_is_previewed_to_its_end(http: Caller) -> None:
    once = {"rule": {"at": "2026-12-01T09:00:00"}, "timezone": "Asia/Tokyo"}
    assert [one["due_at"] for one in (await http.post("/v1/schedules/preview", once))["occurrences"]] == [
        "2026-12-01T00:00:00Z"
    ]
    over = await http.post("/v1/schedules/preview", {**once, "after": "2026-12-01T00:00:00Z"})
    assert over == {"occurrences": [], "complete": True}


# -- delete


async def test_a_deleted_schedule_is_gone_with_its_future_events(http: Caller, clock: ManualClock) -> None:
    fired = reports(http)
    await put(http)
    await http.post("/v1/schedules/daily/trigger")
    assert await http.delete("/v1/schedules/daily") == {"name": "daily", "cancelled": 2}
    clock.advance(2 * DAY)
    await http.app.tick()
    assert fired == []
    events = (await http.get("/v1/events"))["events"]
    assert {event["status"] for event in events} == {"CANCELLED"}
    for method, path in (
        ("GET", ""), ("DELETE", ""), ("GET", "/history"), ("GET", "/preview"), ("POST", "/pause"), ("POST", "/resume"),
        ("POST", "/trigger"), ("POST", "/skip"),
    ):  # fmt: skip
        gone = await http(method, f"/v1/schedules/daily{path}")
        assert (gone.status_code, "daily" in gone.json()["detail"]) == (404, True), path
    assert (await put(http)).status_code == 201


async def test_a_schedule_that_others_depend_on_cannot_be_deleted(http: Caller) -> None:
    await put(http, "load")
    await put(http, "report", depends_on={"schedule": "load", "within": "1h"})
    refused = await http("DELETE", "/v1/schedules/load")
    assert (refused.status_code, "report depends on it" in refused.json()["detail"]) == (409, True)
    await http.patch("/v1/schedules/report", {"depends_on": None})
    assert (await http("DELETE", "/v1/schedules/load")).status_code == 200


@pytest.mark.parametrize("verb", ["pause", "skip"])
async def test_reasons_are_text(http: Caller, verb: str) -> None:
    await put(http)
    for bad in ({"reason": 5}, {"reasn": "x"}):
        assert paths(await http("POST", f"/v1/schedules/daily/{verb}", bad)) == list(bad)
    assert (await http("POST", f"/v1/schedules/daily/{verb}", {"reason": None})).status_code == 200
