"""A timer that calls back at an instant of time.monotonic. asyncio rounds its own timers up to whole milliseconds, so
they are typically 0.7 ms late; the kernel's timers are 0.1 ms late."""

import asyncio
import contextlib
import ctypes
import os
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

_CLOCK_MONOTONIC = 1  # of time.h
_ABSOLUTE = 1  # TFD_TIMER_ABSTIME of sys/timerfd.h


class TimerFd:
    """A timer with one instant at a time: setting it again moves it."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._fd = _timerfd()
        if self._fd is not None:
            self._loop.add_reader(self._fd, self._rang)

    def set(self, at: float) -> None:
        if self._fd is not None:
            seconds, nanoseconds = divmod(max(1, int(at * 1e9)), 10**9)
            _libc.timerfd_settime(self._fd, _ABSOLUTE, struct.pack("4l", 0, 0, seconds, nanoseconds), None)
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, at - time.monotonic()), self._ring)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._fd is not None:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None

    def _rang(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the timer was moved meanwhile
            assert self._fd is not None
            os.read(self._fd, 8)
            self._ring()


_libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None


def _timerfd() -> int | None:
    """A timer of the Linux kernel as a file descriptor, which the event loop can watch like a socket. Python's standard
    library has it from 3.13 on."""
    if not hasattr(_libc, "timerfd_create"):
        return None
    fd = _libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    return None if fd < 0 else int(fd)
