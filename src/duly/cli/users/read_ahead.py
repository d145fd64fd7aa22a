"""Reads users in a thread while others are stored."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import islice

from duly.verbs.users.bulk_import import ImportLine

LINES_PER_BATCH = 250
"""Lines that the thread passes to the event loop at a time."""

BATCHES_AHEAD = 8
"""Batches that are read before they are needed: 2,000 lines, which is one transaction of an import."""


class ReadAhead:
    """Lines that a separate thread reads: while it waits for a pipe, the lines read before are stored."""

    def __init__(self, lines: Iterator[ImportLine]) -> None:
        self._lines = lines
        self._read: asyncio.Queue[list[ImportLine]] = asyncio.Queue()
        self._room = threading.Semaphore(BATCHES_AHEAD)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bug: Exception | None = None
        self.error: OSError | None = None  # why the reading ended early
        self.stopped = False

    async def rows(self) -> AsyncIterator[ImportLine]:
        self._loop = asyncio.get_running_loop()
        # A daemon thread, because a read that waits for a keyboard cannot be interrupted.
        threading.Thread(target=self._go, name="duly-reading", daemon=True).start()
        while (batch := await self._read.get()) and not self.stopped:
            self._room.release()
            for line in batch:
                yield line
        if self._bug is not None:
            raise self._bug

    def stop(self) -> None:
        """Stops reading and ends ``rows``. Must be called in the event loop."""
        self.stopped = True
        self._read.put_nowait([])
        self._room.release()

    def _go(self) -> None:
        try:
            while self._room.acquire() and not self.stopped and self._read_some():
                pass
        except OSError as error:
            self.error = error
        except Exception as error:
            self._bug = error
        self._tell([])

    def _read_some(self) -> bool:
        batch: list[ImportLine] = []
        try:
            batch.extend(islice(self._lines, LINES_PER_BATCH))
        finally:  # also after an error: the lines before it count
            if batch:
                self._tell(batch)
        return bool(batch)

    def _tell(self, batch: list[ImportLine]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed: the lines are not needed any more
            self._loop.call_soon_threadsafe(self._read.put_nowait, batch)
