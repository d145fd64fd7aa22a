"""Renews the leases of a worker's claimed events while the worker lives, and drops the events whose leases it lost.

A worker that is cut off from the store, frozen or asleep cannot renew, and does not learn that another worker has
claimed its events. So it also checks leases by a clock of its own: an event whose lease has ended is not started here.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Container, Iterable
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Protocol

from duly.engine.faults.boot_clock import steady
from duly.engine.faults.store_backoff import StoreBackoff
from duly.engine.settle import LOCKED_RETRY_S
from duly.errors import StoreUnavailable
from duly.ports import SettlePort
from duly.records.event import Claim, Event
from duly.signals import Lost, Signals

BEATS = 3
"""Renewals within the duration of a lease: a failed one is repeated before the lease ends."""


class LeasedEvents(Protocol):
    """Claimed events whose leases are renewed."""

    def events(self) -> list[Event]: ...

    def drop(self, ids: Container[str]) -> list[Event]:
        """Drops the events with these ids that have not been started; returns the dropped ones."""


class Leases:
    def __init__(
        self,
        store: SettlePort,
        lease: timedelta,
        whose: Iterable[LeasedEvents],
        store_backoff: StoreBackoff,
        signals: Signals,
    ) -> None:
        self._store, self._lease, self._whose = store, lease, list(whose)
        self._store_backoff, self._signals = store_backoff, signals
        # When leases end, by the steady clock. The leases of one claim end together; the key is the claim's instant.
        self._ends: dict[datetime | None, float] = {}
        self._soonest = math.inf  # the earliest of these ends
        self._hurry = asyncio.Event()

    def also_renew(self, others: LeasedEvents) -> None:
        self._whose.append(others)

    def claimed_events(self) -> list[Event]:
        """The events that are claimed and not settled yet."""
        return [event for whose in self._whose for event in whose.events()]

    def claimed(self, events: Iterable[Event], sent: float) -> None:
        """Notes when the leases of events end. *sent*: when their claim or renewal was sent, by the steady clock; the
        leases began after that."""
        end = sent + self._lease.total_seconds()
        claim = None
        for event in events:
            if event.claimed != claim:  # mostly equal to that of the event before, and hashing a datetime is slow
                claim = event.claimed
                self._ends[claim] = max(end, self._ends.get(claim, end))  # may have been renewed before it was fired
        self._soonest = min(self._soonest, end)

    def has_ended(self, event: Event) -> bool:
        """Whether the lease of an event may have ended, as far as this worker can know."""
        now = steady()
        return now >= self._soonest and now >= self._ends.get(event.claimed, math.inf)

    def renew_now(self) -> None:
        """Renews all leases at once instead of at the next beat, because the store's clock was set."""
        self._hurry.set()

    @property
    def between(self) -> float:
        """Seconds between two renewals."""
        return self._lease.total_seconds() / BEATS

    async def beat(self) -> None:
        wait = between = self.between
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._hurry.wait()
            self._hurry.clear()
            wait = between
            # Of two claims of one event, the later one is renewed: the earlier one is lost in any case.
            held = {event.id: event for event in sorted(self.claimed_events(), key=attrgetter("version"))}
            claims = {event.claimed for event in held.values()}
            self._ends = {claim: end for claim, end in self._ends.items() if claim in claims}
            self._soonest = min(self._ends.values(), default=math.inf)
            if not held:
                continue
            sent, asked = steady(), time.monotonic()
            try:
                kept = await self._store.renew([Claim(event.id, event.version) for event in held.values()], self._lease)
            except StoreUnavailable as error:
                wait = min(between, self._store_backoff.failed(error, asked))
            else:
                if self._store_backoff.lasts:
                    self._store_backoff.over()
                self._drop(set(held) - kept - kept.locked)
                if kept.locked:  # soon again: if they are locked for longer than the lease, others may claim them then
                    wait = min(between, LOCKED_RETRY_S)
                self.claimed((held[id] for id in kept), sent)
                self._soonest = min(self._ends.values(), default=math.inf)

    def _drop(self, lost: set[str]) -> None:
        """Drops the unstarted events whose leases were lost: another worker starts them."""
        for whose in self._whose:
            for event in whose.drop(lost):
                self._signals.emit(Lost(event, "renew"))
