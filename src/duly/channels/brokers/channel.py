"""The base of all channels to brokers: one connection, opened on first use and reopened when it is lost.

An event is not at fault when its broker is down. The event is released, no attempt is spent, and the worker claims no
more events for this broker until the broker is back; delivery then resumes with the oldest event.
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
"""Seconds in which a broker must acknowledge a message."""

ANSWERS_WITHIN = 3.0
"""Seconds in which a broker that did not acknowledge a message must answer a ping."""

CLOSED_WITHIN = 2.0
"""Seconds in which a connection must close in an orderly way."""

SHORTEST = 0.1  # seconds before the first reconnect
LONGEST = 5.0  # seconds between reconnects at most, until a message gets through

AT_ONCE = timedelta()  # the wait of an event whose broker is down: it is claimed again once the broker is up
DELIVERED = Delivered()


class BrokerMessage(msgspec.Struct, frozen=True, gc=False):
    """A message to publish. Its id is the event's id, the same on every retry and replay."""

    id: str
    body: bytes
    headers: Mapping[str, str]


class BrokerDown(Exception):
    """The broker cannot be reached, or the connection was lost before the broker acknowledged the message."""


class BrokerBusy(BrokerDown):
    """The broker is reachable but accepts no messages for now. A new connection does not end this state; only an
    accepted message does."""


class MessageRefused(Exception):
    """The broker will never accept this message."""


class MessageDeferred(Exception):
    """The broker did not accept this message, but may accept it on the next attempt."""


class BrokerClient(Protocol):
    """A single-use connection to a broker: a lost connection is replaced by a new client."""

    lost: Callable[[str], None]
    """The callback for a lost connection, called with the reason. `BrokerConnection` sets it before opening."""

    async def open(self) -> None:
        """Connects, or raises the library's error; `Misuse` where retrying is useless, as with a bad password."""

    async def publish(self, where: Mapping[str, Any], message: BrokerMessage) -> None:
        """Returns when the broker has acknowledged the message, and has it on disk if the broker stores messages there.
        Raises `BrokerDown`, `MessageRefused` or `MessageDeferred`."""

    async def ping(self) -> None:
        """Returns when the broker answers; otherwise raises, or waits until the caller's timeout."""

    async def close(self) -> None:
        """Closes the connection, even a half-open or broken one."""


class BrokerConnection:
    """Keeps one connection to a broker open, and reconnects with back-off."""

    def __init__(self, make: Callable[[], BrokerClient]) -> None:
        self._make = make
        self._client: BrokerClient | None = None
        self._opening: asyncio.Task[BrokerClient] | None = None
        self._turns = asyncio.Lock()
        self._mending: asyncio.Task[None] | None = None
        self._watchers: list[Callable[[], None]] = []
        self._backoff = Backoff(SHORTEST, LONGEST, spread=random.uniform)
        self._why: Exception | None = None  # the error of the last failed attempt to connect
        self._unwilling = False  # the last connection was dropped because the broker accepted no messages
        self.down: str | None = None  # why the broker cannot be used now; None also before the first attempt
        self.on_trial = False  # reconnected, but still down until a message gets through

    def watch(self, changed: Callable[[], None]) -> None:
        """Calls *changed* when the connection goes down, is on trial, or is up again."""
        self._watchers.append(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        with contextlib.suppress(ValueError):
            self._watchers.remove(changed)

    async def client(self) -> BrokerClient:
        """The open client, or a newly opened one. Raises `BrokerDown` while the broker cannot be reached."""
        if self._client is not None:
            return self._client
        if self.down is not None:
            raise BrokerDown(self.down) from self._why
        if self._opening is None:  # all callers share one attempt to connect
            self._opening = asyncio.create_task(self._opened())
            self._opening.add_done_callback(self._no_longer_opening)
        return await asyncio.shield(self._opening)

    async def publish(self, where: Mapping[str, Any], message: BrokerMessage) -> None:
        """Publishes as `BrokerClient.publish` does. A client that raises `BrokerDown` is dropped and replaced."""
        async with self._turns:  # or a message that arrives just after connecting would overtake the waiting ones
            client = await self.client()
        try:
            async with asyncio.timeout(ACKNOWLEDGED_WITHIN):
                await client.publish(where, message)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            self._lost("the connection is lost", client)  # the library cancelled the future awaited here
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
        """Whether a broker that does not acknowledge a message still answers a ping. If not, the message is not at
        fault."""
        try:
            async with asyncio.timeout(ANSWERS_WITHIN):
                await client.ping()
        except Exception as error:
            self._lost(_told(error), client)
            return False
        return True

    def doubt(self) -> None:
        """Puts the next connection on trial: this one was dropped because no message got through, so connecting again
        does not prove that messages do."""
        self._unwilling = self.down is not None

    def worked(self) -> None:
        """Resets the back-off and ends a trial, after a message got through: a later loss is a new outage."""
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
            await asyncio.wait(trying, timeout=2 * CLOSED_WITHIN)  # a library may swallow the cancellation
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
            opening.exception()  # marks it as retrieved: every caller may have been cancelled

    async def _open(self) -> BrokerClient:
        client = await asyncio.to_thread(self._make)  # imports the library, which would block the event loop
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
            return  # this client has been replaced already
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
    """Closes a client that is no longer used, and ignores its errors."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CLOSED_WITHIN):
            await client.close()


def _is_cancelled() -> bool:
    """Whether this task itself was cancelled, and not only the future that it awaits."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def end_if_cancelled() -> None:
    """Raises `CancelledError` if this task was cancelled, even if a library swallowed the cancellation: until Python
    3.12, `wait_for` swallows it when the awaited future completes at the same moment."""
    if _is_cancelled():
        raise asyncio.CancelledError


def _told(error: Exception) -> str:
    """The error in one line, without the password that a URL in it may contain."""
    if isinstance(error, TimeoutError) and not str(error):
        return "it did not answer in time"
    if (lack := exhausted(error)) is not None:
        return lack
    said = str(error) if isinstance(error, DulyError | BrokerDown) else describe_without_paths(error)
    return without_login(first_line(said))


class BrokerChannel:
    """A channel that publishes events as messages. Several channels can share one connection (*link*)."""

    def __init__(
        self,
        link: BrokerConnection,
        write: Callable[[Event], BrokerMessage],
        where: Callable[[Event], Mapping[str, Any]],
        closed: Callable[[Event, Mapping[str, Any]], str | None] = lambda _event, _where: None,
    ) -> None:
        """*closed* is called for events that were scheduled over HTTP. It returns the reason why an event may not be
        sent to its address, or None."""
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
