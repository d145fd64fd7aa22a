"""Adds entries to Redis streams, over one connection and in the order of their arrival."""

from collections.abc import Callable, Mapping
from typing import Any

from redis.asyncio import Redis as Server
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from duly.channels.brokers.batches import Batches
from duly.channels.brokers.channel import (
    ACKNOWLEDGED_WITHIN,
    BrokerDown,
    BrokerMessage,
    MessageDeferred,
    MessageRefused,
)
from duly.decide.error_text import describe_without_paths
from duly.errors import Misuse

ID = "id"
BODY = "body"

MOST_PER_BATCH = 500
"""Entries that are sent in one pipeline."""

LARGE_BYTES = 256 * 1024
"""Bytes of a batch, at which it ends: an entry of this size is sent alone."""

TEMPORARY_ERRORS = (OutOfMemoryError, ClusterDownError, TryAgainError)
"""Errors after which a retry may succeed."""

TEMPORARY_CODES = frozenset("MISCONF NOREPLICAS BUSY UNKILLABLE".split())
"""First words of other temporary errors: a full disk, missing replicas, a script that takes long."""

TOO_LARGE = "Protocol error"
"""The server's error for a command that is too large; it then closes the connection."""

Command = tuple[Any, ...]


class Redis:
    """One connection to Redis. It never retries a command: whether the first try was carried out would be unknown."""

    lost: Callable[[str], None]

    def __init__(self, url: str) -> None:
        self._server = Server.from_url(
            url,
            client_name="duly",
            retry=Retry(NoBackoff(), 0),
            socket_connect_timeout=5,
            socket_timeout=ACKNOWLEDGED_WITHIN,
        )
        self._batches = Batches(self._send, lambda reason: self.lost(reason), MOST_PER_BATCH, LARGE_BYTES)

    async def open(self) -> None:
        try:
            await self.ping()
            await self._refuse_replica()
        except (AuthenticationError, AuthorizationError) as error:
            raise Misuse(f"Redis refuses the credentials in its URL: {error}") from error
        except ResponseError as error:
            raise Misuse(f"Redis refuses: {error}") from error

    async def publish(self, where: Mapping[str, Any], message: BrokerMessage) -> None:
        trimmed = ("MAXLEN", "~", where["max_length"]) if "max_length" in where else ()
        fields = {ID: message.id, BODY: message.body, **message.headers}
        written = [part for field in fields.items() for part in field]
        await self._batches.add(("XADD", where["stream"], *trimmed, "*", *written), len(message.body))

    async def ping(self) -> None:
        await self._server.execute_command("PING")

    async def close(self) -> None:
        self._batches.end(BrokerDown("Redis: the connection is closed"))
        await self._server.aclose()

    async def _refuse_replica(self) -> None:
        """Raises `BrokerDown` for a replica, which takes no writes; the next connection may reach the primary, or this
        server may become the primary after a failover."""
        try:
            [role, *_] = await self._server.execute_command("ROLE")
        except NoPermissionError:
            return
        if role == b"slave":
            raise BrokerDown("Redis: this server is a replica and accepts no writes: use the URL of the primary")

    async def _send(self, commands: list[Command]) -> list[Exception | None]:
        try:
            async with self._server.pipeline(transaction=False) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                answers = await pipeline.execute(raise_on_error=False)
            if any(isinstance(answer, ResponseError) and TOO_LARGE in str(answer) for answer in answers):
                await self._server.connection_pool.disconnect()
            return [_failure(answer) for answer in answers]
        except (RedisError, OSError) as error:
            if _size(commands) >= LARGE_BYTES and len(commands) == 1 and await self._answers():
                return [
                    MessageDeferred(
                        f"Redis closed the connection: the message may be larger than the server accepts ({error})"
                    )
                ]
            raise BrokerDown(f"Redis: {describe_without_paths(error)}") from error

    async def _answers(self) -> bool:
        """Whether the server still answers after a lost connection. If so, it cut the connection because of a command
        that was too large."""
        try:
            await self.ping()
        except (RedisError, OSError):
            return False
        return True


def _size(commands: list[Command]) -> int:
    return sum(len(part) for command in commands for part in command if isinstance(part, bytes))


def _failure(answer: Any) -> Exception | None:
    """The failure that an answer of the server means; None for an entry's id, the answer of a successful XADD."""
    if not isinstance(answer, RedisError):
        return None
    told = f"Redis: {answer}"
    if TOO_LARGE in told:
        return MessageRefused(f"is larger than the server accepts ({told})")
    if isinstance(answer, ReadOnlyError | MasterDownError):
        return BrokerDown(told)
    if isinstance(answer, MovedError | AskError):
        return MessageRefused(f"{told}: this key is on another node of a cluster, and clusters are not supported")
    if isinstance(answer, TEMPORARY_ERRORS) or str(answer).split(" ")[0] in TEMPORARY_CODES:
        return MessageDeferred(told)
    return MessageRefused(told)
