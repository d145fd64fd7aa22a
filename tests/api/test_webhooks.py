"""Webhooks and HTTP requests over the whole path: from what a caller asks for to what a receiver gets, and back."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from cloudevents.core.formats.json import JSONFormat

from duly import Duly, Event, Failed, Invalid, Retry, Status, every, http, webhook
from duly.records.event import Outcome
from duly.testing import ManualClock
from tests.api.sending import KEY, OLD_KEY, OPTIONS, acts, body, many_due, one_due, verified
from tests.conftest import OpenDuly
from tests.make import DAY, MINUTE, SECOND, START, a_user
from tests.receivers.caller import Caller
from tests.receivers.obedient import Answer, Obedient


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    return await duly(**OPTIONS)


# -- what is sent


async def test_a_webhook_has_the_documented_body_and_headers(app: Duly, clock: ManualClock, receiver: Obedient) -> None:
    payload = {"message": "Hey, Ada Lovelace it’s your birthday", "n": [1, 2.5, None, True]}
    event = await one_due(app, clock, webhook(receiver.url("/in?x=1")), payload, tenant="acme", correlation_id="c1")
    clock.advance(milliseconds=20)
    await app.tick()
    [request] = receiver.requests
    assert (request.method, request.target) == ("POST", "/in?x=1")
    headers = {name.lower(): value for name, value in request.headers}
    assert headers["webhook-id"] == headers["idempotency-key"] == event.id
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("Duly/")
    assert len(headers) == len(request.headers), "none is there twice"
    assert "cookie" not in headers
    assert "authorization" not in headers
    assert body(request) == {
        "type": "cart.abandoned",
        "timestamp": "2026-01-01T00:00:00Z",
        "data": payload,
        "event": {
            "id": event.id,
            "key": None,
            "tenant": "acme",
            "due_at": "2026-01-01T00:00:00Z",
            "fired_at": "2026-01-01T00:00:00.020000Z",
            "lateness_seconds": 0.02,
            "attempt": 1,
            "correlation_id": "c1",
            "schedule": None,
            "user": None,
        },
    }
    assert list(body(request)) == ["type", "timestamp", "data", "event"]


@pytest.mark.parametrize("payload", [None, 0, "", "téxt", [], {}, [None], {"ü": "\u2028"}])
async def test_any_payload_arrives_by_webhook_as_it_was_given(
    app: Duly, clock: ManualClock, receiver: Obedient, payload: Any
) -> None:
    await one_due(app, clock, webhook(receiver.url()), payload)
    await app.tick()
    assert body(receiver.requests[0])["data"] == payload


async def test_retries_and_replays_of_a_webhook_have_the_same_id_and_say_which_attempt_they_are(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    receiver.answer = Answer(503)
    event = await one_due(app, clock, webhook(receiver.url()))
    for _ in range(3):
        await app.tick()
        clock.advance(MINUTE * 3)
    assert (await app.events.get(event.id)).status is Status.FAILED
    receiver.answer = Answer(200)
    await app.events.replay(event.id)
    await app.tick()
    assert (await app.events.get(event.id)).status is Status.COMPLETED
    assert receiver.ids == [event.id] * 4
    assert {request.header("idempotency-key") for request in receiver.requests} == {event.id}
    told = [body(request)["event"] for request in receiver.requests]
    assert [one["attempt"] for one in told] == [1, 2, 3, 1]
    assert {one["due_at"] for one in told} == {"2026-01-01T00:00:00Z"}
    assert [one["lateness_seconds"] for one in told] == [0.0, 180.0, 360.0, 540.0]
    assert [one["fired_at"] for one in told[:2]] == ["2026-01-01T00:00:00Z", "2026-01-01T00:03:00Z"]


async def test_schedules_and_users_deliver_by_webhook(app: Duly, clock: ManualClock, receiver: Obedient) -> None:
    await app.every("digest", every("1h"), "digest.send", {"d": 1}, target=webhook(receiver.url("/schedule")))
    user = await app.users.add(**a_user(timezone="UTC", target=webhook(receiver.url("/user"))))
    clock.advance(hours=1)
    await app.tick()
    clock.set(START.replace(month=3, day=15, hour=9))
    await app.tick()
    sent = {request.target: body(request) for request in receiver.requests}
    assert sent["/schedule"]["type"] == "digest.send"
    assert sent["/schedule"]["data"] == {"d": 1}
    assert sent["/user"]["type"] == "birthday"
    assert sent["/user"]["data"]["message"] == "Hey, Ada Lovelace it's your birthday"
    [event] = [event for event in await app.events.find(limit=1000) if event.user_id == user.id and event.executed]
    assert event.id == sent["/user"]["event"]["id"]


async def test_a_cloud_event_says_the_same_as_a_plain_webhook(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    payload = {"cart": 9, "of": "Ada"}
    plain = webhook(receiver.url("/plain"))
    event = await one_due(app, clock, plain, payload, tenant="acme co", correlation_id="c1", key="k1")
    cloud = webhook(receiver.url("/cloud"), format="cloudevents")
    await one_due(app, clock, cloud, payload, tenant="acme co", correlation_id="c1", key="k2")
    clock.advance(milliseconds=1500)
    await app.tick()
    sent = {request.target: request for request in receiver.requests}
    headers = {name.lower(): value for name, value in sent["/cloud"].headers}
    assert headers["content-type"] == "application/cloudevents+json"
    read = from_structured_event(HTTPMessage(headers=headers, body=sent["/cloud"].body or b""), JSONFormat())
    said = body(sent["/plain"])
    assert read.get_specversion() == "1.0"
    assert read.get_id() == headers["webhook-id"] != event.id
    assert read.get_type() == said["type"]
    assert read.get_data() == said["data"]
    assert read.get_source() == "/duly/acme%20co"
    assert read.get_subject() == "k2"
    assert read.get_time() == START
    told = said["event"]
    assert read.get_extension("tenant") == told["tenant"]
    assert read.get_extension("attempt") == told["attempt"]
    assert read.get_extension("firedat") == told["fired_at"]
    assert read.get_extension("correlationid") == told["correlation_id"]
    assert verified(sent["/cloud"], app.targets.signing_secret(receiver.url(), tenant="acme co"))


async def test_a_cloud_event_without_key_payload_and_correlation_is_valid(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    event = await one_due(app, clock, webhook(receiver.url(), format="cloudevents"))
    await app.tick()
    [request] = receiver.requests
    headers = {name.lower(): value for name, value in request.headers}
    read = from_structured_event(HTTPMessage(headers=headers, body=request.body or b""), JSONFormat())
    assert (read.get_id(), read.get_data(), read.get_subject()) == (event.id, None, None)


# -- signatures


async def test_a_webhook_to_a_url_is_signed_by_a_secret_of_that_origin_and_tenant(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    await one_due(app, clock, webhook(receiver.url("/a")))
    await app.tick()
    [request] = receiver.requests
    secret = app.targets.signing_secret(receiver.url("/whatever"))
    assert verified(request, secret)
    assert not verified(request, app.targets.signing_secret(receiver.url(), tenant="acme"))
    assert not verified(request, app.targets.signing_secret("https://hooks.example"))


async def test_a_webhook_that_was_changed_or_is_old_is_not_verified(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    await one_due(app, clock, webhook(receiver.url()))
    await app.tick()
    [request] = receiver.requests
    secret = app.targets.signing_secret(receiver.url())
    assert verified(request, secret)
    long_ago = str(int(time.time()) - 3600)
    for change in ({"webhook-id": "another"}, {"webhook-timestamp": long_ago}, {"webhook-signature": "v1,AAAA"}):
        assert not verified(request, secret, **change)


async def test_two_keys_sign_a_webhook_twice(duly: OpenDuly, clock: ManualClock, receiver: Obedient) -> None:
    old, both = (
        await duly(**OPTIONS | {"secret_key": OLD_KEY}),
        await duly(**OPTIONS | {"secret_key": f"{KEY},{OLD_KEY}"}),
    )
    new = await duly(**OPTIONS)
    await one_due(both, clock, webhook(receiver.url()))
    await both.tick()
    [request] = receiver.requests
    for app in (old, new):
        assert verified(request, app.targets.signing_secret(receiver.url()))
    assert len((request.header("webhook-signature") or "").split()) == 2


async def test_without_a_key_a_webhook_has_no_signature(duly: OpenDuly, clock: ManualClock, receiver: Obedient) -> None:
    app = await duly(webhook_allow="127.0.0.0/8")
    event = await one_due(app, clock, webhook(receiver.url()))
    await app.tick()
    [request] = receiver.requests
    assert request.header("webhook-signature") is None
    assert request.header("webhook-id") == event.id


async def test_a_stored_target_signs_with_its_own_secret(app: Duly, clock: ManualClock, receiver: Obedient) -> None:
    target = await app.targets.put("crm", receiver.url("/crm"), headers={"Authorization": "Bearer t0ken"})
    await one_due(app, clock, webhook(target="crm"))
    await app.tick()
    [request] = receiver.requests
    assert request.target == "/crm"
    assert request.header("authorization") == "Bearer t0ken"
    assert target.secret
    assert verified(request, target.secret)
    assert not verified(request, app.targets.signing_secret(receiver.url()))


class Wall:
    """The time of day by which secrets end, in place of the module ``time``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        for module in ("duly.channels.http.webhook", "duly.verbs.targets"):
            monkeypatch.setattr(f"{module}.time", self)

    def time(self) -> float:
        return time.time() + self.ahead


