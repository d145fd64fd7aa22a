"""What keeps a connection: who is told of what, and how often it is tried."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from duly.channels.brokers import channel
from duly.channels.brokers.batches import Batches
from duly.channels.brokers.channel import (
    BrokerChannel,
    BrokerClient,
    BrokerConnection,
    BrokerDown,
    BrokerMessage,
    MessageDeferred,
    MessageRefused,
)
from duly.channels.brokers.kafka import options_of
from duly.errors import Misuse
from duly.records.event import Delivered, Failed, Rejected, Unreachable
from tests.make import make_event

MESSAGE = BrokerMessage("id", b"{}", {})


class Wire:
    """A client that does as it is told."""

    lost: Callable[[str], None]

    def __init__(self, *outcomes: BaseException | None, opens: Exception | None = None) -> None:
        self.outcomes, self.opens = list(outcomes), opens
        self.opened = self.closed = 0

    async def open(self) -> None:
        self.opened += 1
        await asyncio.sleep(0)
        if self.opens is not None:
            raise self.opens

    async def publish(self, where: Mapping[str, Any], message: BrokerMessage) -> None:
        await asyncio.sleep(0)
        if self.outcomes and (outcome := self.outcomes.pop(0)) is not None:
            raise outcome

    async def ping(self) -> None:
        pass

    async def close(self) -> None:
        self.closed += 1


def linked(*wires: Wire) -> tuple[BrokerConnection, list[Wire]]:
    """A link that gets these one after another, and in the end the last one again and again."""
    made: list[Wire] = []

    def make() -> BrokerClient:
        made.append(wires[min(len(made), len(wires) - 1)])
        return made[-1]

    return BrokerConnection(make), made


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "SHORTEST", 0.001)


async def up_again(link: BrokerConnection) -> None:
    changed = asyncio.Event()
    link.watch(changed.set)
    while link.down is not None:
        changed.clear()
        await changed.wait()


async def test_many_publishers_at_once_share_one_connection() -> None:
    link, made = linked(Wire())
    await asyncio.gather(*(link.publish({}, MESSAGE) for _ in range(50)))
    assert len(made) == 1
    await link.close()
    assert made[0].closed == 1


class Gated(Wire):
    """One that is not open before somebody says so."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def open(self) -> None:
        await self.gate.wait()


async def test_publishers_that_wait_for_a_failing_connection_do_not_each_try_again() -> None:
    mended = Gated()
    link, made = linked(Wire(opens=OSError("refused")), mended)
    told = await asyncio.gather(*(link.publish({}, MESSAGE) for _ in range(50)), return_exceptions=True)
    assert {(type(error), str(error)) for error in told} == {(BrokerDown, "OSError: refused")}
    assert len(made) <= 2, "beside the first, the one by which it is mended"
    mended.gate.set()
    await up_again(link)
    await link.publish({}, MESSAGE)
    assert len(made) == 2
    await link.close()


async def test_a_client_whose_broker_is_down_is_given_up_and_told_of_once() -> None:
    first = Wire(*[BrokerDown("the wire is cut")] * 5)
    link, made = linked(first, Wire())
    changes: list[str | None] = []
    link.watch(lambda: changes.append(link.down))
    told = await asyncio.gather(*(link.publish({}, MESSAGE) for _ in range(5)), return_exceptions=True)
    assert {str(error) for error in told} == {"the wire is cut"}
    with pytest.raises(BrokerDown, match="the wire is cut"):
        await link.publish({}, MESSAGE)
    await up_again(link)
    assert changes == ["the wire is cut", None]
    assert first.closed == 1
    await link.publish({}, MESSAGE)
    assert len(made) == 2
    first.lost("it says so once more, and nobody minds")
    assert link.down is None
    await link.close()


async def test_a_library_that_cancels_its_waiters_does_not_cancel_the_publisher() -> None:
    link, _ = linked(Wire(asyncio.CancelledError()), Wire())
    with pytest.raises(BrokerDown, match="the connection is lost"):
        await link.publish({}, MESSAGE)
    await link.close()


