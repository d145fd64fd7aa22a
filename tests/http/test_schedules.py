"""Schedules over HTTP: put, changed and shown."""

import asyncio
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from duly.testing import ManualClock
from tests.http.calling import Caller, OpenCaller, ok, paths
from tests.make import HOUR, START

DAILY = {"type": "report", "rule": {"cron": "0 9 * * *"}, "timezone": "Europe/Brussels"}
FULL: dict[str, Any] = {
    "name": "full", "type": "report.weekly", "rule": {"cron": "0 9 * * MON"}, "timezone": "Europe/Brussels",
    "payload": {"é": [1, None, {"deep": True}]}, "target": {"webhook": "https://hooks.example/duly"},
    "misfire": {"policy": "all", "tolerance": "1m", "limit": 7}, "overlap": "skip", "max_concurrent": 2,
    "depends_on": {"schedule": "load", "within": "1h"}, "start": "2026-01-01T00:00:00Z", "end": "2030-01-01T00:00:00Z",
    "dst": {"gap": "skip", "overlap": "second"}, "jitter": "10s", "exclude": ["holidays:BE", "2026-12-24"],
    "mode": "live", "retry": {"max_attempts": 5, "base": "1s", "factor": 2, "max": "1m"}, "enabled": True,
}  # fmt: skip
RULES: list[dict[str, Any]] = [
    {"cron": "0 9 * * MON"},
    {"cron": "*/5 * * * *"},
    {"every": "15m"},
    {"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "start": "2026-01-01T09:00:00"},
    {"rrule": "FREQ=DAILY"},
    {"yearly": "02-29", "at": "09:00", "leap": "mar1"},
    {"yearly": "03-15"},
    {"at": "2026-12-01T09:00:00"},
]


def daily(**changes: Any) -> dict[str, Any]:
    return {**DAILY, **changes}


async def put(http: Caller, name: str = "daily", **changes: Any) -> httpx.Response:
    answer = await http("PUT", f"/v1/schedules/{name}", daily(**changes))
    assert answer.is_success, answer.text
    return answer


# -- PUT


async def test_a_schedule_is_created_and_replaced(http: Caller) -> None:
    created = await put(http)
    assert (created.status_code, created.headers["location"]) == (201, "/v1/schedules/daily")
    shown = created.json()
    assert (shown["name"], shown["enabled"], shown["next_at"]) == ("daily", True, "2026-01-01T08:00:00Z")
    assert (shown["last_at"], shown["held"], shown["halted"]) == (None, None, None)
    replaced = await put(http, payload={"n": 1})
    assert (replaced.status_code, "location" in replaced.headers) == (200, False)
    assert replaced.headers["etag"] != created.headers["etag"]
    got = await http("GET", "/v1/schedules/daily")
    assert (got.json(), got.headers["etag"]) == (replaced.json(), replaced.headers["etag"])


async def test_every_field_of_a_schedule_is_kept(http: Caller) -> None:
    await put(http, "load")
    created = await http.put("/v1/schedules/full", FULL)
    assert {field: created[field] for field in FULL} == FULL
    assert await http.get("/v1/schedules/full") == created


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: "-".join(rule))
async def test_a_schedule_put_back_as_it_was_shown_changes_nothing(
    http: Caller, clock: ManualClock, rule: dict[str, Any]
) -> None:
    await put(http, rule=rule)
    await http.post("/v1/schedules/daily/reschedule", {"due_at": "2026-11-01T00:00:30Z"})
    clock.advance(HOUR)
    shown = await http("GET", "/v1/schedules/daily")
    again = await http("PUT", "/v1/schedules/daily", shown.json(), if_match=shown.headers["etag"])
    assert again.status_code == 200, again.text
    assert again.headers["etag"] == shown.headers["etag"]
    assert again.json() == shown.json(), "its next event stays where somebody has moved it"
    assert await acts(http) == ["created", "rescheduled"]


