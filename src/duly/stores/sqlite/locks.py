"""Waits for a lock that another process holds on the file, and finds out which process it is."""

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

RETRY_DELAYS_S = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.025, 0.025, 0.05, 0.05, 0.1)
"""Seconds between tries, the same as in SQLite's own busy timeout."""

WRITE_LOCK_BYTE = 120
"""The byte of the -shm file that a writer locks (https://www.sqlite.org/walformat.html#locks)."""


class LockWait:
    """How long the connections of a store wait for a lock: *timeout* each time, but not beyond the end that ``end`` has
    set."""

    def __init__(self, timeout: timedelta) -> None:
        self._timeout = timeout.total_seconds()
        self._ends = math.inf
        self.waited = 0.0  # seconds that the last wait without success took

    def end(self, within: float) -> None:
        """Limits all current and future waits to *within* seconds from now."""
        self._ends = min(self._ends, time.monotonic() + within)

    def handler(self) -> Callable[[int], bool]:
        """A busy handler for one connection: it sleeps before the next try, or returns False to give up."""
        began = 0.0

        def wait(tried: int) -> bool:
            nonlocal began
            now = time.monotonic()
            if tried == 0:
                began = now
            delay = RETRY_DELAYS_S[min(tried, len(RETRY_DELAYS_S) - 1)]
            left = min(began + self._timeout, self._ends) - now
            if left <= 0:
                self.waited = now - began
                return False
            time.sleep(min(delay, left))
            return True

        return wait


def who_holds(path: str) -> str:
    """Describes the process that holds the write lock, as far as the system reveals it."""
    pid = _holder(path)
    if pid is None:
        return "another process"
    if pid == os.getpid():
        return "another connection of this process"
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
        if state in "Tt":
            return f"process {pid}, which is stopped (continue it with `kill -CONT {pid}`),"
    return f"process {pid}"


def _holder(path: str) -> int | None:
    """The process that holds the write lock, from Linux's list of locks. A query about the file itself would have to
    open it, and closing it again would drop the locks of this process."""
    with suppress(OSError, ValueError):
        locked = Path(f"{path}-shm").stat()
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            # 1: POSIX  ADVISORY  WRITE 4711 00:2a:1234 120 120
            words = line.split()
            if words[1] == "->" or words[3] != "WRITE" or int(words[5].rpartition(":")[2]) != locked.st_ino:
                continue
            if int(words[6]) <= WRITE_LOCK_BYTE <= (math.inf if words[7] == "EOF" else int(words[7])):
                return int(words[4]) if _has_open(int(words[4]), locked) else None
    return None


def _has_open(pid: int, file: os.stat_result) -> bool:
    """Whether the process has this file open: the list of locks has inode numbers, which are unique only within one
    file system."""
    return any(os.path.samestat(descriptor.stat(), file) for descriptor in Path(f"/proc/{pid}/fd").iterdir())
