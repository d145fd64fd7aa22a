"""Pulls commands from a durable consumer of NATS JetStream: in batches, and each command as soon as it is published."""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import ConnectionClosedError, Error
from nats.js.api import AckPolicy, ConsumerConfig, StreamInfo

from duly.channels.brokers.channel import BrokerConnection, BrokerDown, BrokerMessage, MessageDeferred, MessageRefused
from duly.channels.brokers.nats import LOST, STATUS, Nats, NoStream
from duly.channels.brokers.nats_streams import (
    COMMANDS,
    FOR_COMMANDS,
    FOR_EVENTS,
    FOR_REJECTED,
    REJECTED,
    SILENT,
    NoJetStream,
    sorted_refusals,
    stream_for,
)
from duly.decide.error_text import describe
from duly.errors import Misuse

DURABLE = "duly-timer-service"

ACKNOWLEDGED_WITHIN = timedelta(seconds=10)
"""After this time, JetStream redelivers a command that was not acknowledged. It is also the delay with which a command
is stored if its service dies. Storing a command twice changes nothing, so this can be short."""

PULL_EXPIRES = timedelta(seconds=30)
"""How long the server keeps one pull request open."""

RELEASED_WITHIN = 2.0
"""Seconds in which the server must stop sending after an unsubscribe."""

STARTING = 5.0
"""Seconds in which JetStream must become available on a connected server: a restarting node accepts connections before
its JetStream is ready."""

MOST_PENDING = 100_000
"""Commands that may be delivered and not yet acknowledged, over all services together."""

PULL_ENDED = ("404", "408")
"""Status codes of a pull request that ended normally: no messages (404), and expired (408)."""

EPOCH = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
"""Microseconds since 1970 of 2020-01-01, the zero of `Taken.order`."""

SEQUENCE_BITS = 13
"""Low bits of an order that hold the stream sequence, to order messages of the same microsecond. With 13, an order fits
into 64 bits until 2055."""

ACKNOWLEDGEMENTS = "$JS.ACK."


class Denied(BrokerDown):
    """This user may not publish pull requests, or may not publish acknowledgements."""

    def __init__(self, subject: str, *, to_acknowledge: bool) -> None:
        harm = (
            ("commands that are already stored are redelivered again and again")
            if to_acknowledge
            else "no commands can be received"
        )
        super().__init__(f"NATS: the user has no permission to publish to {subject!r}, so {harm}")
        self.to_acknowledge = to_acknowledge


class Taken:
    """A delivered command, which this service has to acknowledge."""

    __slots__ = ("_message", "_puller", "_words", "data")

    def __init__(self, message: Msg, puller: "Puller") -> None:
        self._message, self._puller = message, puller
        # $JS.ACK.<stream>.<consumer>.<deliveries>.<stream sequence>.<consumer sequence>.<timestamp>.<pending>,
        # or with domain and account before <stream>, and a random token at the end
        words = message.reply.split(".")
        self._words = words[4:] if len(words) < 11 else words[6:]
        self.data: bytes = message.data

    @property
    def place(self) -> str:
        """The command's sequence number in the stream."""
        return self._words[1]

    @property
    def deliveries(self) -> int:
        return int(self._words[0])

    @property
    def order(self) -> int:
        """The order of commands, by the time at which the server stored them. The stream sequence alone cannot order
        commands of several streams: a recreated or restored stream, or another server's, counts from its own number."""
        taken = int(self._words[3]) // 1000 - EPOCH
        return (taken << SEQUENCE_BITS) + int(self.place) % (1 << SEQUENCE_BITS)

    @property
    def id(self) -> str:
        return f"rejected-{self.order}"

    async def ack(self) -> None:
        try:
            await self._message.ack()
        except ConnectionClosedError as error:
            raise BrokerDown(str(error)) from error
        self._puller.acknowledges = True


