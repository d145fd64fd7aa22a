"""Starts events at their instant. Events due in a moment are reserved, held here, and claimed just before they are due.

A claim waits for the disk, so an event that is claimed at its instant starts a few milliseconds late. Here the slow
part comes earlier: the reservation is on disk, and it fences the event. The claim itself is then a statement that does
not wait for the disk. Until that claim the event is PENDING, and can still be cancelled or moved.

The wait uses the monotonic clock, and the store's clock may be set back meanwhile. So the claim compares with the
store's clock once more: an event that is not due in a moment by that clock is released, and found again later.
"""

import asyncio
import contextlib
import heapq
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from duly.config import Settings
from duly.engine.faults.boot_clock import steady
from duly.engine.faults.store_backoff import StoreBackoff
from duly.engine.lookahead.timerfd import TimerFd
from duly.engine.series.careful_heads import CarefulHeads
from duly.engine.series.heads import Claimant
from duly.errors import StoreUnavailable
from duly.ports import ClaimPath, Horizon, Reserved
from duly.records.event import Event
from duly.signals import Claimed, ClaimMade, Signals

NOW = timedelta()

RESERVED_PAST_DUE = timedelta(seconds=2)
"""How long after its instant a reservation ends. If the worker vanishes, other workers can claim the event then."""

CLAIM_BEFORE_S = 0.008
"""Seconds before its instant at which a reserved event is claimed. The claim takes 1 ms, and now and then 5. From then
on the event can no longer be cancelled."""

SET_BACK_S = 0.005
"""Seconds by which the store's clock may have been set back since the reservation without the event being released: it
waits here that much longer instead."""

NEVER_EARLY_S = 1e-6
"""Seconds added to each wait. More than any rounding of an instant, so that no event starts early."""


class Started(NamedTuple):
    """The result of claiming reserved events."""

    events: Sequence[Event]
    found: set[str]  # ids of all but those cancelled, moved or claimed since, or not due by the store's clock
    now: datetime  # the store's clock when it answered
    at: float  # when that answer came, by time.monotonic
    sent: float  # when the claim was sent, by the steady clock


class Poised(NamedTuple):
    """A claimed event that waits for its instant."""

    at: float  # when to fire it, by time.monotonic
    id: str
    event: Event
    sent: float  # when its claim was sent, by the steady clock


class Lookahead:
    def __init__(
        self,
        store: ClaimPath,
        claimant: Claimant,
        settings: Settings,
        fire: Callable[[list[Event], float], None],
        wake: Callable[[], None],
        heads: CarefulHeads,
        store_backoff: StoreBackoff,
        signals: Signals,
    ) -> None:
        self._store, self._worker, self._lease = store, claimant.worker, claimant.lease
        self._span = settings.lookahead  # how long before they are due events are reserved; none are if it is zero
        self._most = settings.batch_size  # reservations at the same time
        self._fire, self._heads, self._signals, self._store_backoff = fire, heads, signals, store_backoff
        self._wake = wake  # the worker's loop, whose horizon has only the reserved head, and not its successor
        self._held: list[tuple[float, Reserved]] = []  # reservations, with the time of their claim, by time.monotonic
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
        """How many events are being claimed, or are claimed and wait for their instant."""
        return len(self._starting) + len(self._poised)

    def events(self) -> list[Event]:
        """The events that are claimed and not fired yet."""
        return [one.event for one in self._poised]

    def drop(self, ids: Container[str]) -> list[Event]:
        """Drops claimed events before they fire; returns the dropped ones."""
        dropped = [event for event in self.events() if event.id in ids]
        self._poised = [one for one in self._poised if one.id not in ids]
        heapq.heapify(self._poised)
        return dropped

    def wants(self, horizon: Horizon) -> bool:
        """Whether the next event is due within the look-ahead, and none is ready now."""
        return horizon.fresh is not None and NOW < horizon.fresh <= self._span

    @property
    def free(self) -> int:
        """How many more events may be reserved."""
        return self._most - self.load

    async def reserve(self, room: Mapping[str, int]) -> int:
        """Reserves the events that are due within the look-ahead; returns how many."""
        reserved, now = await self._store.reserve(self._worker, room, self._span, RESERVED_PAST_DUE)
        at = time.monotonic()
        for one in reserved:
            wait = (one.until - RESERVED_PAST_DUE - now).total_seconds() - CLAIM_BEFORE_S
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
        """Starts no reserved event within this context."""
        self._may_start.clear()
        try:
            yield
        finally:
            self._may_start.set()

    async def _start_due(self) -> None:
        now = time.monotonic()
        while self._held and self._held[0][0] <= now:
            self._starting.append(heapq.heappop(self._held)[1])
        try:
            found = self._poise(self._starting, await self._start(self._starting))
            if careful := [one for one in self._starting if one.head and one.id not in found]:
                found |= self._poise(careful, await self._decide_about(careful))
            if missed := [one for one in self._starting if one.id not in found]:
                await self._store.release(missed, RESERVED_PAST_DUE)
        except StoreUnavailable as error:  # other workers can claim these when their reservations end
            self._store_backoff.failed(error, now)
        finally:
            self._starting = []

    async def _start(self, reserved: Sequence[Reserved]) -> Started:
        sent, began = steady(), time.monotonic()
        events, now = await self._store.start(reserved, _ending_within(), self._lease, self._worker)
        at = time.monotonic()
        if events.planted:
            self._heads.successors.add(events.planted)
            self._wake()
        if self._signals.wanted(ClaimMade):
            self._signals.emit(ClaimMade(events, at - began, events.took_s))
        if self._signals.wanted(Claimed):
            for event in events:
                self._signals.emit(Claimed(event, self._worker))
        return Started(events, {event.id for event in events}, now, at, sent)

    async def _decide_about(self, heads: Sequence[Reserved]) -> Started:
        sent = steady()
        began = time.monotonic()
        (fired, *_), found, now = await self._heads.decide_about(heads, _ending_within())
        at = time.monotonic()
        self._signals.emit(ClaimMade(fired, at - began, None))
        return Started(fired, set(found), now, at, sent)

    def _poise(self, reserved: Sequence[Reserved], started: Started) -> set[str]:
        """Sets claimed events to fire at their instants; returns the ids that were found. The store's clock has
        advanced since it answered, so no event fires early."""
        instants = {one.id: one.until - RESERVED_PAST_DUE for one in reserved}
        for event in started.events:
            wait = (instants[event.id] - started.now).total_seconds()
            heapq.heappush(self._poised, Poised(started.at + wait + NEVER_EARLY_S, event.id, event, started.sent))
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
        """Stops starting events and releases the reservations; returns the events that were claimed and not fired, to
        be given back."""
        self._may_start.clear()
        async with self._at_it:
            poised, self._poised = self.events(), []
            held, self._held = self._held, []
        if held:
            with contextlib.suppress(StoreUnavailable):  # the reservations end by themselves a little later
                await self._store.release([one for _, one in held], RESERVED_PAST_DUE)
        return poised


def _ending_within() -> timedelta:
    """How much time a reservation may have left when its event is claimed, by the store's clock."""
    return timedelta(seconds=CLAIM_BEFORE_S + SET_BACK_S) + RESERVED_PAST_DUE
