"""A broker that is down costs nobody an attempt: what is due waits in its place, and is caught up oldest first."""

import asyncio
from datetime import timedelta

import pytest

from duly import Duly, Event, Status, Timer
from duly.channels.brokers import celery, channel
from duly.channels.brokers.kafka import Kafka
from duly.signals import ChannelDown, ChannelUp, Claimed, Completed, DeadLettered, GivenBack, Retried
from duly.testing import ManualClock
from tests.api.sending import acts, one_due
from tests.brokers import KafkaInside
from tests.channels.brokers_under_test import BrokerUnderTest, KafkaUnderTest
from tests.channels.running_worker import Heard, working
from tests.conftest import OpenDuly
from tests.make import SECOND

MANY = 400


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute between tries would be for people to wait for."""
    monkeypatch.setattr(channel, "LONGEST", 0.3)


async def one_after_another(app: Duly, clock: ManualClock, broker: BrokerUnderTest, place: str, many: int) -> list[str]:
    """Events that are all due by now, each a moment after the one before."""
    start = clock.now()
    clock.advance(milliseconds=many)
    target = broker.target(place)
    return await app.add_many([Timer(start + timedelta(milliseconds=n), "due", n, target=target) for n in range(many)])


async def test_events_that_a_killed_broker_could_not_take_are_caught_up_in_order(
    open_app: OpenDuly, clock: ManualClock, killable_broker: BrokerUnderTest
) -> None:
    app, place = (
        await open_app(concurrency=20, batch_size=20, **killable_broker.settings()),
        await killable_broker.new_place(),
    )
    await killable_broker.lasts()
    beside: asyncio.Queue[str] = asyncio.Queue()

    @app.on("beside")
    async def handle(event: Event) -> None:
        beside.put_nowait(event.id)

    heard = Heard(app)
    ids = await one_after_another(app, clock, killable_broker, place, MANY)
    assert killable_broker.server
    async with working(app):
        await heard.until(lambda: len(heard.of(Completed)) >= 50)
        killable_broker.server.kill()
        await heard.until(lambda: bool(heard.of(ChannelDown)))
        await heard.until(lambda: not under_way(heard))
        other = await app.at(clock.now(), "beside")
        assert await beside.get() == other.id  # by a claim that came after the broker was known to be down
        await heard.until(lambda: not under_way(heard))
        before = {signal.event.id for signal in heard.of(Completed)} - {other.id}
        assert 50 <= len(before) < MANY
        claimed = len(heard.of(Claimed))

        # It works on, and leaves alone what it could not deliver.
        ids.append((await one_due(app, clock, killable_broker.target(place))).id)
        other = await app.at(clock.now(), "beside")
        assert await beside.get() == other.id
        await heard.until(lambda: other.id in {signal.event.id for signal in heard.of(Completed)})
        assert len(heard.of(Claimed)) == claimed + 1
        assert (await app.events.get(ids[-1])).status is Status.PENDING

        killable_broker.server.start()
        await heard.until(lambda: len(heard.of(Completed)) == MANY + 3)
    assert [type(signal) for signal in heard.of(ChannelDown, ChannelUp)] == [ChannelDown, ChannelUp]
    assert [signal.channel for signal in heard.of(ChannelDown, ChannelUp)] == [killable_broker.channel] * 2
    assert heard.of(GivenBack), "some were under way"
    assert not heard.of(Retried, DeadLettered)
    for signal in heard.of(GivenBack):
        assert (await app.events.get(signal.event.id)).attempts == 1
        assert await acts(app, signal.event.id) == ["given back", "delivered"]
    arrived = [message.id for message in await killable_broker.received(place)]
    assert set(arrived) == set(ids)
    if killable_broker.channel == "nats":
        assert len(arrived) == len(ids), "the broker itself knows them again"
    last = list(dict.fromkeys(reversed(arrived)))[::-1]  # it may have had some that it could not say that it had
    assert [id for id in last if id not in before] == [id for id in ids if id not in before]


@pytest.mark.parametrize("killable_broker", ["nats", "redis", "rabbitmq", "celery over redis"], indirect=True)
async def test_a_worker_starts_while_its_broker_is_down(
    open_app: OpenDuly, clock: ManualClock, killable_broker: BrokerUnderTest
) -> None:
    app, place = await open_app(**killable_broker.settings()), await killable_broker.new_place()
    ids = await one_after_another(app, clock, killable_broker, place, 30)
    heard = Heard(app)
    assert killable_broker.server
    killable_broker.server.stop()
    async with working(app):
        await heard.until(lambda: bool(heard.of(ChannelDown)))
        killable_broker.server.start()
        await heard.until(lambda: len(heard.of(Completed)) == 30)
    assert len(heard.of(ChannelDown)) == len(heard.of(ChannelUp)) == 1
    assert not heard.of(Retried, DeadLettered)
    assert [message.id for message in await killable_broker.received(place)] == ids


async def test_a_frozen_broker_is_treated_as_down(
    open_app: OpenDuly, clock: ManualClock, killable_broker: BrokerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        celery, "TRANSPORT_OPTIONS", {"amqp": {"confirm_publish": True}, "redis": {"socket_timeout": 3}}
    )
    app, place = await open_app(**killable_broker.settings()), await killable_broker.new_place()
    heard = Heard(app)
    first = await one_due(app, clock, killable_broker.target(place))
    assert killable_broker.server
    async with working(app):
        await heard.until(lambda: len(heard.of(Completed)) == 1)
        killable_broker.server.pause()
        try:
            with monkeypatch.context() as impatient:
                impatient.setattr(channel, "ACKNOWLEDGED_WITHIN", 1.0)
                impatient.setattr(channel, "ANSWERS_WITHIN", 0.5)
                impatient.setattr(channel, "CLOSED_WITHIN", 0.2)
                ids = await one_after_another(app, clock, killable_broker, place, 5)
                await heard.until(lambda: bool(heard.of(ChannelDown)))
                await heard.until(lambda: not under_way(heard))
        finally:
            killable_broker.server.resume()
        await heard.until(lambda: len(heard.of(Completed)) == 6)
    assert not heard.of(Retried, DeadLettered)
    assert len(heard.of(ChannelDown)) == len(heard.of(ChannelUp)) == 1
    assert {message.id for message in await killable_broker.received(place)} == {first.id, *ids}


async def test_events_for_a_cluster_that_vanishes_wait(open_app: OpenDuly, clock: ManualClock) -> None:
    """The library would go on trying, and say nothing."""
    with KafkaInside() as cluster:
        broker = KafkaUnderTest(cluster.url)
        app, place = await open_app(**broker.settings()), await broker.new_place()
        heard = Heard(app)
        await one_due(app, clock, broker.target(place))
        async with working(app):
            await heard.until(lambda: len(heard.of(Completed)) == 1)
            cluster.kill()
            ids = await one_after_another(app, clock, broker, place, 30)
            await heard.until(lambda: bool(heard.of(ChannelDown)))
            await heard.until(lambda: not under_way(heard))
    assert not heard.of(Retried, DeadLettered)
    assert heard.of(ChannelDown)[0].reason == "Kafka: no broker answers"
    for id in ids:
        event = await app.events.get(id)
        assert (event.status, event.attempts) == (Status.PENDING, 0)


async def test_a_producer_that_has_only_just_been_opened_can_be_closed() -> None:
    """The library cancels what it has begun, also what has not had its first turn yet."""
    with KafkaInside() as cluster:
        client = Kafka(cluster.url)
        await client.open()
        await client.close()
        producer = client._producer
        assert producer is not None
        assert producer._closed


async def test_a_message_alone_that_is_not_acknowledged_spends_an_attempt(
    open_app: OpenDuly, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, nats_broker: BrokerUnderTest
) -> None:
    """The broker answers, only not about this one."""
    monkeypatch.setattr(channel, "ACKNOWLEDGED_WITHIN", 0.0)
    app, place = await open_app(**nats_broker.settings()), await nats_broker.new_place()
    link = app._channels["nats"]._link  # type: ignore[attr-defined]
    monkeypatch.setattr(channel, "ACKNOWLEDGED_WITHIN", 10.0)
    await link.client()
    monkeypatch.setattr(channel, "ACKNOWLEDGED_WITHIN", 0.0)
    event = await one_due(app, clock, nats_broker.target(place))
    await app.tick()
    event = await app.events.get(event.id)
    assert (event.status, event.attempts, event.last_error) == (Status.PENDING, 1, "not acknowledged within 0 s")
    assert link.down is None
    clock.advance(60 * SECOND)
    monkeypatch.setattr(channel, "ACKNOWLEDGED_WITHIN", 10.0)
    await app.tick()
    assert {message.id for message in await nats_broker.received(place)} == {event.id}


def under_way(heard: Heard) -> set[str]:
    """What is claimed, and not settled."""
    held: set[str] = set()
    for signal in heard.all:
        if isinstance(signal, Claimed):
            held.add(signal.event.id)
        elif isinstance(signal, Completed | GivenBack | Retried | DeadLettered):
            held.discard(signal.event.id)
    return held