async def test_a_schedule_with_every_field_and_a_paused_one_can_be_put_back(http: Caller) -> None:
    await put(http, "load")
    await http.put("/v1/schedules/full", FULL)
    await http.post("/v1/schedules/full/pause")
    shown = await http("GET", "/v1/schedules/full")
    again = await http("PUT", "/v1/schedules/full", shown.json())
    assert (again.json(), again.headers["etag"]) == (shown.json(), shown.headers["etag"])
    assert again.json()["enabled"] is False


async def test_a_changed_rule_or_zone_moves_the_next_event_and_all_else_keeps_it(http: Caller) -> None:
    before = ok(await put(http, rule={"every": "1h"}))
    [event] = (await http.get("/v1/events"))["events"]
    kept = ok(await put(http, rule={"every": "1h"}, payload=5, type="other", retry={"max_attempts": 1}))
    assert kept["next_at"] == before["next_at"]
    moved = ok(await put(http))
    assert moved["next_at"] == "2026-01-01T08:00:00Z"
    elsewhere = ok(await put(http, timezone="Asia/Tokyo"))
    assert elsewhere["next_at"] == "2026-01-02T00:00:00Z"
    [still] = (await http.get("/v1/events"))["events"]
    assert (still["id"], still["due_at"], still["timezone"]) == (event["id"], elsewhere["next_at"], "Asia/Tokyo")


async def test_a_paused_schedule_that_is_put_stays_paused_unless_enabled_is_given(http: Caller) -> None:
    await put(http)
    await http.post("/v1/schedules/daily/pause")
    assert ok(await put(http, payload=1))["enabled"] is False
    assert ok(await put(http, enabled=True))["enabled"] is True


async def test_all_problems_of_a_schedule_are_told_at_once(http: Caller) -> None:
    bad = {
        "name": "other", "tenant": "acme", "rule": {"cron": "61 9 * * *"}, "timezone": "Mars/Olympus", "colour": 1,
        "misfire": {"policy": "maybe"}, "overlap": 5, "retry": {"base": -1}, "enabled": "yes", "dst": {"gap": "x"},
        "jitter": "long", "exclude": ["2026-02-30"], "mode": "dead", "start": 7, "depends_on": {"schedule": 5},
    }  # fmt: skip
    found = paths(await http("PUT", "/v1/schedules/daily", bad))
    wanted = [
        "name", "tenant", "type", "rule", "timezone", "colour", "misfire", "overlap", "retry", "enabled", "dst",
        "jitter", "exclude", "mode", "start", "depends_on",
    ]  # fmt: skip
    assert sorted({path.partition(".")[0].partition("[")[0] for path in found}) == sorted(wanted)
    assert (await http("GET", "/v1/schedules/daily")).status_code == 404


async def test_a_schedule_that_is_no_object_is_refused(http: Caller) -> None:
    await put(http, "a")
    body: Any
    for body in ([], 5, "x", True):
        for method, path in (
            ("PUT", ""),
            ("PATCH", ""),
            ("POST", "/backfill"),
            ("POST", "/pause"),
            ("POST", "/trigger"),
        ):
            assert (await http(method, f"/v1/schedules/a{path}", body)).status_code == 422, (method, path, body)
    assert paths(await http("PUT", "/v1/schedules/b", b"")) == ["body"]


BAD_RULES: list[Any] = [
    5, "0 9 * * *", {}, [], {"cron": "0 0 30 2 *"}, {"cron": 5}, {"every": "0s"}, {"every": "-1h"}, {"every": 15},
    {"cron": "0 9 * * *", "every": "1h"}, {"yearly": "02-30"}, {"yearly": "13-01"}, {"rrule": "FREQ=DAILY;INTERVAL=0"},
    {"rrule": "FREQ=NEVER"}, {"at": 5}, {"at": "2026-02-30T09:00:00"}, {"at": "soon"}, {"moon": "full"},
]  # fmt: skip


