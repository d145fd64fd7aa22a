"""The timer module: ``ScheduleTimer`` commands come in over a broker, ``DueTimeReached`` events go out.

The intake of commands and the firing of due timers share only the database. Each has its own connection to the broker,
and continues when the other fails.
"""

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from duly.backoff import Backoff
from duly.channels.brokers.channel import BrokerChannel, BrokerConnection, BrokerDown, BrokerMessage
from duly.channels.http.payload_format import JSON
from duly.config import read_settings, redacted
from duly.duly import Duly
from duly.engine.destinations.broker_health import BrokerHealth
from duly.engine.stopping import signal_handlers
from duly.errors import BadSetting, Misuse
from duly.extras import install
from duly.ports import Channel, Commands, Reachable, SlowToStart
from duly.records.event import Event
from duly.signals import WorkerStarted
from duly.timer_service.commands import TimerCommands
from duly.timer_service.messages import TIMER, write_reached

log = logging.getLogger("duly")

COMMANDS = "timer.commands"
WAIT = 5.0
"""Seconds to wait for a command before checking whether the broker is still reachable."""

SHORTEST = 0.05  # seconds before the first retry, after a failure to take commands in
LONGEST = 5.0  # seconds between retries, at most

LAST_ROUND = 2.0
"""Seconds in which a stopping service must store the commands it has taken, once its worker has ended. A command that
is not stored by then is not acknowledged, and is delivered again."""

WORKER_ENDS_WITHIN = 5.0
"""Seconds after the shutdown grace in which a worker ends, even if its database hangs."""

ENDED_WITHIN = 1.0
"""Seconds in which a cancelled task must end: a library may swallow the cancellation."""

MOST_AT_ONCE = 1000
"""Commands that are stored in one transaction: a burst then takes few transactions."""


class TimerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the timer service. Each is read from the variable ``TIMER_`` plus its name in capitals; only the
    database is read from a path, ``TIMER_DB_PATH``."""

    polling_interval: timedelta = timedelta(seconds=5)
    batch_size: int = 100
    database_url: str = "sqlite:///event_service.db"
    broker_url: str = "nats://localhost:4222"


class TimerBroker(NamedTuple):
    commands: Commands
    channel: Channel


def read_timer_settings(db: str | None = None, environment: Mapping[str, str] | None = None) -> TimerSettings:
    """Reads the settings from the environment. Database and broker default to Duly's own settings."""
    given = os.environ if environment is None else environment
    values: dict[str, object] = {}
    if written := given.get("TIMER_POLLING_INTERVAL"):
        values["polling_interval"] = timedelta(
            milliseconds=_number("TIMER_POLLING_INTERVAL", written, 10, 3_600_000, "milliseconds")
        )
    if written := given.get("TIMER_BATCH_SIZE"):
        values["batch_size"] = _number("TIMER_BATCH_SIZE", written, 1, 1000, "timers")
    if url := db or _database(given.get("TIMER_DB_PATH")) or given.get("DULY_DATABASE_URL"):
        values["database_url"] = url
    for variable in ("TIMER_BROKER_URL", "DULY_NATS_URL"):
        if url := given.get(variable):
            _check_broker(variable, url)
            values["broker_url"] = url
            break
    return msgspec.convert(values, TimerSettings)


def _number(variable: str, written: str, least: int, most: int, what: str) -> int:
    digits = written.strip()
    if not digits.isascii() or not digits.isdigit() or len(digits) > 9 or not least <= int(digits) <= most:
        raise BadSetting(variable, written, f"a whole number of {what} from {least} to {most:,}")
    return int(digits)


def _database(path: str | None) -> str | None:
    if path and "://" in path:
        expected = "the path of a SQLite file; DULY_DATABASE_URL and --db take a URL"
        raise BadSetting("TIMER_DB_PATH", redacted(path), expected)
    return f"sqlite:///{path}" if path else None


def _check_broker(variable: str, urls: str) -> None:
    for url in urls.split(","):
        try:
            found = urlsplit(url.strip())
            sound = found.scheme in BROKERS and bool(found.hostname) and (found.port or 1) > 0
        except ValueError:
            sound = False
        if not sound:
            expected = "nats://host:4222, or several separated by commas"
            raise BadSetting(variable, redacted(urls), expected)


# -- brokers, by the scheme of their URL


def _nats(url: str) -> TimerBroker:
    from duly.channels.brokers.nats import Nats
    from duly.channels.brokers.nats_commands import NatsCommands
    from duly.channels.brokers.nats_streams import EVENTS, EventStream

    commands = BrokerConnection(lambda: Nats(url, "duly timer-service, commands"))
    events = BrokerConnection(lambda: EventStream(url, "duly timer-service, events"))
    return TimerBroker(NatsCommands(commands), BrokerChannel(events, _reached, lambda _: {"subject": EVENTS}))


def _reached(event: Event) -> BrokerMessage:
    return BrokerMessage(event.id, write_reached(event), {"Content-Type": JSON})


BROKERS: dict[str, Callable[[str], TimerBroker]] = {"nats": _nats, "tls": _nats}


def open_broker(url: str) -> TimerBroker:
    try:
        return BROKERS[urlsplit(url).scheme](url)
    except ModuleNotFoundError as error:
        raise Misuse(f"{error.name} is not installed: {install('nats')}") from error


