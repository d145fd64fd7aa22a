"""Progress of long work: an updated line on a terminal, a line now and then elsewhere, none for programs."""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Self

from rich.console import Console, RenderableType
from rich.status import Status
from rich.text import Text

LINE_EVERY_ITEMS = 100_000
"""Items after which a line is printed where there is no terminal."""

LINE_EVERY_S = 10
"""Seconds after which a line is printed, if the items take longer."""


class ProgressLine:
    """The progress line, on standard error. Text that is printed on its *console* appears above it."""

    def __init__(self, *, json: bool) -> None:
        self.console = Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)
        self._json = json
        self._stack = ExitStack()
        self._status: Status | None = None

    def __enter__(self) -> Self:
        self._began = self._told_at = time.monotonic()
        self._told = 0
        if sys.stderr.isatty() and not self._json:
            self._status = self._stack.enter_context(self.console.status("begins"))
        return self

    def __exit__(self, *_: object) -> None:
        """Removes the line, to make room for further output."""
        self._stack.close()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def tell(self, done: int, said: str, drawn: RenderableType | None = None) -> None:
        """Shows the progress: *done* items so far, as text or, on a terminal, as *drawn*."""
        if self._status is not None:
            self._status.update(Text(said) if drawn is None else drawn)
            return
        now = time.monotonic()
        if done - self._told >= LINE_EVERY_ITEMS or now - self._told_at >= LINE_EVERY_S:
            self._told, self._told_at = done, now
            if not self._json:
                print(said, file=sys.stderr, flush=True)


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Calls *stop* at the first SIGINT or SIGTERM, so that work under way can be stored; a second signal ends the
    process at once."""
    loop = asyncio.get_running_loop()

    def once(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        stop()

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, once, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
