"""All that is wrong with a request is told at once: in its address, its headers, and every field of its body."""

from typing import Any

import pytest

from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller, paths
from tests.http.tenants import SECRET_KEY, rows_of, settle

KEY = "x" * 201  # no Idempotency-Key


@pytest.fixture
async def http(duly: OpenDuly, calling: OpenCaller) -> Caller:
    return await calling(await duly(secret_key=SECRET_KEY))


@pytest.mark.parametrize(
    ("path", "body", "wrong"),
    [
        ("schedules/{schedule}/backfill", {"from": 5, "to": "x", "limit": 0, "label": ""}, "from to limit label"),
        ("schedules/{schedule}/backfill", {"from": 5, "limit": "x", "label": "", "x": 1}, "x from to limit label"),
        ("schedules/{schedule}/resume", {"passed": "x", "y": 1}, "y passed"),
        ("schedules/{schedule}/trigger", {"correlation_id": "", "y": 1}, "y correlation_id"),
        (
            "schedules/preview",
            {"rule": {"cron": "x"}, "timezone": "Mars", "after": 5, "count": 0, "end": "x"},
            "after count timezone end rule.cron",
        ),
        ("schedules/preview", {"rule": 5, "timezone": 5, "count": "x", "exclude": 5}, "rule timezone count exclude"),
        (
            "events/replay",
            {"filter": {"type": "", "late_by": "x"}, "rate": "x", "limit": 0},
            "filter.type filter.late_by rate limit",
        ),
        ("events/replay", {"rate": 5, "limit": 0}, "filter rate limit"),
        ("events/discard", {"filter": {"status": "x"}, "limit": -1, "reason": 5}, "filter.status reason limit"),
        ("targets/{target}/rotate", {"secret": "x", "keep": "x"}, "secret keep"),
        ("targets/{target}/rotate", {"secret": 5, "keep": "x", "y": 1}, "y secret keep"),
    ],
)
async def test_a_post_is_told_all_its_problems_at_once(http: Caller, path: str, body: Any, wrong: str) -> None:
    mine = await settle(http.app, "mine")
    before = await rows_of(http.app, mine)
    address = f"/v1/{path}".format(schedule=mine.schedule, target=mine.target)
    answer = await http("POST", address, body, authorization=mine.key())
    assert sorted(paths(answer)) == sorted(wrong.split())
    around = await http("POST", f"{address}?dry=1", body, authorization=mine.key(), idempotency_key=KEY)
    remembered = [] if path == "schedules/preview" or "rotate" in path else ["Idempotency-Key"]
    assert sorted(paths(around)) == sorted(["query.dry", *remembered, *wrong.split()])
    assert {**await rows_of(http.app, mine), "api_keys": []} == {**before, "api_keys": []}


@pytest.mark.parametrize(
    ("path", "body", "wrong"),
    [
        ("targets/new", {"url": 5, "timeout": "x", "format": "x", "headers": 5}, "url timeout format headers"),
        ("targets/new", {"url": "ftp://x", "timeout": 5, "y": 1}, "y url timeout"),
        ("targets/{target}/limits", {"concurrency": "x", "rate": "x"}, "concurrency rate"),
        ("targets/{target}/limits", {"concurrency": 0, "rate": 5}, "concurrency rate"),
        (
            "schedules/new",
            {"type": "", "rule": {"cron": "x"}, "target": {"nowhere": 1}, "timezone": "Mars", "retry": 5, "jitter": 5},
            "type rule.cron target timezone retry jitter",
        ),
        ("timers/new", {"type": "", "due_at": 5, "target": {"nowhere": 1}, "retry": {"base": "x"}}, None),
    ],
)
async def test_a_put_is_told_all_its_problems_at_once(http: Caller, path: str, body: Any, wrong: str | None) -> None:
    mine = await settle(http.app, "mine")
    address = f"/v1/{path}".format(target=mine.target)
    found = sorted(paths(await http("PUT", address, body, authorization=mine.key())))
    assert wrong is None or found == sorted(wrong.split())
    assert len(found) >= 2
    headers = {"authorization": mine.key(), "if_match": "no tag"}
    assert sorted(paths(await http("PUT", f"{address}?x=1&x=2", body, **headers))) == sorted(
        ["query.x", "query.x", "If-Match", *found]
    )


