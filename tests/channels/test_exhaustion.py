"""A worker that has no file descriptor left for a broker's connection: the message is not at fault."""

from duly.channels.brokers.channel import BrokerChannel
from duly.channels.brokers.registry import make_channel
from duly.decide.exhaustion import RESOURCES
from duly.records.event import Delivered, Unreachable
from tests.channels.stations import Station
from tests.descriptors import none_free
from tests.make import make_event
from tests.worker.watching import until


async def test_a_message_for_which_no_connection_can_be_opened_is_sent_later(station: Station) -> None:
    place = await station.new_place()
    event = make_event(target=station.target(place))
    channel = make_channel(station.channel, station.url)
    assert isinstance(channel, BrokerChannel)
    try:
        with none_free():
            outcome = await channel.deliver(event)
            assert isinstance(outcome, Unreachable)
            assert outcome.reason == channel.down
            # Kafka's library tells nobody but the log why it cannot connect.
            assert outcome.reason in RESOURCES.values() or station.channel == "kafka"
        await until(lambda: channel.down is None, "it is connected")
        assert await channel.deliver(event) == Delivered()
        assert [one.id for one in await station.received(place)] == [event.id]
    finally:
        await channel.close()
