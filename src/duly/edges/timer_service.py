"""The timer module: ``ScheduleTimer`` commands come in over a broker, ``DueTimeReached`` events go out.

Taking commands in and firing what is due share the database and nothing else: each has a connection to the broker of
its own, and goes on when the other cannot.
"""

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import NamedTuple

import msgspec

from duly.channels.brokers import Brokered, Down, Link, Message
from duly.channels.requests import JSON
from duly.config import read_settings, redacted
from duly.core.model import Event
from duly.core.timer_messages import TIMER, write_reached
from duly.errors import BadSetting, DulyError, Misuse
from duly.flow.intake import Intake
from duly.flow.reach import Reach
from duly.ports import Channel, Commands, Reachable
from duly.wiring import Duly

log = logging.getLogger("duly")

COMMANDS = "timer.commands"
WAIT = 5.0
"""Seconds to wait for a command before looking whether there is a broker still."""

SHORTEST, LONGEST = 0.05, 5.0
"""Seconds between tries to take commands in."""


class TimerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Each is read from ``TIMER_`` and its name in capitals."""

    polling_interval: timedelta = timedelta(seconds=5)
    batch_size: int = 100
    database_url: str = "sqlite:///event_service.db"
    broker_url: str = "nats://localhost:4222"


class Broker(NamedTuple):
    commands: Commands
    channel: Channel


def read_timer_settings(db: str | None = None, environment: Mapping[str, str] | None = None) -> TimerSettings:
    """From the environment. Where it does not say which database and broker, Duly's own settings do."""
    given = os.environ if environment is None else environment
    values: dict[str, object] = {}
    if written := given.get("TIMER_POLLING_INTERVAL"):
        values["polling_interval"] = timedelta(
            milliseconds=_number("TIMER_POLLING_INTERVAL", written, 10, 3_600_000, "milliseconds")
        )
    if written := given.get("TIMER_BATCH_SIZE"):
        values["batch_size"] = _number("TIMER_BATCH_SIZE", written, 1, 1000, "timers")
    if db is not None:
        values["database_url"] = db
    elif path := given.get("TIMER_DB_PATH"):
        values["database_url"] = f"sqlite:///{path}"
    elif url := given.get("DULY_DATABASE_URL"):
        values["database_url"] = url
    if url := given.get("TIMER_BROKER_URL") or given.get("DULY_NATS_URL"):
        values["broker_url"] = url
    return msgspec.convert(values, TimerSettings)


def _number(variable: str, written: str, least: int, most: int, what: str) -> int:
    if not written.isascii() or not written.strip().isdigit() or not least <= int(written) <= most:
        raise BadSetting(variable, written, f"a whole number of {what} from {least} to {most:,}")
    return int(written)


# -- brokers, by the scheme of their URL


def _nats(url: str) -> Broker:
    from duly.channels.nats import Nats
    from duly.channels.nats_commands import EVENTS, NatsCommands

    def link() -> Link:
        return Link(lambda: Nats(url, "duly timer-service"))

    return Broker(NatsCommands(link()), Brokered(link(), _reached, lambda _: {"subject": EVENTS}))


def _reached(event: Event) -> Message:
    return Message(event.id, write_reached(event), {"Content-Type": JSON})


BROKERS: dict[str, Callable[[str], Broker]] = {"nats": _nats, "tls": _nats}


def open_broker(url: str) -> Broker:
    scheme = url.partition("://")[0]
    if scheme not in BROKERS:
        raise BadSetting("TIMER_BROKER_URL", redacted(url), "nats://host:4222, or several of them with commas between")
    try:
        return BROKERS[scheme](url)
    except ModuleNotFoundError as error:
        raise Misuse(f"{error.name} is not installed: pip install 'duly[nats]'") from error


# -- the service


class TimerService:
    def __init__(self, settings: TimerSettings, broker: Broker | None = None) -> None:
        self._broker = broker or open_broker(settings.broker_url)
        self.duly = Duly(
            settings=read_settings(
                database_url=settings.database_url,
                poll_interval=settings.polling_interval,
                batch_size=settings.batch_size,
            ),
            channels={TIMER: self._broker.channel},
        )
        self._batch_size = max(settings.batch_size, 1000)
        self._up = asyncio.Event()

    async def run(self, *, signals: bool = True) -> None:
        """Until stopped, or until something is wrong that no waiting mends."""
        working = asyncio.create_task(self.duly.run(signals=signals, lanes=[TIMER]))
        taking = asyncio.create_task(self._take_in())
        try:
            await asyncio.wait([working, taking], return_when=asyncio.FIRST_COMPLETED)
            if taking.done() and not working.done():  # it only ends by what is critical
                self.duly.stop()
            await working
        finally:
            taking.cancel()
            [ended] = await asyncio.gather(taking, return_exceptions=True)
            await self._broker.commands.close()
        if isinstance(ended, Exception):
            raise ended

    def stop(self) -> None:
        self.duly.stop()

    async def _take_in(self) -> None:
        """For ever. The store is opened, and waited for, by whoever fires."""
        commands, signals = self._broker.commands, self.duly.signals
        reach = Reach({COMMANDS: commands} if isinstance(commands, Reachable) else {}, signals, self._up.set)
        intake = Intake(commands, self.duly.store, [TIMER], signals, self._batch_size)
        reach.begin()
        try:
            wait = SHORTEST
            while True:
                ready = self.duly.is_open and await self._one_round(intake)
                wait = SHORTEST if ready else await self._pause(wait)
        finally:
            reach.end()

    async def _one_round(self, intake: Intake) -> bool:
        """Whether it went well."""
        try:
            await intake.round(WAIT)
        except Down as error:
            if isinstance(error.__cause__, DulyError):
                raise error.__cause__ from None
            self._up.clear()
            return False
        except Misuse:
            raise
        except Exception:
            log.exception("intake.failed")
            self._up.clear()
            return False
        return True

    async def _pause(self, wait: float) -> float:
        """Until the broker is back, or for so long; how long to wait the next time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait * random.uniform(0.5, 1)):
                await self._up.wait()
        return min(2 * wait, LONGEST)
