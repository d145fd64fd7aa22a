"""Sends a test to a target: through a channel of its own, so that neither workers nor the circuit breaker notice it."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import timedelta
from typing import NamedTuple, Protocol

from duly.decide.error_text import describe_without_paths, first_line
from duly.decide.exhaustion import unreachable
from duly.decide.targets.brokers import WORDS
from duly.decide.targets.targets import shown
from duly.engine.fairness.keyed_semaphore import KeyedSemaphore
from duly.errors import Conflict
from duly.ports import Channel, DestinationLookup, HttpAnswer, RateAllowance, answer_listener
from duly.records.event import Delivered, Event, Failed, Outcome, Rejected
from duly.records.results import TargetTest
from duly.records.target import DESTINATION_OF_ALL, Known
from duly.values.durations import format_duration

LONGEST_TEST_S = 60.0
"""Seconds for which a test waits at most, also if its target allows more."""

LONGEST_WAIT_S = 5.0
"""Seconds for which a test waits for its turn: for other tests, and for the rate limits of its destination."""

MOST_AT_ONCE = 4
"""Tests of one tenant that a process sends at once."""

MOST_SHOWN = 1000
"""Characters of an answer's body that are shown."""

LONGEST_HEADER = 300
"""Characters of a header of the answer that are shown."""

SHOWN_HEADERS = ("Content-Type", "Location", "Retry-After", "WWW-Authenticate")


class PlannedTest(NamedTuple):
    """A test that is checked and ready to be sent."""

    event: Event
    channel: str
    known: Known | None = None  # the destination, with its limits; None for brokers and commands
    id: str | None = None  # of the stored target


class Allowances(Protocol):
    async def allow(self, wanted: Sequence[tuple[str, str, int]]) -> list[RateAllowance]:
        """Takes allowances of destinations that have a rate."""


OpenChannel = Callable[[str, DestinationLookup], AbstractAsyncContextManager[Channel]]


class _Planned:
    """The destination as the test has read it."""

    def __init__(self, known: Known | None) -> None:
        self._known = known

    async def known(self, tenant: str, destination: str) -> Known:
        return self._known or Known(tenant, destination)


class TargetTester:
    def __init__(self, store: Allowances, open_channel: OpenChannel) -> None:
        """*open_channel* gives a channel by name, for one test."""
        self._store, self._open_channel = store, open_channel
        self._of_tenant = KeyedSemaphore(MOST_AT_ONCE)
        self._of_destination = KeyedSemaphore(1)  # no limit of concurrency is less

    async def send(self, test: PlannedTest) -> TargetTest:
        """Sends the test, and tells what came back. Raises Conflict if other tests, or the rate limits of the
        destination, leave no room for it."""
        async with AsyncExitStack() as places:
            await self._wait_for_turn(test.event, places)
            heard: list[HttpAnswer] = []
            began = time.monotonic()
            outcome = await self._deliver(test, heard)
            return _told(test, outcome, heard[-1] if heard else None, time.monotonic() - began)

    async def _wait_for_turn(self, event: Event, places: AsyncExitStack) -> None:
        where = event.destination or event.lane
        try:
            async with asyncio.timeout(LONGEST_WAIT_S):
                await places.enter_async_context(self._of_tenant.one(event.tenant))
                await places.enter_async_context(self._of_destination.one((event.tenant, where)))
        except TimeoutError:
            raise Conflict(f"other tests are being sent to {where!r:.100}: try again when they have ended") from None
        await self._take_allowances(event, where)

    async def _take_allowances(self, event: Event, where: str) -> None:
        """Takes one delivery of each rate limit that applies: the destination's, and that of the whole tenant."""
        wanted = [(event.tenant, one, 1) for one in {event.destination or DESTINATION_OF_ALL, DESTINATION_OF_ALL}]
        until = time.monotonic() + LONGEST_WAIT_S
        while True:
            spent = [allowed for allowed in await self._store.allow(wanted) if not allowed.turns]
            if not spent:
                return
            wait = max(allowed.next for allowed in spent)
            if time.monotonic() + wait.total_seconds() > until:
                again = format_duration(timedelta(seconds=1 + wait // timedelta(seconds=1)))
                raise Conflict(f"the rate limit of {where!r:.100} is used up: send the test again in {again}")
            wanted = [(allowed.tenant, allowed.destination, 1) for allowed in spent]
            await asyncio.sleep(max(0.001, wait.total_seconds()))

    async def _deliver(self, test: PlannedTest, heard: list[HttpAnswer]) -> Outcome:
        listening = answer_listener.set(heard.append)
        try:
            async with self._open_channel(test.channel, _Planned(test.known)) as channel:
                return await asyncio.wait_for(channel.deliver(test.event), LONGEST_TEST_S)
        except TimeoutError:
            return Failed(f"no answer within {LONGEST_TEST_S:g} s, for which a test waits at most")
        except Exception as error:  # channels return failures; an exception is a bug in the channel
            return unreachable(error) or Failed(f"the channel {test.channel} raised {describe_without_paths(error)}")
        finally:
            answer_listener.reset(listening)


def _told(test: PlannedTest, outcome: Outcome, answer: HttpAnswer | None, seconds: float) -> TargetTest:
    delivered = isinstance(outcome, Delivered)
    if isinstance(outcome, Failed | Rejected):
        error: str | None = first_line(outcome.error)
    else:
        error = None if delivered else getattr(outcome, "reason", None)
    word = "failed" if isinstance(outcome, Failed) else "rejected" if isinstance(outcome, Rejected) else "unreachable"
    body = None if answer is None else answer.body.decode(errors="replace")[:MOST_SHOWN]
    return TargetTest(
        id=test.event.id,
        target=test.event.stored_target,
        channel=test.channel,
        outcome="delivered" if delivered else word,  # type: ignore[arg-type]
        error=error,
        status=None if answer is None else answer.status,
        headers={} if answer is None else _shown_headers(answer.headers),
        body=getattr(outcome, "output", None) if answer is None else body,
        acknowledged=delivered if test.channel in WORDS else None,
        seconds=round(seconds, 3),
        parked=None if test.known is None else test.known.parked,
    )


def _shown_headers(headers: Mapping[str, str]) -> dict[str, str]:
    found = {name: headers[name] for name in SHOWN_HEADERS if name in headers}
    if "Location" in found:
        found["Location"] = shown(found["Location"])  # its query may be secret
    return {name: _printable(value) for name, value in found.items()}


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "·" for c in text[:LONGEST_HEADER])
