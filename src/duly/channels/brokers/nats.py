"""Publishes to NATS JetStream, which acknowledges each message and drops duplicates of the same id."""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import (
    BadHeaderError,
    BadSubjectError,
    ConnectionClosedError,
    ConnectionReconnectingError,
    NoServersError,
    OutboundBufferLimitError,
)
from nats.js import JetStreamContext

from duly.channels.brokers.channel import BrokerDown, BrokerMessage, MessageDeferred, MessageRefused
from duly.decide.error_text import describe_without_paths
from duly.errors import Misuse

ID_HEADER = "Nats-Msg-Id"
STATUS = "Status"
NO_STREAM = "503"
"""The status of an answer if no stream takes the subject."""

LOGIN_REFUSED = ("authorization", "authentication")
"""Words in the server's error for a refused login."""

LOGIN_TIMED_OUT = "timeout"
"""A word in the server's error for a login that took too long, which is temporary."""

PERMANENT_ERRORS = frozenset({10054, 10097, 10060, 10070, 10071})
"""JetStream's error codes for a fault of one message alone: the message or its headers are too large, or it expects
another stream or another message before it. All other errors affect every message, such as a full account or stream."""

FORBIDDEN = re.compile(r'permissions violation for publish to "([^"]*)"', re.IGNORECASE)
"""The server's error for a forbidden subject. The library lower-cases the whole text, the subject included."""

LOST = "NATS: the connection is lost"

CHECK_INTERVAL = 1.0
"""Seconds between checks whether the connection is lost."""

ANSWERED_WITHIN = 5.0
"""Seconds in which JetStream must answer a request about its streams."""


class NoStream(MessageDeferred):
    """No stream stores messages of this subject."""


class PublishForbidden(MessageRefused):
    """This user may not publish to this subject."""


class PublishError(msgspec.Struct):
    err_code: int = 0
    description: str = ""


class PublishReply(msgspec.Struct):
    error: PublishError | None = None


class PendingPublish(NamedTuple):
    answered: "asyncio.Future[Msg]"
    since: float
    subject: str


_decode = msgspec.json.Decoder(PublishReply).decode


class NatsConnection(Client):
    """The library's client, with a fix: the original leaves the socket open when the server ends an attempt to connect
    early."""

    async def _select_next_server(self) -> None:
        if self._transport is not None:
            self._transport.close()  # type: ignore[no-untyped-call]
        await super()._select_next_server()


