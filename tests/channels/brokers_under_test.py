"""Brokers as the tests see them: where to send to, and what has arrived."""

import asyncio
import base64
import json
from typing import Any, NamedTuple
from uuid import uuid4

import aio_pika
import nats
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from redis.asyncio import Redis

from duly import to
from duly.channels.brokers.kafka import options_of
from tests.brokers import PASSWORD, NatsServer, RabbitServer, RedisServer

LARGEST = 512 * 1024
"""What the brokers here take at most, where that can be said; of Redis, it is twice as much."""


class Received(NamedTuple):
    """What arrived, in the words of the broker."""

    id: str
    body: bytes
    headers: dict[str, Any]

    @property
    def said(self) -> Any:
        return json.loads(self.body)


class BrokerUnderTest:
    """A server and how to look into it. Places are new for each test."""

    channel: str
    server: NatsServer | RedisServer | RabbitServer | None

    @property
    def url(self) -> str:
        assert self.server is not None
        return self.server.url

    @property
    def wrong_url(self) -> str:
        """With a password that is not the right one."""
        assert PASSWORD in self.url
        return self.url.replace(PASSWORD, "wr0ng")

    def settings(self, url: str | None = None) -> dict[str, str]:
        return {f"{self.channel}_url": url or self.url}

    def target(self, place: str, **more: Any) -> dict[str, Any]:
        made: dict[str, Any] = getattr(to, self.channel)(place, **more)
        return made

    async def make(self, place: str) -> None:
        """Let messages be taken there."""

    async def lasts(self) -> None:
        """Return when the places that were made outlive a kill."""

    async def received(self, place: str) -> list[Received]:
        """All that has arrived there, oldest first."""
        raise NotImplementedError

    async def new_place(self) -> str:
        place = f"place-{uuid4().hex[:8]}"
        await self.make(place)
        return place


class NatsUnderTest(BrokerUnderTest):
    channel = "nats"
    server: NatsServer

    def __init__(self) -> None:
        self.server = NatsServer(login=True, more=f"max_payload: {LARGEST}")

    async def make(self, place: str) -> None:
        async with await nats.connect(self.url) as connection:
            await connection.jetstream().add_stream(name=place, subjects=[place])

    async def received(self, place: str) -> list[Received]:
        async with await nats.connect(self.url) as connection:
            stream = connection.jetstream()
            last = (await stream.stream_info(place)).state.last_seq
            found = [await stream.get_msg(place, number) for number in range(1, last + 1)]
        return [Received((one.headers or {})["Nats-Msg-Id"], one.data or b"", dict(one.headers or {})) for one in found]


class RedisUnderTest(BrokerUnderTest):
    channel = "redis"
    server: RedisServer

    def __init__(self) -> None:
        self.server = RedisServer("--proto-max-bulk-len", str(2 * LARGEST), login=True)

    async def received(self, place: str) -> list[Received]:
        async with Redis.from_url(self.url) as server:
            entries: Any = await server.xrange(place)  # in bytes, as no answer is decoded unless that is asked for
        fields = [{name.decode(): value for name, value in entry.items()} for _, entry in entries]
        return [
            Received(one.pop("id").decode(), one.pop("body"), {name: value.decode() for name, value in one.items()})
            for one in fields
        ]


class RabbitUnderTest(BrokerUnderTest):
    channel = "rabbitmq"

    def __init__(self, server: RabbitServer) -> None:
        self.server = server
        self._taken: dict[str, list[aio_pika.abc.AbstractIncomingMessage]] = {}

    async def make(self, place: str) -> None:
        async with await aio_pika.connect(self.url) as connection:
            await (await connection.channel()).declare_queue(place, durable=True)

    async def lasts(self) -> None:
        # It says that a queue is declared before that is safe: of 25 that were killed within 2.2 s, three lost theirs,
        # the latest after half a second.
        await asyncio.sleep(5)

    async def messages(self, place: str) -> list[aio_pika.abc.AbstractIncomingMessage]:
        taken = self._taken.setdefault(place, [])
        async with await aio_pika.connect(self.url) as connection:
            queue = await (await connection.channel()).get_queue(place)
            while (message := await queue.get(no_ack=True, fail=False)) is not None:
                taken.append(message)
        return taken

    async def received(self, place: str) -> list[Received]:
        found = await self.messages(place)
        return [
            Received(one.message_id or "", one.body, {"Content-Type": one.content_type, **one.headers}) for one in found
        ]


class CeleryOverRedis(BrokerUnderTest):
    channel = "celery"

    def __init__(self, server: RedisServer) -> None:
        self.server = server

    def target(self, place: str, **more: Any) -> dict[str, Any]:
        return to.celery("shop.remind", queue=place)

    async def received(self, place: str) -> list[Received]:
        async with Redis.from_url(self.url) as server:
            found = [json.loads(one) for one in reversed(await server.lrange(place, 0, -1))]
        return [_task(one["headers"], base64.b64decode(one["body"])) for one in found]


class CeleryOverRabbit(RabbitUnderTest):
    channel = "celery"

    def target(self, place: str, **more: Any) -> dict[str, Any]:
        return to.celery("shop.remind", queue=place)

    async def received(self, place: str) -> list[Received]:
        return [_task(dict(one.headers), one.body) for one in await self.messages(place)]


def _task(headers: dict[str, Any], body: bytes) -> Received:
    args, kwargs, _ = json.loads(body)
    return Received(headers["id"], json.dumps([args, kwargs]).encode(), headers)


class KafkaUnderTest(BrokerUnderTest):
    channel, server = "kafka", None

    def __init__(self, url: str, *, real: bool = False) -> None:
        self._url, self._real = url, real

    @property
    def url(self) -> str:
        return self._url

    @property
    def wrong_url(self) -> str:
        return self._url.replace("kafka://", "kafka://nobody:wr0ng@")

    def target(self, place: str, **more: Any) -> dict[str, Any]:
        return to.kafka(place, **({"key": "one partition, one order"} | more))

    async def make(self, place: str) -> None:
        if self._real:  # the other one makes them by itself
            admin = AIOKafkaAdminClient(**options_of(self.url))
            await admin.start()
            try:
                await admin.create_topics([NewTopic(place, num_partitions=3, replication_factor=1)])
            finally:
                await admin.close()

    async def received(self, place: str) -> list[Received]:
        consumer = AIOKafkaConsumer(place, auto_offset_reset="earliest", **options_of(self.url))
        await consumer.start()
        found: list[Received] = []
        try:
            many = sum((await consumer.end_offsets(consumer.assignment())).values())
            while len(found) < many:
                one = await consumer.getone()
                headers = {name: value.decode() for name, value in one.headers}
                found.append(Received(headers.pop("Idempotency-Key"), one.value, headers))
        finally:
            await consumer.stop()
        return found
