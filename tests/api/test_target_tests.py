"""A test of a target is sent like a delivery and says that it is a test; only the target's history tells of it."""

import asyncio
from typing import Any

import pytest

from duly import Conflict, Delivered, Duly, Event, Invalid, NotFound, Rejected, http, webhook
from duly.testing import ManualClock, Recorder
from tests.api.sending import KEY, OPTIONS, body, verified
from tests.channels.brokers_under_test import NatsUnderTest
from tests.conftest import OpenDuly
from tests.receivers.conftest import hostile, hostile_process
from tests.receivers.hostile import Hostile
from tests.receivers.obedient import Answer, Obedient

__all__ = ["hostile", "hostile_process"]


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    return await duly(**OPTIONS)


# -- what is sent


async def test_a_test_is_signed_like_a_delivery_and_says_that_it_is_one(app: Duly, receiver: Obedient) -> None:
    made = await app.targets.put("crm", receiver.url(), headers={"X-Plain": "too"})
    told = await app.targets.test("crm", by="ada")
    [request] = receiver.requests
    assert made.secret
    assert verified(request, made.secret)
    assert (request.header("duly-test"), request.header("webhook-id")) == ("true", told.id)
    assert (request.header("x-plain"), request.header("idempotency-key")) == ("too", told.id)
    sent = body(request)
    assert (sent["type"], sent["test"], sent["data"]["test"], sent["event"]["id"]) == ("duly.test", True, True, told.id)
    assert (told.outcome, told.status, told.target, told.channel) == ("delivered", 200, "crm", "webhook")
    assert (told.error, told.parked, told.acknowledged) == (None, None, None)
    last = (await app.targets.history("crm"))[-1]
    assert (last.act, last.worker, last.detail) == ("tested", "ada", "delivered: 200")


async def test_a_delivery_does_not_say_that_it_is_a_test(app: Duly, clock: ManualClock, receiver: Obedient) -> None:
    await app.at(clock.now(), "sale", {"n": 1}, target=webhook(receiver.url()))
    await app.tick()
    [request] = receiver.requests
    assert request.header("duly-test") is None
    assert "test" not in body(request)


async def test_a_target_that_is_not_stored_is_tested_as_an_event_would_have_it(app: Duly, receiver: Obedient) -> None:
    assert (await app.targets.test(webhook(receiver.url()))).target is None
    [request] = receiver.requests
    assert verified(request, app.targets.signing_secret(receiver.url()))
    await app.targets.test(webhook(receiver.url(), format="cloudevents"))
    assert (body(receiver.requests[-1])["test"], body(receiver.requests[-1])["specversion"]) == (True, "1.0")
    await app.targets.test(http("PUT", receiver.url("/x"), headers={"duly-TEST": "no"}))
    last = receiver.requests[-1]
    assert (last.method, last.header("duly-test")) == ("PUT", "true")
    assert body(last) == {"test": True, "message": "This is a test from Duly."}
    await app.targets.test(http("GET", receiver.url("/x")))
    assert (receiver.requests[-1].method, receiver.requests[-1].header("duly-test")) == ("GET", "true")


# -- what came back


async def test_what_came_back_is_told(app: Duly, receiver: Obedient) -> None:
    await app.targets.put("crm", receiver.url())
    receiver.answer = Answer(
        503, {"Retry-After": "30", "Content-Type": "text/plain", "X-Secret": "x"}, b"we move\nhouse"
    )
    told = await app.targets.test("crm")
    assert (told.outcome, told.status, told.body) == ("failed", 503, "we move\nhouse")
    assert told.headers == {"Content-Type": "text/plain", "Retry-After": "30"}
    assert told.error
    assert told.error.startswith("503 Service Unavailable from 127.0.0.1")
    assert 0 <= told.seconds < 60
    receiver.answer = Answer(410, {}, b"gone")
    assert (await app.targets.test("crm")).outcome == "rejected"
    assert (await app.targets.get("crm")).enabled, "a test disables nothing, whatever it is told"
    receiver.answer = Answer(302, {"Location": "https://elsewhere.example/in?token=1"})
    told = await app.targets.test("crm")
    assert (told.outcome, told.headers) == ("rejected", {"Location": "https://elsewhere.example/in"})
    assert len(receiver.requests) == 3, "redirects are not followed"


@pytest.mark.parametrize(
    ("path", "door", "outcome", "error"),
    [
        ("/no-answer", "open", "failed", "no answer within"),
        ("/reset?when=head", "open", "failed", "connection"),
        ("/big", "open", "delivered", None),
        ("/endless-body", "open", "delivered", None),
        ("/gzip-bomb", "open", "delivered", None),
        ("/ok", "self-signed", "failed", "certificate"),
        ("/ok", "expired", "failed", "certificate"),
        ("/status/301", "open", "rejected", "redirects are not followed"),
        ("/status/599", "open", "failed", "599"),
    ],
)
async def test_a_receiver_that_does_everything_wrong_is_told_of(
    app: Duly, hostile: Hostile, path: str, door: str, outcome: str, error: str | None
) -> None:
    told = await app.targets.test(webhook(hostile.url(path, door), timeout="2s"))
    assert told.outcome == outcome, told
    assert (error is None) == (told.error is None)
    assert error is None or error in (told.error or ""), told.error
    assert len(told.body or "") <= 1000
    assert told.seconds < 30


