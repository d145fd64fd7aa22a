"""Requests at the edges: of what JSON, addresses and headers can carry. None of them is ever a 5xx."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from duly.api.app import OPERATIONS
from duly.api.description.operations import Operation
from duly.api.protocol.bodies import MOST_LEVELS
from duly.decide.checks import MAX_DEPTH
from duly.records.filters import FIELDS
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller, paths
from tests.http.tenants import SECRET_KEY, Tenant, settle

TIMER = {"due_at": "2026-12-01T09:00:00Z", "type": "x"}
TAKING = [operation for operation in OPERATIONS if operation.takes is not None]


@pytest.fixture
async def http(duly: OpenDuly, calling: OpenCaller) -> Caller:
    return await calling(await duly(secret_key=SECRET_KEY))


@pytest.fixture
async def mine(http: Caller) -> Tenant:
    return await settle(http.app, "mine")


def written(payload: str) -> bytes:
    return b'{"due_at": "2026-12-01T09:00:00Z", "type": "x", "payload": ' + payload.encode() + b"}"


# -- bodies


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"nonsense", 400),
        (b'{"type": NaN}', 400),
        (b"\xff\xfe{\x00}\x00", 400),
        (b'{"type": "\xff"}', 400),
        (b'{"type": "\xed\xa0\x80"}', 400),
        (b'{"type": "\\ud800"}', 400),
        (b'{"type": "x"} {}', 400),
        (b"[" * 100_000, 400),
        (b'{"a":' * (MOST_LEVELS + 1) + b"1" + b"}" * (MOST_LEVELS + 1), 400),
        (b"[]", 422),
        (b"null", 422),
        (b'"text"', 422),
        (b"5", 422),
        (b"", 422),
        (b" \n", 422),
        (b'{"type": "x", "due_at": "2026-12-01T09:00:00Z", "type": "y"}', 201),
        (written("1" * 5000), 400),
        (written("1e999"), 400),
        (written("9223372036854775807"), 201),
        (written("18446744073709551616"), 201),
        (written("-0.0"), 201),
        (written("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)), 201),
        (written("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)), 422),
        (written('"' + "[" * 1000 + '"'), 201),
        (written('"\\u0000"'), None),
        (written(json.dumps("x" * 1_048_574)), 201),
        (written(json.dumps("x" * 1_048_575)), 422),
        (written(json.dumps("x" * 3_000_000)), 413),
    ],
)
async def test_a_body_is_stored_whole_or_refused_and_not_stored(http: Caller, body: bytes, status: int | None) -> None:
    answer = await http("PUT", "/v1/timers/a", body, content_type="application/json")
    assert answer.status_code == status or (status is None and answer.status_code in (201, 422)), answer.text[:300]
    if answer.status_code == 201:
        told = answer.json()
        assert told.pop("warnings")
        assert {**await http.get("/v1/timers/a"), "change": "created"} == told
    else:
        assert (await http("GET", "/v1/timers/a")).status_code == 404


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 201),
        ("APPLICATION/JSON; charset=utf-8", 201),
        ("application/merge-patch+json", 201),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("", 415),
        ("application/jsonx", 415),
    ],
)
async def test_only_json_is_read(http: Caller, kind: str, status: int) -> None:
    answer = await http("PUT", "/v1/timers/a", json.dumps(TIMER).encode(), content_type=kind)
    assert answer.status_code == status


async def test_a_request_whose_body_was_forgotten_changes_nothing(http: Caller) -> None:
    await http.put("/v1/targets/shop", {"url": "https://hooks.example/duly"})
    limited = await http.put("/v1/targets/shop/limits", {"concurrency": 5})
    assert paths(await http("PUT", "/v1/targets/shop/limits")) == ["body"]
    assert (await http.get("/v1/targets/shop"))["concurrency"] == limited["concurrency"] == 5
    for operation in TAKING:
        if operation.takes is not None and operation.takes.required:
            path = operation.path.format(key="a", name="a", type="a", id="019a8f2e-6c00-7abc-8def-0123456789ab")
            assert paths(await http(operation.method, path)) == ["body"], path


async def test_an_operation_without_a_body_refuses_one(http: Caller) -> None:
    for method in ("GET", "DELETE"):
        answer = await http(method, "/v1/timers/a", b'{"a": 1}')
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (400, "body")


SPANS = ("99999999w", "999999999d", "106751992d", "0.000001us")
FAR = ("0001-01-01T00:00:00+23:59", "0002-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59",
       "9998-12-31T23:59:59.999999999-23:59", "9998-12-31T23:59:59", "0002-01-01T00:00:00", "0001-01-01", "9999-12-31",
       "2026-12-31T23:59:60Z")  # fmt: skip
RATES = ("999999999/s", "0.000001/d", "1/d")
STRANGE = ("a\u0000b", "\u0000", "\u202e", "\uffff", "\U0010ffff", "\u2028", "'; DROP TABLE events; --", "%s{}$1",
           "x" * 5000, " ", "", "\ufeff")  # fmt: skip


def changed(body: Any, value: Any) -> Iterator[Any]:
    """The body with a value in place of each that it has, however deep; what is strange is also the name of each."""
    if isinstance(body, dict):
        for field, inner in body.items():
            for other in (value, *changed(inner, value)):
                yield {**body, field: other}
            if value in STRANGE and value:
                yield {**body, value: inner}
    elif isinstance(body, list):
        for number, inner in enumerate(body):
            for other in (value, *changed(inner, value)):
                yield [*body[:number], other, *body[number + 1 :]]


def asked(operation: Operation) -> Any:
    assert operation.takes is not None
    retry = {"max_attempts": 3, "base": "1s", "factor": 2, "max": "1h"}
    bounds = {"exclude": ["2026-12-24"], "start": "2026-01-01T00:00:00", "end": "2027-01-01T00:00:00Z"}
    policies = {"depends_on": {"schedule": "a", "within": "1h"}, "jitter": "1s", "max_concurrent": 2, **bounds,
                "misfire": {"policy": "all", "tolerance": "1m", "limit": 5}}  # fmt: skip
    extra: dict[str, dict[str, Any]] = {"NewSchedule": {**policies, "payload": {"a": "b"}, "retry": retry},
             "ScheduleChanges": {**policies, "retry": retry},
             "Preview": {**bounds, "after": "2026-06-01T00:00:00Z"},
             "Timer": {"correlation_id": "c", "retry": retry},
             "NewTarget": {"timeout": "5s"},
             "NewUser": {"attributes": {"a": "b"}, "delivery_time": "09:00", "leap": "skip", "key": "k",
                         "anniversary": "2000-01-01"}}  # fmt: skip
    name = str(operation.takes.schema.get("$ref", "")).rpartition("/")[2]
    example = dict(operation.takes.example)
    if name in ("Replay", "Discard"):
        example["filter"] = {
            "status": "FAILED", "type": "x", "key": "k", "user_id": "u", "schedule": "s", "destination": "d",
            "error": "e", "due_from": "2026-01-01T00:00:00Z", "failed_to": "2026-01-01T00:00:00Z", "late_by": "1h",
            "stuck": True,
        }  # fmt: skip
    return example | extra.get(name, {})


@pytest.mark.parametrize(
    "values",
    [STRANGE[:6], STRANGE[6:], (10**30, -1, 0, 2**63, 1.5e300), (True, None, [], {}, [["x"]]), SPANS + RATES, FAR],
    ids=["characters", "texts", "numbers", "kinds", "spans", "far"],
)
async def test_no_value_in_any_field_is_the_servers_fault(http: Caller, mine: Tenant, values: Any) -> None:
    for operation in TAKING:
        for value in values:
            for body in changed(asked(operation), value):
                asked_for = operation.method, mine.path(operation.path)
                answer = await http.client.request(*asked_for, json=body, headers={"Authorization": mine.key()})
                assert answer.status_code < 500, f"{asked_for} {body}: {answer.text}"


async def test_no_filter_is_the_servers_fault(http: Caller, mine: Tenant) -> None:
    for act in ("replay", "discard"):
        for field in FIELDS:
            value: Any
            for value in (*SPANS, *FAR, *STRANGE[:8], "x", 10**30, -1, True, None, [], {}, ["FAILED"]):
                answer = await http("POST", f"/v1/events/{act}", {"filter": {field: value}}, authorization=mine.key())
                assert answer.status_code < 500, f"{field} {value!r}: {answer.text}"


@pytest.mark.parametrize("span", ["365001d", "99999999w"])
async def test_a_span_that_no_database_can_count_is_refused(http: Caller, span: str) -> None:
    for path in ("/v1/events", "/v1/dead-letters"):
        answer = await http("GET", f"{path}?late_by={span}")
        assert paths(answer) == ["late_by"]
        assert answer.json()["errors"][0]["message"] == f"must be at most 365000d, not {span!r}"
        assert (await http("GET", f"{path}?late_by=365000d")).status_code == 200
    assert paths(await http("POST", "/v1/events/replay", {"filter": {"late_by": span}})) == ["filter.late_by"]
    assert paths(await http("PUT", "/v1/timers/a", {"type": "x", "after": span})) == ["after"]


# -- addresses


async def test_no_address_is_the_servers_fault(http: Caller, mine: Tenant) -> None:
    strange = ("%00", "a%00b", "%FF", "%C3%28", "%ED%A0%80", "%2F", "%2e%2e", "..", "%25", "%EF%BF%BF", "a%0Ab", "'",
               "%F0%9F%98%80", "x" * 3000, "%20", "%E2%80%AE", "a;b=c", "*", "{name}")  # fmt: skip
    for operation in OPERATIONS:
        if "{" in operation.path:
            for name in strange:
                body = None if operation.takes is None else operation.takes.example
                path = operation.path.format(key=name, name=name, type=name, id=name)
                answer = await http(operation.method, path, body, authorization=mine.key())
                assert answer.status_code < 500, f"{operation.method} {path}: {answer.text}"


async def test_no_query_is_the_servers_fault(http: Caller, mine: Tenant) -> None:
    strange = ("%00", "a%00", "%FF", "", "-1", "0", "1e3", "1001", "99999999999999999999", "٣", "null", "[]",
               "a" * 3000, "%EF%BF%BF", "2026-13-01T00:00:00Z", "W10", "WyJhIiwiYiJd", "%2B", "1_0")  # fmt: skip
    for operation in OPERATIONS:
        for parameter in operation.query:
            for value in (*strange, *map(quote, (*SPANS, *FAR, *RATES))):
                path = f"{mine.path(operation.path)}?{parameter}={value}"
                answer = await http(operation.method, path, authorization=mine.key())
                assert answer.status_code < 500, f"{path}: {answer.text}"


async def test_a_parameter_that_is_unknown_or_comes_twice_is_refused(http: Caller) -> None:
    assert paths(await http("GET", "/v1/events?typ=x&limit=1")) == ["query.typ"]
    assert paths(await http("GET", "/v1/events?limit=1&limit=2")) == ["query.limit"]
    assert paths(await http("GET", "/v1/timers/a?x")) == ["query.x"]
    assert paths(await http("PUT", "/v1/timers/a?dry=1", TIMER)) == ["query.dry"]
    for key in ("", "x" * 501, "%00"):
        assert paths(await http("GET", f"/v1/users?key={key}&limit=0")) == ["limit", "key"]
    many = await http("GET", "/v1/events?" + "&".join(f"p{number}" for number in range(10_000)))
    assert many.status_code == 422
    assert many.json()["detail"] == "10000 problems, and nothing was changed; the first 100 are listed"
    assert len(many.json()["errors"]) == 100


async def test_an_answer_is_not_far_larger_than_what_was_asked(http: Caller) -> None:
    unknown = {f"{number}": 0 for number in range(10_000)}
    for path, body in (
        ("/v1/timers", {"timers": [unknown] * 10}),
        ("/v1/users/import", {"users": [unknown] * 10}),
        ("/v1/users", unknown),
        ("/v1/events/replay", {"filter": unknown}),
    ):
        answer = await http("POST", path, body)
        assert len(answer.content) < 30_000, path


async def test_headers_are_never_the_servers_fault(http: Caller, mine: Tenant) -> None:
    schedule = f"/v1/schedules/{mine.schedule}"
    for name in ("If-Match", "Prefer", "Idempotency-Key", "Duly-Tenant", "Authorization", "X-Request-Id", "Origin",
                 "Host", "Content-Type", "Accept", "Expect"):  # fmt: skip
        for value in (
            b"",
            b"\xff",
            b"\xc3\xa4",
            b'"',
            b"*",
            b"a" * 5000,
            b'"a", "b"',
            b"wait=99999",
            b"wait=x",
            b"\x00",
        ):
            headers = {b"authorization": mine.key("admin").encode(), name.encode(): value}
            answer = await http.client.post(f"{schedule}/skip", headers=headers, json={})
            assert answer.status_code < 500, f"{name}: {value!r}: {answer.text}"
            answer = await http.client.patch(schedule, headers=headers, json={"type": "x"})
            assert answer.status_code < 500, f"{name}: {value!r}: {answer.text}"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/v1/events", 405),
        ("HEAD", "/healthz", 200),
        ("OPTIONS", "/v1/events", 405),
        ("TRACE", "/v1/events", 405),
        ("BREW", "/v1/events", 405),
        ("POST", "/v1/timers/a", 405),
        ("GET", "/v1/events/", 404),
        ("GET", "/v1//events", 404),
        ("GET", "/V1/events", 404),
        ("GET", "/v1/%65vents", 200),
        ("GET", "/v1/events%2F", 404),
        ("GET", "/v1", 404),
        ("GET", "/v1/timers/", 404),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/users/%2e%2e/events", 404),
    ],
)
async def test_an_unknown_path_or_method_is_told_so(http: Caller, method: str, path: str, status: int) -> None:
    answer = await http.client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["x-frame-options"] == "DENY"
    if status == 405 and path == "/v1/timers/a":
        assert answer.headers["allow"] == "DELETE, GET, PUT"
    if status == 405 and method != "HEAD":
        assert answer.json()["status"] == 405