class Nats:
    """One connection to NATS. It does not reconnect by itself, so that pending messages fail at once when the
    connection is lost."""

    lost: Callable[[str], None]

    def __init__(self, url: str, name: str = "duly") -> None:
        self._servers, self._name = [server.strip() for server in url.split(",")], name
        self.connection = NatsConnection()
        self.stream: JetStreamContext
        self.said: Exception | None = None  # the last error that the library reported through its error callback
        self.under_way: dict[str, PendingPublish] = {}  # the oldest first
        self.forbidden: Callable[[str], None] = lambda _: None  # called with each forbidden subject, in lower case
        self._published = 0
        self._inbox = ""
        self._looking: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        try:
            await self._connect()
        except Exception as error:
            reason = self.said if isinstance(error, NoServersError) and self.said else error
            said = str(reason).lower()
            if any(word in said for word in LOGIN_REFUSED) and LOGIN_TIMED_OUT not in said:
                raise Misuse(f"NATS refuses the credentials in its URL: {reason}") from error
            raise reason from None
        self.stream = self.connection.jetstream(timeout=ANSWERED_WITHIN)
        self._inbox = self.connection.new_inbox()
        await self.connection.subscribe(f"{self._inbox}.*", cb=self._answered)
        self._look()

    async def _connect(self) -> None:
        await self.connection.connect(
            servers=list(self._servers),
            name=self._name,
            allow_reconnect=False,
            max_reconnect_attempts=1,  # before it raises NoServersError
            reconnect_time_wait=0,
            connect_timeout=5,
            ping_interval=10,
            max_outstanding_pings=2,
            error_cb=self._told,
            closed_cb=self._closed,
        )

    async def publish(self, where: Mapping[str, Any], message: BrokerMessage) -> None:
        # Not with the library's own publish: it does not report why JetStream refuses a message.
        subject, headers = where["subject"], {ID_HEADER: message.id, **message.headers}
        self._refuse_too_large(message, headers)
        loop = asyncio.get_running_loop()
        self._published += 1
        token = str(self._published)
        answered: asyncio.Future[Msg] = loop.create_future()
        self.under_way[token] = PendingPublish(answered, loop.time(), subject)
        try:
            await self.connection.publish(subject, message.body, f"{self._inbox}.{token}", headers)
            answer = await answered
        except (ConnectionClosedError, ConnectionReconnectingError, OutboundBufferLimitError) as error:
            self.give_up(LOST)
            raise BrokerDown(str(error)) from error
        except (BadSubjectError, BadHeaderError) as error:
            raise MessageRefused(str(error)) from error
        finally:
            self.under_way.pop(token, None)
            _hear(answered)
        _read_answer(subject, answer)

    def _refuse_too_large(self, message: BrokerMessage, headers: Mapping[str, str]) -> None:
        """Raises for a message above the server's limit: the server would close the connection, which other messages
        use as well."""
        most = self.connection.max_payload
        size = len(message.body) + sum(len(name) + len(value.encode()) + 4 for name, value in headers.items()) + 12
        if size > most:
            raise MessageRefused(f"is larger than the server accepts ({most:,} bytes)")

    async def ping(self) -> None:
        await self.connection.flush()

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if not self.connection.is_closed:
            await self.connection.close()
        self._clear_up()

    def _clear_up(self) -> None:
        """Closes the socket and cancels the readers. The library's `close` stops halfway if it cannot send its buffer:
        it leaves the socket open and the readers waiting, and the errors of its tasks are never retrieved."""
        library: Any = self.connection
        for subscription in list(library._subs.values()):
            if (reader := subscription._wait_for_msgs_task) is not None:
                reader.cancel()
        if library._transport is not None:
            library._transport.close()
        for task in (library._flusher_task, library._reading_task, library._ping_interval_task):
            if task is not None:
                _hear(task)

    # -- answers and errors

    async def _answered(self, answer: Msg) -> None:
        found = self.under_way.get(answer.subject.rpartition(".")[2])
        if found is not None and not found.answered.done():
            found.answered.set_result(answer)

    async def _told(self, error: Exception) -> None:
        self.said = error
        if (found := FORBIDDEN.search(str(error))) is not None:
            for one in self.under_way.values():
                if one.subject.lower() == found[1].lower() and not one.answered.done():
                    one.answered.set_exception(PublishForbidden(f"NATS: {error}"))
            self.forbidden(found[1].lower())

    async def _closed(self) -> None:
        self.give_up(LOST)

    def _look(self) -> None:
        """Checks at intervals whether the connection is closed. The library does not always call `closed_cb`: not if
        it fails to send its buffer while the connection ends."""
        if (lost := self.look()) is not None:
            self.give_up(lost)
        else:
            self._looking = asyncio.get_running_loop().call_later(CHECK_INTERVAL, self._look)

    def look(self) -> str | None:
        """The reason why this connection is unusable, or None."""
        return LOST if self.connection.is_closed else None

    def give_up(self, what: str) -> None:
        """Fails all pending messages with `BrokerDown` and reports the connection as lost."""
        error = self.said or self.connection.last_error
        reason = f"{what} ({describe_without_paths(error)})" if error and str(error) not in what else what
        for one in self.under_way.values():
            if not one.answered.done():
                one.answered.set_exception(BrokerDown(reason))
        self.lost(reason)


def _hear(ended: "asyncio.Future[Any]") -> None:
    """Marks a future's error as retrieved, so that asyncio does not log it when no caller waits any more."""
    if ended.done() and not ended.cancelled():
        ended.exception()


def _read_answer(subject: str, answer: Msg) -> None:
    if answer.headers and answer.headers.get(STATUS) == NO_STREAM:
        raise NoStream(f"no stream has the subject {subject!r}: create a stream with it")
    error = _decode(answer.data).error if b'"error"' in answer.data else None
    if error is not None:
        raise (MessageRefused if error.err_code in PERMANENT_ERRORS else MessageDeferred)(
            f"JetStream: {error.description} ({error.err_code})"
        )
