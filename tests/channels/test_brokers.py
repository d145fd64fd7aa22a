"""One suite for all brokers and task queues: what arrives, under which id, and what becomes of what cannot."""

from typing import Any

import aio_pika
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from cloudevents.core.formats.json import JSONFormat
from redis.asyncio import Redis

from duly import Retry, Status, Timer, to
from duly.channels.brokers import rabbitmq
from duly.decide.checks import MAX_PAYLOAD
from duly.signals import ChannelDown, Completed, DeadLettered, Retried
from duly.testing import ManualClock
from tests.api.sending import acts, many_due, one_due
from tests.brokers import NatsServer
from tests.channels.brokers_under_test import LARGEST, BrokerUnderTest, RabbitUnderTest
from tests.channels.conftest import REAL_BROKERS, TRUE_BROKERS
from tests.channels.running_worker import Heard, working
from tests.conftest import OpenDuly
from tests.make import MINUTE

ONCE = Retry(max_attempts=1)


# -- what is sent


async def test_a_message_has_the_documented_body_and_headers(
    open_app: OpenDuly, clock: ManualClock, broker: BrokerUnderTest
) -> None:
    app, place = await open_app(**broker.settings()), await broker.new_place()
    payload = {"message": "Hey, Ada Lovelace it’s your birthday", "n": [1, 2.5, None, True]}
    event = await one_due(app, clock, broker.target(place), payload, tenant="acme", correlation_id="c1")
    clock.advance(milliseconds=20)
    done = await app.tick()
    assert (done.processed, done.retried, done.failed) == (1, 0, 0)
    [message] = await broker.received(place)
    assert message.id == event.id
    assert message.said == {
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
    assert message.headers.pop("Content-Type") == "application/json"
    assert message.headers.pop("Nats-Msg-Id", event.id) == event.id
    assert message.headers == {}


async def test_a_cloud_event_says_the_same_as_a_plain_message(
    open_app: OpenDuly, clock: ManualClock, broker: BrokerUnderTest
) -> None:
    app, place = await open_app(**broker.settings()), await broker.new_place()
    target = broker.target(place, format="cloudevents")
    event = await one_due(app, clock, target, {"cart": 9}, tenant="acme co", correlation_id="c1", key="k1")
    await app.tick()
    [message] = await broker.received(place)
    assert message.headers["Content-Type"] == "application/cloudevents+json"
    http = HTTPMessage({"content-type": message.headers["Content-Type"]}, message.body)
    read = from_structured_event(http, JSONFormat())
    assert (read.get_id(), read.get_type(), read.get_subject()) == (event.id, "cart.abandoned", "k1")
    assert read.get_source() == "/duly/acme%20co"
    assert read.get_data() == {"cart": 9}
    assert read.get_extension("correlationid") == "c1"


async def test_headers_of_ones_own_are_sent_with_a_message(
    open_app: OpenDuly, clock: ManualClock, broker: BrokerUnderTest
) -> None:
    app, place = await open_app(**broker.settings()), await broker.new_place()
    headers = {"X-Region": "eu west", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    await one_due(app, clock, broker.target(place, headers=headers))
    await app.tick()
    [message] = await broker.received(place)
    assert {name: message.headers[name] for name in headers} == headers
    assert message.headers["Content-Type"] == "application/json"


async def test_any_payload_arrives_by_a_broker_as_it_was_given(
    open_app: OpenDuly, clock: ManualClock, broker: BrokerUnderTest
) -> None:
    app, place = await open_app(**broker.settings()), await broker.new_place()
    payloads: list[Any] = [None, 0, "", "téxt", [], {}, [None], {"ü": "\u2028"}]
    await app.add_many([Timer(clock.now(), "any", payload, target=broker.target(place)) for payload in payloads])
    await app.tick()
    assert [message.said["data"] for message in await broker.received(place)] == payloads


async def test_many_messages_arrive_once_each_and_in_order(
    open_app: OpenDuly, clock: ManualClock, broker_or_celery: BrokerUnderTest
) -> None:
    app, place = await open_app(**broker_or_celery.settings()), await broker_or_celery.new_place()
    ids = await many_due(app, clock, broker_or_celery.target(place), 300)
    done = await app.tick()
    assert done.processed == 300
    assert [message.id for message in await broker_or_celery.received(place)] == ids


async def test_a_replayed_message_has_the_same_id(
    open_app: OpenDuly, clock: ManualClock, broker_or_celery: BrokerUnderTest
) -> None:
    """Both arrive, except where the broker itself knows the id again."""
    app, place = await open_app(**broker_or_celery.settings()), await broker_or_celery.new_place()
    event = await one_due(app, clock, broker_or_celery.target(place))
    await app.tick()
    async with app.transaction() as tx:
        await tx.execute("UPDATE events SET status = 'FAILED' WHERE id = ?", event.id)
    await app.events.replay(event.id)
    await app.tick()
    many = 1 if broker_or_celery.channel == "nats" else 2
    assert [message.id for message in await broker_or_celery.received(place)] == [event.id] * many


# -- what cannot be sent


async def test_a_subject_that_no_stream_takes_is_tried_again_under_the_same_id(
    open_app: OpenDuly, clock: ManualClock, nats_broker: BrokerUnderTest
) -> None:
    app, place = await open_app(**nats_broker.settings()), "nobody-takes"
    event = await one_due(app, clock, nats_broker.target(place))
    await app.tick()
    event = await app.events.get(event.id)
    assert (event.status, event.attempts) == (Status.PENDING, 1)
    assert event.last_error == "no stream has the subject 'nobody-takes': create a stream with it"
    await nats_broker.make(place)
    clock.advance(MINUTE)
    await app.tick()
    [message] = await nats_broker.received(place)
    assert message.id == event.id
    assert message.said["event"]["attempt"] == 2


async def test_a_nats_server_without_jetstream_takes_no_message_and_the_error_says_so(
    open_app: OpenDuly, clock: ManualClock
) -> None:
    with NatsServer(jetstream=False) as server:
        app = await open_app(nats_url=server.url)
        event = await one_due(app, clock, to.nats("orders"))
        await app.tick()
        error = (await app.events.get(event.id)).last_error
        assert error == "no stream has the subject 'orders': create a stream with it"


async def test_messages_with_one_key_keep_their_order(
    open_app: OpenDuly, clock: ManualClock, kafka_broker: BrokerUnderTest
) -> None:
    app, place = await open_app(**kafka_broker.settings()), await kafka_broker.new_place()
    keys = ("ada", "grace", "barbara")
    timers = [Timer(clock.now(), "k", n, target=kafka_broker.target(place, key=keys[n % 3])) for n in range(90)]
    await app.add_many(timers)
    await app.tick()
    arrived = [message.said["data"] for message in await kafka_broker.received(place)]
    assert len(arrived) == 90
    for key in range(3):
        assert [n for n in arrived if n % 3 == key] == list(range(key, 90, 3))


async def test_a_key_that_is_no_stream_is_refused(
    open_app: OpenDuly, clock: ManualClock, redis_broker: BrokerUnderTest
) -> None:
    app, place = await open_app(**redis_broker.settings()), await redis_broker.new_place()
    async with Redis.from_url(redis_broker.url) as server:
        await server.set(place, "text")
    other = await redis_broker.new_place()
    bad, good = [await one_due(app, clock, redis_broker.target(name)) for name in (place, other)]
    await app.tick()
    bad = await app.events.get(bad.id)
    assert bad.status is Status.FAILED
    assert bad.last_error == "Redis: WRONGTYPE Operation against a key holding the wrong kind of value"
    assert [message.id for message in await redis_broker.received(other)] == [good.id], "its neighbour is not harmed"


async def test_a_redis_stream_keeps_about_as_many_entries_as_max_length_says(
    open_app: OpenDuly, clock: ManualClock, redis_broker: BrokerUnderTest
) -> None:
    app, place = await open_app(**redis_broker.settings()), await redis_broker.new_place()
    ids = await many_due(app, clock, redis_broker.target(place, max_length=100), 1000)
    await app.tick()
    kept = [message.id for message in await redis_broker.received(place)]
    assert 100 <= len(kept) < 300, "by whole blocks of a hundred"
    assert kept == ids[-len(kept) :]


async def test_a_queue_that_is_not_there_is_refused(
    open_app: OpenDuly, clock: ManualClock, rabbit_broker: RabbitUnderTest
) -> None:
    app = await open_app(**rabbit_broker.settings())
    event = await one_due(app, clock, to.rabbitmq("no-such-queue"))
    await app.tick()
    event = await app.events.get(event.id)
    assert event.status is Status.FAILED
    assert event.last_error == "RabbitMQ: no queue receives 'no-such-queue': declare a queue and bind it"


async def test_an_exchange_gets_messages_by_their_routing_key(
    open_app: OpenDuly, clock: ManualClock, rabbit_broker: RabbitUnderTest
) -> None:
    app, place = await open_app(**rabbit_broker.settings()), await rabbit_broker.new_place()
    async with await aio_pika.connect(rabbit_broker.url) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange("orders", "topic", durable=True)
        await (await channel.get_queue(place)).bind(exchange, "eu.*")
    bound, unbound = [await one_due(app, clock, to.rabbitmq(key, exchange="orders")) for key in ("eu.due", "us.due")]
    await app.tick()
    [message] = await rabbit_broker.messages(place)
    assert (message.message_id, message.routing_key, message.exchange) == (bound.id, "eu.due", "orders")
    assert message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
    refused = await app.events.get(unbound.id)
    assert refused.status is Status.FAILED
    assert "no queue receives 'us.due' of the exchange 'orders'" in (refused.last_error or "")


async def test_an_exchange_that_is_not_there_harms_no_neighbour(
    open_app: OpenDuly, clock: ManualClock, rabbit_broker: RabbitUnderTest
) -> None:
    """The broker closes the channel for it, with all that is on its way."""
    app, place = await open_app(**rabbit_broker.settings()), await rabbit_broker.new_place()
    bad = [await one_due(app, clock, to.rabbitmq("k", exchange="no-such-exchange")) for _ in range(3)]
    good = await many_due(app, clock, rabbit_broker.target(place), 20)
    await app.tick()
    for event in bad:
        found = await app.events.get(event.id)
        assert found.status is Status.FAILED
        assert "no exchange 'no-such-exchange' in vhost '/'" in (found.last_error or "")
    assert [message.id for message in await rabbit_broker.received(place)] == good


async def test_a_message_for_a_full_queue_is_tried_again(
    open_app: OpenDuly, clock: ManualClock, rabbit_broker: RabbitUnderTest
) -> None:
    app = await open_app(**rabbit_broker.settings())
    async with await aio_pika.connect(rabbit_broker.url) as connection:
        limits: dict[str, Any] = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = await (await connection.channel()).declare_queue("narrow", durable=True, arguments=limits)
        first, second = await many_due(app, clock, to.rabbitmq("narrow"), 2)
        await app.tick()
        assert (await app.events.get(first)).status is Status.COMPLETED
        waiting = await app.events.get(second)
        assert (waiting.status, waiting.attempts) == (Status.PENDING, 1)
        assert waiting.last_error == "RabbitMQ: a queue did not accept 'narrow': check whether it is full"
        await queue.purge()
        clock.advance(MINUTE)
        await app.tick()
        [message] = await rabbit_broker.messages("narrow")
        assert message.message_id == second


async def test_messages_for_which_a_channel_is_closed_harm_no_neighbours(
    open_app: OpenDuly, clock: ManualClock, rabbit_broker: RabbitUnderTest
) -> None:
    """An exchange vanishes that was there before, and with many messages on their way."""
    app, place = await open_app(**rabbit_broker.settings()), await rabbit_broker.new_place()
    async with await aio_pika.connect(rabbit_broker.url) as connection:
        channel = await connection.channel()
        exchange = await channel.declare_exchange("passing")
        await (await channel.get_queue(place)).bind(exchange, place)
        passing = to.rabbitmq(place, exchange="passing")
        first = await one_due(app, clock, passing)
        heard = Heard(app)
        async with working(app):
            await heard.until(lambda: len(heard.of(Completed)) == 1)
            await exchange.delete()
            target = rabbit_broker.target(place)
            timers = [Timer(clock.now(), "mixed", n, target=passing if n % 40 == 20 else target) for n in range(200)]
            ids = await app.add_many(timers)
            await heard.until(lambda: len(heard.of(Completed)) + len(heard.of(DeadLettered)) == 201)
    assert not heard.of(Retried)
    assert {signal.event.id for signal in heard.of(DeadLettered)} == set(ids[20::40])
    assert {message.id for message in await rabbit_broker.received(place)} == {first.id, *ids} - set(ids[20::40])
    assert not rabbitmq.suspects


@pytest.mark.parametrize("broker", TRUE_BROKERS, indirect=True)
async def test_a_message_that_is_too_large_is_a_dead_letter_and_its_neighbours_arrive(
    open_app: OpenDuly, clock: ManualClock, broker: BrokerUnderTest
) -> None:
    app, place = await open_app(**broker.settings()), await broker.new_place()
    before = await many_due(app, clock, broker.target(place), 10)
    huge = await one_due(app, clock, broker.target(place), "x" * (MAX_PAYLOAD - 2), retry=ONCE)
    after = await many_due(app, clock, broker.target(place), 10)
    await app.tick()
    event = await app.events.get(huge.id)
    assert event.status is Status.FAILED
    assert "large" in (event.last_error or "")
    assert {message.id for message in await broker.received(place)} == {*before, *after}


async def test_headers_count_towards_the_size_of_a_message(
    open_app: OpenDuly, clock: ManualClock, nats_broker: BrokerUnderTest
) -> None:
    """The server would hang up, again and again."""
    app, place = await open_app(**nats_broker.settings()), await nats_broker.new_place()
    payload, headers = "x" * (LARGEST - 2000), {f"x-{n}": "x" * 1000 for n in range(10)}
    huge = await one_due(app, clock, nats_broker.target(place, headers=headers), payload)
    large = await one_due(app, clock, nats_broker.target(place), payload)
    await app.tick()
    assert (await app.events.get(huge.id)).last_error == "is larger than the server accepts (524,288 bytes)"
    assert [message.id for message in await nats_broker.received(place)] == [large.id]


@pytest.mark.parametrize("broker_or_celery", REAL_BROKERS, indirect=True)
async def test_bad_credentials_keep_events_waiting_and_no_password_is_shown(
    open_app: OpenDuly, clock: ManualClock, broker_or_celery: BrokerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    app, place = (
        await open_app(**broker_or_celery.settings(broker_or_celery.wrong_url)),
        await broker_or_celery.new_place(),
    )
    down: list[ChannelDown] = []
    app.observe(down.append, ChannelDown)
    event = await one_due(app, clock, broker_or_celery.target(place))
    await app.tick()
    event = await app.events.get(event.id)
    assert (event.status, event.attempts) == (Status.PENDING, 0)
    assert await acts(app, event.id) in ([], ["given back"])  # whichever asks the broker first: the tick, or its claim
    [told] = down
    assert told.channel == broker_or_celery.channel
    assert "the credentials in its URL" in told.reason
    assert "wr0ng" not in f"{caplog.text} {told.reason} {event.last_error}"
    right = await open_app(**broker_or_celery.settings())
    await right.tick()
    [message] = await broker_or_celery.received(place)
    assert message.id == event.id
