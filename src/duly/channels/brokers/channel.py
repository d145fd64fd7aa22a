"""What all channels to brokers share: one connection, made when it is first needed, and made again when it is lost.

An event that a broker which is down could not take is not at fault. It is given back, no attempt is spent, and nothing
more is claimed until the broker is there again; then all goes on with the oldest.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Protocol

import msgspec

from duly.backoff import Backoff
from duly.config import without_login
from duly.decide.error_text import describe_without_paths, first_line
from duly.decide.exhaustion import exhausted, unreachable
from duly.errors import DulyError
from duly.records.event import Delivered, Event, Failed, Outcome, Rejected, Unreachable

ACKNOWLEDGED_WITHIN = 10.0
"""Seconds that a broker has for saying that it has a message."""

ANSWERS_WITHIN, CLOSED_WITHIN = 3.0, 2.0
"""Seconds that it then has for saying anything at all, and that a connection has for ending in good order."""

SHORTEST = 0.1  # seconds before the second try to connect
LONGEST = 5.0  # seconds between tries to connect, at most, for as long as nothing gets through

AT_ONCE = timedelta()
DELIVERED = Delivered()


class BrokerMessage(msgspec.Struct, frozen=True, gc=False):
    """What is published: the id is the event's, the same on every retry and replay."""

    id: str
    body: bytes
    headers: Mapping[str, str]


class BrokerDown(Exception):
    """The broker cannot be reached, or was lost before it said that it has the message."""


class BrokerBusy(BrokerDown):
    """The broker is there, and takes nothing for now. That one can connect to it shows nothing, only what gets through
    does."""


class MessageRefused(Exception):
    """The broker will never take this."""


class MessageDeferred(Exception):
    """The broker did not take this, and may the next time."""


class BrokerClient(Protocol):
    """A connection to a broker, for one life: when it is lost, another one is made."""

    lost: Callable[[str], None]
    """To be called, with the reason, when the connection is found to be lost; set by whoever opens it."""

    async def open(self) -> None:
        """Connect, or raise what the library raises; `Misuse` where no waiting helps, such as with a bad password."""

    async def publish(self, where: Mapping[str, Any], message: BrokerMessage) -> None:
        """Return when the broker has it, on disk if it keeps things there. Raise `Down`, `Refused` or `NotNow`."""

    async def ping(self) -> None:
        """Return when the broker answers; otherwise raise, or do not return."""

    async def close(self) -> None:
        """End the connection, or what is left of it."""


