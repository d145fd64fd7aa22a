"""Publishes to RabbitMQ, which says when it has a message, and sends back those that no queue takes."""

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

for library in ("aio_pika", "aiormq"):  # what matters comes back from the calls; else it would go to standard error
    logging.getLogger(library).addHandler(logging.NullHandler())

HEARTBEAT = 10
"""Seconds; three of these without a sign, and the connection is lost."""

BAD_CREDENTIALS = (AuthenticationError, ProbableAuthenticationError, ConnectionNotAllowed)
NEVER = (ChannelNotFoundEntity, ChannelAccessRefused, ChannelPreconditionFailed)
OUR_DOING = (ConnectionChannelError, ConnectionUnexpectedFrame, ConnectionFrameError, ConnectionSyntaxError)
"""The broker hangs up with one of these where something is sent on a channel that it has just closed."""

LARGE = 64 * 1024
"""Bytes from which on a message may be too large, and is sent on a channel of its own."""

MOST_SUSPECTS = 10_000
suspects: set[str] = set()
"""Ids of messages, one of which has made the broker close a channel; in whichever life of a connection."""


class RabbitMq:
    """One connection, and one channel on which messages go out in order.

    The broker closes a channel for one bad message on it, and does not say which. So those that were on their way are
    sent again, each on a channel of its own.
    """

    lost: Callable[[str], None]

    def __init__(self, url: str) -> None:
        self._url = URL(url)
        if "heartbeat" not in self._url.query:
            self._url = self._url.update_query(heartbeat=HEARTBEAT)
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._known: set[str] = set()  # exchanges that are there
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
            if message.id not in suspects and len(message.body) < LARGE:
                try:
                    await self._publish(await self._shared(exchange), exchange, key, message)
                    return
                except ChannelInvalidStateError:  # closed for another one, before this one was on its way
                    pass
                except ChannelClosed:
                    _suspect(message.id)
            await self._publish_alone(exchange, key, message)
        except PublishError as error:
            raise MessageRefused(
                f"RabbitMQ: no queue takes {_place(exchange, key)}: declare one, and bind it"
            ) from error
        except DeliveryError as error:
            raise MessageDeferred(f"RabbitMQ: a queue did not take {_place(exchange, key)}: is it full?") from error
        except NEVER as error:
            raise MessageRefused(f"RabbitMQ: {error}") from error
        except ChannelClosed as error:
            raise MessageDeferred(f"RabbitMQ: {error}") from error
        except OUR_DOING as error:
            _suspect(message.id)
            raise BrokerDown(f"RabbitMQ: {describe_without_paths(error)}") from error
        except (AMQPError, RuntimeError, OSError) as error:  # RuntimeError: of a connection that is closed
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
            if self._connection is not None and not self._connection.is_closed:  # it has told what it thinks of it
                suspects.discard(message.id)
                await channel.close()

    async def _shared(self, exchange: str) -> AbstractChannel:
        """The channel for all, or a new one if that is closed; where the exchange is not there, it shall not be."""
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
