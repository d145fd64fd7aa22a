"""The program of the watchdog: it is told on its input which process groups run, a line for each that begins (``+123``)
or has ended (``-123``). When the input ends, the worker is gone, and what still runs is ended.

It is started by its path and imports nothing of Duly, so that it is small (about 9 MB) and there within 20 ms.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable

TERM_GRACE_S = 5.0
"""Seconds from SIGTERM to SIGKILL."""

LOOK_EVERY_S = 0.05
"""Seconds between looks whether the groups are gone."""


def main() -> None:
    # They are meant for the worker, and the end of the worker is the end of this.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    running: set[int] = set()
    for line in sys.stdin.buffer:
        group = int(line[1:])
        if line[:1] == b"+":
            running.add(group)
        else:
            running.discard(group)
    _end(running)


def _end(groups: Iterable[int]) -> None:
    until = time.monotonic() + TERM_GRACE_S
    left = [group for group in groups if _signal(group, signal.SIGTERM) and _signal(group, signal.SIGCONT)]
    while left and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)
        left = [group for group in left if _signal(group, 0)]
    for group in left:
        _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    """Sends a signal to a process group; returns whether there is any process in it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    main()
