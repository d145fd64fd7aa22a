"""Measures the timer service on NATS JetStream: the rates of commands and of events, beside the client library alone
with the same messages on the same server, and the lateness of events at a steady rate."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import msgspec
import nats
import psutil
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

from benchmarks.crew import Broken
from benchmarks.peers import Peer
from benchmarks.usage import Usage
from benchmarks.workloads import TIMEOUT, Figures, quantile
from duly.timer_service.messages import SCHEDULE
from duly.timer_service.service import TimerService, TimerSettings
from tests.brokers import NatsServer

WINDOW = 100
"""Messages that await their acknowledgement at once, for both sides: a worker's default concurrency."""

BATCH = 1000
"""Commands that the bare loop fetches at once, as the service does."""

RATE = 100
"""Timers a second, when lateness is measured."""

SECONDS = 10
"""Seconds for which lateness is measured."""

Done = Callable[[], Awaitable[bool]]


def timers(_peer: Peer, url: str, many: int) -> Figures:
    """Measures *many* commands that wait in the stream, from the start of the service until the last is acknowledged;
    and as many events, from the instant at which all are due until the last is in the stream. After that, the lateness
    of timers at a steady rate, scheduled beforehand: from the due time until the event is in the stream, by the
    server's clock."""
    with NatsServer() as server:
        return asyncio.run(_timers(server.url, url, many))


async def _timers(broker: str, url: str, many: int) -> Figures:
    connection = await nats.connect(broker)
    stream = connection.jetstream()
    try:
        bare_in, bare_out = await _bare(stream, many)
        due = datetime.now(UTC) + timedelta(seconds=15 + many / 1000)
        service = TimerService(TimerSettings(database_url=url, broker_url=broker, batch_size=BATCH))
        await service._broker.commands.prepare()
        await _publish(stream, "timer.commands", [_command(number, due) for number in range(many)])
        with Usage([psutil.Process()], url) as taking:
            start = time.perf_counter()
            running = asyncio.create_task(service.run(signals=False))
            absorbed = await _seconds_until(start, lambda: _all_taken(stream))
        left = (due - datetime.now(UTC)).total_seconds()
        if left < 0:
            raise Broken(f"{many:,} commands took longer than there was time for")
        await asyncio.sleep(left)
        with Usage([psutil.Process()], url) as firing:
            published = await _seconds_until(time.perf_counter(), lambda: _has(stream, "TIMER_EVENTS", many))
        late = await _lateness(stream, many)
        service.stop()
        await running
    finally:
        await connection.close()
    return {
        "p50_ms": quantile(late, 0.5),
        "p99_ms": quantile(late, 0.99),
        "max_ms": late[-1],
        "events_per_second": many / published,
        "bare_events_per_second": many / bare_out,
        "events_percent": 100 * bare_out / published,
        "event_us": 1e6 * firing.workers / many,
        "commands_per_second": many / absorbed,
        "bare_commands_per_second": many / bare_in,
        "commands_percent": 100 * bare_in / absorbed,
        "command_us": 1e6 * taking.workers / many,
    }


async def _lateness(stream: JetStreamContext, before: int) -> list[float]:
    """The lateness in milliseconds of each event after the first *before* events, in ascending order."""
    many = RATE * SECONDS
    first = datetime.now(UTC) + timedelta(seconds=5)
    due = {f"call-{before + number}": first + timedelta(seconds=number / RATE) for number in range(many)}
    commands = [_command(before + number, instant) for number, instant in enumerate(due.values())]
    await _publish(stream, "timer.commands", commands, before)
    await _seconds_until(time.perf_counter(), lambda: _all_taken(stream))
    if datetime.now(UTC) > first:
        raise Broken(f"{many:,} commands took longer than there was time for")
    await _seconds_until(time.perf_counter(), lambda: _has(stream, "TIMER_EVENTS", before + many))
    late = []
    for number in range(before + 1, before + many + 1):
        event = await stream.get_msg("TIMER_EVENTS", number)
        assert event.data is not None
        assert event.time is not None
        key = msgspec.json.decode(event.data)["payload"]["serviceCallId"]
        late.append(1000 * (event.time - due.pop(key)).total_seconds())
    late.sort()
    if late[0] < 0:
        raise Broken(f"published {-1000 * late[0]:.0f} µs early, which Duly never may")
    return late


async def _bare(stream: JetStreamContext, many: int) -> tuple[float, float]:
    """The seconds in which the library takes and acknowledges *many* commands, and publishes *many* events."""
    due = datetime.now(UTC)
    await stream.add_stream(StreamConfig(name="BARE", subjects=["bare"], duplicate_window=120))
    start = time.perf_counter()
    await _publish(stream, "bare", [_command(number, due) for number in range(many)])
    published = time.perf_counter() - start
    config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, max_ack_pending=100_000)
    consumer = await stream.pull_subscribe("bare", durable="bare", config=config)
    taken, start = 0, time.perf_counter()
    while taken < many:
        for message in await consumer.fetch(min(BATCH, many - taken), timeout=TIMEOUT):
            await message.ack()
            taken += 1
    return time.perf_counter() - start, published


async def _publish(stream: JetStreamContext, subject: str, messages: list[bytes], first: int = 0) -> None:
    """Publishes messages, WINDOW of them at once, each with its own id."""
    left = iter(enumerate(messages, first))

    async def one_after_another() -> None:
        for number, message in left:
            headers = {"Nats-Msg-Id": f"{subject}-{number}"}
            await (await stream.publish_async(subject, message, headers=headers))

    await asyncio.gather(*(one_after_another() for _ in range(WINDOW)))


def _command(number: int, due: datetime) -> bytes:
    payload = {"tenantId": "shop", "serviceCallId": f"call-{number}", "dueAt": due.isoformat()}
    command = {"id": f"c-{number}", "type": SCHEDULE, "tenantId": "shop", "timestampMs": 0, "payload": payload}
    return msgspec.json.encode(command)


async def _seconds_until(start: float, done: Done) -> float:
    while not await done():
        if time.perf_counter() - start > TIMEOUT:
            raise Broken("the timer service is not done in time")
        await asyncio.sleep(0.02)
    return time.perf_counter() - start


async def _all_taken(stream: JetStreamContext) -> bool:
    return await _has(stream, "TIMER_COMMANDS", 0)  # an acknowledged message leaves the stream


async def _has(stream: JetStreamContext, name: str, many: int) -> bool:
    return (await stream.stream_info(name)).state.messages == many
