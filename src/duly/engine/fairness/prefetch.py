"""How many to claim: as many as can run at once, and more to go on with while handlers are quick."""

import time
from typing import NamedTuple, Protocol

QUICK_S = 0.1
"""Seconds between two claims under which more is claimed at once: handlers are quick."""

SLOW_S = 0.5
"""Seconds between two claims over which less is claimed at once: handlers are slow."""


class Workload(Protocol):
    """A pool of runners: how many events it has, and how many it has finished."""

    @property
    def load(self) -> int: ...
    @property
    def finished(self) -> int: ...


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
        self._concurrency, self._batch_size, self._pool, self._soon = concurrency, batch_size, pool, soon
        self._ahead = 0  # how many to claim beyond those that can run at once
        self._last = LastClaim(0.0, 1, 0)

    @property
    def free(self) -> int:
        """How many more can be started soon: those that can run at once, and those read ahead."""
        return self._concurrency + self._ahead - self._pool.load - self._soon.under_way

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
