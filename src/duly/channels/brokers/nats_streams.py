"""The streams of the timer service. A stream is created if none exists for its subject."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from nats.errors import ConnectionClosedError
from nats.errors import TimeoutError as NoAnswer
from nats.js.api import RetentionPolicy, StreamConfig, StreamInfo
from nats.js.errors import APIError, NotFoundError

from duly.channels.brokers.channel import BrokerBusy, BrokerDown, BrokerMessage, MessageDeferred
from duly.channels.brokers.nats import Nats, PublishForbidden
from duly.decide.error_text import describe
from duly.errors import Misuse

log = logging.getLogger("duly")

COMMANDS = "timer.commands"
REJECTED = "timer.commands.rejected"
EVENTS = "timer.events"

EVENTS_KEPT = timedelta(days=7)
"""How long JetStream keeps events for consumers that are away."""

REJECTED_KEPT = timedelta(days=30)
"""How long JetStream keeps rejected commands, for people to look into them."""

DUPLICATES = timedelta(hours=2)
"""How long JetStream remembers the ids of events to drop duplicates: well past the last attempt to publish an event."""

FOR_COMMANDS = StreamConfig(name="TIMER_COMMANDS", subjects=[COMMANDS], retention=RetentionPolicy.WORK_QUEUE)
FOR_REJECTED = StreamConfig(name="TIMER_REJECTED", subjects=[REJECTED], max_age=REJECTED_KEPT.total_seconds())
FOR_EVENTS = StreamConfig(
    name="TIMER_EVENTS",
    subjects=[EVENTS],
    max_age=EVENTS_KEPT.total_seconds(),
    duplicate_window=DUPLICATES.total_seconds(),
)

NOT_ENABLED = frozenset({None, 10039, 10076})
"""JetStream's error codes for: no answer (None), not enabled for this account, not enabled on this server."""

TEMPORARY_ERRORS = frozenset({10005})
"""Error codes below 500 that are temporary all the same: too few servers of a cluster are up (10005)."""

SILENT = 8.0
"""Seconds without an acknowledgement after which JetStream counts as lost."""


class NoJetStream(Misuse):
    """JetStream does not answer on a connected server. It may be starting, so callers treat this as final only after
    some seconds."""


class EventStream(Nats):
    """Publishes to the one stream of the timer service's events. If the stream refuses one event for now, it would
    refuse any other event as well: so the broker counts as down, and no attempt is spent."""

    async def open(self) -> None:
        await super().open()
        async with sorted_refusals(self):
            await remember_ids(self, await stream_for(self, FOR_EVENTS))

    async def publish(self, where: Mapping[str, Any], message: BrokerMessage) -> None:
        try:
            await super().publish(where, message)
        except (MessageDeferred, PublishForbidden) as error:
            self.give_up(str(error))
            raise BrokerBusy(str(error)) from error

    def look(self) -> str | None:
        oldest = next(iter(self.under_way.values()), None)
        if oldest is not None and asyncio.get_running_loop().time() - oldest.since > SILENT:
            return f"NATS: no acknowledgement within {SILENT:g} s"
        return super().look()


@asynccontextmanager
async def sorted_refusals(client: Nats) -> AsyncIterator[None]:
    """Turns JetStream's errors into `BrokerDown` if they are temporary, and into `Misuse` if somebody has to act."""
    try:
        yield
    except APIError as error:
        if error.code in (None, 503) and error.err_code in NOT_ENABLED:
            raise NoJetStream(
                "this NATS server has no JetStream: start it with -js, or set TIMER_BROKER_URL to a server that has it"
            ) from error
        told = f"JetStream: {error.description} ({error.err_code})"
        if (error.code or 500) >= 500 or error.err_code in TEMPORARY_ERRORS:
            raise BrokerDown(told) from error
        raise Misuse(f"{told}. The timer service needs streams for {COMMANDS}, {REJECTED} and {EVENTS}") from error
    except NoAnswer as error:
        if "permissions violation" in str(client.said).lower():
            told = f"{client.said} (shown in lower case)"
            raise Misuse(
                f"{told}. The timer service needs this permission; its documentation lists all permissions"
            ) from error
        raise BrokerDown("JetStream does not answer") from error
    except ConnectionClosedError as error:
        raise BrokerDown(str(error)) from error


async def stream_for(client: Nats, wanted: StreamConfig) -> StreamInfo:
    """The stream that stores the subject of *wanted*; it is created from *wanted* if there is none."""
    [subject] = wanted.subjects or []
    try:
        name = await client.stream.find_stream_name_by_subject(subject)
    except NotFoundError:
        return await client.stream.add_stream(wanted)
    return await client.stream.stream_info(name)


async def remember_ids(client: Nats, found: StreamInfo) -> None:
    """Makes a stream drop duplicates for as long as an event may be published again. The timer service's own stream is
    updated; for a stream that somebody else created, a warning is logged."""
    config = found.config
    window = DUPLICATES.total_seconds()
    if config.max_age:  # JetStream allows no longer duplicate window
        window = min(window, config.max_age)
    if config.duplicate_window >= window:
        return
    try:
        if config.name != FOR_EVENTS.name:
            raise Misuse("it was not created by the timer service")
        await _update(client, str(config.name), duplicate_window=round(window * 1e9))
    except (Misuse, APIError, NoAnswer) as error:
        log.warning(
            "stream.forgetful stream=%s duplicate_window=%gs wanted=%gs reason=%s",
            config.name,
            config.duplicate_window,
            window,
            json.dumps(error.description if isinstance(error, APIError) else describe(error)),
        )


async def _update(client: Nats, name: str, **changes: Any) -> None:
    """Updates a stream's configuration. The library's own update would drop settings that the library does not know."""
    answer = await client.connection.request(f"$JS.API.STREAM.INFO.{name}", timeout=5)
    config = json.loads(answer.data)["config"] | changes
    answer = await client.connection.request(f"$JS.API.STREAM.UPDATE.{name}", json.dumps(config).encode(), timeout=5)
    if error := json.loads(answer.data).get("error"):
        raise APIError(**error)
