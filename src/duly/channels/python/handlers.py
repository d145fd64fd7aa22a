"""Delivers an event by calling the Python function that was registered for its type."""

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Iterator, KeysView
from copy import copy
from datetime import timedelta
from typing import Any, Self

import msgspec

from duly.channels.python.threads import Threads
from duly.decide.error_text import describe
from duly.decide.exhaustion import WAIT, exhausted
from duly.errors import Misuse, StoreUnavailable
from duly.ports import Route, Transaction
from duly.records.event import HANDLER, Delivered, Event, Failed, Outcome, Rejected, StopFlag, Unreachable

DEADLINE = timedelta(minutes=5)  # of a handler that is registered without one
WAIT_AFTER_OUTAGE = timedelta(seconds=1)  # after a store outage: the retry can only be stored once the store is back
DELIVERED = Delivered()
HAS_STOPPED = Unreachable("the handler stopped because event.stopping was true", timedelta())
AT_ONCE = timedelta()

HUNG_AT_LEAST = 10
"""Threads that may hang at least. The limit is the number of concurrent handlers, but never below this: with a
concurrency of 1, a single hung call must not block all other handlers."""


class AsyncHandler:
    """A handler that is an ``async def``. It may raise any exception; only a cancellation comes from the worker."""

    def __init__(self, type: str, function: Callable[..., Any]) -> None:
        self.type, self.function = type, function

    async def deliver(self, event: Event, *tx: Transaction) -> Outcome:
        try:
            return outcome_of(await self.function(event, *tx), self.type)
        except asyncio.CancelledError:  # by the worker, which handles it
            raise
        except StoreUnavailable as error:  # for example, from a call in the handler that schedules an event
            return Unreachable(describe(error), WAIT_AFTER_OUTAGE)
        except BaseException as error:  # any exception ends this attempt only, not the worker
            return outcome_of_error(error)

    deliver_in = deliver


class ThreadHandler:
    """A handler that is a plain ``def``, called in a thread. While too many threads hang, the handler is down: its
    events are not claimed."""

    on_trial = False

    def __init__(self, type: str, function: Callable[..., Any], threads: Threads) -> None:
        self.type, self.function, self._threads = type, function, threads
        self._flags: dict[tuple[str, int], StopFlag] = {}  # of the running events, by claim

    @property
    def hung(self) -> int:
        return self._threads.hung

    @property
    def down(self) -> str | None:
        return self._threads.down

    def watch(self, changed: Callable[[], None]) -> None:
        self._threads.watchers.append(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        with contextlib.suppress(ValueError):
            self._threads.watchers.remove(changed)

    async def deliver(self, event: Event) -> Outcome:
        if (reason := self.down) is not None:  # it went down after the event was claimed
            return Unreachable(reason, AT_ONCE, told=True)
        claim = event.id, event.version
        flag = self._flags[claim] = StopFlag()
        try:
            return await self._threads.call(self._outcome, msgspec.structs.replace(event, stop_flag=flag))
        finally:
            del self._flags[claim]

    def ask_to_stop(self, event: Event) -> None:
        if (flag := self._flags.get((event.id, event.version))) is not None:
            flag.asked = True

    def _outcome(self, event: Event) -> Outcome:
        try:
            returned = self.function(event)
            if returned is None and event.stop_flag.seen:
                return HAS_STOPPED
            return outcome_of(returned, self.type)
        except StoreUnavailable as error:
            return Unreachable(describe(error), WAIT_AFTER_OUTAGE)
        except BaseException as error:  # any exception must end here, or it would end the thread
            return outcome_of_error(error)


class Handlers:
    """The handlers of one `Duly` instance, by event type."""

    def __init__(self, concurrency: Callable[[], int]) -> None:
        self._routes: dict[str, Route] = {}
        self._threads = Threads(lambda: max(HUNG_AT_LEAST, concurrency()))

    def register(
        self,
        type: str,
        function: Callable[..., Any],
        *,
        transactional: bool = False,
        deadline: timedelta = DEADLINE,
    ) -> None:
        lane = f"{HANDLER}:{type}"
        if lane in self._routes:
            raise Misuse(f"event type {type!r} already has a handler: register each type only once")
        awaits = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is async
        )
        if transactional and not awaits:
            raise Misuse(f"the handler of {type!r} is transactional and must be `async def`: it awaits its transaction")
        if deadline <= timedelta():
            raise Misuse(f"the handler of {type!r} has a deadline of {deadline}: it must be more than 0")
        channel = AsyncHandler(type, function) if awaits else ThreadHandler(type, function, self._threads)
        self._routes[lane] = Route(channel, deadline, transactional)

    def copy(self) -> Self:
        """The same handlers, in the same threads; those registered here later are not in the original."""
        other = copy(self)
        other._routes = dict(self._routes)
        return other

    @property
    def lanes(self) -> KeysView[str]:
        """The lanes of the handlers; follows those that are registered later."""
        return self._routes.keys()

    def routes(self) -> Iterator[tuple[str, Route]]:
        yield from self._routes.items()


def outcome_of_error(error: BaseException) -> Outcome:
    if (lack := exhausted(error)) is not None:
        return Unreachable(f"{lack} ({describe(error)})", WAIT)
    return Failed(describe(error))


def outcome_of(returned: Any, type_name: str) -> Outcome:
    if returned is None:
        return DELIVERED
    if isinstance(returned, Delivered | Failed | Rejected | Unreachable):
        return returned
    kind = type(returned).__name__
    if inspect.iscoroutine(returned):
        returned.close()
    if inspect.isawaitable(returned):
        return Rejected(f"the handler of {type_name!r} returned an awaitable ({kind}): declare it `async def`")
    return Rejected(
        f"the handler of {type_name!r} returned {kind}: return None on success, raise or return Failed(…) "
        "to retry, or return Rejected(…) to give up"
    )
