"""Writes the log of Duly's own commands."""

import asyncio
import logging
import sys

REQUESTS = "duly.http"
"""The logger that has a line for each request."""

KEPT_S = 0.05
"""Seconds for which such a line may wait for others."""

MOST_KEPT = 100
"""Lines."""


class LogHandler(logging.StreamHandler):  # type: ignore[type-arg]  # takes no argument at runtime
    """Writes lines about requests several at a time: each write wakes up who reads the log, and that took 60 µs of each
    request. Whatever else is told, and what went wrong, is written at once, after what was kept."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._kept: list[str] = []
        self._writing: asyncio.TimerHandle | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._kept.append(self.format(record) + self.terminator)
            may_wait = record.name == REQUESTS and record.levelno <= logging.INFO and len(self._kept) < MOST_KEPT
            if not may_wait:
                self.flush()
            elif self._writing is None:
                self._writing = asyncio.get_running_loop().call_later(KEPT_S, self.flush)
        except RuntimeError:  # of a thread without a loop
            self.flush()
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Also called by logging when the process ends."""
        self.acquire()
        try:
            self._writing = None
            if self._kept:
                lines, self._kept = self._kept, []
                self.stream.write("".join(lines))
            super().flush()
        finally:
            self.release()
