"""A worker that has no file descriptor left for a broker's connection: the message is not at fault."""

from duly.channels.brokers.channel import BrokerChannel
from duly.channels.brokers.registry import make_channel
from duly.decide.exhaustion import RESOURCES
from duly.records.event import Delivered, Unreachable
from tests.channels.brokers_under_test import BrokerUnderTest
from tests.descriptors import none_free
from tests.make import make_event
from tests.worker.running_worker import until


async def test_a_message_for_which_no_connection_can_be_opened_is_sent_later(broker_or_celery: BrokerUnderTest) -> None:
    place = await broker_or_celery.new_place()
    event = make_event(target=broker_or_celery.target(place))
    channel = make_channel(broker_or_celery.channel, broker_or_celery.url)
    assert isinstance(channel, BrokerChannel)
    try:
        with none_free():
            outcome = await channel.deliver(event)
            assert isinstance(outcome, Unreachable)
            assert outcome.reason == channel.down
            # Kafka's library tells nobody but the log why it cannot connect.
            assert outcome.reason in RESOURCES.values() or broker_or_celery.channel == "kafka"
        await until(lambda: channel.down is None, "it is connected")
        assert await channel.deliver(event) == Delivered()
        assert [one.id for one in await broker_or_celery.received(place)] == [event.id]
    finally:
        await channel.close()
