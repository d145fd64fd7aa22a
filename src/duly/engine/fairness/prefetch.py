"""How many to claim: as many as can run at once, and more to go on with while handlers are quick."""

import time
from typing import NamedTuple, Protocol

from duly.engine.fairness.fair_queue import FairQueue

QUICK_S = 0.1
"""Seconds between two claims under which more is claimed at once: handlers are quick."""

SLOW_S = 0.5
"""Seconds between two claims over which less is claimed at once: handlers are slow."""


SHARED_BATCH = 250
"""Events in one claim while several tenants have some: what has just become due waits for the claim under way and for
the next one. A claim of a thousand takes 16 ms, one of these 5; in such batches an event takes a sixth more of the
processor."""


class Workload(Protocol):
    """A pool of runners: how many events it has, how many it has finished, and what waits for a runner."""

    @property
    def load(self) -> int: ...
    @property
    def finished(self) -> int: ...
    @property
    def fair_queue(self) -> FairQueue: ...


class Reservations(Protocol):
    """Events that are reserved ahead of time: how many are about to start."""

    @property
    def under_way(self) -> int: ...


class LastClaim(NamedTuple):
    """The last claim that found something: when, how many, and how many had been finished by then."""

    at: float
    many: int
    finished: int


class Prefetch:
    """How many events a worker claims beyond those that can run at once."""

    def __init__(self, concurrency: int, batch_size: int, pool: Workload, soon: Reservations) -> None:
        self._concurrency, self._batch_size, self._pool, self._lookahead = concurrency, batch_size, pool, soon
        self._ahead = 0  # how many to claim beyond those that can run at once
        self._last = LastClaim(0.0, 1, 0)

    @property
    def free(self) -> int:
        """How many more can be started soon: those that can run at once, and those read ahead."""
        return self._concurrency + self._ahead - self._pool.load - self._lookahead.under_way

    @property
    def batch(self) -> int:
        """How many to claim at once."""
        most = min(self._batch_size, SHARED_BATCH) if self._pool.fair_queue.shared else self._batch_size
        return min(most, self.free)

    @property
    def worth(self) -> int:
        """The least room worth a claim: a slow handler's place is filled at once, quick ones are fetched in bulk."""
        return max(1, self._ahead // 2)

    @property
    def enough(self) -> int:
        """The load at which there is room again."""
        return self._concurrency + self._ahead - self.worth

    def claimed(self, many: int, *, backlog: bool, left: bool) -> None:
        """Read further ahead while what was read is started quickly, and less far when some of it was left."""
        took = time.monotonic() - self._last.at
        if 2 * (self._pool.finished - self._last.finished) >= self._last.many and took < QUICK_S and backlog:
            self._ahead = min(2 * self._batch_size, max(2 * self._ahead, self._concurrency))
        elif left and took > SLOW_S:
            self._ahead //= 2
        self._last = LastClaim(time.monotonic(), many, self._pool.finished)
