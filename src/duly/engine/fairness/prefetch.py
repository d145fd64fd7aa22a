"""How many to claim: as many as can run at once, and more to go on with while handlers are quick."""

import time
from typing import NamedTuple

from duly.engine.lookahead.reserve import Lookahead
from duly.engine.pool import Pool

QUICK, SLOW = 0.1, 0.5
"""Seconds in which what was claimed should be started: under the one, more is claimed at once; over the other, less."""


class LastClaim(NamedTuple):
    """The last claim that found something: when, how many, and how many had been finished by then."""

    at: float
    many: int
    finished: int


class Prefetch:
    def __init__(self, concurrency: int, batch_size: int, pool: Pool, soon: Lookahead) -> None:
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
        if 2 * (self._pool.finished - self._last.finished) >= self._last.many and took < QUICK and backlog:
            self._ahead = min(2 * self._batch_size, max(2 * self._ahead, self._concurrency))
        elif left and took > SLOW:
            self._ahead //= 2
        self._last = LastClaim(time.monotonic(), many, self._pool.finished)
