"""Start events at their instant. What is due in a moment is reserved, held here, and claimed just before.

A claim takes as long as the disk does, so an event that is claimed at its instant starts a few milliseconds after it.
Here the slow part comes earlier: the reservation is on disk, and it fences. What remains to be done at the last moment
is a statement that waits for no disk. Until then the event is PENDING, and whoever cancels or moves it has done so.

The wait is by the monotonic clock, and the store's clock may be set back meanwhile. So the last statement compares with
the store's clock once more: what is not due in a moment by that is let go, and found again when it is.
"""

import asyncio
import contextlib
import heapq
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from duly.engine.boot_clock import steady
from duly.engine.claim import NONE, tell_heads
from duly.engine.lookahead.timerfd import TimerFd
from duly.engine.series.heads import Claimant
from duly.engine.series.holds import succeed
from duly.engine.store_backoff import StoreBackoff
from duly.errors import StoreUnavailable
from duly.ports import ClaimPath, Reserved
from duly.records.event import Event
from duly.signals import Claimed, Signals

PATIENCE = timedelta(seconds=2)
"""If its worker vanishes, a reserved event is anybody's so long after its instant."""

BEFORE = 0.008
"""Seconds before its instant at which an event is claimed; it takes one, and now and then five. From then on it can no
longer be cancelled."""

HEADS_BEFORE = 0.025
"""The same for a head, which takes several, for its successor is planned with it."""

SET_BACK = 0.005
"""Seconds by which the store's clock may have been set back since the reservation. It is not worth letting an event go
for that: it waits here for so much longer."""

NEVER_EARLY = 1e-6
"""Seconds, more than any rounding of an instant on its way here."""


class Started(NamedTuple):
    """What was claimed; the store's clock as it answered; and when that answer came, by time.monotonic."""

    events: list[Event]
    found: set[str]  # all but those that were cancelled, moved or taken since, or are not due by the store's clock
    now: datetime
    at: float
    sent: float  # when they were asked for, by the steady clock


class Poised(NamedTuple):
    """A claimed event, and when to fire it, by time.monotonic."""

    at: float
    id: str
    event: Event
    sent: float  # when it was asked for, by the steady clock


class Lookahead:
    def __init__(
        self,
        store: ClaimPath,
        worker: str,
        lease: timedelta,
        fire: Callable[[list[Event], float], None],
        signals: Signals,
        store_backoff: StoreBackoff,
    ) -> None:
        self._store, self._worker, self._lease = store, worker, lease
        self._fire, self._signals, self._store_backoff = fire, signals, store_backoff
        self._held: list[tuple[float, Reserved]] = []  # with the time at which to claim each, by time.monotonic
        self._starting: list[Reserved] = []
        self._poised: list[Poised] = []
        self._alarm = TimerFd(self._fire_due)
        self._changed = asyncio.Event()
        self._may_start = asyncio.Event()
        self._may_start.set()
        self._at_it = asyncio.Lock()

    @property
    def load(self) -> int:
        return len(self._held) + self.under_way

    @property
    def under_way(self) -> int:
        """Those that can no longer be left alone."""
        return len(self._starting) + len(self._poised)

    def events(self) -> list[Event]:
        """What is claimed, and not fired yet."""
        return [one.event for one in self._poised]

    def drop(self, ids: Container[str]) -> list[Event]:
        """Do not fire these; which of them would have been."""
        dropped = [event for event in self.events() if event.id in ids]
        self._poised = [one for one in self._poised if one.id not in ids]
        heapq.heapify(self._poised)
        return dropped

    async def reserve(self, room: Mapping[str, int], ahead: timedelta) -> int:
        """Reserve what is due within *ahead*; how many."""
        reserved, now = await self._store.reserve(self._worker, room, ahead, PATIENCE)
        at = time.monotonic()
        for one in reserved:
            wait = (one.until - PATIENCE - now).total_seconds() - (HEADS_BEFORE if one.head else BEFORE)
            heapq.heappush(self._held, (at + wait, one))
        self._changed.set()
        return len(reserved)

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            self._alarm.close()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            if not self._held:
                await self._changed.wait()
            elif (wait := self._held[0][0] - time.monotonic()) > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._changed.wait()
            else:
                await self._may_start.wait()
                async with self._at_it:
                    await self._start_due()

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Nothing is started meanwhile."""
        self._may_start.clear()
        try:
            yield
        finally:
            self._may_start.set()

    async def _start_due(self) -> None:
        now = time.monotonic()
        while self._held and self._held[0][0] <= now:
            self._starting.append(heapq.heappop(self._held)[1])
        found: set[str] = set()
        try:
            if plain := [one for one in self._starting if not one.head]:
                found |= self._poise(plain, await self._start(plain))
            if heads := [one for one in self._starting if one.head]:
                found |= self._poise(heads, await self._start_heads(heads))
            if missed := [one for one in self._starting if one.id not in found]:
                await self._store.release(missed, PATIENCE)
        except StoreUnavailable as error:  # whatever was not started will be anybody's
            self._store_backoff.failed(error, now)
        finally:
            self._starting = []

    async def _start(self, reserved: Sequence[Reserved]) -> Started:
        sent = steady()
        events, now = await self._store.start(reserved, _ending_within(BEFORE), self._lease, self._worker)
        at = time.monotonic()
        if self._signals.wanted(Claimed):
            for event in events:
                self._signals.emit(Claimed(event, self._worker))
        return Started(events, {event.id for event in events}, now, at, sent)

    async def _start_heads(self, heads: Sequence[Reserved]) -> Started:
        sent = steady()
        async with self._store.begin() as tx:
            found = await tx.reserved_heads(heads, _ending_within(HEADS_BEFORE))
            now, at = found.now, time.monotonic()
            latest = max((head.due for head in found.heads), default=now)
            claimant = Claimant(self._worker, self._lease)
            succeeded = await succeed(tx, found, latest, claimant) if found.heads else NONE
        tell_heads(succeeded, self._worker, self._signals)
        return Started(succeeded.fired, {head.id for head in found.heads}, now, at, sent)

    def _poise(self, reserved: Sequence[Reserved], started: Started) -> set[str]:
        """Fire each at its instant; which were found. The store's clock has gone on since it answered, so this is never
        early."""
        instants = {one.id: one.until - PATIENCE for one in reserved}
        for event in started.events:
            wait = (instants[event.id] - started.now).total_seconds()
            heapq.heappush(self._poised, Poised(started.at + wait + NEVER_EARLY, event.id, event, started.sent))
        self._fire_due()
        return started.found

    def _fire_due(self) -> None:
        due = []
        while self._poised and self._poised[0].at <= time.monotonic():
            due.append(heapq.heappop(self._poised))
        if due:
            self._fire([one.event for one in due], min(one.sent for one in due))
        if self._poised:
            self._alarm.set(self._poised[0].at)

    async def stop(self) -> list[Event]:
        """Start nothing any more, and let others have what is held; what was claimed and not fired, for giving back."""
        self._may_start.clear()
        async with self._at_it:
            poised, self._poised = self.events(), []
            held, self._held = self._held, []
        if held:
            with contextlib.suppress(StoreUnavailable):  # then others have it a little later
                await self._store.release([one for _, one in held], PATIENCE)
        return poised


def _ending_within(before: float) -> timedelta:
    """How long, by the store's clock, the reservation of what is to be started still has at most."""
    return timedelta(seconds=before + SET_BACK) + PATIENCE
