"""Writes the log of Duly's own commands."""

import asyncio
import logging
import sys

REQUESTS = "duly.http"
"""The logger that writes one line for each HTTP request."""

KEPT_S = 0.05
"""Seconds for which the line of a request may wait to be written together with others."""

MOST_KEPT = 100
"""Lines that may wait; the next line causes a write, so that a burst cannot fill the memory."""


class LogHandler(logging.StreamHandler):  # type: ignore[type-arg]  # takes no argument at runtime
    """Writes the lines of requests in batches: each write wakes the reader of the log, which cost 60 µs per request.
    All other lines, and lines above INFO, are written at once, after the waiting lines."""

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
        except RuntimeError:  # this thread has no event loop
            self.flush()
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Writes the waiting lines. The logging module also calls this when the process ends."""
        self.acquire()
        try:
            self._writing = None
            if self._kept:
                lines, self._kept = self._kept, []
                self.stream.write("".join(lines))
            super().flush()
        finally:
            self.release()
