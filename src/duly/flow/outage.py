"""Rides out a store that cannot be reached: said once when it begins, once when it ends, with backoff between."""

import time
from datetime import timedelta

from duly.signals import Signals, StoreDown, StoreUp

SHORTEST, LONGEST = 0.1, 5.0


class Outage:
    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._since: float | None = None
        self._last = 0.0
        self._wait = SHORTEST

    def failed(self, error: Exception) -> float:
        """How many seconds to wait before the next try."""
        if self._since is None:
            self._since = time.monotonic()
            self._signals.emit(StoreDown(str(error)))
        self._last = time.monotonic()
        wait, self._wait = self._wait, min(self._wait * 2, LONGEST)
        return wait

    def over(self) -> None:
        """Something worked. What was still on its way when all else failed does not end an outage."""
        if self._since is not None and time.monotonic() - self._last > SHORTEST / 2:
            self._signals.emit(StoreUp(timedelta(seconds=time.monotonic() - self._since)))
            self._since, self._wait = None, SHORTEST
