"""Who is let in and how often, what surrounds every answer, and what is never logged."""

import asyncio
import logging
import math
import re
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from duly.api.access import auth, key_lookups
from duly.api.access.auth import BURST_S, Authenticator, Bucket, _bucket
from duly.api.protocol.middleware import SAFETY
from duly.api.server.proxies import whose_address
from duly.errors import Misuse, StoreUnavailable
from duly.records.api_key import write_key
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller
from tests.http.serving import Served, served
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
        burst = max(BURST_S * rate, 1)
        assert taken <= (now - began) * rate + burst + 1e-3 * rate + 1


@given(rate=st.floats(0.01, 10_000))
def test_an_idle_bucket_allows_a_seconds_worth_at_once(rate: float) -> None:
    bucket = Bucket()
    at_once = sum(bucket.take(rate, 1000.0) == 0 for _ in range(math.ceil(rate) + 5))
    assert max(1, math.floor(rate)) <= at_once <= max(1, math.floor(rate)) + 1


def test_a_new_bucket_is_full_on_a_machine_that_has_just_started() -> None:
    assert Bucket().take(rate=0.001, now=5.0) == 0


async def test_a_key_that_asks_too_often_waits_and_others_do_not(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
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


async def test_a_key_evicted_from_the_cache_keeps_its_used_up_rate(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "MOST_CACHED", 1)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    slow = (await http.app.keys.create("slow", rate="1/m")).secret
    others = [(await http.app.keys.create(f"{number}")).secret for number in range(3)]
    assert (await http("GET", "/v1/events", authorization=f"Bearer {slow}")).status_code == 200
    for other in others:
        assert (await http("GET", "/v1/events", authorization=f"Bearer {other}")).status_code == 200
    assert (await http("GET", "/v1/events", authorization=f"Bearer {slow}")).status_code == 429
    now += 61
    assert (await http("GET", "/v1/events", authorization=f"Bearer {slow}")).status_code == 200


def test_only_full_buckets_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MOST_CACHED", 10)
    buckets: OrderedDict[str, Bucket] = OrderedDict()
    for number in range(100):
        _bucket(buckets, f"{number}", 1000.0).take(1.0, 1000.0)
    assert len(buckets) == 100
    _bucket(buckets, "one more", 1010.0)
    assert len(buckets) == 10


# -- noting that keys are used


async def test_the_use_of_a_key_is_stored_after_the_answer_and_fails_no_request(
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


async def test_only_so_many_used_keys_are_remembered(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MOST_CACHED", 3)
    door = Authenticator(http.app)
    for number in range(10):
        await door.note_use((await http.app.keys.create(f"{number}")).key.id)
    assert len(door._noted) == 3


# -- keys that are none


async def test_an_unknown_key_is_looked_up_once_in_a_second(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    asked = looking_up(http, monkeypatch)
    unknown = write_key(bytes(32))
    for _ in range(50):
        assert (await http("GET", "/v1/events", authorization=f"Bearer {unknown}")).status_code == 401
    assert len(asked) == 1
    now += auth.KEY_CACHED_FOR_S + 0.01
    assert (await http("GET", "/v1/events", authorization=f"Bearer {unknown}")).status_code == 401
    assert len(asked) == 2


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long guesses too many were made to wait, which nobody does here."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(auth, "sleep", sleep)
    return slept


async def test_simultaneous_guesses_of_keys_wait_the_longer_the_more_they_are(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    all_wait = asyncio.Event()

    async def sleep(seconds: float) -> None:
        """Nobody's wait is over before all wait."""
        slept.append(seconds)
        if len(slept) == 60 - auth.UNKNOWN_KEYS_PER_SECOND:
            all_wait.set()
        await all_wait.wait()

    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(auth, "sleep", sleep)
    monkeypatch.setattr(key_lookups, "BATCH_WINDOW_S", 0.0)
    await http.app.keys.create("a")
    guesses = [write_key(number.to_bytes(32, "big")) for number in range(60)]
    answers = await asyncio.gather(*(http("GET", "/v1/events", authorization=f"Bearer {one}") for one in guesses))
    assert sorted({answer.status_code for answer in answers}) == [401, 429]
    assert slept == [min(number * auth.GUESS_DELAY_S, auth.LONGEST_GUESS_DELAY_S) for number in range(1, 41)]


async def test_whoever_guesses_keys_is_slowed_down_and_who_has_one_is_not(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(key_lookups, "BATCH_WINDOW_S", 0.0)  # for the loop's clock stands still as well
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
    now += auth.KEY_CACHED_FOR_S + 0.01
    for number in range(30):
        await http("GET", "/v1/events", authorization=f"Bearer {write_key(bytes([number]) * 32)}")
    assert (await http("GET", "/v1/events", authorization=good)).status_code == 200


async def test_keys_that_are_guessed_at_once_are_counted_before_anybody_waits(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(key_lookups, "BATCH_WINDOW_S", 0.0)  # for the loop's clock stands still as well
    await http.app.keys.create("a")
    asked, together = looking_up(http, monkeypatch), []
    known_hashes = http.app.store.known_hashes

    async def looked_up(hashes: Any) -> Any:
        together.append(len(hashes))
        return await known_hashes(hashes)

    monkeypatch.setattr(http.app.store, "known_hashes", looked_up)
    guesses = [f"Bearer {write_key(number.to_bytes(32, 'big'))}" for number in range(200)]
    answers = await asyncio.gather(*(http("GET", "/v1/events", authorization=guess) for guess in guesses))
    assert Counter(answer.status_code for answer in answers) == {401: len(asked), 429: 200 - len(asked)}
    assert 20 <= len(asked) <= 21
    assert sum(together) == 200 - len(asked)
    assert len(together) < 100, "they are looked up together"


async def test_a_flood_of_unknown_keys_keeps_no_known_one_out(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(key_lookups, "BATCH_WINDOW_S", 0.0)  # for the loop's clock stands still as well
    monkeypatch.setattr(auth, "MOST_CACHED", 10)
    made = [await http.app.keys.create(f"{number}") for number in range(30)]
    seen_before = f"Bearer {made[0].secret}"
    assert (await http("GET", "/v1/events", authorization=seen_before)).status_code == 200
    guesses = [f"Bearer {write_key(number.to_bytes(32, 'big'))}" for number in range(100)]
    flood = [http("GET", "/v1/events", authorization=guess) for guess in guesses]
    good = [http("GET", "/v1/events", authorization=f"Bearer {one.secret}") for one in made]
    answers = await asyncio.gather(*flood, *good)
    assert [answer.status_code for answer in answers[100:]] == [200] * 30
    assert {answer.status_code for answer in answers[:100]} == {401, 429}


async def test_a_known_key_that_comes_in_a_flood_is_told_if_the_database_is_away(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "UNKNOWN_KEYS_PER_SECOND", 0.001)
    made = [await http.app.keys.create(name) for name in "ab"]
    assert (await http("GET", "/v1/events", authorization=f"Bearer {write_key(bytes(32))}")).status_code == 401

    async def away(_: object) -> None:
        raise StoreUnavailable("planted")

    with monkeypatch.context() as planted:
        planted.setattr(http.app.store, "known_hashes", away)
        assert (await http("GET", "/v1/events", authorization=f"Bearer {made[0].secret}")).status_code == 503
    assert (await http("GET", "/v1/events", authorization=f"Bearer {made[1].secret}")).status_code == 200


def guess_through(server: Served, address: Callable[[int], str], first: int = 0) -> Counter[int]:
    """What becomes of 60 unknown keys, each from another address if one believes the header."""
    with httpx.Client(base_url=server.url) as client:
        return Counter(
            client.get(
                "/v1/events",
                headers={
                    "Authorization": f"Bearer {write_key(number.to_bytes(32, 'big'))}",
                    "X-Forwarded-For": address(number),
                },
            ).status_code
            for number in range(first, first + 60)
        )


def other_each_time(number: int) -> str:
    return f"198.51.100.{number}"


def test_a_header_is_no_address_unless_a_trusted_proxy_sends_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "UNKNOWN_KEYS_PER_SECOND", 0.01)
    with served(url, keyless=False) as server:
        assert guess_through(server, other_each_time) == {401: 1, 429: 59}
    with served(url, keyless=False, trusted_proxies="127.0.0.0/8") as server:
        assert guess_through(server, other_each_time) == {401: 60}
        assert guess_through(server, lambda number: f"{other_each_time(number)}, 203.0.113.9", 60) == {401: 1, 429: 59}


@pytest.mark.parametrize(
    ("peer", "told", "whose"),
    [
        ("203.0.113.5", ["198.51.100.1"], "203.0.113.5"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["8.8.8.8, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["8.8.8.8", "198.51.100.1:4711"], "198.51.100.1"),
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["[2001:db8:1:2:3::4]:443"], "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("2001:db8:1:2:ffff::1", [], "2001:db8:1:2::/64"),
        ("", ["198.51.100.1"], ""),
        ("a unix socket", ["198.51.100.1"], "a unix socket"),
    ],
)
def test_addresses_of_proxies_are_believed_as_far_as_they_are_trusted(peer: str, told: list[str], whose: str) -> None:
    headers = [(b"x-forwarded-for", one.encode()) for one in told]
    request = Request({"type": "http", "headers": headers, "client": (peer, 1) if peer else None})
    assert whose_address(request, [ip_network("10.0.0.0/8")]) == whose


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
    monkeypatch.setattr(time, "monotonic", lambda: now)
    made = await http.app.keys.create("a")
    assert (await http("GET", "/v1/events", authorization=f"Bearer {made.secret}")).status_code == 200
    await http.app.keys.revoke(made.key.id)
    now += auth.KEY_CACHED_FOR_S + 0.01
    assert (await http("GET", "/v1/events", authorization=f"Bearer {made.secret}")).status_code == 401
    assert auth.KEY_CACHED_FOR_S <= 1


async def test_a_key_that_expires_is_good_until_then(
    http: Caller, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "KEY_CACHED_FOR_S", -1.0)
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
        ("x_forwarded", "203.0.113.7"),
        ("x_envoy_external_address", "203.0.113.7"),
        ("x_amzn_trace_id", "Root=1-67891233-abcdef012345678912345678"),
        ("cf_ray", "230b030023ae2822-SJC"),
        ("x_cluster_client_ip", "203.0.113.7"),
        ("x_original_url", "/v1/events"),
        ("x_varnish", "32770"),
        ("x_request_start", "t=1700000000"),
        ("cdn_loop", "cloudflare"),
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


@pytest.mark.parametrize(("version", "status"), [("1.0", 403), ("1.1", 200)])
def test_without_keys_a_request_with_headers_of_proxies_is_refused(url: str, version: str, status: int) -> None:
    """nginx passes requests on by HTTP/1.0 and without a header, unless it is told otherwise."""
    with served(url) as server, socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        connection.sendall(f"GET /v1/events HTTP/{version}\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.split()[1] == str(status).encode()
    assert (b"this request uses HTTP/1.0, as some proxies do" in answer) is (status == 403)


async def test_with_a_key_headers_of_proxies_do_not_matter(http: Caller) -> None:
    made = await http.app.keys.create("a")
    old = httpx.ASGITransport(lambda scope, *rest: http.api({**scope, "http_version": "1.0"}, *rest))
    async with httpx.AsyncClient(transport=old, base_url="http://127.0.0.1") as client:
        answer = await client.get("/v1/events", headers={"Authorization": f"Bearer {made.secret}"})
    assert answer.status_code == 200


async def test_the_first_key_ends_access_without_keys_at_once(http: Caller, duly: OpenDuly) -> None:
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
    headers = {b"Authorization": f"Bearer {made.secret}".encode(), b"Duly-Tenant": "käse".encode()}
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
        ("GET", "/", 200),
        ("GET", "/docs", 200),
        ("GET", "/metrics", 200),
        ("GET", "/openapi.json", 200),
    ],
)
async def test_every_answer_has_what_keeps_browsers_safe(http: Caller, method: str, path: str, status: int) -> None:
    answer = await http.client.request(method, path)
    assert answer.status_code == status
    for name, value in SAFETY.items():
        if path not in ("/", "/docs") or name != "Content-Security-Policy":
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


async def test_readiness_is_checked_once_in_a_second(http: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
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


async def test_misuse_within_the_server_is_not_told_as_the_callers_fault(
    http: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong(*_: object) -> None:
        raise Misuse("planted: the transaction was ended from within")

    monkeypatch.setattr("duly.api.nouns.events.read_filter", wrong)
    failed = await http.client.get("/v1/events?type=x")
    assert failed.status_code == 500
    assert "planted" not in failed.text
    assert "planted" in caplog.text
    with monkeypatch.context() as for_a_moment:  # or the fixture would not close it
        for_a_moment.setattr(http.app, "_opened", 0)
        closed = await http.client.get("/v1/events?type=x")
    assert (closed.status_code, closed.headers["retry-after"]) == (503, "1")


async def test_a_request_that_was_given_up_is_no_fault_of_the_server(
    http: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reached, never = asyncio.Event(), asyncio.Event()

    async def stuck(*_: object) -> None:
        reached.set()
        await never.wait()

    monkeypatch.setattr("duly.api.nouns.events.list_page", stuck)
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

        planted.setattr("duly.api.nouns.events.EVENT_JSON.write", broken)
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