class BrokerConnection:
    """Keeps a connection to a broker."""

    def __init__(self, make: Callable[[], BrokerClient]) -> None:
        self._make = make
        self._client: BrokerClient | None = None
        self._opening: asyncio.Task[BrokerClient] | None = None
        self._turns = asyncio.Lock()
        self._mending: asyncio.Task[None] | None = None
        self._watchers: list[Callable[[], None]] = []
        self._backoff = Backoff(SHORTEST, LONGEST, spread=random.uniform)
        self._why: Exception | None = None  # it could not be opened
        self._unwilling = False  # what it was last lost for
        self.down: str | None = None  # why it cannot be used now; None also before anybody has tried
        self.on_trial = False  # it is connected again, and down until something gets through

    def watch(self, changed: Callable[[], None]) -> None:
        """Be told when it goes down, when it is on trial, and when it is up again."""
        self._watchers.append(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        with contextlib.suppress(ValueError):
            self._watchers.remove(changed)

    async def client(self) -> BrokerClient:
        """The one there is, or a new one; `Down` if there can be none now."""
        if self._client is not None:
            return self._client
        if self.down is not None:
            raise BrokerDown(self.down) from self._why
        if self._opening is None:  # one for all
            self._opening = asyncio.create_task(self._opened())
            self._opening.add_done_callback(self._no_longer_opening)
        return await asyncio.shield(self._opening)

    async def publish(self, where: Mapping[str, Any], message: BrokerMessage) -> None:
        """As a client does. One that says `Down` is given up."""
        async with self._turns:  # or who comes when it is just connected would overtake those who waited for that
            client = await self.client()
        try:
            async with asyncio.timeout(ACKNOWLEDGED_WITHIN):
                await client.publish(where, message)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            self._lost("the connection is lost", client)  # and the library has cancelled what waited for it
            raise BrokerDown("the connection is lost") from None
        except BrokerDown as error:
            self._lost(str(error), client)
            if isinstance(error, BrokerBusy):
                self.doubt()
            raise
        except TimeoutError:
            if not await self._answers(client):
                self.doubt()
                raise BrokerDown(self.down or "the connection is lost") from None
            raise MessageDeferred(f"not acknowledged within {ACKNOWLEDGED_WITHIN:g} s") from None

    async def _answers(self, client: BrokerClient) -> bool:
        """Whether a broker that keeps silent about a message is there at all. If it is not, it is not this message's
        fault."""
        try:
            async with asyncio.timeout(ANSWERS_WITHIN):
                await client.ping()
        except Exception as error:
            self._lost(_told(error), client)
            return False
        return True

    def doubt(self) -> None:
        """It was lost because nothing got through; so the next connection is no sign that something does."""
        self._unwilling = self.down is not None

    def worked(self) -> None:
        """Something got through: if it is lost again, that is another outage."""
        self._backoff.reset()
        if self.on_trial:
            self.down, self.on_trial, self._unwilling = None, False, False
            self._tell()

    async def close(self) -> None:
        trying = [task for task in (self._opening, self._mending) if task is not None]
        self._opening = self._mending = None
        for task in trying:
            task.cancel()
        if trying:
            await asyncio.wait(trying, timeout=2 * CLOSED_WITHIN)  # a library may keep to itself that it is cancelled
        client, self._client = self._client, None
        self.down, self.on_trial, self._unwilling = None, False, False
        if client is not None:
            await _close(client)

    async def _opened(self) -> BrokerClient:
        try:
            return await self._open()
        except Exception as error:
            self._why = error
            self._lost(_told(error))
            raise BrokerDown(_told(error)) from error

    def _no_longer_opening(self, opening: "asyncio.Task[BrokerClient]") -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # there may be nobody left who wants to know

    async def _open(self) -> BrokerClient:
        client = await asyncio.to_thread(self._make)  # which imports its library: others shall not be late for it
        client.lost = lambda reason: self._lost(reason, client)
        try:
            async with asyncio.timeout(ACKNOWLEDGED_WITHIN):
                await client.open()
            end_if_cancelled()
        except BaseException:
            await _close(client)
            end_if_cancelled()
            raise
        self._client, self._why = client, None
        return client

    def _lost(self, reason: str, client: BrokerClient | None = None) -> None:
        if client is not None and client is not self._client:
            return  # it has been replaced already
        self._client = None
        if self.down is None or self.on_trial:
            self.on_trial = False
            self.down = without_login(first_line(reason))
            self._mending = asyncio.get_running_loop().create_task(self._mend(client))
            self._tell()

    async def _mend(self, lost: BrokerClient | None) -> None:
        if lost is not None:
            await _close(lost)
        while True:
            end_if_cancelled()
            await asyncio.sleep(self._backoff.next())
            try:
                await self._open()
            except Exception as error:
                self.down, self._why = _told(error), error
            else:
                self.on_trial = self._unwilling
                if not self.on_trial:
                    self.down = None
                self._tell()
                return

    def _tell(self) -> None:
        for changed in list(self._watchers):
            changed()


async def _close(client: BrokerClient) -> None:
    """Whatever it takes: nobody uses it any more."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CLOSED_WITHIN):
            await client.close()


def _is_cancelled() -> bool:
    """Whether it was this task that somebody has cancelled, and not only what it waits for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def end_if_cancelled() -> None:
    """Even if a library has kept that to itself: until Python 3.12, `wait_for` does when what it waits for is done at
    the same moment."""
    if _is_cancelled():
        raise asyncio.CancelledError


def _told(error: Exception) -> str:
    """Why, in one line, and without the password that a URL may have."""
    if isinstance(error, TimeoutError) and not str(error):
        return "it does not answer in time"
    if (lack := exhausted(error)) is not None:
        return lack
    said = str(error) if isinstance(error, DulyError | BrokerDown) else describe_without_paths(error)
    return without_login(first_line(said))


class BrokerChannel:
    """A channel whose events become messages. Several can share a link."""

    def __init__(
        self,
        link: BrokerConnection,
        write: Callable[[Event], BrokerMessage],
        where: Callable[[Event], Mapping[str, Any]],
        closed: Callable[[Event, Mapping[str, Any]], str | None] = lambda _event, _where: None,
    ) -> None:
        """*closed* is asked about what came over HTTP, and says why it may not go there."""
        self._link, self._write, self._where, self._closed = link, write, where, closed

    @property
    def down(self) -> str | None:
        return self._link.down

    @property
    def on_trial(self) -> bool:
        return self._link.on_trial

    def watch(self, changed: Callable[[], None]) -> None:
        self._link.watch(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        self._link.unwatch(changed)

    async def prepare(self) -> None:
        await self._link.client()

    async def deliver(self, event: Event) -> Outcome:
        where = self._where(event)
        if event.via is not None and (why := self._closed(event, where)) is not None:
            return Rejected(why)
        message = self._write(event)
        try:
            await self._link.publish(where, message)
        except BrokerDown as error:
            return Unreachable(str(error), AT_ONCE, told=True)
        except MessageRefused as error:
            return Rejected(str(error))
        except MessageDeferred as error:
            return unreachable(error) or Failed(str(error))
        self._link.worked()
        return DELIVERED

    async def close(self) -> None:
        await self._link.close()