def take_timers(duly: Duly, commands: Commands, batch_size: int) -> TimerCommands:
    """The intake that stores commands as timers of this Duly."""
    return TimerCommands(commands, duly.store, [TIMER], duly.signals, batch_size)


# -- the service


class TimerService:
    def __init__(self, settings: TimerSettings, broker: TimerBroker | None = None) -> None:
        self._broker = broker or open_broker(settings.broker_url)
        self.duly = Duly(
            settings=read_settings(
                database_url=settings.database_url,
                poll_interval=settings.polling_interval,
                batch_size=settings.batch_size,
            ),
            channels={TIMER: self._broker.channel},
        )
        self._started = asyncio.Event()  # the worker runs, so the store has been opened
        self.duly.observe(lambda _: self._started.set(), WorkerStarted)
        self._stopping = False
        self._told_to_stop = asyncio.Event()
        self._changed = asyncio.Event()

    async def run(self, *, signals: bool = True) -> None:
        """Runs until stopped, or until an error that waiting cannot cure."""
        with self._stopped_by_signals() if signals else contextlib.nullcontext():
            await self._run()

    async def _run(self) -> None:
        firing = asyncio.create_task(self._fire(), name="firing")
        taking = asyncio.create_task(self._take_in(), name="taking commands")
        stopping = asyncio.create_task(self._told_to_stop.wait())
        try:
            await asyncio.wait([firing, taking, stopping], return_when=asyncio.FIRST_COMPLETED)
            self.stop()  # before a stop, the intake ends only with a critical error
            await asyncio.wait([firing], timeout=self.duly.settings.shutdown_grace.total_seconds() + WORKER_ENDS_WITHIN)
            await self._finish(taking)
        finally:
            stopping.cancel()
            ends = await _ends(taking, firing)
            await self._broker.commands.close()
            if (close := getattr(self._broker.channel, "close", None)) is not None:
                await close()  # it opens before the database, which may never open
        for end in ends:
            raise end

    def stop(self, now: bool = False) -> None:
        self._stopping = True
        self._told_to_stop.set()
        self.duly.stop(now=now)

    @contextlib.contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        """Stops the service on SIGTERM and SIGINT, from the first attempt to connect until the last command is
        stored."""
        loop, caught = asyncio.get_running_loop(), []
        for number, handler in signal_handlers(self.stop).items():
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # this system or thread has none
                loop.add_signal_handler(number, handler)
                caught.append(number)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    async def _fire(self) -> None:
        if isinstance(self._broker.channel, SlowToStart):
            await self._prepare(self._broker.channel)  # or overdue events would be claimed before the broker is there
        if not self._stopping:
            await self.duly.run(signals=False, lanes=[TIMER])

    async def _prepare(self, channel: SlowToStart) -> None:
        """Waits for the channel's first attempt to connect, successful or not, or for a stop."""
        preparing = asyncio.create_task(channel.prepare())
        stopping = asyncio.create_task(self._told_to_stop.wait())
        try:
            await asyncio.wait([preparing, stopping], return_when=asyncio.FIRST_COMPLETED)
            if preparing.done():
                with contextlib.suppress(BrokerDown):  # the worker reports it
                    preparing.result()
        finally:
            preparing.cancel()
            stopping.cancel()

    async def _finish(self, taking: "asyncio.Task[None]") -> None:
        """Stores the commands already taken, and takes no more."""
        self._started.set()
        self._changed.set()
        await self._broker.commands.release()
        await asyncio.wait([taking], timeout=LAST_ROUND)

    async def _take_in(self) -> None:
        await self._started.wait()
        if self._stopping:
            return
        commands, signals = self._broker.commands, self.duly.signals
        broker_health = BrokerHealth(
            {COMMANDS: commands} if isinstance(commands, Reachable) else {}, signals, self._changed.set
        )
        intake = take_timers(self.duly, commands, MOST_AT_ONCE)
        async with self.duly:  # stays open until the last command is stored
            broker_health.begin()
            try:
                backoff = Backoff(SHORTEST, LONGEST, spread=random.uniform)
                while not self._stopping:
                    if await self._one_round(intake):
                        backoff.reset()
                    else:
                        await self._pause(backoff.next())
            finally:
                broker_health.end()

    async def _one_round(self, intake: TimerCommands) -> bool:
        """Takes in one batch of commands. Returns whether that succeeded."""
        self._changed.clear()
        try:
            await intake.round(WAIT)
        except Misuse:
            raise
        except BrokerDown as error:
            if getattr(self._broker.commands, "down", None) is None:  # else the outage is logged already
                log.warning("intake.failed error=%s", error)
            return False
        except Exception:
            log.exception("intake.failed")
            return False
        return True

    async def _pause(self, seconds: float) -> None:
        """Waits until the broker is back, at most for *seconds*."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()


async def _ends(*tasks: "asyncio.Task[None]") -> list[BaseException]:
    """Cancels the tasks that still run, and returns the errors of those that failed."""
    for task in tasks:
        task.cancel()
    _, left = await asyncio.wait(tasks, timeout=ENDED_WITHIN)
    for task in left:
        log.error("service.stuck task=%s", task.get_name())
    ended = [task for task in tasks if task not in left and not task.cancelled()]
    return [error for task in ended if (error := task.exception()) is not None]