async def test_a_bad_header_or_query_refuses_a_good_body(http: Caller) -> None:
    mine = await settle(http.app, "mine")
    before = await rows_of(http.app, mine)
    user = {"first_name": "Ada", "last_name": "Lovelace", "date_of_birth": "1990-12-10", "timezone": "UTC"}
    for method, path, body in (
        ("POST", "/v1/users", user),
        ("POST", "/v1/users/import", {"users": [user]}),
        ("POST", "/v1/timers", {"timers": [{"type": "x", "after": "1h"}]}),
        ("PUT", "/v1/timers/new", {"type": "x", "after": "1h"}),
        ("PUT", "/v1/targets/new", {"url": "https://hooks.example"}),
        ("POST", f"/v1/schedules/{mine.schedule}/trigger", {}),
        ("POST", "/v1/events/discard", {"filter": {}}),
        ("DELETE", f"/v1/users/{mine.user}", None),
    ):
        answer = await http(method, f"{path}?dry=1", body, authorization=mine.key(), idempotency_key="once")
        assert paths(answer) == ["query.dry"], path
    assert {**await rows_of(http.app, mine), "api_keys": []} == {**before, "api_keys": []}


async def test_a_missing_body_is_told_with_bad_headers_and_queries(http: Caller) -> None:
    answer = await http("POST", "/v1/users?dry=1", idempotency_key=KEY)
    assert paths(answer) == ["query.dry", "Idempotency-Key", "body"]
    nobodys = await http("POST", "/v1/schedules/none/pause?dry=1", {})
    assert paths(nobodys) == ["query.dry"]


@pytest.mark.parametrize("condition", ["If-Match", "If-None-Match", "If-Unmodified-Since"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "timers/new", {"type": "x", "after": "1h"}),
        ("PUT", "targets/new", {"url": "https://hooks.example"}),
        ("POST", "schedules/{schedule}/reschedule", {"due_at": "2030-01-01T00:00:00Z"}),
        ("POST", "schedules/{schedule}/pause", None),
        ("POST", "schedules/{schedule}/trigger", None),
        ("DELETE", "timers/{timer}", None),
        ("PUT", "schedules/{schedule}", {"type": "x", "rule": {"every": "1h"}}),
    ],
)
async def test_a_conditional_header_that_the_operation_ignores_is_refused(
    http: Caller, method: str, path: str, body: Any, condition: str
) -> None:
    mine = await settle(http.app, "mine")
    before = await rows_of(http.app, mine)
    address = f"/v1/{path}".format(schedule=mine.schedule, timer=mine.timer)
    header = condition.lower().replace("-", "_")
    answer = await http(method, address, body, authorization=mine.key(), **{header: '"seen-long-ago"'})
    if method == "PUT" and "schedules" in path and condition == "If-Match":
        assert answer.status_code == 412
    else:
        assert paths(answer) == [condition]
        assert "remove the header" in answer.json()["errors"][0]["message"]
    assert {**await rows_of(http.app, mine), "api_keys": []} == {**before, "api_keys": []}


async def test_conditional_headers_of_caches_are_accepted_when_reading(http: Caller) -> None:
    mine = await settle(http.app, "mine")
    headers = {"if_none_match": '"seen"', "if_modified_since": "Tue, 17 Nov 2026 12:00:00 GMT"}
    assert (await http("GET", f"/v1/timers/{mine.timer}", authorization=mine.key(), **headers)).status_code == 200


@pytest.mark.parametrize("text", ["\\ud800", "a\\udbffb", "\\ud83d and more"])
async def test_half_a_surrogate_pair_is_told_as_half_a_character(http: Caller, text: str) -> None:
    body = f'{{"type": "x", "after": "1h", "payload": "{text}"}}'.encode()
    answer = await http("PUT", "/v1/timers/a", body, content_type="application/json")
    assert answer.status_code == 400
    assert "half of a surrogate pair" in answer.json()["detail"]
    cut = await http("PUT", "/v1/timers/a", body[:20], content_type="application/json")
    assert "truncated" in cut.json()["detail"]


@pytest.mark.parametrize("payload", ["NaN", "1e999", "-Infinity", "nonsense", "'a'"])
async def test_other_invalid_json_is_not_told_as_half_a_character(http: Caller, payload: str) -> None:
    body = f'{{"type": "x", "after": "1h", "payload": {payload}}}'.encode()
    answer = await http("PUT", "/v1/timers/a", body, content_type="application/json")
    assert answer.status_code == 400
    assert "half of a surrogate pair" not in answer.json()["detail"]
