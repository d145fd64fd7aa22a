"""What becomes of a delivery to a receiver that does everything wrong: the right outcome, soon enough."""

import time
from datetime import timedelta

import pytest

from duly.channels.http import sender
from duly.decide.checks import MAX_PAYLOAD
from duly.records.event import Delivered, Failed, Rejected
from tests.channels.conftest import QUICK, SOON, Deliver
from tests.receivers.hostile import Hostile
from tests.receivers.malformed import CHUNKS

# -- what is delivered

RECEIVED = [
    "/ok",
    "/status/201",
    "/status/204?body=",
    "/status/299",
    "/set-cookie",
    "/early/200",
    "/100-continue?times=3&every=0.01",
    "/100-continue?times=500&every=0",
    "/short-body",
    "/slow-body",
    "/endless-body",
    "/big",
    "/gzip-bomb",
    "/bad-gzip",
    *(f"/bad-chunks?pause=0.05&how={how}" for how in CHUNKS),
    "/reset?when=body",
    "/close?when=body",
    "/two-answers",
]


@pytest.mark.parametrize("path", RECEIVED)
async def test_a_2xx_is_delivered_whatever_becomes_of_its_body(deliver: Deliver, path: str) -> None:
    began = time.monotonic()
    assert await deliver(path) == Delivered()
    assert time.monotonic() - began < 1 + SOON


async def test_the_largest_payload_arrives_whole(deliver: Deliver, hostile: Hostile) -> None:
    payload = "z" * (MAX_PAYLOAD - 2)
    assert await deliver("/ok", payload=payload) == Delivered()
    [request] = hostile.requests()
    assert request.body is not None
    assert f'"{payload}"'.encode() in request.body


# -- what fails

AGAIN = [401, 403, 404, 408, 425, 429, 500, 501, 502, 503, 504, 507, 599]


@pytest.mark.parametrize("status", AGAIN)
async def test_a_status_that_may_pass_fails_and_is_told(deliver: Deliver, hostile: Hostile, status: int) -> None:
    outcome = await deliver(f"/status/{status}?body=please+wait")
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith(f"{status}")
    assert f"127.0.0.1:{hostile.port()}" in outcome.error
    assert "please wait" in outcome.error
    assert outcome.retry_after is None


@pytest.mark.parametrize(
    "path",
    [
        "/slow-body?status=500",
        "/endless-body?status=500",
        "/big?status=500",
        "/gzip-bomb?status=500",
        "/bad-gzip?status=500",
        "/short-body?status=500",
        "/early/500",
        "/reset?when=body&status=500",
        "/close?when=body&status=500",
        *(f"/bad-chunks?status=500&pause=0.05&how={how}" for how in CHUNKS),
    ],
)
async def test_a_5xx_is_told_whatever_becomes_of_its_body(deliver: Deliver, path: str) -> None:
    began = time.monotonic()
    outcome = await deliver(path)
    assert time.monotonic() - began < 1 + SOON
    assert isinstance(outcome, Failed)
    assert outcome.error.startswith("500 Internal Server Error from 127.0.0.1:")
    assert len(outcome.error) < 500
    assert all(line.isprintable() for line in outcome.error.split("\n"))


@pytest.mark.parametrize(
    "path", ["/no-answer", "/slow-headers?drip=0.05", "/100-continue?every=0.05", "/delay?seconds=9"]
)
async def test_a_receiver_that_does_not_answer_in_time_fails(deliver: Deliver, path: str, hostile: Hostile) -> None:
    assert await deliver("/ok") == Delivered()  # from here on there is a connection
    began = time.monotonic()
    outcome = await deliver(path, timeout=QUICK)
    assert 0.25 <= time.monotonic() - began < 0.3 + SOON
    assert isinstance(outcome, Failed)
    assert "no answer within 0.3 s" in outcome.error
    assert f"127.0.0.1:{hostile.port()}" in outcome.error


async def test_a_flood_of_interim_answers_fails_in_time(deliver: Deliver) -> None:
    began = time.monotonic()
    outcome = await deliver("/100-continue?every=0", timeout=QUICK)
    assert time.monotonic() - began < 0.3 + SOON
    assert isinstance(outcome, Failed)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/close?when=head", "closed the connection without an answer"),
        ("/close?when=headers", "closed the connection without an answer"),
        ("/reset?when=head", "the connection broke"),
        ("/reset?when=headers", "the connection broke"),
        ("/garbage", "not HTTP"),
        ("/garbage?bytes=1000000", "not HTTP"),
        ("/not-http-version", "not HTTP"),
        ("/not-http-version?version=ICY", "not HTTP"),
        *((f"/bad-chunks?how={how}", "not HTTP") for how in CHUNKS),
        ("/long-header", "not HTTP"),
        ("/many-headers", "not HTTP"),
        ("/slow-headers?drip=0", "not HTTP"),
        ("/status/99", "not HTTP"),
        ("/status/2000", "not HTTP"),
        ("/status/abc", "not HTTP"),
    ],
)
async def test_an_answer_that_is_no_http_fails_and_is_told(
    deliver: Deliver, hostile: Hostile, path: str, told: str
) -> None:
    began = time.monotonic()
    outcome = await deliver(path)
    assert time.monotonic() - began < SOON
    assert isinstance(outcome, Failed)
    assert told in outcome.error
    assert f"127.0.0.1:{hostile.port()}" in outcome.error
    assert len(outcome.error) < 500
    assert all(line.isprintable() for line in outcome.error.split("\n"))