async def test_a_bad_rule_is_refused_wherever_it_is_said(http: Caller) -> None:
    await put(http, "there")
    for rule in BAD_RULES:
        for method, path, body in (
            ("PUT", "/v1/schedules/new", daily(rule=rule)),
            ("PATCH", "/v1/schedules/there", {"rule": rule}),
            ("POST", "/v1/schedules/preview", {"rule": rule}),
        ):
            found = paths(await http(method, path, body))
            assert {path.partition(".")[0] for path in found} == {"rule"}, (method, rule)
    assert (await http("GET", "/v1/schedules/new")).status_code == 404
    assert (await http.get("/v1/schedules/there"))["rule"] == {"cron": "0 9 * * *"}


async def test_a_schedule_that_depends_on_a_missing_one_is_refused(http: Caller) -> None:
    lonely = daily(depends_on={"schedule": "nobody", "within": "1h"})
    assert paths(await http("PUT", "/v1/schedules/a", lonely)) == ["depends_on.schedule"]


async def test_a_name_may_be_any_text_for_every_operation(http: Caller) -> None:
    for name in ("a/b", "ä ö", "%2F", "preview", "a?b#c", "x" * 200, "a/pause", "日本語", ".", "..", "a/../b"):
        address = f"/v1/schedules/{quote(name, safe='').replace('.', '%2E')}"
        created = await http("PUT", address, daily())
        assert (created.status_code, created.json()["name"]) == (201, name)
        assert (await http.post(f"{address}/pause"))["enabled"] is False
        assert (await http.post(f"{address}/resume"))["name"] == name
        assert (await http.post(f"{address}/trigger"))["schedule"] == name
        assert len((await http.get(f"{address}/preview"))["occurrences"]) == 10
        assert (await http.get(f"/v1/events?schedule={quote(name, safe='')}"))["events"]
        assert (await http.get(created.headers["location"]))["name"] == name
        assert (await http.delete(address))["name"] == name


async def test_a_name_that_is_no_text_is_refused(http: Caller) -> None:
    for name in ("%ff", "%fe", "a%2F%ff", "%ED%A0%80", "%EF%BF%BF", "a%2Fb%EF%BF%BF"):
        refused = await http("PUT", f"/v1/schedules/{name}", daily())
        assert (refused.status_code, "UTF-8" in refused.json()["detail"]) == (400, True), name
    assert (await http("PUT", "/v1/schedules/%EF%BF%BD", daily())).json()["name"] == "\ufffd", "that is a character"


# -- PATCH


async def test_a_patch_of_some_fields_of_a_schedule_leaves_the_others(http: Caller) -> None:
    await put(http, "load")
    before = await http.put("/v1/schedules/full", FULL)
    changes: dict[str, Any] = {
        "misfire": {"limit": 9}, "retry": {"max_attempts": 2}, "dst": {"gap": "shift"}, "depends_on": {"within": "2h"},
    }  # fmt: skip
    after = await http.patch("/v1/schedules/full", changes)
    wanted = {field: {**before[field], **changes[field]} for field in changes}
    assert after == {**before, **wanted}
    assert after["depends_on"] == {"schedule": "load", "within": "2h"}
    assert after == await http.get("/v1/schedules/full")


async def test_patching_a_field_of_a_schedule_to_null_restores_its_default(http: Caller) -> None:
    plain = ok(await put(http, "load"))
    await http.put("/v1/schedules/full", FULL)
    fields = [field for field in FULL if field not in ("name", "type", "rule", "enabled")]
    after = await http.patch("/v1/schedules/full", dict.fromkeys(fields))
    usual = {field: plain[field] for field in fields if field != "timezone"}
    assert {field: after[field] for field in usual} == usual | {"payload": None, "target": None}
    assert after["timezone"] == "UTC"
    assert (after["type"], after["rule"], after["enabled"]) == (FULL["type"], FULL["rule"], True)
    assert paths(await http("PATCH", "/v1/schedules/full", {"type": None, "rule": None})) == ["type", "rule"]


