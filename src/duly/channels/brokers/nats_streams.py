"""The streams of the timer service. They are made where nobody has made any for their subjects."""

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

COMMANDS, REJECTED, EVENTS = "timer.commands", "timer.commands.rejected", "timer.events"

KEPT, REJECTED_KEPT = timedelta(days=7), timedelta(days=30)
DUPLICATES = timedelta(hours=2)
"""For how long JetStream knows the ids of events, well past the last attempt to publish one."""

FOR_COMMANDS = StreamConfig(name="TIMER_COMMANDS", subjects=[COMMANDS], retention=RetentionPolicy.WORK_QUEUE)
FOR_REJECTED = StreamConfig(name="TIMER_REJECTED", subjects=[REJECTED], max_age=REJECTED_KEPT.total_seconds())
FOR_EVENTS = StreamConfig(
    name="TIMER_EVENTS",
    subjects=[EVENTS],
    max_age=KEPT.total_seconds(),
    duplicate_window=DUPLICATES.total_seconds(),
)

NOT_ENABLED = frozenset({None, 10039, 10076})
"""JetStream's codes for: nobody answers, not for this account, not on this server."""

PASSING = frozenset({10005})
"""What passes, of the codes that say that we are wrong: too few servers of a cluster are there."""

SILENT = 8.0
"""Seconds after which JetStream is taken for lost that says nothing to a message."""


class NoJetStream(Misuse):
    """Nobody answers. It may be starting: whoever takes this for good has to see it for some seconds."""


class EventStream(Nats):
    """Publishes to one stream, which is its own. What that does not take for now, it would not take from any other
    event either: then it is down, and no attempt is spent."""

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
    """What passes by itself is `Down`, and `Misuse` what does not."""
    try:
        yield
    except APIError as error:
        if error.code in (None, 503) and error.err_code in NOT_ENABLED:
            raise NoJetStream(
                "this NATS server has no JetStream: start it with -js, or let TIMER_BROKER_URL name one that has"
            ) from error
        told = f"JetStream: {error.description} ({error.err_code})"
        if (error.code or 500) >= 500 or error.err_code in PASSING:
            raise BrokerDown(told) from error
        raise Misuse(f"{told}. The timer service needs streams for {COMMANDS}, {REJECTED} and {EVENTS}") from error
    except NoAnswer as error:
        if "permissions violation" in str(client.said).lower():
            told = f"{client.said} (told in small letters, whatever its own are)"
            raise Misuse(f"{told}. The timer service needs this, see its documentation") from error
        raise BrokerDown("JetStream does not answer") from error
    except ConnectionClosedError as error:
        raise BrokerDown(str(error)) from error


async def stream_for(client: Nats, wanted: StreamConfig) -> StreamInfo:
    """The stream that has the subject."""
    [subject] = wanted.subjects or []
    try:
        name = await client.stream.find_stream_name_by_subject(subject)
    except NotFoundError:
        return await client.stream.add_stream(wanted)
    return await client.stream.stream_info(name)


async def remember_ids(client: Nats, found: StreamInfo) -> None:
    """For as long as an event may be published again. Our own stream is told to; of somebody else's, people are."""
    config = found.config
    window = DUPLICATES.total_seconds()
    if config.max_age:  # it cannot be longer
        window = min(window, config.max_age)
    if config.duplicate_window >= window:
        return
    try:
        if config.name != FOR_EVENTS.name:
            raise Misuse("it is not the timer service's own")
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
    """Not by the library's own means: those drop what they do not know of a stream's configuration."""
    answer = await client.connection.request(f"$JS.API.STREAM.INFO.{name}", timeout=5)
    config = json.loads(answer.data)["config"] | changes
    answer = await client.connection.request(f"$JS.API.STREAM.UPDATE.{name}", json.dumps(config).encode(), timeout=5)
    if error := json.loads(answer.data).get("error"):
        raise APIError(**error)
