"""The measured process's side of the protocol with the measuring process: lines on stdin and stdout.

A worker writes ``ready``, waits for ``go``, reports the number of handled events while it works and, on ``stop``, the
lateness of each event. An adder writes ``ready``, reads orders and writes ``done`` after each. ``peers/node/gate.mjs``
is the same for Node; ``crew.py`` is the other side.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

REPORT_INTERVAL = 0.005
"""Seconds between two reports of handled events, when a rate is measured. It is the same for all peers."""

REPORT_INTERVAL_ON_TIME = 0.25
"""Seconds between two reports when lateness or idle use is measured, which frequent reports would distort."""


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


class Order(NamedTuple):
    """Events to add: their number, the due time of the first in µs since 1970, and the step between two in µs."""

    events: int
    first: int
    step: int

    def dues(self) -> range:
        return range(self.first, self.first + self.events * self.step, self.step)

    def chunks(self, size: int) -> Iterator[range]:
        dues = self.dues()
        for start in range(0, self.events, size):
            yield dues[start : start + size]


class Gate:
    """Counts the events that a worker handles. Handlers may call it from threads."""

    def __init__(self, on_time: bool = False) -> None:
        self._every = REPORT_INTERVAL_ON_TIME if on_time else REPORT_INTERVAL
        self.late: list[float] = []  # seconds
        self._handled = 0
        self._lock = threading.Lock()

    def count(self) -> None:
        with self._lock:
            self._handled += 1

    def note(self, due: int) -> None:
        self.late.append(time.time() - due / 1e6)
        self.count()

    def ready(self, stop: Callable[[], object]) -> None:
        """Writes ``ready``, waits for ``go``, and from then on reports progress; calls *stop* on ``stop``."""
        say("ready")
        if _hear() != "go":
            os._exit(1)
        threading.Thread(target=self._tell, daemon=True).start()
        threading.Thread(target=self._listen, args=[stop], daemon=True).start()

    def _tell(self) -> None:
        told = 0
        while True:
            if self._handled != told:
                told = self._handled
                say(f"handled {told}")
            time.sleep(self._every)

    def _listen(self, stop: Callable[[], object]) -> None:
        if _hear() == "stop":
            say(f"late {json.dumps(self.late)}")
            stop()
        else:
            os._exit(1)  # the measuring process has ended


def orders() -> Iterator[Order]:
    """The orders of the measuring process, one after the other."""
    say("ready")
    while (word := _hear()) and word != "stop":
        yield Order(*map(int, word.split()))
        say("done")


def say(words: str) -> None:
    sys.stdout.write(f"> {words}\n")
    sys.stdout.flush()


def _hear() -> str:
    return sys.stdin.readline().strip()
