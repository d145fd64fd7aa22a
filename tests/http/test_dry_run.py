"""``?dry_run=true``: the answer tells the consequence, and nothing changes."""

from typing import Any

import pytest

from tests.api.test_dry_run_sequences import dump
from tests.http.calling import Caller, OpenCaller, paths
from tests.make import a_user

DAILY = {"type": "report", "rule": {"cron": "0 9 * * *"}, "timezone": "Europe/Brussels"}
PLACE = "/v1/schedules/daily"


async def unchanged(http: Caller, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """The answer to a dry run, which leaves every row as it was."""
    before = await dump(http.app)
    answer = await http(method, path, body, **headers)
    assert await dump(http.app) == before
    assert answer.status_code == 200, answer.text
    return answer


async def test_an_edit_of_a_schedule_is_tried_before_it_is_made(http: Caller) -> None:
    created = await unchanged(http, "PUT", f"{PLACE}?dry_run=true", DAILY)
    assert created.json()["next_at"] == created.json()["consequence"]["created"][0]["due_at"] == "2026-01-01T08:00:00Z"
    assert "etag" not in created.headers
    assert "consequence" not in await http.put(PLACE, DAILY)
    later = {**DAILY, "rule": {"cron": "0 17 * * *"}}
    tried = await unchanged(http, "PUT", f"{PLACE}?dry_run=true&viewer=Asia/Tokyo", later)
    consequence = tried.json()["consequence"]
    [moved] = consequence["moved"]
    assert (moved["from"], moved["to"]) == ("2026-01-01T08:00:00Z", "2026-01-01T16:00:00Z")
    assert consequence["next"][0] == {
        "type": "report",
        "due_at": "2026-01-01T16:00:00Z",
        "local_at": "2026-01-01T17:00:00",
        "timezone": "Europe/Brussels",
        "note": None,
        "viewer_at": "2026-01-02T01:00:00",
    }
    assert len(consequence["next"]) == 10
    assert consequence["load"][0] == {"at": "2026-01-01T08:00:00Z", "now": 1, "after": 0}
    assert consequence["message"].startswith("The next event moves from Thu 2026-01-01 09:00 Europe/Brussels to")
    patched = await unchanged(http, "PATCH", f"{PLACE}?dry_run=true", {"rule": {"cron": "0 17 * * *"}})
    assert {**patched.json()["consequence"], "at": 0} == {**consequence, "at": 0, "viewer": None, "next": [
        {**one, "viewer_at": None} for one in consequence["next"]
    ]}  # fmt: skip
    made = await http("PUT", PLACE, later, if_match=tried.headers["etag"])
    assert made.json()["next_at"] == tried.json()["next_at"]
    stale = await http("PUT", f"{PLACE}?dry_run=true", DAILY, if_match=tried.headers["etag"])
    assert stale.status_code == 412


@pytest.mark.parametrize(
    ("act", "body", "told"),
    [
        ("pause", {"reason": "a test"}, {"switched": "paused"}),
        ("skip", None, {"skipped": 1}),
        ("reschedule", {"due_at": "2026-01-03T12:00:00Z"}, {"skipped": 2}),
    ],
)
async def test_acts_on_a_schedule_are_tried_before_they_are_done(
    http: Caller, act: str, body: Any, told: dict[str, Any]
) -> None:
    await http.put(PLACE, DAILY)
    answer = (await unchanged(http, "POST", f"{PLACE}/{act}?dry_run=true", body)).json()
    done = await http.post(f"{PLACE}/{act}", body)
    consequence = answer.pop("consequence")
    assert {name: consequence[name]["count"] if name == "skipped" else consequence[name] for name in told} == told
    assert answer == done


async def test_a_resumption_and_a_deletion_are_tried_before_they_are_done(http: Caller) -> None:
    await http.put(PLACE, DAILY)
    await http.post(f"{PLACE}/pause")
    resumed = (await unchanged(http, "POST", f"{PLACE}/resume?dry_run=true")).json()
    assert (resumed["enabled"], resumed["passed"], resumed["consequence"]["switched"]) == (True, 0, "resumed")
    deleted = (await unchanged(http, "DELETE", f"{PLACE}?dry_run=true")).json()
    assert (deleted["name"], deleted["cancelled"], deleted["consequence"]["deleted"]) == ("daily", 1, True)
    assert await http.delete(PLACE) == {"name": "daily", "cancelled": 1}


async def test_a_change_of_a_user_is_tried_before_it_is_made(http: Caller) -> None:
    user = await http.post("/v1/users", a_user())
    place = f"/v1/users/{user['id']}"
    tried = await unchanged(http, "PUT", f"{place}?dry_run=true&viewer=UTC", {"timezone": "Asia/Tokyo"})
    assert tried.json()["timezone"] == "Asia/Tokyo"
    [moved] = tried.json()["consequence"]["moved"]
    assert (moved["type"], moved["to"]) == ("birthday", "2026-03-15T00:00:00Z")
    deleted = await unchanged(http, "DELETE", f"{place}?dry_run=true")
    assert deleted.json()["consequence"]["cancelled"]["count"] == 1
    changed = await http("PUT", place, {"timezone": "Asia/Tokyo"}, if_match=tried.headers["etag"])
    assert changed.json()["timezone"] == "Asia/Tokyo"
    assert "consequence" not in await http.get(place)


async def test_a_dry_run_stores_no_idempotency_key(http: Caller) -> None:
    for _ in range(2):
        answer = await unchanged(http, "PUT", f"{PLACE}?dry_run=true", DAILY, idempotency_key="one")
        assert "idempotency-replayed" not in answer.headers
    created = await http("PUT", PLACE, DAILY, idempotency_key="one")
    assert (created.status_code, "idempotency-replayed" in created.headers) == (201, False)


async def test_a_dry_run_is_refused_where_the_act_is_and_needs_the_same_scope(
    http: Caller, calling: OpenCaller
) -> None:
    await http.put(PLACE, DAILY)
    for query, wrong in (
        ("dry_run=maybe", "dry_run"),
        ("dry_run=true&viewer=Mars/Olympus", "viewer"),
        ("viewer=UTC", "viewer"),
    ):
        for method, path, body in (
            ("PUT", PLACE, DAILY), ("DELETE", PLACE, None), ("POST", f"{PLACE}/skip", None),
        ):  # fmt: skip
            assert paths(await http(method, f"{path}?{query}", body)) == [wrong]
    assert (await http("POST", "/v1/schedules/nobody/skip?dry_run=true")).status_code == 404
    assert paths(await http("PUT", f"{PLACE}?dry_run=true", {**DAILY, "rule": {"cron": "61 * * * *"}})) == ["rule.cron"]
    made = await http.app.keys.create("reader", scope="read")
    reader = await calling(http.app, authorization=f"Bearer {made.secret}")
    assert (await reader("PUT", f"{PLACE}?dry_run=true", DAILY)).status_code == 403
