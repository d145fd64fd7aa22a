"""A clock that cannot be set and that keeps running while the machine sleeps. Workers measure their leases with it."""

import sys
import time
from collections.abc import Callable
from functools import partial


def _steady_clock() -> Callable[[], float]:
    """The steady clock of this platform. Outside Linux and macOS, Python's monotonic clock is the only choice: there it
    counts the time asleep, or no clock does."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":  # time.monotonic stops while a Mac sleeps; this clock does not
        return partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    return time.monotonic


steady: Callable[[], float] = _steady_clock()
"""Seconds since an arbitrary moment in the past."""