@pytest.mark.parametrize(
    ("door", "told"),
    [
        ("resets", "connect"),  # it broke or was not made, as soon as the client came to notice
        ("closes", "connection"),
        ("refused", "cannot connect: Connection refused"),
        ("self-signed", "self-signed certificate"),
        ("expired", "certificate has expired"),
        ("wrong-host", "not valid for '127.0.0.1'"),
        ("plain-text", "TLS failed"),
        ("broken-off", "Connection reset by peer"),
    ],
)
async def test_a_port_that_cannot_be_connected_to_fails_and_is_told(
    deliver: Deliver, hostile: Hostile, door: str, told: str
) -> None:
    began = time.monotonic()
    outcome = await deliver("/ok", door)
    assert time.monotonic() - began < SOON
    assert isinstance(outcome, Failed)
    assert told in outcome.error
    assert f"127.0.0.1:{hostile.port(door)}" in outcome.error
    assert all(line.isprintable() for line in outcome.error.split("\n"))


@pytest.mark.parametrize("door", ["silent", "unanswered", "stalled"])
async def test_a_port_that_does_not_finish_connecting_fails_in_time(
    deliver: Deliver, hostile: Hostile, door: str
) -> None:
    began = time.monotonic()
    outcome = await deliver("/ok", door, timeout=QUICK)
    assert time.monotonic() - began < 0.3 + SOON
    assert isinstance(outcome, Failed)
    assert "within 0.3 s" in outcome.error
    assert f"127.0.0.1:{hostile.port(door)}" in outcome.error


@pytest.fixture
def quick_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is made after this."""
    monkeypatch.setattr(sender, "CONNECT_TIMEOUT", 0.2)


@pytest.mark.usefixtures("quick_to_connect")
@pytest.mark.parametrize("door", ["unanswered", "stalled"])
async def test_a_connection_has_less_time_than_an_answer(deliver: Deliver, door: str) -> None:
    outcome = await deliver("/ok", door)
    assert isinstance(outcome, Failed)
    assert "no connection within 0.2 s" in outcome.error


async def test_the_query_of_a_url_is_in_no_error(deliver: Deliver) -> None:
    for path in ("/garbage?bytes=9", "/many-headers?", "/close?", "/reset?", "/no-answer?", "/status/500?", "/ok?"):
        for door in ("open", "closes", "resets", "refused", "expired"):
            outcome = await deliver(f"{path}&token=hush", door, timeout=QUICK)
            assert "hush" not in getattr(outcome, "error", ""), (path, door)


async def test_a_good_certificate_is_delivered_to(deliver: Deliver) -> None:
    assert await deliver("/ok", "trusted") == Delivered()


# -- what is rejected


@pytest.mark.parametrize("status", [400, 402, 405, 406, 409, 410, 413, 422, 451, 499])
async def test_any_other_4xx_is_rejected_at_once(deliver: Deliver, hostile: Hostile, status: int) -> None:
    outcome = await deliver(f"/status/{status}?body=never+again&retry-after=5")
    assert isinstance(outcome, Rejected)
    assert outcome.error.startswith(f"{status}")
    assert f"127.0.0.1:{hostile.port()}" in outcome.error
    assert "never again" in outcome.error
    assert outcome.gone is (status == 410)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
async def test_a_redirect_is_rejected_and_not_followed(deliver: Deliver, hostile: Hostile, status: int) -> None:
    elsewhere = hostile.url("/ok?token=secret")
    outcome = await deliver(f"/redirect/{status}?to={elsewhere}")
    assert isinstance(outcome, Rejected)
    assert outcome.error.startswith(f"{status}")
    assert hostile.url("/ok") in outcome.error
    assert "secret" not in outcome.error
    assert [request.behaviour for request in hostile.requests()] == ["redirect"]


# -- when it may be tried again


@pytest.mark.parametrize("status", [401, 403, 404, 408, 425, 429, 500, 503])
async def test_retry_after_in_seconds_is_kept(deliver: Deliver, status: int) -> None:
    outcome = await deliver(f"/status/{status}?retry-after=7")
    assert isinstance(outcome, Failed)
    assert outcome.retry_after == timedelta(seconds=7)


async def test_retry_after_as_a_date_is_kept(deliver: Deliver) -> None:
    outcome = await deliver("/status/429?retry-date=600")
    assert isinstance(outcome, Failed)
    assert outcome.retry_after is not None
    assert timedelta(seconds=590) < outcome.retry_after <= timedelta(seconds=600)


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("retry-after=soon", None),
        ("retry-after=1.5", None),
        ("retry-after=-5", None),
        ("retry-after=0", timedelta()),
        ("retry-date=-600", timedelta()),
        ("retry-after=99999999999999999999999999", timedelta(days=1)),
        ("retry-after=Fri,+99+Nov+99999+99:99:99+GMT", None),
        ("retry-after=%D9%A7", None),
    ],
)
async def test_an_unreasonable_retry_after_is_bounded_or_ignored(
    deliver: Deliver, asked: str, kept: timedelta | None
) -> None:
    outcome = await deliver(f"/status/503?{asked}")
    assert isinstance(outcome, Failed)
    assert outcome.retry_after == kept
