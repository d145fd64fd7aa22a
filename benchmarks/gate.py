"""A measured process's side of the talk with the one that measures: words on stdin and stdout.

A worker says ``ready``, waits for ``go``, tells how many it has handled while it works and, on ``stop``, how late each
was. An adder says ``ready``, takes orders and says ``done`` after each. ``peers/node/gate.mjs`` is the same for Node;
``crew.py`` is the other side.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

OFTEN, SELDOM = 0.005, 0.25
"""Seconds between two words on how many were handled: often for a rate, seldom where it would spoil being on time or
idle. For everybody the same, so it favours nobody."""


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


class Order(NamedTuple):
    """Events to add: how many, when the first is due, and how far apart they are, in µs since 1970."""

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
    """What a worker counts with. Handlers may run in threads."""

    def __init__(self, on_time: bool = False) -> None:
        self._every = SELDOM if on_time else OFTEN
        self.late: list[float] = []  # seconds
        self._handled = 0
        self._lock = threading.Lock()

    def count(self) -> None:
        with self._lock:
            self._handled += 1

    def note(self, due: int) -> None:
        self.late.append(time.time() - due / 1e6)
        self.count()

    def ready(self, stop: Callable[[], None]) -> None:
        """Say so, wait for ``go``, and from then on tell how far the work is; call *stop* on ``stop``."""
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

    def _listen(self, stop: Callable[[], None]) -> None:
        if _hear() == "stop":
            say(f"late {json.dumps(self.late)}")
            stop()
        else:
            os._exit(1)  # whoever measured is gone


def orders() -> Iterator[Order]:
    """What to add, one order after the other."""
    say("ready")
    while (word := _hear()) and word != "stop":
        yield Order(*map(int, word.split()))
        say("done")


def say(words: str) -> None:
    sys.stdout.write(f"> {words}\n")
    sys.stdout.flush()


def _hear() -> str:
    return sys.stdin.readline().strip()