async def test_the_guard_and_nobody_at_the_port_are_told_of(duly: OpenDuly, receiver: Obedient) -> None:
    guarded = await duly(secret_key=KEY)
    told = await guarded.targets.test(webhook(receiver.url()))
    assert (told.outcome, told.status, receiver.requests) == ("rejected", None, [])
    assert (told.error or "").startswith("blocked: 127.0.0.1")
    app = await duly(**OPTIONS)
    assert "cannot connect" in ((await app.targets.test(webhook("http://127.0.0.1:9/"))).error or "")
    assert "cannot be resolved" in ((await app.targets.test(webhook("http://nobody.invalid/"))).error or "")


async def test_a_broker_acknowledges_a_test(duly: OpenDuly) -> None:
    broker = NatsUnderTest()
    with broker.server:
        await broker.make("orders")
        app = await duly(**broker.settings())
        told = await app.targets.test(broker.target("orders"))
        assert (told.outcome, told.acknowledged, told.error) == ("delivered", True, None)
        [message] = await broker.received("orders")
        assert (message.id, message.headers["Duly-Test"], message.said["test"]) == (told.id, "true", True)
        assert (await app.targets.test(broker.target("nobody.listens"))).outcome != "delivered"


async def test_a_broker_that_is_not_there_is_told_of(app: Duly) -> None:
    told = await app.targets.test({"nats": "orders.due"})
    assert (told.outcome, told.acknowledged, told.status) == ("unreachable", False, None)
    assert "DULY_NATS_URL" in (told.error or "")


# -- nothing is counted, and limits hold


async def test_a_parked_target_is_tested_and_stays_parked(app: Duly, clock: ManualClock, receiver: Obedient) -> None:
    await app.targets.put("crm", receiver.url())
    await app.targets.disable("crm", reason="it moves house")
    held = await app.at(clock.now(), "sale", target=webhook(target="crm"))
    await app.tick()
    before = await app.targets.known("crm")
    told = await app.targets.test("crm")
    assert (told.outcome, told.parked) == ("delivered", "is disabled: it moves house")
    assert await app.targets.known("crm") == before
    assert (await app.events.get(held.id)).hold_kind == "target"
    assert receiver.ids == [told.id]


async def test_tests_are_no_events_and_park_nothing(app: Duly, receiver: Obedient) -> None:
    await app.targets.put("crm", receiver.url())
    heard: list[object] = []
    stop = app.observe(heard.append)
    receiver.answer = Answer(500)
    for _ in range(12):  # more than would park it
        await app.targets.test("crm")
    stop()
    assert heard == []
    assert await app.events.find() == []
    assert (await app.targets.known("crm")).parked is None
    assert "duly.test" not in (await app.metrics().text()).decode()


async def test_the_rate_limit_of_a_target_and_of_its_tenant_hold_for_tests(app: Duly, receiver: Obedient) -> None:
    await app.targets.put("crm", receiver.url())
    await app.targets.limit("crm", rate="1/h")
    assert (await app.targets.test("crm")).outcome == "delivered"
    with pytest.raises(Conflict, match=r"the rate limit of 'crm' is used up: send the test again in (1h|59m|60m)"):
        await app.targets.test("crm")
    await app.targets.limit("crm")
    await app.targets.limit(rate="1/h")
    assert (await app.targets.test("crm")).outcome == "delivered"
    with pytest.raises(Conflict, match="is used up"):
        await app.targets.test(webhook(receiver.url()))
    assert len(receiver.requests) == 2


async def test_tests_of_one_destination_go_one_after_the_other(app: Duly, receiver: Obedient) -> None:
    under_way, most = 0, 0

    async def count() -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1

    receiver.pause = count
    await app.targets.put("crm", receiver.url())
    told = await asyncio.gather(*(app.targets.test("crm") for _ in range(4)))
    assert ([one.outcome for one in told], most) == (["delivered"] * 4, 1)


async def test_a_channel_of_your_own_gets_the_test(duly: OpenDuly) -> None:
    mine = Recorder(Rejected("not today"), Delivered())
    app = await duly(channels={"webhook": mine})
    told = await app.targets.test(webhook("https://hooks.example/in"))
    assert (told.outcome, told.error, told.status) == ("rejected", "not today", None)
    [event] = mine.events
    assert (event.is_test, event.type) == (True, "duly.test")


async def test_a_channel_that_raises_is_told_of_and_nothing_escapes(duly: OpenDuly) -> None:
    class Broken:
        async def deliver(self, event: Event) -> Any:
            raise ValueError("a bug")

    app = await duly(channels={"webhook": Broken()})
    told = await app.targets.test(webhook("https://hooks.example/in"))
    assert (told.outcome, told.error) == ("failed", "the channel webhook raised ValueError: a bug")


# -- refused


async def test_what_is_no_target_is_refused(app: Duly) -> None:
    await app.targets.put("crm", "https://hooks.example/in", tenant="acme")
    for missing in ("crm", "no such", ""):
        with pytest.raises(NotFound):
            await app.targets.test(missing)
    for bad in (
        None,
        {},
        7,
        webhook(target="crm"),
        {"pigeon": "x"},
        {"webhook": "ftp://x"},
        {"webhook": {"url": "https://x", "target": "y"}},
    ):
        with pytest.raises(Invalid):
            await app.targets.test(bad)  # type: ignore[arg-type]


async def test_a_command_is_tested_where_commands_run(duly: OpenDuly) -> None:
    app = await duly()
    told = await app.targets.test({"command": "echo $DULY_TEST"})
    assert told.outcome == "unreachable"
    app.serve_commands()
    told = await app.targets.test({"command": "echo $DULY_TEST"})
    assert (told.outcome, told.body) == ("delivered", "true\n")