async def test_a_publisher_that_is_cancelled_is_cancelled() -> None:
    class Silent(Wire):
        async def publish(self, where: Mapping[str, Any], message: BrokerMessage) -> None:
            await asyncio.Event().wait()

    link, _ = linked(Silent())
    await link.client()
    task = asyncio.create_task(link.publish({}, MESSAGE))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert link.down is None
    await link.close()


async def test_the_reason_why_a_broker_is_down_is_one_line_and_has_no_login() -> None:
    link, _ = linked(Wire(opens=OSError("cannot reach amqp://ada:secret@host:5672/\nand more")))
    with pytest.raises(BrokerDown):
        await link.client()
    assert link.down == "OSError: cannot reach amqp://***@host:5672/"
    await link.close()
    link, _ = linked(Wire(opens=Misuse("the broker refuses the credentials")))
    with pytest.raises(BrokerDown) as down:
        await link.client()
    assert str(down.value) == "the broker refuses the credentials"
    assert isinstance(down.value.__cause__, Misuse)
    await link.close()


async def test_a_broker_that_does_not_connect_in_time_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Wire):
        async def open(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(channel, "ACKNOWLEDGED_WITHIN", 0.01)
    slow = Slow()
    link, _ = linked(slow)
    with pytest.raises(BrokerDown, match="it did not answer in time"):
        await link.client()
    assert slow.closed == 1
    await link.close()


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        (None, Delivered()),
        (MessageRefused("never"), Rejected("never")),
        (MessageDeferred("later"), Failed("later")),
        (BrokerDown("gone"), Unreachable("gone", channel.AT_ONCE, told=True)),
    ],
)
async def test_each_answer_of_a_broker_becomes_an_outcome(raised: Exception | None, outcome: Any) -> None:
    link, _ = linked(Wire(raised), Wire())
    channel = BrokerChannel(link, lambda _: MESSAGE, lambda _: {})
    assert await channel.deliver(make_event()) == outcome
    await channel.close()


# -- batches


async def test_messages_that_come_together_are_sent_together_and_in_order() -> None:
    sent: list[list[int]] = []

    async def send(items: list[int]) -> list[Exception | None]:
        sent.append(items)
        await asyncio.sleep(0)
        return [MessageDeferred("odd") if item == 7 else None for item in items]

    batches = Batches(send, pytest.fail, most=4, large=100)
    told = await asyncio.gather(
        *(batches.add(item, 150 if item == 2 else 1) for item in range(9)), return_exceptions=True
    )
    assert sent == [[0, 1], [2], [3, 4, 5, 6], [7, 8]]
    assert [str(error) for error in told if error] == ["odd"]


async def test_when_a_broker_is_down_no_message_waits_for_its_batch() -> None:
    lost: list[str] = []

    async def send(items: list[int]) -> list[Exception | None]:
        await asyncio.sleep(0)
        return [None if item == 0 else BrokerDown("gone") for item in items]

    batches = Batches(send, lost.append, most=2, large=100)
    told = await asyncio.gather(*(batches.add(item, 1) for item in range(5)), return_exceptions=True)
    assert [str(error) for error in told] == ["None", *["gone"] * 4]
    assert lost == ["gone"]
    with pytest.raises(BrokerDown, match="gone"):
        await batches.add(9, 1)


# -- the URL of Kafka


def test_a_kafka_url_has_servers_credentials_and_options() -> None:
    assert options_of("kafka://one:9092,two:9093") == {
        "bootstrap_servers": ["one:9092", "two:9093"],
        "security_protocol": "PLAINTEXT",
    }
    said = options_of("kafka+ssl://ada:p%40ss@one:9092?mechanism=SCRAM-SHA-512")
    assert said.pop("ssl_context") is not None
    assert said == {
        "bootstrap_servers": ["one:9092"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ada",
        "sasl_plain_password": "p@ss",
    }
    assert options_of("kafka://ada:x@one:9092")["security_protocol"] == "SASL_PLAINTEXT"
