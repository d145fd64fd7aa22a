"""Who is let in and how often, what surrounds every answer, and what is never logged."""

import asyncio
import logging
import math
import re
import time
from collections import OrderedDict
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.core.keys import write_key
from duly.edges.http import admission
from duly.edges.http.admission import BURST, Admission, Bucket, _bucket
from duly.edges.http.surroundings import SAFETY
from duly.errors import Misuse, StoreUnavailable
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller
from tests.http.tenants import SECRET_KEY, settle

MARKER = "zyxmarkerzyx"
USER = {"first_name": "Ada", "last_name": "Lovelace", "date_of_birth": "1990-12-10", "timezone": "UTC"}


# -- rates


@given(
    rate=st.floats(0.01, 10_000),
    steps=st.lists(st.floats(0, 5), min_size=1, max_size=200),
    began=st.floats(0, 1e6),
)
def test_a_bucket_never_lets_more_through_than_its_rate(rate: float, steps: list[float], began: float) -> None:
    bucket, now, taken = Bucket(), began, 0
    for step in steps:
        now += step
        wait = bucket.take(rate, now)
        assert wait >= 0
        if wait == 0:
            taken += 1
        else:
            assert bucket.take(rate, now + wait + 1e-6) == 0  # it says the truth about how long
            now += wait + 1e-6
            taken += 1
        burst = max(BURST * rate, 1)
        assert taken <= (now - began) * rate + burst + 1e-3 * rate + 1


@given(rate=st.floats(0.01, 10_000))
def test_a_bucket_that_rested_allows_a_seconds_worth_at_once(rate: float) -> None:
    bucket = Bucket()
    at_once = sum(bucket.take(rate, 1000.0) == 0 for _ in range(math.ceil(rate) + 5))
    assert max(1, math.floor(rate)) <= at_once <= max(1, math.floor(rate)) + 1


