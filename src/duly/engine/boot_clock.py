"""A clock that cannot be set and that goes on while the machine sleeps: by it, a worker knows when its leases end."""

import sys
import time
from collections.abc import Callable
from functools import partial


def _steady_clock() -> Callable[[], float]:
    """Elsewhere than on Linux and macOS, Python's monotonic clock counts the time asleep by itself, or nothing does."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":  # there, time.monotonic stops while the machine sleeps, and this clock does not
        return partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    return time.monotonic


steady: Callable[[], float] = _steady_clock()
"""Seconds from some moment in the past."""
