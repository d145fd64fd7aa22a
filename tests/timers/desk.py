"""Somebody on the other side of the broker: sends commands, and sees what is in the streams."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from nats.aio.msg import Msg
from nats.js.api import ConsumerInfo, RawStreamMsg, StreamConfig, StreamInfo
from nats.js.errors import NotFoundError

from duly.channels.brokers.nats import NatsConnection
from duly.channels.brokers.nats_commands import DURABLE
from duly.channels.brokers.nats_streams import COMMANDS, EVENTS, FOR_COMMANDS, FOR_EVENTS, FOR_REJECTED
from tests.worker.running_worker import until

TENANT = "acme"


def in_seconds(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def command(key: str, due: datetime | str | None = None, *, tenant: str = TENANT, **more: Any) -> dict[str, Any]:
    """Due at once, unless told."""
    due = in_seconds(0) if due is None else due
    payload = {"tenantId": tenant, "serviceCallId": key, "dueAt": due if isinstance(due, str) else due.isoformat()}
    return {"id": f"command-{key}", "type": "ScheduleTimer", "tenantId": tenant, "payload": payload} | more


def encode(command: Any) -> bytes:
    return command if isinstance(command, bytes) else json.dumps(command).encode()


class Desk:
    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> Self:
        self.connection = NatsConnection()
        soon: Any = 0.05  # a float is fine: its type says int, and it is given to asyncio.sleep
        await self.connection.connect(self._url, reconnect_time_wait=soon, max_reconnect_attempts=-1, error_cb=_quiet)
        self.stream = self.connection.jetstream()
        await self.stream.add_stream(FOR_COMMANDS)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()

    async def send(self, *commands: Any) -> None:
        """Return when the stream has them."""
        sent = [await self.stream.publish_async(COMMANDS, encode(command)) for command in commands]
        await asyncio.gather(*sent)

    # -- looking

    async def is_consumed(self) -> bool:
        return await self._consumer() is not None

    async def nothing_is_left(self) -> bool:
        """Whether every command was acknowledged."""
        return await self.many(FOR_COMMANDS) == 0

    async def unacknowledged(self) -> int:
        consumer = await self._consumer()
        return 0 if consumer is None else int(consumer.num_ack_pending or 0)

    async def events(self, many: int = 0) -> list[dict[str, Any]]:
        """What is in the stream of events, once there are so many."""
        return await self._read(FOR_EVENTS, many)

    async def rejected(self, many: int = 0) -> list[dict[str, Any]]:
        return await self._read(FOR_REJECTED, many)

    async def many(self, stream: StreamConfig) -> int:
        """How many messages a stream has; none if it is not there."""
        return 0 if (info := await self._info(stream)) is None else info.state.messages

    async def stored(self, stream: StreamConfig) -> Sequence[RawStreamMsg]:
        info = await self._info(stream)
        if info is None or info.state.messages == 0:
            return []
        wanted = range(info.state.first_seq, info.state.last_seq + 1)
        return [await self.stream.get_msg(str(stream.name), number) for number in wanted]

    async def listen(self) -> "Heard":
        """To events as they are published."""
        heard = Heard()
        await self.connection.subscribe(EVENTS, cb=heard.hear)
        await self.connection.flush()
        return heard

    async def _read(self, stream: StreamConfig, many: int) -> list[dict[str, Any]]:
        async def has_them() -> bool:
            return await self.many(stream) >= many

        await until(has_them, f"there are {many} messages in {stream.name}")
        return [json.loads(one.data or b"") for one in await self.stored(stream)]

    async def _info(self, stream: StreamConfig) -> StreamInfo | None:
        try:
            return await self.stream.stream_info(str(stream.name))
        except NotFoundError:
            return None

    async def _consumer(self) -> ConsumerInfo | None:
        try:
            found: ConsumerInfo = await self.stream.consumer_info(str(FOR_COMMANDS.name), DURABLE)
        except NotFoundError:
            return None
        return found


class Heard:
    """When each event was published, as far as somebody in this process can tell."""

    def __init__(self) -> None:
        self.at: dict[str, datetime] = {}  # by key

    async def hear(self, message: Msg) -> None:
        self.at[json.loads(message.data)["payload"]["serviceCallId"]] = datetime.now(UTC)


async def _quiet(_: Exception) -> None:
    """Outages are what these tests are about."""