async def test_a_key_that_asks_too_often_waits_and_others_do_not(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(admission.time, "monotonic", lambda: now)
    slow = (await http.app.keys.create("slow", rate="2/s")).secret
    other = (await http.app.keys.create("other")).secret
    statuses = [(await http("GET", "/v1/events", authorization=f"Bearer {slow}")).status_code for _ in range(4)]
    assert statuses == [200, 200, 429, 429]
    refused = await http("GET", "/v1/events", authorization=f"Bearer {slow}")
    assert refused.headers["retry-after"] == "1"
    assert "wait 0.5 s" in refused.json()["detail"]
    assert (await http("GET", "/v1/events", authorization=f"Bearer {other}")).status_code == 200
    now += 0.5
    assert (await http("GET", "/v1/events", authorization=f"Bearer {slow}")).status_code == 200
    assert (await http("GET", "/v1/events", authorization=f"Bearer {slow}")).status_code == 429


async def test_who_is_forgotten_among_many_does_not_begin_anew(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MOST_KEPT", 1)
    now = time.monotonic()
    monkeypatch.setattr(admission.time, "monotonic", lambda: now)
    slow = (await http.app.keys.create("slow", rate="1/m")).secret
    others = [(await http.app.keys.create(f"{number}")).secret for number in range(3)]
    assert (await http("GET", "/v1/events", authorization=f"Bearer {slow}")).status_code == 200
    for other in others:
        assert (await http("GET", "/v1/events", authorization=f"Bearer {other}")).status_code == 200
    assert (await http("GET", "/v1/events", authorization=f"Bearer {slow}")).status_code == 429
    now += 61
    assert (await http("GET", "/v1/events", authorization=f"Bearer {slow}")).status_code == 200


def test_only_full_buckets_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MOST_KEPT", 10)
    buckets: OrderedDict[str, Bucket] = OrderedDict()
    for number in range(100):
        _bucket(buckets, f"{number}", 1000.0).take(1.0, 1000.0)
    assert len(buckets) == 100
    _bucket(buckets, "one more", 1010.0)
    assert len(buckets) == 10


# -- noting that keys are used


async def test_that_a_key_is_used_is_told_after_the_answer_and_fails_no_request(
    http: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made, other = await http.app.keys.create("a"), await http.app.keys.create("b")
    assert (await http("GET", "/v1/events", authorization=f"Bearer {made.secret}")).status_code == 200
    assert (await http.app.keys.get(made.key.id)).last_used is not None

    async def busy(_: object) -> None:
        raise StoreUnavailable("planted")

    monkeypatch.setattr(http.app.keys, "used", busy)
    assert (await http("GET", "/v1/events", authorization=f"Bearer {other.secret}")).status_code == 200
    assert "key.use_not_noted" in caplog.text


async def test_of_keys_that_are_used_only_so_many_are_kept(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MOST_KEPT", 3)
    door = Admission(http.app)
    for number in range(10):
        await door.note_use((await http.app.keys.create(f"{number}")).key.id)
    assert len(door._noted) == 3


# -- keys that are none


async def test_an_unknown_key_is_looked_up_once_in_a_second(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(admission.time, "monotonic", lambda: now)
    asked = looking_up(http, monkeypatch)
    unknown = write_key(bytes(32))
    for _ in range(50):
        assert (await http("GET", "/v1/events", authorization=f"Bearer {unknown}")).status_code == 401
    assert len(asked) == 1
    now += admission.TRUSTED_FOR + 0.01
    assert (await http("GET", "/v1/events", authorization=f"Bearer {unknown}")).status_code == 401
    assert len(asked) == 2


async def test_whoever_guesses_keys_is_slowed_down_and_who_has_one_is_not(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(admission.time, "monotonic", lambda: now)
    made = await http.app.keys.create("a")
    good = f"Bearer {made.secret}"
    assert (await http("GET", "/v1/events", authorization=good)).status_code == 200
    asked = looking_up(http, monkeypatch)
    statuses = []
    for number in range(100):
        guess = write_key(number.to_bytes(32, "big"))
        statuses.append((await http("GET", "/v1/events", authorization=f"Bearer {guess}")).status_code)
    assert statuses == [401] * len(asked) + [429] * (100 - len(asked))
    assert 20 <= len(asked) <= 21
    now += admission.TRUSTED_FOR + 0.01
    for number in range(30):
        await http("GET", "/v1/events", authorization=f"Bearer {write_key(bytes([number]) * 32)}")
    assert (await http("GET", "/v1/events", authorization=good)).status_code == 200


def looking_up(http: Caller, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hashes that are looked up from now on."""
    asked: list[str] = []
    look_up = http.app.store.key_by_hash

    async def looked_up(hash: str) -> Any:
        asked.append(hash)
        return await look_up(hash)

    monkeypatch.setattr(http.app.store, "key_by_hash", looked_up)
    return asked


async def test_a_revoked_key_is_good_for_a_second_at_most(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(admission.time, "monotonic", lambda: now)
    made = await http.app.keys.create("a")
    assert (await http("GET", "/v1/events", authorization=f"Bearer {made.secret}")).status_code == 200
    await http.app.keys.revoke(made.key.id)
    now += admission.TRUSTED_FOR + 0.01
    assert (await http("GET", "/v1/events", authorization=f"Bearer {made.secret}")).status_code == 401
    assert admission.TRUSTED_FOR <= 1


async def test_a_key_that_expires_is_good_until_then(
    http: Caller, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "TRUSTED_FOR", -1.0)
    made = await http.app.keys.create("a", expires=timedelta(hours=1))
    for passed, status in ((0, 200), (3599, 200), (1, 401), (1, 401)):
        clock.advance(seconds=passed)
        answer = await http("GET", "/v1/events", authorization=f"Bearer {made.secret}")
        assert answer.status_code == status
    assert "expired" in answer.json()["detail"]


# -- without keys


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "127.0.0.1:8080"}, 200),
        ({"host": "localhost:8080"}, 200),
        ({"host": "[::1]:8080"}, 200),
        ({"host": "localhost:8080", "origin": "http://localhost:8080"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "evil.example:8080"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "localhost.evil.example"}, 403),
        ({"host": "evil.example#localhost"}, 403),
        ({"host": "192.168.1.5"}, 403),
        ({"host": ""}, 403),
        ({"host": "localhost:8080", "origin": "http://evil.example"}, 403),
        ({"host": "localhost:8080", "origin": "http://localhost:9090"}, 403),
        ({"host": "localhost:8080", "origin": "null"}, 403),
        ({"duly_tenant": "default"}, 200),
        ({"duly_tenant": "rival"}, 403),
        ({"duly_tenant": ""}, 403),
    ],
)
async def test_without_keys_only_this_machine_itself_is_served(
    http: Caller, headers: dict[str, str], status: int
) -> None:
    assert (await http("GET", "/v1/events", **headers)).status_code == status
    assert (await http("POST", "/v1/users", USER, **headers)).status_code == (201 if status == 200 else status)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x_forwarded_for", "203.0.113.7"),
        ("x_forwarded_for", "127.0.0.1"),
        ("x_forwarded_host", "duly.example"),
        ("x_forwarded_proto", "https"),
        ("x_forwarded_port", "443"),
        ("forwarded", "for=203.0.113.7"),
        ("via", "1.1 proxy"),
        ("x_real_ip", "203.0.113.7"),
    ],
)
async def test_without_keys_nobody_is_served_through_a_proxy(http: Caller, name: str, value: str) -> None:
    for method, path, body in (("GET", "/v1/events", None), ("POST", "/v1/users", USER)):
        refused = await http(method, path, body, **{name: value})
        assert refused.status_code == 403
        assert "proxy" in refused.json()["detail"]
        assert "duly keys create" in refused.json()["detail"]
    made = await http.app.keys.create("a", scope="write")
    key = {"authorization": f"Bearer {made.secret}"}
    assert (await http("POST", "/v1/users", USER, **key, **{name: value})).status_code == 201


async def test_the_first_key_ends_that_at_once(http: Caller, duly: OpenDuly) -> None:
    assert (await http("GET", "/v1/events")).status_code == 200
    elsewhere = await duly()  # as another process would
    made = await elsewhere.keys.create("first")
    assert (await http("GET", "/v1/events")).status_code == 401
    await elsewhere.keys.revoke(made.key.id)
    assert (await http("GET", "/v1/events")).status_code == 401


async def test_a_server_that_others_can_reach_never_serves_without_a_key(calling: OpenCaller) -> None:
    http = await calling(keyless=False)
    assert (await http("GET", "/v1/events")).status_code == 401


async def test_a_key_may_name_its_own_tenant_whatever_its_letters(http: Caller) -> None:
    made = await http.app.keys.create("a", tenant="käse")
    headers = {"Authorization": f"Bearer {made.secret}", "Duly-Tenant": "käse".encode()}
    assert (await http.client.get("/v1/events", headers=headers)).status_code == 200


# -- around every answer


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/events", 200),
        ("GET", "/v1/timers/none", 404),
        ("GET", "/v1/events?x=1", 422),
        ("GET", "/nowhere", 404),
        ("POST", "/healthz", 405),
        ("GET", "/healthz", 200),
        ("GET", "/docs", 200),
        ("GET", "/metrics", 200),
        ("GET", "/openapi.json", 200),
    ],
)
async def test_every_answer_has_what_keeps_browsers_safe(http: Caller, method: str, path: str, status: int) -> None:
    answer = await http.client.request(method, path)
    assert answer.status_code == status
    for name, value in SAFETY.items():
        if path != "/docs" or name != "Content-Security-Policy":
            assert answer.headers[name] == value
    assert "server" not in answer.headers
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("id", ["abc-123", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "x" * 100])
async def test_a_request_keeps_the_id_it_came_with(http: Caller, id: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "duly.http"):
        answer = await http("GET", "/v1/timers/none", x_request_id=id)
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == id
    assert f"request={id}" in caplog.text


@pytest.mark.parametrize("id", ["", "x" * 101, "a b", 'a"b', "<script>", "a\tb"])
async def test_an_id_that_could_harm_is_replaced(http: Caller, id: str) -> None:
    answer = await http("GET", "/v1/timers/none", x_request_id=id)
    assert re.fullmatch(r"[0-9a-f-]{36}", answer.headers["x-request-id"])


async def test_whether_it_is_ready_is_asked_once_in_a_second(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(admission.time, "monotonic", lambda: now)
    asked = 0

    async def away() -> None:
        nonlocal asked
        asked += 1
        raise StoreUnavailable("planted")

    assert await http.get("/readyz") == {"status": "ready"}
    monkeypatch.setattr(http.app.store, "now", away)
    for _ in range(5):
        assert (await http("GET", "/readyz")).status_code == 200
    now += 1
    answers = [await http("GET", "/readyz") for _ in range(5)]
    assert {(answer.status_code, answer.headers["retry-after"]) for answer in answers} == {(503, "1")}
    assert asked == 1


# -- faults


async def test_what_is_called_wrongly_within_is_not_the_callers_fault(
    http: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong(*_: object) -> None:
        raise Misuse("planted: the transaction was ended from within")

    monkeypatch.setattr("duly.edges.http.events.read_filter", wrong)
    failed = await http.client.get("/v1/events?type=x")
    assert failed.status_code == 500
    assert "planted" not in failed.text
    assert "planted" in caplog.text
    monkeypatch.setattr(http.app, "_opened", 0)
    closed = await http.client.get("/v1/events?type=x")
    assert (closed.status_code, closed.headers["retry-after"]) == (503, "1")


async def test_a_request_that_was_given_up_is_no_fault_of_the_server(
    http: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reached, never = asyncio.Event(), asyncio.Event()

    async def stuck(*_: object) -> None:
        reached.set()
        await never.wait()

    monkeypatch.setattr("duly.edges.http.events.read_filter", stuck)
    with caplog.at_level(logging.DEBUG, "duly.http"):
        asking = asyncio.create_task(http("GET", "/v1/events?type=x"))
        await reached.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    [line] = [record for record in caplog.records if "request.answered" in record.getMessage()]
    assert "status=499" in line.getMessage()
    assert line.levelno < logging.ERROR
    figures = (await http("GET", "/metrics")).text
    assert 'duly_http_requests_total{method="GET",route="/v1/events",status="499"} 1.0' in figures


# -- logs


async def test_nothing_of_a_request_is_ever_logged(
    duly: OpenDuly, calling: OpenCaller, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = await calling(await duly(secret_key=SECRET_KEY))
    caplog.set_level(logging.DEBUG)
    mine = await settle(http.app, "mine")
    caplog.clear()
    key = {"authorization": mine.key()}
    marked: Any = {"after": "1h", "type": MARKER, "payload": {MARKER: MARKER}, "correlation_id": MARKER}
    target = {"url": f"https://hooks.example/{MARKER}", "headers": {"X-A": MARKER}}
    user = {**USER, "first_name": MARKER, "key": MARKER, "attributes": {"a": MARKER}}
    schedule = {"type": MARKER, "rule": {"every": "1d"}, "payload": MARKER}
    for method, path, body in (
        ("PUT", f"/v1/timers/{MARKER}", marked),
        ("PUT", f"/v1/timers/{MARKER}", {**marked, MARKER: MARKER}),
        ("GET", f"/v1/timers/{MARKER}", None),
        ("DELETE", f"/v1/timers/{MARKER}", None),
        ("GET", f"/v1/timers/{MARKER}", None),
        ("PUT", f"/v1/targets/{MARKER}", target),
        ("PUT", f"/v1/schedules/{MARKER}", schedule),
        ("POST", f"/v1/schedules/{MARKER}/pause", {"reason": MARKER}),
        ("POST", f"/v1/schedules/{MARKER}/trigger", {"payload": MARKER}),
        ("POST", "/v1/users", user),
        ("POST", "/v1/users", user),
        ("GET", f"/v1/events?error={MARKER}&type={MARKER}", None),
        ("GET", f"/v1/events?{MARKER}={MARKER}", None),
        ("GET", f"/{MARKER}", None),
        ("POST", "/v1/users", f'{{"first_name": "{MARKER}"'.encode()),
    ):
        await http(method, path, body, **key, idempotency_key=f"{MARKER} {path}", content_type="application/json")
    await http("GET", "/v1/events", authorization=f"Bearer {MARKER}")
    await http("GET", "/v1/events", **key, duly_tenant=MARKER)
    with monkeypatch.context() as planted:

        def broken(*_: Any, **__: Any) -> None:
            raise KeyError(MARKER)

        planted.setattr("duly.edges.http.events.event_to_json", broken)
        failed = await http.client.get(f"/v1/events/{mine.event}", headers={"Authorization": mine.key()})
    assert (failed.status_code, failed.json()["status"]) == (500, 500)
    assert MARKER not in failed.text
    ours = [record for record in caplog.records if not record.name.startswith("http")]  # the caller logs as it likes
    logged = "\n".join(f"{record.getMessage()} {record.exc_text} {record.args}" for record in ours)
    assert "request.failed" in logged
    assert failed.headers["x-request-id"] in logged
    assert logged.count("request.answered") > 15
    assert MARKER not in logged
    assert mine.keys["write"] not in logged
