"""Nothing that anybody writes into a target makes a worker reach what is closed. The server that must not be reached is
there and listens; it says whether anybody came."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from duly import Duly, Status, Timer, http, webhook
from duly.channels.http.guard import Resolver
from duly.channels.http.sender import OutgoingRequest, Sender
from duly.decide.targets.addresses import read_networks
from duly.records.event import Delivered, Outcome, Rejected
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.make import DAY
from tests.receivers.hostile import Hostile
from tests.receivers.resolving import Names

SHORT = timedelta(milliseconds=300)
Sends = Callable[[str], Awaitable[Outcome]]


@pytest.fixture
async def send() -> AsyncIterator[Sends]:
    """Through a sender that may reach nothing but what is public."""
    sender = Sender()

    async def send(url: str) -> Outcome:
        return await sender.send(OutgoingRequest("POST", url, {}, b"{}"))

    yield send
    await sender.close()


def is_blocked(outcome: Outcome, reason: str, caplog: pytest.LogCaptureFixture) -> bool:
    """Whoever named the target learns that it is; why, only the log says."""
    closed = isinstance(outcome, Rejected) and " has an address in a network that is not public; " in outcome.error
    return closed and reason in caplog.text and (not reason or reason not in str(outcome))


LOOPBACK = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "0x7f.0x0.0x0.0x1",
    "127.0.0.1.",
    "127.255.255.254",
    "0.0.0.0",
    "0",
    "localhost",
    "LOCALHOST",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[::ffff:0:127.0.0.1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "１２７.0.0.1",  # noqa: RUF001 - which is 127.0.0.1 to whoever normalises it
    "127。0。0。1",
]


@pytest.mark.parametrize("host", LOOPBACK)
async def test_loopback_is_closed_however_it_is_written(send: Sends, hostile: Hostile, host: str) -> None:
    outcome = await send(hostile.url("/ok", host=host))
    assert isinstance(outcome, Rejected), outcome
    assert outcome.error.startswith("blocked: ")
    assert hostile.connections().accepted == 0


@pytest.mark.parametrize(
    ("host", "what"),
    [
        ("169.254.169.254", "link-local, used by clouds' credentials services"),
        ("[::ffff:a9fe:a9fe]", "link-local, used by clouds' credentials services"),
        ("0xa9fea9fe", "link-local"),
        ("10.0.0.1", "a private network"),
        ("192.168.1.1", "a private network"),
        ("172.16.0.1", "a private network"),
        ("100.64.0.1", "a carrier's own network"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("[fd00:ec2::254]", "not a public address"),
        ("[fe80::1]", "not a public address"),
        ("[fe80::1%25lo]", ""),
        ("[ff02::1]", "not a public address"),
    ],
)
async def test_a_blocked_address_is_told_and_nothing_is_connected(
    send: Sends, host: str, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert is_blocked(await send(f"http://{host}/latest/meta-data"), what, caplog)


async def test_a_host_that_is_a_number_is_blocked(send: Sends) -> None:
    outcome = await send("http://2852039166/latest/meta-data")
    assert isinstance(outcome, Rejected)
    assert outcome.error.startswith("blocked: ")
    assert "not a canonical IPv4 address" in outcome.error


async def test_the_refusal_of_a_blocked_address_says_what_to_do(send: Sends) -> None:
    outcome = await send("http://10.1.2.3:8080/in?token=hunter2")
    assert outcome == Rejected(
        "blocked: 10.1.2.3:8080 has an address in a network that is not public; "
        "to allow it, set DULY_WEBHOOK_ALLOW where the worker runs"
    )


# -- names


async def knowing(answers: list[str | list[str]], hostile: Hostile, times: int = 1, allowed: str = "") -> list[Outcome]:
    """What becomes of requests, one after the other, for whom the name has these addresses."""
    sender = Sender(read_networks(allowed), resolver=Names({"hooks.example": answers}))
    url = hostile.url("/ok", host="hooks.example")
    outcomes = []
    for _ in range(times):
        outcomes.append(await sender.send(OutgoingRequest("POST", url, {}, b"{}", timeout=SHORT)))
        await sender.close()  # with what it remembers of names
    return outcomes


async def test_a_name_that_is_bound_anew_between_two_questions_gets_no_byte_inside(
    hostile: Hostile, caplog: pytest.LogCaptureFixture
) -> None:
    """The first answer is public, all later ones are not. Between the check and the connection there is no question: it
    is the socket's own address that is looked at."""
    first, *later = await knowing(["192.0.2.1", "127.0.0.1"], hostile, times=4, allowed="192.0.2.0/24")
    assert not isinstance(first, Delivered)
    assert all(is_blocked(outcome, "127.0.0.1 is loopback", caplog) for outcome in later)
    assert hostile.connections().accepted == 0


async def test_a_name_with_a_public_and_a_closed_address_goes_to_the_public_one_alone(hostile: Hostile) -> None:
    for addresses in (["192.0.2.1", "127.0.0.1"], ["127.0.0.1", "192.0.2.1"], ["127.0.0.1", "::1", "192.0.2.1"]):
        [outcome] = await knowing([addresses], hostile, allowed="192.0.2.0/24")
        assert not isinstance(outcome, Delivered)
    assert hostile.connections().accepted == 0


async def test_a_name_with_closed_addresses_alone_tells_the_log_all_of_them(
    hostile: Hostile, caplog: pytest.LogCaptureFixture
) -> None:
    [outcome] = await knowing([["127.0.0.1", "10.0.0.1", "::1"]], hostile)
    assert is_blocked(outcome, "127.0.0.1 is loopback", caplog)
    assert is_blocked(outcome, "10.0.0.1 is a private network", caplog)
    assert is_blocked(outcome, "::1 is not a public address", caplog)
    assert hostile.connections().accepted == 0