class NatsCommands:
    """The ``Commands`` port of the timer service, over NATS."""

    def __init__(self, link: BrokerConnection) -> None:
        self._link = link
        self._puller: Puller | None = None
        self._served = self._released = False
        self._missed_since: float | None = None  # since when JetStream is missing on a connected server
        self._pulled = self._acknowledged = False  # whether the server has allowed a pull, and an acknowledgement
        self._doubtful = False  # whether the server refused the last acknowledgement
        link.watch(self._changed)

    @property
    def down(self) -> str | None:
        return self._link.down

    @property
    def on_trial(self) -> bool:
        return self._link.on_trial

    def watch(self, changed: Callable[[], None]) -> None:
        self._link.watch(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        self._link.unwatch(changed)

    def _changed(self) -> None:
        if self._puller is not None:
            self._puller.look()

    async def prepare(self) -> None:
        await self._connected()

    async def take(self, most: int, within: float) -> Sequence[Taken]:
        puller = await self._connected()
        if self._released:
            await puller.release()
        try:
            if puller.acknowledges and (self._doubtful or not self._acknowledged):
                await puller.check()
                self._acknowledged, self._doubtful = True, False
            messages = await puller.take(most, within)
        except (Error, BrokerDown) as error:
            await self._drop(puller, error)
            raise BrokerDown(str(error)) from error
        self._pulled = True
        if not self._doubtful:
            self._link.worked()
        return [Taken(message, puller) for message in messages]

    async def _drop(self, puller: "Puller", error: Exception) -> None:
        self._puller = None
        if isinstance(error, Denied):
            if not (self._acknowledged if error.to_acknowledge else self._pulled):
                raise Misuse(
                    f"{error}. Grant the permission; the documentation of the timer service lists all that are needed"
                ) from error
            self._doubtful = self._doubtful or error.to_acknowledge
            puller.client.give_up(str(error))
            self._link.doubt()
        elif puller.client.connection.is_closed:
            puller.client.give_up(LOST)
        await puller.close()

    async def reject(self, command: Any, *rejections: bytes) -> str | None:
        client, reason = await self._link.client(), None
        assert isinstance(client, Nats)
        for written in rejections:
            try:
                async with asyncio.timeout(SILENT):
                    await _publish(client, BrokerMessage(command.id, written, {}))
            except (MessageRefused, MessageDeferred) as error:
                reason = str(error)
            except TimeoutError:
                reason = f"no acknowledgement within {SILENT:g} s"
            else:
                return None
        return reason

    async def _connected(self) -> "Puller":
        try:
            client = await self._link.client()
            assert isinstance(client, Nats)
            if self._puller is None or self._puller.client is not client:
                async with sorted_refusals(client):
                    self._puller = await _puller(client)
                self._served = True
        except (BrokerDown, Misuse) as error:
            critical = error if isinstance(error, Misuse) else error.__cause__
            if isinstance(critical, Misuse) and not self._served and self._lasts(critical):
                raise critical from None
            raise BrokerDown(str(error)) from error  # it worked before, or JetStream may be starting: keep retrying
        return self._puller

    def _lasts(self, critical: Misuse) -> bool:
        if not isinstance(critical, NoJetStream):
            return True
        now = asyncio.get_running_loop().time()
        if self._missed_since is None:
            self._missed_since = now
        return now - self._missed_since >= STARTING

    async def release(self) -> None:
        self._released = True
        if self._puller is not None:
            await self._puller.release()

    async def close(self) -> None:
        self._puller = None
        self._link.unwatch(self._changed)
        await self._link.close()


class Puller:
    """Keeps a pull request open at the server, so that each new command is sent at once."""

    def __init__(self, client: Nats, stream: StreamInfo) -> None:
        self.client = client
        self.acknowledges = False  # whether this puller has acknowledged a command
        self._ask_at = f"$JS.API.CONSUMER.MSG.NEXT.{stream.config.name}.{DURABLE}"
        self._inbox = client.connection.new_inbox()
        self._subscription: Subscription
        self._arrived: deque[Msg] = deque()
        self._news = asyncio.Event()
        self._asked = 0  # requested commands that have not arrived yet
        self._until = 0.0
        self._checked = False
        self._broken: BrokerDown | None = None
        self._released = False

    async def open(self) -> None:
        self._subscription = await self.client.connection.subscribe(
            self._inbox, cb=self._take_in, pending_msgs_limit=-1
        )
        self.client.forbidden = self._forbidden

    async def take(self, most: int, within: float) -> list[Msg]:
        until = asyncio.get_running_loop().time() + within
        while not self._arrived and not self._released:
            self._raise_if_broken()
            self._news.clear()
            await self._ask_for(most)
            if not self._checked:
                await self.check()
                self._checked = True
            try:
                async with asyncio.timeout_at(until):
                    await self._news.wait()
            except TimeoutError:
                break
        if self._arrived:
            await self._ask_for(most)  # so that the next commands arrive while these are stored
        return [self._arrived.popleft() for _ in range(min(most, len(self._arrived)))]

    async def check(self) -> None:
        """Raises if the server forbade an earlier publish: it reports the violation before it answers a ping."""
        for _ in range(2):  # the library's first ping may overtake messages published before it
            await self.client.ping()
        self._raise_if_broken()

    def look(self) -> None:
        """Wakes `take`, so that it checks whether the connection is lost."""
        self._news.set()

    async def release(self) -> None:
        """Stops pulling, and returns commands that have arrived to the server for redelivery."""
        if self._released:
            return
        self._released = True
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(RELEASED_WITHIN):
                # Commands already on their way arrive before drain returns.
                await self._subscription.drain()  # type: ignore[no-untyped-call]
            while self._arrived:
                await self._arrived.popleft().nak()
        self._news.set()

    async def close(self) -> None:
        with contextlib.suppress(Error):
            await self._subscription.unsubscribe()

    def _raise_if_broken(self) -> None:
        if self.client.connection.is_closed:
            raise ConnectionClosedError
        if self._broken is not None:
            raise self._broken

    async def _ask_for(self, most: int) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            self._asked = 0
        if self._asked + len(self._arrived) <= most // 2:
            wanted = most - self._asked
            asked = {"batch": wanted, "expires": int(PULL_EXPIRES.total_seconds() * 1e9)}
            await self.client.connection.publish(self._ask_at, json.dumps(asked).encode(), self._inbox)
            self._asked += wanted
            self._until = now + PULL_EXPIRES.total_seconds()

    async def _take_in(self, message: Msg) -> None:
        if message.reply:
            self._asked = max(0, self._asked - 1)
            self._arrived.append(message)
        else:  # the end of a pull request
            headers = message.headers or {}
            self._asked = 0
            if headers.get(STATUS) not in PULL_ENDED:
                self._broken = BrokerDown(f"JetStream: {headers.get('Description') or 'the consumer was deleted'}")
        self._news.set()

    def _forbidden(self, subject: str) -> None:
        if subject == self._ask_at.lower():
            self._broken = Denied(self._ask_at, to_acknowledge=False)
        elif subject.startswith(ACKNOWLEDGEMENTS.lower()):
            self._broken = Denied(f"{ACKNOWLEDGEMENTS}>", to_acknowledge=True)
        self._news.set()


async def _publish(client: Nats, rejection: BrokerMessage) -> None:
    """Publishes a rejection, and recreates its stream if somebody has deleted the stream meanwhile."""
    try:
        await client.publish({"subject": REJECTED}, rejection)
    except NoStream as error:
        try:
            await stream_for(client, FOR_REJECTED)
        except Error as refused:
            raise MessageDeferred(f"{error} ({describe(refused)})") from refused
        await client.publish({"subject": REJECTED}, rejection)


async def _puller(client: Nats) -> Puller:
    """Opens a puller, and creates the streams and the consumer if they do not exist."""
    stream = await stream_for(client, FOR_COMMANDS)
    await stream_for(client, FOR_REJECTED)
    await stream_for(client, FOR_EVENTS)  # so that consumers can subscribe before the first event
    config = ConsumerConfig(
        durable_name=DURABLE,
        filter_subject=COMMANDS,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=ACKNOWLEDGED_WITHIN.total_seconds(),
        max_ack_pending=MOST_PENDING,
    )
    await client.stream.add_consumer(str(stream.config.name), config)
    puller = Puller(client, stream)
    await puller.open()
    return puller