async def test_patching_a_nested_field_of_a_schedule_to_null_restores_its_default(http: Caller) -> None:
    await put(http, "load")
    await http.put("/v1/schedules/full", FULL)
    after = await http.patch(
        "/v1/schedules/full",
        {"misfire": {"limit": None}, "retry": {"base": None}, "dst": {"gap": None}},
    )
    assert after["misfire"] == {"policy": "all", "tolerance": "1m", "limit": 100}
    assert (after["retry"]["base"], after["retry"]["max_attempts"]) == ("30s", 5)
    assert after["dst"] == {"gap": "after", "overlap": "second"}
    found = paths(await http("PATCH", "/v1/schedules/full", {"depends_on": {"within": None}, "misfire": {"lim": None}}))
    assert sorted(found) == ["depends_on.within", "misfire.lim"]


async def test_patching_the_rule_of_a_schedule_replaces_it_whole(http: Caller) -> None:
    await put(http, rule={"yearly": "02-29", "at": "07:00", "leap": "mar1"})
    after = await http.patch("/v1/schedules/daily", {"rule": {"yearly": "03-15"}})
    assert after["rule"].get("leap") != "mar1"
    assert after["next_at"] == "2026-03-15T08:00:00Z", "at 9:00, which is usual"
    assert (await http.patch("/v1/schedules/daily", {"rule": {"every": "1h"}}))["dst"] == {"gap": None, "overlap": None}


async def test_defaults_of_one_rule_are_not_carried_over_to_another(http: Caller) -> None:
    assert ok(await put(http))["dst"] == {"gap": "after", "overlap": "first"}
    yearly = await http.patch("/v1/schedules/daily", {"rule": {"yearly": "03-29", "at": "02:30"}})
    assert yearly["dst"] == {"gap": "shift", "overlap": "first"}
    assert yearly["next_at"] == "2026-03-29T01:30:00Z", "03:30, for 02:30 does not exist"
    said = await http.patch("/v1/schedules/daily", {"dst": {"gap": "skip"}})
    assert said["dst"]["gap"] == "skip"
    assert (await http.patch("/v1/schedules/daily", {"rule": DAILY["rule"]}))["dst"]["gap"] == "skip", "that was said"


async def test_an_empty_patch_of_a_schedule_changes_nothing(http: Caller) -> None:
    before = await put(http)
    after = await http("PATCH", "/v1/schedules/daily", {})
    assert (after.json(), after.headers["etag"]) == (before.json(), before.headers["etag"])
    assert await acts(http) == ["created"]


async def test_a_bad_patch_of_a_schedule_changes_nothing(http: Caller) -> None:
    before = ok(await put(http))
    bad = {"timezone": "Mars", "payload": 5, "misfire": {"limit": 0}, "name": "else", "nickname": 1}
    found = paths(await http("PATCH", "/v1/schedules/daily", bad))
    assert sorted(found) == ["misfire.limit", "name", "nickname", "timezone"]
    assert await http.get("/v1/schedules/daily") == before
    assert (await http("PATCH", "/v1/schedules/nobody", {"payload": 5})).status_code == 404


async def test_a_patch_can_pause_and_resume_a_schedule(http: Caller) -> None:
    await put(http)
    assert (await http.patch("/v1/schedules/daily", {"enabled": False}))["held"] == "paused"
    assert (await http.patch("/v1/schedules/daily", {"payload": 1}))["enabled"] is False
    assert (await http.patch("/v1/schedules/daily", {"enabled": True}))["held"] is None


# -- ETags


async def test_an_edit_of_a_schedule_with_an_old_etag_is_refused(http: Caller) -> None:
    seen = (await put(http)).headers["etag"]
    now = (await put(http, payload=1)).headers["etag"]
    address = "/v1/schedules/daily"
    for method, body in (("PUT", daily()), ("PATCH", {"payload": 2}), ("DELETE", None)):
        for stale in (seen, f"W/{now}", f'{seen}, "x"', '"*"'):
            refused = await http(method, address, body, if_match=stale)
            assert refused.status_code == 412, (method, stale)
        for malformed in ("x", now.strip('"'), f"{seen}, x y", '"'):
            assert paths(await http(method, address, body, if_match=malformed)) == ["If-Match"]
    assert (await http.get(address))["payload"] == 1
    now = (await http("PATCH", address, {"payload": 2}, if_match=f"{seen}, {now}")).headers["etag"]
    now = (await http("PUT", address, daily(payload=3), if_match=now)).headers["etag"]
    assert (await http("PATCH", address, {"payload": 4}, if_match="*")).status_code == 200
    assert (await http("DELETE", address, if_match="*")).status_code == 200
    for method, body in (("PUT", daily()), ("PATCH", {}), ("DELETE", None)):
        assert (await http(method, address, body, if_match="*")).status_code == (412 if method == "PUT" else 404)


