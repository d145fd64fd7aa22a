"""Publishes to RabbitMQ, which confirms each message and returns messages that no queue takes."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from aio_pika import DeliveryMode, connect
from aio_pika import Message as Outgoing
from aio_pika.abc import AbstractChannel, AbstractConnection
from aiormq.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelAccessRefused,
    ChannelClosed,
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    ConnectionChannelError,
    ConnectionFrameError,
    ConnectionNotAllowed,
    ConnectionSyntaxError,
    ConnectionUnexpectedFrame,
    DeliveryError,
    ProbableAuthenticationError,
    PublishError,
)
from yarl import URL

from duly.channels.brokers.channel import BrokerDown, BrokerMessage, MessageDeferred, MessageRefused
from duly.decide.error_text import describe_without_paths
from duly.errors import Misuse

for library in ("aio_pika", "aiormq"):  # errors that matter are raised by the calls; keep the rest off standard error
    logging.getLogger(library).addHandler(logging.NullHandler())

HEARTBEAT = 10
"""Seconds between heartbeats; after three missed heartbeats the connection counts as lost."""

BAD_CREDENTIALS = (AuthenticationError, ProbableAuthenticationError, ConnectionNotAllowed)
PERMANENT_ERRORS = (ChannelNotFoundEntity, ChannelAccessRefused, ChannelPreconditionFailed)
"""Channel errors after which a retry of the same message is useless."""

CLOSED_CHANNEL_ERRORS = (ConnectionChannelError, ConnectionUnexpectedFrame, ConnectionFrameError, ConnectionSyntaxError)
"""Errors with which the broker closes the connection after a frame on a channel that it has just closed."""

LARGE_BYTES = 64 * 1024
"""Bytes from which a message may be too large for the broker, and is sent on a channel of its own."""

MOST_SUSPECTS = 10_000
"""Ids in *suspects* at most, which bounds its memory."""

suspects: set[str] = set()
"""Ids of messages that were pending when the broker closed a channel, one of which caused it. Shared by all
connections of the process, because a suspect may be sent again over another connection."""


class RabbitMq:
    """One connection, and one shared channel on which messages are sent in order.

    The broker closes a channel because of one bad message, and does not say which. So all messages that were pending
    on the channel are sent again, each on a channel of its own.
    """

    lost: Callable[[str], None]

    def __init__(self, url: str) -> None:
        self._url = URL(url)
        if "heartbeat" not in self._url.query:
            self._url = self._url.update_query(heartbeat=HEARTBEAT)
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._known: set[str] = set()  # exchanges that are known to exist
        self._opening = asyncio.Lock()
        self._ended = False

    async def open(self) -> None:
        try:
            connection = await connect(self._url, timeout=5, client_properties={"connection_name": "duly"})
        except BAD_CREDENTIALS as error:
            raise Misuse(f"RabbitMQ refuses the credentials in its URL: {error}") from error
        self._connection = connection
        connection.close_callbacks.add(self._closed)
        self._channel = await self._new_channel()

    async def publish(self, where: Mapping[str, Any], message: BrokerMessage) -> None:
        exchange, key = where.get("exchange", ""), where["routing_key"]
        try:
            if message.id not in suspects and len(message.body) < LARGE_BYTES:
                try:
                    await self._publish(await self._shared(exchange), exchange, key, message)
                    return
                except ChannelInvalidStateError:  # closed because of another message, before this one was sent
                    pass
                except ChannelClosed:
                    _suspect(message.id)
            await self._publish_alone(exchange, key, message)
        except PublishError as error:
            raise MessageRefused(
                f"RabbitMQ: no queue receives {_place(exchange, key)}: declare a queue and bind it"
            ) from error
        except DeliveryError as error:
            raise MessageDeferred(
                f"RabbitMQ: a queue did not accept {_place(exchange, key)}: check whether it is full"
            ) from error
        except PERMANENT_ERRORS as error:
            raise MessageRefused(f"RabbitMQ: {error}") from error
        except ChannelClosed as error:
            raise MessageDeferred(f"RabbitMQ: {error}") from error
        except CLOSED_CHANNEL_ERRORS as error:
            _suspect(message.id)
            raise BrokerDown(f"RabbitMQ: {describe_without_paths(error)}") from error
        except (AMQPError, RuntimeError, OSError) as error:  # RuntimeError: raised by a closed connection
            raise BrokerDown(f"RabbitMQ: {describe_without_paths(error)}") from error

    async def ping(self) -> None:
        await (await self._new_channel()).close()

    async def close(self) -> None:
        self._ended = True
        if self._connection is not None:
            await self._connection.close()

    async def _publish(self, channel: AbstractChannel, exchange: str, key: str, message: BrokerMessage) -> None:
        outgoing = Outgoing(
            message.body,
            message_id=message.id,
            content_type=message.headers["Content-Type"],
            headers={name: value for name, value in message.headers.items() if name != "Content-Type"},
            delivery_mode=DeliveryMode.PERSISTENT,
        )
        to = await channel.get_exchange(exchange, ensure=False) if exchange else channel.default_exchange
        await to.publish(outgoing, key, mandatory=True)

    async def _publish_alone(self, exchange: str, key: str, message: BrokerMessage) -> None:
        channel = await self._new_channel()
        try:
            await self._publish(channel, exchange, key, message)
        finally:
            if self._connection is not None and not self._connection.is_closed:  # the broker has given its verdict
                suspects.discard(message.id)
                await channel.close()

    async def _shared(self, exchange: str) -> AbstractChannel:
        """The shared channel, or a new one if that is closed. The exchange is checked on a separate channel first: a
        missing exchange would close the shared channel."""
        if exchange and exchange not in self._known:
            async with self._opening, await self._new_channel() as channel:
                await channel.get_exchange(exchange, ensure=True)
            self._known.add(exchange)
        if self._channel is None or self._channel.is_closed:
            async with self._opening:
                if self._channel is None or self._channel.is_closed:
                    self._channel = await self._new_channel()
        return self._channel

    async def _new_channel(self) -> AbstractChannel:
        if self._connection is None or self._connection.is_closed or self._ended:
            raise BrokerDown("RabbitMQ: the connection is lost")
        channel = self._connection.channel(publisher_confirms=True, on_return_raises=True)
        await channel.initialize()
        return channel

    def _closed(self, _: Any, error: BaseException | None) -> None:
        if not self._ended:
            self._ended = True
            self.lost(f"RabbitMQ: the connection is lost{f' ({error})' if error else ''}")


def _suspect(id: str) -> None:
    if len(suspects) < MOST_SUSPECTS:
        suspects.add(id)


def _place(exchange: str, key: str) -> str:
    return f"{key!r} of the exchange {exchange!r}" if exchange else f"{key!r}"
