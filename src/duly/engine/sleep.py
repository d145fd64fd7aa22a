"""How long a worker with nothing to claim sleeps."""

import asyncio
import contextlib
from datetime import timedelta

from duly.backoff import Backoff
from duly.ports import Horizon, Waker

NOW = timedelta()
FOREVER = timedelta.max

LIMITS_RECHECK = timedelta(milliseconds=100)
"""Time between checks while places or limits are used up: whether an idle tenant has new events, and whether events
that limits hold back may start."""

LOCKED_RETRY_FIRST_S = 0.002
"""Seconds before the first retry for ready events that others have locked: most locks are that short."""

LOCKED_RETRY_MOST_S = 0.5
"""Seconds between such retries, at most."""


class LocalWaker:
    """Wakes a worker only from within: a tick does not wait for new events."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def wait(self, timeout: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        self._woken.clear()


class Sleep:
    """The sleep of a worker: until the next event is ready or can be reserved, at most the poll interval."""

    def __init__(self, lookahead: timedelta, poll_interval: timedelta, waker: Waker) -> None:
        self._lookahead, self._poll_interval, self._waker = lookahead, poll_interval, waker
        self._blocked = Backoff(LOCKED_RETRY_FIRST_S, LOCKED_RETRY_MOST_S)
        self.is_asleep = False

    async def until_woken(self, seconds: float) -> None:
        """Sleeps for that many seconds, or until the worker is woken, because there is nothing to do."""
        self.is_asleep = True
        try:
            await self._waker.wait(seconds)
        finally:
            self.is_asleep = False

    async def nap(self, seconds: float) -> None:
        """Waits in the same way while there is something to do."""
        await self._waker.wait(seconds)

    def wake(self) -> None:
        self._waker.wake()

    def after_reserving(self, *, limited: bool) -> float:
        """Seconds to sleep after a reservation: all events due within the look-ahead are reserved, so half of it can
        pass before the next claim."""
        return min(self._lookahead / 2, self._longest(limited)).total_seconds()

    def after_a_claim(self, horizon: Horizon, *, found: bool, limited: bool, whole: bool) -> float:
        """Seconds to sleep after a claim. *found*: it found any events; *whole*: it covered all lanes."""
        ahead = self._ahead(horizon, limited)
        if found or (ahead > NOW and not limited):
            if self._blocked.begun:
                self._blocked.reset()
            return max(0.0, ahead.total_seconds())
        if not whole:
            return 0.0
        if ahead > NOW:
            return ahead.total_seconds()
        # The next event is ready, but another worker has it locked: back off instead of spinning.
        return self._blocked.next()

    def _ahead(self, horizon: Horizon, limited: bool) -> timedelta:
        fresh, alone = self._reserved_at(horizon.fresh), horizon.alone
        if limited and alone is not None and alone <= NOW:  # limits may hold it back; `fresh` leaves such events out
            alone = None
        return min(self._longest(limited), *(span for span in (fresh, alone) if span is not None), FOREVER)

    def _reserved_at(self, span: timedelta | None) -> timedelta | None:
        return span - self._lookahead if span is not None and span > self._lookahead else span

    def _longest(self, limited: bool) -> timedelta:
        return LIMITS_RECHECK if limited else self._poll_interval