async def test_firing_changes_no_etag_of_a_schedule(http: Caller, clock: ManualClock) -> None:
    http.app.on("report")(lambda event: None)
    before = (await put(http, rule={"every": "1h"})).headers["etag"]
    clock.advance(HOUR)
    await http.app.tick()
    await http.post("/v1/schedules/daily/skip")
    after = await http("GET", "/v1/schedules/daily")
    assert (after.headers["etag"], after.json()["last_at"]) == (before, "2026-01-01T01:00:00Z")
    paused = await http("POST", "/v1/schedules/daily/pause")
    assert paused.headers["etag"] != before


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_of_two_editors_with_the_same_etag_one_wins(http: Caller, method: str) -> None:
    for turn in range(5):
        seen = (await put(http, payload=f"seen {turn}")).headers["etag"]
        bodies: list[Any] = [daily(payload=n) if method == "PUT" else {"payload": n} for n in range(2)]
        answers = await asyncio.gather(*(http(method, "/v1/schedules/daily", body, if_match=seen) for body in bodies))
        assert sorted(answer.status_code for answer in answers) == [200, 412]
        [winner] = [answer for answer in answers if answer.status_code == 200]
        assert await http.get("/v1/schedules/daily") == winner.json()


async def test_simultaneous_patches_of_different_fields_of_a_schedule_all_hold(http: Caller) -> None:
    await put(http)
    changes: list[Any] = [{"payload": 1}, {"jitter": "5s"}, {"retry": {"max_attempts": 7}}]
    answers = await asyncio.gather(*(http("PATCH", "/v1/schedules/daily", change) for change in changes))
    assert [answer.status_code for answer in answers] == [200] * 3
    shown = await http.get("/v1/schedules/daily")
    assert (shown["payload"], shown["jitter"], shown["retry"]["max_attempts"]) == (1, "5s", 7)


