"""Publishes to NATS JetStream, which says when it has a message, and keeps one of those with the same id."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from nats.aio.client import Client as Connection
from nats.errors import (
    AuthorizationError,
    ConnectionClosedError,
    ConnectionReconnectingError,
    MaxPayloadError,
    OutboundBufferLimitError,
)
from nats.js import JetStreamContext
from nats.js.api import PubAck
from nats.js.errors import APIError, NoStreamResponseError

from duly.channels.brokers import Down, Message, NotNow, Refused
from duly.errors import Misuse

ID = "Nats-Msg-Id"

TRY_AGAIN = frozenset({10008, 10009, 10023, 10047, 10077, 503})
"""JetStream's errors that pass: no leader, not ready, no resources, the stream is full for now."""


class Nats:
    """One connection. It does not reconnect by itself: what was on its way is known to be lost at once that way."""

    lost: Callable[[str], None]

    def __init__(self, url: str, name: str = "duly") -> None:
        self._servers, self._name = [server.strip() for server in url.split(",")], name
        self.connection = Connection()
        self.stream: JetStreamContext
        self._under_way: set[asyncio.Future[PubAck]] = set()

    async def open(self) -> None:
        try:
            await self._connect()
        except AuthorizationError as error:
            raise Misuse(f"NATS refuses the credentials in its URL: {error}") from error
        self.stream = self.connection.jetstream()

    async def _connect(self) -> None:
        await self.connection.connect(
            servers=list(self._servers),
            name=self._name,
            allow_reconnect=False,
            connect_timeout=5,
            ping_interval=10,
            max_outstanding_pings=2,
            error_cb=_ignored,
            closed_cb=self._closed,
        )

    async def publish(self, where: Mapping[str, Any], message: Message) -> None:
        subject, headers = where["subject"], {ID: message.id, **message.headers}
        try:
            acknowledged = await self.stream.publish_async(subject, message.body, headers=headers)
            self._under_way.add(acknowledged)
            try:
                await acknowledged
            finally:
                self._under_way.discard(acknowledged)
        except NoStreamResponseError:
            raise NotNow(f"no stream takes {subject!r}: add one that has this subject") from None
        except MaxPayloadError:
            raise Refused(f"is larger than what the server takes ({self.connection.max_payload:,} bytes)") from None
        except (ConnectionClosedError, ConnectionReconnectingError, OutboundBufferLimitError) as error:
            raise Down(str(error)) from error
        except APIError as error:
            told = f"JetStream: {error.description} ({error.err_code})"
            if error.err_code in TRY_AGAIN or (error.code or 0) >= 500:
                raise NotNow(told) from error
            raise Refused(told) from error

    async def close(self) -> None:
        if not self.connection.is_closed:
            await self.connection.close()

    async def _closed(self) -> None:
        error = self.connection.last_error
        reason = f"NATS: the connection is lost{f' ({error})' if error else ''}"
        for acknowledged in list(self._under_way):
            if not acknowledged.done():
                acknowledged.set_exception(Down(reason))
        self.lost(reason)


async def _ignored(_: Exception) -> None:
    """The library would write it to standard error; what matters comes back from the calls."""
