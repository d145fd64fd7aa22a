"""How many events to claim: as many as can run at once, and a prefetch on top while handlers are quick."""

import time
from typing import NamedTuple, Protocol

from duly.engine.fairness.fair_queue import FairQueue

QUICK_S = 0.1
"""Seconds between two claims below which the prefetch grows, because handlers are quick."""

SLOW_S = 0.5
"""Seconds between two claims above which the prefetch shrinks, because handlers are slow."""


SHARED_BATCH = 250
"""Events in one claim while several tenants share the worker: an event that has just become due waits for the claim
under way and for the next one. A claim of a thousand takes 16 ms, one of 250 takes 5 ms; in such batches an event costs
a sixth more processor time."""


class Workload(Protocol):
    """The executor of claimed events: how many it has, and how many it has finished."""

    @property
    def load(self) -> int: ...
    @property
    def finished(self) -> int: ...


class Reservations(Protocol):
    """The reservations of a worker: how many of their events are about to start."""

    @property
    def under_way(self) -> int: ...


class LastClaim(NamedTuple):
    """The last claim that found events: when, how many, and how many the pool had finished by then."""

    at: float
    many: int
    finished: int


class Prefetch:
    """How many events a worker claims beyond those that can run at once."""

    def __init__(
        self, concurrency: int, batch_size: int, executor: Workload, lookahead: Reservations, fair_queue: FairQueue
    ) -> None:
        self._concurrency, self._batch_size = concurrency, batch_size
        self._executor, self._lookahead, self._fair_queue = executor, lookahead, fair_queue
        self._ahead = 0  # the prefetch: how many events to claim beyond those that can run at once
        self._last = LastClaim(0.0, 1, 0)

    @property
    def free(self) -> int:
        """How many more events may be claimed: free places, and free prefetch."""
        return self._concurrency + self._ahead - self._executor.load - self._lookahead.under_way

    @property
    def batch(self) -> int:
        """How many events the next claim takes at most."""
        most = min(self._batch_size, SHARED_BATCH) if self._fair_queue.shared else self._batch_size
        return min(most, self.free)

    @property
    def is_claim_worthwhile(self) -> bool:
        return self.free >= self._worthwhile

    @property
    def worthwhile_at(self) -> int:
        """The load at which a claim is worthwhile again."""
        return self._concurrency + self._ahead - self._worthwhile

    @property
    def _worthwhile(self) -> int:
        """The fewest free places worth a claim: the place of a slow handler is refilled at once, while events of quick
        handlers are fetched in bulk."""
        return max(1, self._ahead // 2)

    def claimed(self, many: int, *, backlog: bool, left: bool) -> None:
        """Adapts the prefetch after a claim: larger while claimed events are finished quickly, smaller when some were
        left."""
        took = time.monotonic() - self._last.at
        if 2 * (self._executor.finished - self._last.finished) >= self._last.many and took < QUICK_S and backlog:
            self._ahead = min(2 * self._batch_size, max(2 * self._ahead, self._concurrency))
        elif left and took > SLOW_S:
            self._ahead //= 2
        self._last = LastClaim(time.monotonic(), many, self._executor.finished)
