"""Sends messages to Kafka with an idempotent producer, which waits until all in-sync replicas have a message."""

import asyncio
import logging
import ssl
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    InvalidTopicError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    ProducerFenced,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from duly.channels.brokers.channel import BrokerDown, BrokerMessage, MessageDeferred, MessageRefused
from duly.decide.error_text import describe_without_paths

logging.getLogger("aiokafka").addHandler(logging.NullHandler())  # errors that matter are raised by the calls

ID_HEADER = "Idempotency-Key"

LARGEST_REQUEST = 8 * 1024 * 1024
"""Bytes of a request: more than any message of Duly's, so that the brokers' own limit decides."""

REQUEST_TIMEOUT = 5.0
"""Seconds for a request, and so for finding a topic."""

CHECK_INTERVAL = 1.0
"""Seconds between checks whether the cluster still answers, while a message is not acknowledged."""

PERMANENT_ERRORS = (InvalidTopicError, MessageSizeTooLargeError, RecordListTooLargeError, TopicAuthorizationFailedError)
"""Errors after which a retry of the same message is useless."""

FATAL_ERRORS = (KafkaConnectionError, KafkaTimeoutError, OutOfOrderSequenceNumber, ProducerClosed, ProducerFenced)
"""Errors after which a new producer is needed: this producer has lost its place in the sequence, or its cluster."""


class Kafka:
    lost: Callable[[str], None]

    def __init__(self, url: str) -> None:
        self._options = options_of(url)
        self._producer: AIOKafkaProducer | None = None
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def open(self) -> None:
        # Made here and not in __init__: the library's producer needs a running event loop.
        self._producer = producer = AIOKafkaProducer(
            client_id="duly",
            acks="all",
            enable_idempotence=True,
            max_request_size=LARGEST_REQUEST,
            request_timeout_ms=int(REQUEST_TIMEOUT * 1000),
            **self._options,
        )
        try:
            await producer.start()
        except KafkaConnectionError as error:  # the library raises the same error for a wrong password
            said = " or accepts the credentials in its URL" if "sasl_mechanism" in self._options else ""
            raise BrokerDown(f"Kafka: no broker can be reached{said} ({error})") from error

    async def publish(self, where: Mapping[str, Any], message: BrokerMessage) -> None:
        assert self._producer is not None
        topic, key = where["topic"], where.get("key")
        headers = [(name, value.encode()) for name, value in {ID_HEADER: message.id, **message.headers}.items()]
        try:
            async with self._turns[topic]:  # else later messages overtake those that wait because the batch is full
                sent = await self._producer.send(
                    topic, message.body, key=None if key is None else key.encode(), headers=headers
                )
            await self._acknowledged(sent)
        except UnknownTopicOrPartitionError as error:
            if not await self._is_there():
                raise BrokerDown("Kafka: no broker answers") from error
            raise MessageDeferred(f"Kafka: there is no topic {topic!r}: create it") from error
        except PERMANENT_ERRORS as error:
            raise MessageRefused(f"Kafka: {describe_without_paths(error)}") from error
        except FATAL_ERRORS as error:
            raise BrokerDown(f"Kafka: {describe_without_paths(error)}") from error
        except KafkaError as error:
            raise MessageDeferred(f"Kafka: {describe_without_paths(error)}") from error

    async def ping(self) -> None:
        if not await self._is_there():
            raise BrokerDown("Kafka: no broker answers")

    async def close(self) -> None:
        if self._producer is None:
            return
        await asyncio.sleep(0)  # a sender task cancelled before its first step would cancel its waiters as well
        try:  # `stop` alone would retry unsent messages for ever
            await self._producer._sender.close()
        finally:  # also when this call is cancelled
            self._let_go(self._producer._message_accumulator)
            try:
                await self._producer.stop()
            finally:
                await self._producer.client.close()

    def _let_go(self, unsent: Any) -> None:
        for batch in chain(unsent._pending_batches, *unsent._batches.values()):
            batch._drain_waiter.add_done_callback(_seen)
        unsent.fail_all(ProducerClosed())

    async def _acknowledged(self, sent: "asyncio.Future[Any]") -> None:
        """Waits for the acknowledgement while a broker answers. The producer itself would retry for ever; when no
        broker answers, this raises `BrokerDown` instead."""
        sent.add_done_callback(_seen)
        while not (await asyncio.wait([sent], timeout=CHECK_INTERVAL))[0]:
            if not await self._is_there():
                raise BrokerDown("Kafka: no broker answers")
        sent.result()

    async def _is_there(self) -> bool:
        assert self._producer is not None
        return bool(await self._producer.client.force_metadata_update())


def _seen(sent: "asyncio.Future[Any]") -> None:
    """Marks a future's error as retrieved, so that asyncio does not log it: its caller may have been cancelled."""
    if not sent.cancelled():
        sent.exception()


def options_of(url: str) -> dict[str, Any]:
    """The producer's options, read from ``kafka+ssl://user:password@host:9092,host:9092?mechanism=PLAIN``."""
    parts = urlsplit(url)
    login, _, servers = parts.netloc.rpartition("@")
    encrypted = parts.scheme == "kafka+ssl"
    said: dict[str, Any] = {
        "bootstrap_servers": servers.split(","),
        "security_protocol": f"{'SASL_' if login else ''}{'SSL' if encrypted else 'PLAINTEXT'}",
    }
    if encrypted:
        said["ssl_context"] = ssl.create_default_context()
    if login:
        user, _, password = login.partition(":")
        said["sasl_plain_username"], said["sasl_plain_password"] = unquote(user), unquote(password)
        said["sasl_mechanism"] = parse_qs(parts.query).get("mechanism", ["PLAIN"])[0]
    return said
