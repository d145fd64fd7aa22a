"""Detects when somebody sets the store's clock, where that is the clock of this machine: on SQLite.

A clock set forward makes every lease look as if it had ended. So leases are renewed at once, and no event counts as
interrupted until the other workers, which are all on this machine, have had the time to renew theirs. A clock set back
makes leases last too long, until they are renewed. Other events keep waiting for their instant by the store's clock.
"""

import asyncio
import math
from collections.abc import Callable
from datetime import timedelta

from duly.engine.faults.boot_clock import steady
from duly.ports import Health
from duly.signals import ClockStepped, Signals

CHECK_EVERY_S = 0.25
"""Seconds between checks of the store's clock: short against any lease."""

STEP_S = 1.0
"""Seconds. A smaller step matters to no lease, and a clock that is slewed moves far less than this between two
checks."""

AT_ONCE_S = 0.01
"""Seconds. Two clocks that were read further apart than this cannot be compared: the process was suspended between."""


class StoreClock:
    def __init__(self, store: Health, lease: timedelta, signals: Signals, was_set: Callable[[], None]) -> None:
        self._store, self._lease, self._signals, self._was_set = store, lease, signals, was_set
        self._ahead = self._measured()
        self._in_doubt_until = -math.inf  # by the steady clock

    @property
    def in_doubt(self) -> bool:
        """Whether leases may look as if they had ended although their workers are alive."""
        self._look()
        return steady() < self._in_doubt_until

    async def run(self) -> None:
        while self._ahead is not None:
            await asyncio.sleep(CHECK_EVERY_S)
            self._look()

    def _look(self) -> None:
        before, self._ahead = self._ahead, self._measured()
        if before is None or self._ahead is None or abs(self._ahead - before) < STEP_S:
            return
        if self._ahead > before:
            self._in_doubt_until = steady() + self._lease.total_seconds()
        self._signals.emit(ClockStepped(timedelta(milliseconds=round(1000 * (self._ahead - before)))))
        self._was_set()

    def _measured(self) -> float | None:
        """By how many seconds the store's clock is ahead of the steady clock, which cannot be set."""
        while True:
            began = steady()
            if (time := self._store.system_time()) is None:
                return None
            if steady() - began < AT_ONCE_S:
                return time - began