async def test_names_of_the_system_such_as_localhost_are_checked(
    send: Sends, hostile: Hostile, caplog: pytest.LogCaptureFixture
) -> None:
    found = await Resolver().resolve("localhost", 80, socket.AF_UNSPEC)
    assert found
    assert is_blocked(await send(hostile.url("/ok", host="localhost")), "", caplog)
    assert hostile.connections().accepted == 0


async def test_an_open_connection_is_not_shared_by_another_name(
    hostile: Hostile, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is allowed is kept open; whoever is not must not get it by its port."""
    sender = Sender(
        read_networks("127.0.0.1/32"), resolver=Names({"a.example": ["127.0.0.1"], "b.example": ["127.0.0.2"]})
    )
    try:
        url = {
            host: OutgoingRequest("POST", hostile.url("/ok", host=host), {}, b"{}")
            for host in ("a.example", "b.example")
        }
        assert await sender.send(url["a.example"]) == Delivered()
        assert is_blocked(await sender.send(url["b.example"]), "127.0.0.2 is loopback", caplog)
    finally:
        await sender.close()


# -- ways around


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_inside_is_not_followed(hostile: Hostile, status: int) -> None:
    sender = Sender(read_networks("127.0.0.1/32"))
    try:
        to = hostile.url("/ok", host="localhost")
        outcome = await sender.send(OutgoingRequest("POST", hostile.url(f"/redirect/{status}?to={to}"), {}, b"{}"))
        assert isinstance(outcome, Rejected)
        assert "redirects are not followed" in outcome.error
        assert [request.behaviour for request in hostile.requests()] == ["redirect"]
    finally:
        await sender.close()


PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


async def test_a_proxy_of_the_environment_is_not_used(
    send: Sends, hostile: Hostile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It would be asked to go where we may not."""
    for name in PROXIES:
        monkeypatch.setenv(name, hostile.url(""))
    assert is_blocked(await send("http://10.0.0.1/in"), "a private network", caplog)
    assert is_blocked(await send("https://10.0.0.1/in"), "a private network", caplog)
    assert hostile.connections().accepted == 0


async def test_credentials_of_the_environment_are_not_sent(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1\nlogin ada\npassword hunter2\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(netrc))
    sender = Sender(read_networks("127.0.0.0/8"))
    try:
        assert await sender.send(OutgoingRequest("POST", hostile.url("/ok"), {}, b"{}")) == Delivered()
    finally:
        await sender.close()
    [request] = hostile.requests()
    assert request.header("authorization") is None


async def test_a_request_that_was_blocked_blocks_nobody_else(hostile: Hostile) -> None:
    sender = Sender(read_networks("127.0.0.1/32"))
    try:
        urls = [hostile.url("/ok"), hostile.url("/ok", host="127.0.0.2")] * 10
        outcomes = await asyncio.gather(*(sender.send(OutgoingRequest("POST", url, {}, b"{}")) for url in urls))
    finally:
        await sender.close()
    assert [isinstance(outcome, Delivered) for outcome in outcomes] == [True, False] * 10


# -- through the engine


@pytest.mark.parametrize("make", [webhook, lambda url: http("DELETE", url)])
async def test_a_blocked_event_is_a_dead_letter_after_one_attempt(
    duly: OpenDuly, clock: ManualClock, hostile: Hostile, make: Callable[[str], dict[str, object]]
) -> None:
    app: Duly = await duly()
    urls = [hostile.url("/ok", host=host) for host in ("127.0.0.1", "127.1", "[::ffff:127.0.0.1]", "2130706433")]
    ids = await app.add_many([Timer(clock.now(), "x", target=make(url)) for url in urls])
    for _ in range(3):
        await app.tick()
        clock.advance(DAY)
    for id in ids:
        letter = await app.events.get(id)
        assert (letter.status, letter.attempts) == (Status.FAILED, 1)
        assert letter.last_error
        assert letter.last_error.startswith("blocked: ")
        assert "\n" not in letter.last_error
        assert [entry.act for entry in await app.events.history(id)] == ["rejected"]
    assert hostile.connections().accepted == 0
    assert await app.targets.destinations() == [], "and nothing is parked"


async def test_an_allowed_address_is_reached_and_a_dead_letter_can_be_replayed_then(
    duly: OpenDuly, clock: ManualClock, hostile: Hostile
) -> None:
    closed, opened = await duly(), await duly(webhook_allow="127.0.0.1/32")
    [id] = await closed.add_many([Timer(clock.now(), "x", target=webhook(hostile.url("/ok")))])
    await closed.tick()
    await closed.events.replay(id)
    await opened.tick()
    assert (await closed.events.get(id)).status is Status.COMPLETED


async def test_a_host_that_can_be_read_in_two_ways_is_sent_to_neither(send: Sends) -> None:
    outcome = await send("http://straße.example/in")
    assert isinstance(outcome, Rejected)
    assert "two meanings (IDNA 2003 and IDNA 2008)" in outcome.error


async def test_a_name_is_looked_up_as_its_origin_is_written(hostile: Hostile) -> None:
    """By the letters of IDNA, once and for all: signing knows the origin by no others."""
    sender = Sender(read_networks("127.0.0.0/8"), resolver=Names({"xn--bcher-kva.example": ["127.0.0.1"]}))
    try:
        assert (
            await sender.send(OutgoingRequest("POST", hostile.url("/ok", host="bücher.example"), {}, b"{}"))
            == Delivered()
        )
    finally:
        await sender.close()