async def test_a_secret_is_rotated_without_a_gap(
    app: Duly, clock: ManualClock, receiver: Obedient, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = Wall(monkeypatch)
    old = (await app.targets.put("crm", receiver.url())).secret
    new = (await app.targets.rotate("crm", keep="1h")).secret
    assert old
    assert new
    assert old != new
    wall.ahead = 3500
    await one_due(app, clock, webhook(target="crm"))
    await app.tick()
    wall.ahead = 3700
    await one_due(app, clock, webhook(target="crm"))
    await app.tick()
    during, after = receiver.requests
    assert verified(during, old)
    assert verified(during, new), "from the first moment"
    assert verified(after, new)
    assert not verified(after, old)


async def test_a_secret_that_leaked_can_be_dropped_at_once(app: Duly, clock: ManualClock, receiver: Obedient) -> None:
    leaked = (await app.targets.put("crm", receiver.url())).secret
    brought = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert (await app.targets.rotate("crm", secret=brought, keep=timedelta())).secret == brought
    await one_due(app, clock, webhook(target="crm"))
    await app.tick()
    [request] = receiver.requests
    assert verified(request, brought)
    assert leaked
    assert not verified(request, leaked)


async def test_rotating_again_does_not_lengthen_the_life_of_older_secrets(
    app: Duly, clock: ManualClock, receiver: Obedient, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = Wall(monkeypatch)
    first = (await app.targets.put("crm", receiver.url())).secret
    second = (await app.targets.rotate("crm", keep="1h")).secret
    third = (await app.targets.rotate("crm", keep="1d")).secret
    wall.ahead = 7200
    await one_due(app, clock, webhook(target="crm"))
    await app.tick()
    [request] = receiver.requests
    assert first
    assert second
    assert third
    assert [verified(request, secret) for secret in (first, second, third)] == [False, True, True]


@pytest.mark.parametrize(
    "name", ["webhook-id", "Webhook-Signature", "WEBHOOK-TIMESTAMP", "content-type", "idempotency-key"]
)
async def test_a_target_cannot_set_the_headers_of_the_webhook_itself(app: Duly, name: str) -> None:
    with pytest.raises(Invalid, match=f"headers.{name}: is set by the webhook"):
        await app.targets.put("crm", "https://hooks.example", headers={name: "x"})


# -- any other request


@pytest.mark.parametrize(
    ("said", "content_type", "sent"),
    [
        ({}, "application/json", b'{"p":1}'),
        ({"body": None}, None, b""),
        ({"body": "plain é"}, "text/plain; charset=utf-8", "plain é".encode()),
        ({"body": ""}, "text/plain; charset=utf-8", b""),
        ({"body": {"a": [1, None]}}, "application/json", b'{"a":[1,null]}'),
        ({"body": 0}, "application/json", b"0"),
        ({"body": "<a/>", "headers": {"content-type": "text/xml"}}, "text/xml", b"<a/>"),
    ],
)
async def test_a_request_has_the_body_that_it_was_told(
    app: Duly, clock: ManualClock, receiver: Obedient, said: dict[str, Any], content_type: str | None, sent: bytes
) -> None:
    await one_due(app, clock, http("PUT", receiver.url("/x?y=1"), **said), {"p": 1})
    await app.tick()
    [request] = receiver.requests
    assert (request.method, request.target, request.body) == ("PUT", "/x?y=1", sent)
    assert request.header("content-type") == content_type
    assert len({name.lower() for name, _ in request.headers}) == len(request.headers)


@pytest.mark.parametrize(
    ("method", "sent"),
    [("POST", b'{"p":1}'), ("PATCH", b'{"p":1}'), ("GET", b""), ("DELETE", b""), ("OPTIONS", b"")],
)
async def test_the_payload_is_sent_where_the_method_has_a_body(
    app: Duly, clock: ManualClock, receiver: Obedient, method: str, sent: bytes
) -> None:
    await one_due(app, clock, http(method, receiver.url()), {"p": 1})
    await app.tick()
    [request] = receiver.requests
    assert (request.method, request.body) == (method, sent)


async def test_a_request_is_named_by_its_event_and_signed_by_nobody(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    receiver.answer = Answer(500)
    event = await one_due(app, clock, http("POST", receiver.url(), headers={"X-Source": "duly"}))
    await app.tick()
    clock.advance(MINUTE)
    await app.tick()
    assert [request.header("idempotency-key") for request in receiver.requests] == [event.id] * 2
    assert [request.header("x-source") for request in receiver.requests] == ["duly"] * 2
    assert not any(name.lower().startswith("webhook-") for name, _ in receiver.requests[0].headers)


@pytest.mark.parametrize("name", ["Idempotency-Key", "idempotency-key"])
async def test_a_request_may_bring_an_idempotency_key_of_its_own(
    app: Duly, clock: ManualClock, receiver: Obedient, name: str
) -> None:
    await one_due(app, clock, http("POST", receiver.url(), headers={name: "mine"}))
    await app.tick()
    [request] = receiver.requests
    assert [value for own, value in request.headers if own.lower() == "idempotency-key"] == ["mine"]


async def test_a_stored_request_keeps_its_headers_to_itself(app: Duly, clock: ManualClock, receiver: Obedient) -> None:
    await app.targets.put(
        "billing", receiver.url("/b"), channel="http", method="PATCH", headers={"Authorization": "Bearer t0ken"}
    )
    event = await one_due(app, clock, http(target="billing", body={"b": 1}))
    await one_due(app, clock, http(target="billing"), {"p": 1})
    await app.tick()
    assert sorted((request.method, request.body) for request in receiver.requests) == [
        ("PATCH", b'{"b":1}'),
        ("PATCH", b'{"p":1}'),
    ]
    assert {request.header("authorization") for request in receiver.requests} == {"Bearer t0ken"}
    assert "t0ken" not in repr(await app.events.get(event.id))


# -- what an answer means


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_an_answer_of_2xx_completes_the_event(
    app: Duly, clock: ManualClock, receiver: Obedient, status: int
) -> None:
    receiver.answer = Answer(status)
    event = await one_due(app, clock, webhook(receiver.url()))
    await app.tick()
    done = await app.events.get(event.id)
    assert (done.status, done.attempts, done.last_error) == (Status.COMPLETED, 1, None)


@pytest.mark.parametrize("make", [webhook, lambda url: http("POST", url)])
@pytest.mark.parametrize("status", [401, 403, 404, 408, 425, 429, 500, 502, 503, 504, 599])
async def test_an_answer_that_may_be_temporary_is_tried_again(
    app: Duly, clock: ManualClock, receiver: Obedient, status: int, make: Callable[[str], Any]
) -> None:
    receiver.answer = Answer(status, body=b"so sorry")
    event = await one_due(app, clock, make(receiver.url()))
    await app.tick()
    again = await app.events.get(event.id)
    assert (again.status, again.attempts, again.due) == (Status.PENDING, 1, START)
    assert again.ready is not None
    assert START + 30 * SECOND <= again.ready <= START + 37.5 * SECOND
    assert again.last_error
    assert again.last_error.startswith(str(status))
    receiver.answer = Answer()
    clock.advance(MINUTE)
    await app.tick()
    assert (await app.events.get(event.id)).status is Status.COMPLETED


@pytest.mark.parametrize(
    ("status", "retried"),
    [(404, True), (409, True), (410, True), (302, True), (401, False), (429, False), (503, False), (400, False)],
)
@pytest.mark.parametrize("stored", [True, False])
async def test_a_request_retries_the_statuses_that_its_target_sets_and_no_others(
    app: Duly, clock: ManualClock, receiver: Obedient, status: int, retried: bool, stored: bool
) -> None:
    statuses = [302, 404, 409, 410]
    target = http("PUT", receiver.url(), retry_statuses=statuses)
    if stored:
        await app.targets.put("legacy", receiver.url(), channel="http", method="PUT", retry_statuses=statuses)
        target = http(target="legacy")
    receiver.answer = Answer(status)
    event = await one_due(app, clock, target)
    await app.tick()
    assert (await app.events.get(event.id)).status is (Status.PENDING if retried else Status.FAILED)
    receiver.answer = Answer(200)
    clock.advance(DAY)
    await app.tick()
    assert (await app.events.get(event.id)).status is (Status.COMPLETED if retried else Status.FAILED)
    assert await app.targets.destinations() == [], "a 410 that is retried disables nothing"


@pytest.mark.parametrize("status", [300, 301, 302, 304, 307, 308, 400, 402, 405, 409, 413, 418, 422, 451])
async def test_an_answer_that_is_permanent_makes_a_dead_letter_at_once(
    app: Duly, clock: ManualClock, receiver: Obedient, status: int
) -> None:
    receiver.answer = Answer(status, {"Location": receiver.url("/elsewhere")}, b"no" if status != 304 else b"")
    event = await one_due(app, clock, webhook(receiver.url()))
    for _ in range(2):
        await app.tick()
        clock.advance(DAY)
    letter = await app.events.get(event.id)
    assert (letter.status, letter.attempts) == (Status.FAILED, 1)
    assert letter.last_error
    assert letter.last_error.startswith(str(status))
    assert len(receiver.requests) == 1, "and no redirect is followed"
    assert await acts(app, event.id) == ["rejected"]


async def test_three_attempts_with_backoff_and_then_a_dead_letter_that_says_why(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    receiver.answer = Answer(503, body=b"  the database\nis \x1b[31mdown  ")
    event = await one_due(app, clock, webhook(receiver.url()))
    at = []
    while (event := await app.events.get(event.id)).status is Status.PENDING:
        assert event.ready is not None
        clock.set(event.ready)
        at.append(clock.now())
        await app.tick()
    waits = [later - earlier for earlier, later in pairwise(at)]
    assert len(at) == 3
    assert 30 * SECOND <= waits[0] <= 37.5 * SECOND
    assert 120 * SECOND <= waits[1] <= 150 * SECOND
    assert (event.status, event.attempts, event.due) == (Status.FAILED, 3, START)
    host = receiver.origin.removeprefix("http://")
    assert event.last_error == f"503 Service Unavailable from {host}\nthe database is ·[31mdown"
    history = await app.events.history(event.id)
    assert [entry.detail for entry in history] == [event.last_error] * 3


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(("asked", "least"), [("600", 600 * SECOND), ("0", 30 * SECOND), ("7", 30 * SECOND)])
async def test_retry_after_in_seconds_moves_ready_at_least_so_far_and_leaves_due(
    app: Duly, clock: ManualClock, receiver: Obedient, status: int, asked: str, least: timedelta
) -> None:
    receiver.answer = Answer(status, {"Retry-After": asked})
    event = await one_due(app, clock, webhook(receiver.url()))
    await app.tick()
    again = await app.events.get(event.id)
    assert again.ready is not None
    assert least <= again.ready - START <= 1.3 * least
    assert again.due == START


DATES: dict[str, Callable[[float], str]] = {
    "as all write it": lambda at: formatdate(at, usegmt=True),
    "as C writes it": lambda at: time.asctime(time.gmtime(at)),
    "without a zone": lambda at: formatdate(at, usegmt=True).removesuffix(" GMT"),
}


@pytest.mark.parametrize("form", DATES)
async def test_retry_after_may_be_a_date(
    app: Duly, clock: ManualClock, receiver: Obedient, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is in Greenwich's time, wherever the worker is."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        receiver.answer = Answer(503, {"Retry-After": DATES[form](time.time() + 600)})
        event = await one_due(app, clock, webhook(receiver.url()))
        await app.tick()
    finally:
        monkeypatch.undo()
        time.tzset()
    again = await app.events.get(event.id)
    assert again.ready is not None
    assert 580 * SECOND <= again.ready - START <= 601 * SECOND


async def test_an_event_whose_receiver_cannot_be_reached_says_so(app: Duly, clock: ManualClock) -> None:
    event = await one_due(app, clock, webhook("http://127.0.0.1:9/in"))
    await app.tick()
    again = await app.events.get(event.id)
    assert (again.status, again.attempts) == (Status.PENDING, 1)
    assert again.last_error == "cannot connect: Connection refused (127.0.0.1:9)"


# -- 410


async def test_a_410_disables_a_stored_target_until_a_person_enables_it(
    app: Duly, clock: ManualClock, receiver: Obedient
) -> None:
    await app.targets.put("crm", receiver.url())
    receiver.answer = Answer(410)
    first = await one_due(app, clock, webhook(target="crm"))
    await app.tick()
    assert (await app.events.get(first.id)).status is Status.FAILED
    assert not (await app.targets.get("crm")).enabled
    receiver.answer = Answer(200)
    waiting = await many_due(app, clock, webhook(target="crm"), 5)
    await app.tick()
    clock.advance(DAY)
    await app.tick()
    assert len(receiver.requests) == 1, "it takes a person"
    host = receiver.origin.removeprefix("http://")
    for id in waiting:
        event = await app.events.get(id)
        assert (event.status, event.attempts) == (Status.PENDING, 0)
        assert event.held == f"target crm is disabled: 410 Gone from {host}"
    assert await app.targets.enable("crm") == 5
    await app.tick()
    assert sorted(map(str, receiver.ids[1:])) == sorted(waiting)
    assert (await app.targets.get("crm")).enabled


@pytest.mark.parametrize(("gone", "alive"), [("/old", "/new"), ("/", "/new"), ("", "/new"), ("/old?x=1", "/")])
async def test_a_410_from_a_url_disables_that_url_alone(
    app: Duly, clock: ManualClock, receiver: Obedient, gone: str, alive: str
) -> None:
    receiver.answer = lambda request: Answer(410 if request.target == (gone or "/") else 200)
    await one_due(app, clock, webhook(receiver.url(gone)))
    await app.tick()
    held, sent = [await one_due(app, clock, webhook(receiver.url(path))) for path in (gone, alive)]
    elsewhere = await one_due(app, clock, webhook(receiver.url(gone)), tenant="acme")
    await app.tick()
    assert (await app.events.get(held.id)).held is not None
    assert (await app.events.get(sent.id)).status is Status.COMPLETED
    assert (await app.events.get(elsewhere.id)).status is Status.FAILED, "another tenant finds out for itself"
    [known, _] = await app.targets.destinations()
    assert known.tenant == "acme"
    receiver.answer = Answer()
    [known] = await app.targets.destinations(tenant="default")
    assert await app.targets.enable(known.destination) == 1, "by the name under which it is listed"
    await app.tick()
    assert (await app.events.get(held.id)).status is Status.COMPLETED


# -- what is never told


async def test_neither_payloads_nor_secrets_get_into_a_log(
    duly: OpenDuly, clock: ManualClock, receiver: Obedient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    app = await duly(**OPTIONS)
    target = await app.targets.put("crm", receiver.url("/crm?token=hunter2"), headers={"Authorization": "hunter2"})
    rotated = await app.targets.rotate("crm")
    echoes = [
        Answer(503, {"Retry-After": "1", "Location": "https://hunter2.example"}, b'{"card":"hunter2"}'),
        Answer(400, {"X": "hunter2"}, b'hunter2\n{"card":"hunter2"}'),
        Answer(302, {"Location": "https://hooks.example/hunter2?card=hunter2"}, b"hunter2"),
        Answer(410, {}, b"hunter2"),
        Answer(200, {}, b"hunter2"),
    ]
    for answer in echoes:
        receiver.answer = answer
        for destination in (webhook(target="crm"), webhook(receiver.url("/x?token=hunter2"))):
            retry = Retry(max_attempts=1) if answer.status == 503 else Retry()
            await one_due(app, clock, destination, {"card": "hunter2"}, retry=retry)
        await app.tick()
        for known in await app.targets.destinations():
            await app.targets.enable(known.destination)
    await app.tick()
    told = caplog.text + "".join(repr(vars(record)) for record in caplog.records)
    assert "event.failed" in told
    assert "target.disabled" in told
    assert "hunter2" not in told
    for secret in (target.secret, rotated.secret, KEY):
        assert secret
        assert secret not in told


async def test_an_answer_that_is_no_http_is_not_logged(
    app: Duly, clock: ManualClock, receiver: Obedient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def echo(self: Caller, *_: Any) -> None:
        await self.say(b'{"card":"hunter2"} hunter2\r\n\r\n')

    monkeypatch.setattr(Caller, "answer", echo)
    caplog.set_level(logging.DEBUG)
    event = await one_due(app, clock, webhook(receiver.url()), {"card": "hunter2"})
    await app.tick()
    failed = await app.events.get(event.id)
    assert failed.attempts == 1
    assert failed.last_error
    assert failed.last_error.startswith("its answer is not HTTP (127.0.0.1:")
    assert "event.retried" in caplog.text
    assert "hunter2" not in caplog.text


async def test_the_error_that_a_tenant_sees_names_no_file_of_this_machine(
    duly: OpenDuly, clock: ManualClock, tmp_path: Path
) -> None:
    class Broken:
        async def deliver(self, event: Event) -> Outcome:
            return Failed((tmp_path / "missing.pem").read_text())

    app = await duly(channels={"webhook": Broken()}, **OPTIONS)
    event = await one_due(app, clock, webhook("http://127.0.0.1/in"))
    await app.tick()
    found = await app.events.get(event.id)
    assert found.attempts == 1
    assert found.last_error == "Broken raised FileNotFoundError: No such file or directory"