async def test_an_edit_without_an_etag_is_not_told_that_the_schedule_has_changed(http: Caller) -> None:
    await put(http)
    address = "/v1/schedules/daily"
    answers = await asyncio.gather(*(http("PATCH", address, {"payload": n, "type": f"t{n}"}) for n in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    last = await http.get(address)
    assert last["type"] == f"t{last['payload']}", "each change is whole"


async def test_simultaneous_puts_of_a_new_schedule_create_it_once(http: Caller) -> None:
    answers = await asyncio.gather(*(http("PUT", "/v1/schedules/daily", daily()) for _ in range(4)))
    assert all(answer.is_success for answer in answers), [answer.text for answer in answers]
    assert len((await http.get("/v1/events"))["events"]) == 1
    assert await acts(http) == ["created"]


# -- pages


async def test_schedules_are_listed_by_name_while_others_come_and_go(http: Caller) -> None:
    names = [f"s{n:02}" for n in range(9)]
    for name in names:
        await put(http, name)
    page = await http("GET", "/v1/schedules?limit=4")
    assert [one["name"] for one in page.json()["schedules"]] == names[:4]
    await put(http, "a-new-one-before")
    await put(http, "s05b")
    await http.delete("/v1/schedules/s03")
    found = [one["name"] for one in page.json()["schedules"]]
    while page.json()["next_cursor"]:
        page = await http("GET", page.links["next"]["url"])
        found += [one["name"] for one in page.json()["schedules"]]
    assert found == [*names[:6], "s05b", *names[6:]]
    assert "link" not in page.headers


async def test_a_page_of_schedules_can_end_at_any_name(http: Caller) -> None:
    names = sorted(["日本語", "a b", "a/b", "z", "'; --", "é"])
    for name in names:
        await http.put(f"/v1/schedules/{quote(name, safe='')}", daily())
    found, cursor = [], None
    while cursor is not False:
        page = await http.get("/v1/schedules?limit=1" + (f"&cursor={cursor}" if cursor else ""))
        found += [one["name"] for one in page["schedules"]]
        cursor = page["next_cursor"] or False
    assert found == names


async def test_a_bad_limit_is_refused_by_every_list(http: Caller) -> None:
    for limit in ("0", "1001", "x", "-1", "", "1.5", "%D9%A3"):
        for list_ in ("schedules", "users", "events", "targets"):
            assert paths(await http("GET", f"/v1/{list_}?limit={limit}")) == ["limit"]


# -- history


async def test_the_history_of_a_schedule_names_the_key_of_who_acted(http: Caller, calling: OpenCaller) -> None:
    made = await http.app.keys.create("console", scope="write")
    keyed = await calling(http.app, authorization=f"Bearer {made.secret}")
    await put(keyed)
    await keyed.patch("/v1/schedules/daily", {"payload": 1})
    await keyed.post("/v1/schedules/daily/pause", {"reason": "too loud"})
    await keyed.post("/v1/schedules/daily/resume")
    await keyed.post("/v1/schedules/daily/trigger")
    history = (await keyed.get("/v1/schedules/daily/history"))["history"]
    assert [entry["act"] for entry in history] == ["created", "changed", "paused", "resumed", "triggered"]
    assert {entry["worker"] for entry in history} == {"key console"}
    assert (history[2]["detail"], history[2]["at"]) == ("too loud", START.isoformat().replace("+00:00", "Z"))


async def acts(http: Caller, name: str = "daily") -> list[str]:
    return [entry["act"] for entry in (await http.get(f"/v1/schedules/{name}/history"))["history"]]


async def test_an_unusual_zone_of_a_schedule_is_taken_and_warned_of(http: Caller) -> None:
    warned = ["EST is an abbreviation and stands for UTC-5 all year, without summer time; New York is America/New_York"]
    answer = await put(http, timezone="EST")
    assert (answer.status_code, answer.json()["warnings"]) == (201, warned)
    again = await http("PUT", "/v1/schedules/daily", answer.json())
    assert (again.status_code, again.json()["warnings"]) == (200, warned)
    assert (await put(http, timezone="America/New_York")).json()["warnings"] == []


async def test_a_zone_that_the_text_of_a_rule_names_need_not_be_said_again(http: Caller) -> None:
    rule = {"rrule": "DTSTART;TZID=Asia/Tokyo:20260101T090000\nRRULE:FREQ=DAILY"}
    stored = await http.put("/v1/schedules/tokyo", {"type": "x", "rule": rule})
    assert stored["timezone"] == "Asia/Tokyo"
    ahead = await http.post("/v1/schedules/preview", {"rule": rule, "count": 1})
    assert ahead["occurrences"][0]["local_at"].endswith("T09:00:00")


async def test_a_local_time_without_a_zone_is_one_of_utc(http: Caller) -> None:
    rule = {"at": "2030-01-01T09:00:00"}
    ahead = await http.post("/v1/schedules/preview", {"rule": rule, "start": "2029-01-01"})
    assert [one["due_at"] for one in ahead["occurrences"]] == ["2030-01-01T09:00:00Z"]
    assert (await http.put("/v1/schedules/once", {"type": "x", "rule": rule}))["next_at"] == "2030-01-01T09:00:00Z"


async def test_whole_numbers_of_a_schedule_may_be_written_with_a_fraction(http: Caller) -> None:
    ahead = await http.post("/v1/schedules/preview", {"rule": {"cron": "@daily"}, "count": 2.0})
    assert len(ahead["occurrences"]) == 2
    refused = await http("POST", "/v1/schedules/preview", {"rule": {"cron": "@daily"}, "count": 2.5})
    assert paths(refused) == ["count"]
