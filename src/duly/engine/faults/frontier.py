"""Claims behind a transaction that stays open, such as a backup. Skip this while full scans of the index are quick.

PostgreSQL cannot vacuum the index entries of settled events while such a transaction lasts. A full scan steps over all
of them and takes longer and longer: 20 ms instead of 6 behind a hundred thousand of them. So where full scans are slow,
most claims continue where the last one ended. Events before that place, because they were added late or given back, are
found by the next full scan; no worker sleeps past it.
"""

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from duly.ports import NO_FRONTIER, NOT_YET, ClaimPort, Horizon, KnownFrontier
from duly.records.event import Event

CHEAP_FULL_SCAN_S = 0.02
"""Seconds up to which a full scan, from the oldest index entry, is cheap. It takes 6 ms where the index is clean."""

FULL_SCAN_WAIT_FACTOR = 20
"""After a full scan, the next one waits for this many times the excess over CHEAP_FULL_SCAN_S, so that the excess takes
at most a twentieth of the time."""

FRONTIER_MARGIN = timedelta(seconds=1)
"""A claim begins this much before the place where the last one ended: an event gets its instant before its commit, so
an older event may appear later."""


class Frontier:
    """The place in the index where unclaimed events begin, as far as this worker has seen."""

    def __init__(self) -> None:
        self._seen = NO_FRONTIER
        self._whole_at = 0.0  # when the next full scan is allowed, by time.monotonic
        self._claim_began = 0.0  # when the last claim began, by time.monotonic
        self._claimed_whole = False  # the last claim was a full scan, and no horizon has been read since
        self._looked_whole = True  # the last horizon was read by a full scan

    @property
    def whole_in(self) -> float:
        """Seconds until the next full scan."""
        return max(0.0, self._whole_at - time.monotonic())

    @property
    def unsure_in(self) -> float:
        """Seconds for which the last horizon is reliable."""
        return math.inf if self._looked_whole else self.whole_in

    def begins(self) -> Mapping[str, datetime]:
        """Where a scan of each lane begins; empty if it is time for a full scan."""
        return self._seen.fresh if self.whole_in else {}

    def forget(self, lane: str) -> None:
        self._seen = self._seen._replace(fresh={other: due for other, due in self._seen.fresh.items() if other != lane})

    def claim_begins(self) -> KnownFrontier:
        """Where the next claim begins. After that claim, ``claimed`` is called."""
        self._claimed_whole, self._claim_began = not self.whole_in, time.monotonic()
        return NO_FRONTIER if self._claimed_whole else self._seen

    def claimed(self, events: Iterable[Event], *, with_horizon: bool = False) -> None:
        """Notes where a claim ended. Events come oldest first by due time; a retried event became ready after its due
        time, so this place is never too far. *with_horizon*: the claim has read the horizon too."""
        if self._claimed_whole:
            self._scanned(self._claim_began)
        if with_horizon:
            self._claimed_whole, self._looked_whole = False, self._claimed_whole
        ends = {event.lane: event.due - FRONTIER_MARGIN for event in events}
        self._seen = self._seen._replace(fresh={**self._seen.fresh, **ends})

    async def horizon(self, store: ClaimPort, lanes: Sequence[str], limited: Collection[str]) -> Horizon:
        """Reads when the next event is ready. In lanes with limits, ready events have been seen already, and only those
        that become ready later count. After a claim by full scan, the horizon is a full scan too: otherwise, where each
        of them is slow, the horizon would never get one."""
        whole, began = self._claimed_whole or not self.whole_in, time.monotonic()
        self._claimed_whole, self._looked_whole = False, whole
        known = NO_FRONTIER if whole else self._seen
        if limited:
            known = known._replace(fresh={**known.fresh, **dict.fromkeys(limited, NOT_YET)})
        horizon, seen = await store.horizon(lanes, known)
        if whole:
            self._scanned(began)
            fresh = {} if limited else {lane: at - FRONTIER_MARGIN for lane, at in seen.fresh.items()}
            self._seen = seen._replace(fresh=fresh)
        return horizon

    def _scanned(self, began: float) -> None:
        now = time.monotonic()
        self._whole_at = now + FULL_SCAN_WAIT_FACTOR * max(0.0, now - began - CHEAP_FULL_SCAN_S)
