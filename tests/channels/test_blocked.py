"""A broker that lets everybody in and takes nothing is one outage, and gets one event at a time."""

from collections.abc import Iterator

import aio_pika
import pytest

from duly import Timer, to
from duly.channels.brokers import channel
from duly.signals import ChannelDown, ChannelUp, Claimed, DeadLettered, GivenBack, Retried
from duly.testing import ManualClock
from tests.brokers import RabbitServer
from tests.channels.running_worker import Heard, working
from tests.conftest import OpenDuly

MANY, TRIALS = 20, 3


@pytest.fixture
def full(rabbit_server: RabbitServer) -> Iterator[RabbitServer]:
    """One that has no memory left for what is published, and blocks who publishes."""
    with RabbitServer("vm_memory_high_watermark.absolute = 1MB") as server:
        yield server


@pytest.mark.timeout(120)
async def test_a_rabbitmq_that_blocks_publishers_is_one_outage(
    open_app: OpenDuly, clock: ManualClock, full: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "LONGEST", 0.2)
    monkeypatch.setattr(channel, "ACKNOWLEDGED_WITHIN", 1.0)
    monkeypatch.setattr(channel, "ANSWERS_WITHIN", 0.5)
    monkeypatch.setattr(channel, "CLOSED_WITHIN", 0.2)
    async with await aio_pika.connect(full.url) as connection:
        await (await connection.channel()).declare_queue("place", durable=True)
    app = await open_app(rabbitmq_url=full.url)
    heard = Heard(app)
    await app.add_many([Timer(clock.now(), "due", number, target=to.rabbitmq("place")) for number in range(MANY)])
    async with working(app):
        await heard.until(lambda: len(heard.of(GivenBack)) >= MANY + TRIALS)
    assert len(heard.of(Claimed)) <= MANY + TRIALS + 1, "one at a time"
    assert len(heard.of(ChannelDown)) == 1
    assert not heard.of(ChannelUp, Retried, DeadLettered)
