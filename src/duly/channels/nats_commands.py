"""Takes commands from a durable consumer of NATS JetStream, many at a time and each as soon as it is there."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta

from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError, NoRespondersError
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StreamConfig
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from duly.channels.brokers import Down, Link, Message
from duly.channels.nats import Nats
from duly.errors import Misuse

COMMANDS, REJECTED, EVENTS = "timer.commands", "timer.commands.rejected", "timer.events"
DURABLE = "duly-timer-service"

KEPT, REJECTED_KEPT = timedelta(days=7), timedelta(days=30)
DUPLICATES = timedelta(hours=2)
"""For how long JetStream knows the ids of events, well past the last attempt to publish one."""

ACKNOWLEDGED_WITHIN = timedelta(seconds=60)
"""After which a command that was taken and not acknowledged is given to somebody else."""

ASKED_FOR = timedelta(seconds=30)
"""How long one request for commands is good."""

STREAMS = (
    StreamConfig(name="TIMER_COMMANDS", subjects=[COMMANDS], retention=RetentionPolicy.WORK_QUEUE),
    StreamConfig(name="TIMER_REJECTED", subjects=[REJECTED], max_age=REJECTED_KEPT.total_seconds()),
    StreamConfig(
        name="TIMER_EVENTS",
        subjects=[EVENTS],
        max_age=KEPT.total_seconds(),
        duplicate_window=DUPLICATES.total_seconds(),
    ),
)


class Taken:
    """A command that was delivered, and is this service's to acknowledge."""

    def __init__(self, message: Msg) -> None:
        self._message = message
        self.data: bytes = message.data

    @property
    def place(self) -> str:
        """Where it stands in the stream."""
        return str(self._message.metadata.sequence.stream)

    async def ack(self) -> None:
        await self._message.ack()


class NatsCommands:
    """The ``Commands`` of the timer service."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._puller: Puller | None = None
        self._served = False

    @property
    def down(self) -> str | None:
        return self._link.down

    def watch(self, changed: Callable[[], None]) -> None:
        self._link.watch(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        self._link.unwatch(changed)

    async def prepare(self) -> None:
        await self._connected()

    async def take(self, most: int, within: float) -> Sequence[Taken]:
        """What there is, at most so many; none if nothing comes in so many seconds."""
        puller = await self._connected()
        try:
            return [Taken(message) for message in await puller.take(most, within)]
        except ConnectionClosedError as error:
            raise Down(str(error)) from error

    async def reject(self, taken: Taken, reason: bytes) -> None:
        client = await self._link.client()
        await client.publish({"subject": REJECTED}, Message(f"rejected-{taken.place}", reason, {}))

    async def _connected(self) -> "Puller":
        client = await self._link.client()
        assert isinstance(client, Nats)
        if self._puller is None or self._puller.client is not client:
            try:
                self._puller = await _puller(client)
            except Misuse as error:
                if self._served:  # it has worked before, so somebody is at it: wait
                    raise Down(str(error)) from None
                raise
            self._served = True
        return self._puller

    async def close(self) -> None:
        self._puller = None
        await self._link.close()


class Puller:
    """Keeps a request for more commands at the server, so that each comes without being asked for."""

    def __init__(self, client: Nats, stream: str) -> None:
        self.client = client
        self._ask_at = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{DURABLE}"
        self._inbox = client.connection.new_inbox()
        self._arrived: deque[Msg] = deque()
        self._some = asyncio.Event()
        self._asked = 0  # how many may still come
        self._until = 0.0

    async def open(self) -> None:
        await self.client.connection.subscribe(self._inbox, cb=self._take_in, pending_msgs_limit=-1)

    async def take(self, most: int, within: float) -> list[Msg]:
        await self._ask_for(most)
        if not self._arrived:
            self._some.clear()
            try:
                async with asyncio.timeout(within):
                    await self._some.wait()
            except TimeoutError:
                if self.client.connection.is_closed:
                    raise ConnectionClosedError from None
                return []
        return [self._arrived.popleft() for _ in range(min(most, len(self._arrived)))]

    async def _ask_for(self, most: int) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            self._asked = 0
        if self._asked + len(self._arrived) <= most // 2:
            wanted = most - self._asked
            asked = {"batch": wanted, "expires": int(ASKED_FOR.total_seconds() * 1e9)}
            await self.client.connection.publish(self._ask_at, json.dumps(asked).encode(), self._inbox)
            self._asked += wanted
            self._until = now + ASKED_FOR.total_seconds()

    async def _take_in(self, message: Msg) -> None:
        if message.headers and "Status" in message.headers and not message.data:
            self._asked = 0  # it has expired, or the consumer is gone: ask again
        else:
            self._asked = max(0, self._asked - 1)
            self._arrived.append(message)
        self._some.set()


async def _puller(client: Nats) -> Puller:
    """With the streams and the consumer, which are made if they are not there."""
    try:
        streams = [await _stream(client, config) for config in STREAMS]
        config = ConsumerConfig(
            durable_name=DURABLE,
            filter_subject=COMMANDS,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACKNOWLEDGED_WITHIN.total_seconds(),
            max_ack_pending=100_000,
        )
        await client.stream.add_consumer(streams[0], config)
        puller = Puller(client, streams[0])
        await puller.open()
    except (ServiceUnavailableError, NoRespondersError) as error:
        raise Misuse(
            "this NATS server has no JetStream: start it with -js, or let TIMER_BROKER_URL name one"
        ) from error
    except APIError as error:
        raise Misuse(f"JetStream refuses the timers' streams: {error.description} ({error.err_code})") from error
    except ConnectionClosedError as error:
        raise Down(str(error)) from error
    return puller


async def _stream(client: Nats, config: StreamConfig) -> str:
    """The name of the stream that has the subject."""
    [subject] = config.subjects or []
    try:
        return await client.stream.find_stream_name_by_subject(subject)
    except NotFoundError:
        made = await client.stream.add_stream(config)
        return str(made.config.name)
