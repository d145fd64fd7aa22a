"""What a command writes to its standard output and error, read as it comes; the end of it is kept."""

import asyncio
import contextlib
import os

KEPT_BYTES = 64 * 1024
"""The last bytes that are kept with the attempt."""

HEADING_BYTES = 100
"""The room for the line that tells how much was not kept."""

READ_BYTES = 64 * 1024
"""Bytes of one read: as many as a pipe of Linux holds."""

PAUSE_S = 0.001
"""Seconds without a read after one that found the pipe full. A command that writes gigabytes is slowed down by this to
64 MB a second, instead of keeping the worker busy with what nobody will read."""

LAST_READS = 16
"""Reads after the command has ended, at most: all that the largest pipe of an ordinary user holds (1 MB)."""


class OutputTail:
    """Reads a pipe until it ends, and keeps the last bytes."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._kept, self._total = pipe, bytearray(), 0
        self._loop = asyncio.get_running_loop()
        self._pausing: asyncio.TimerHandle | None = None
        self.is_open, self._keeps = True, True
        os.set_blocking(pipe, False)
        self._loop.add_reader(pipe, self._on_readable)

    def _on_readable(self) -> None:
        if self._read() == READ_BYTES:
            self._loop.remove_reader(self._pipe)
            self._pausing = self._loop.call_later(PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        self._pausing = None
        self._loop.add_reader(self._pipe, self._on_readable)

    def _read(self) -> int:
        """Reads once; returns how many bytes there were. At the end of the pipe, closes it."""
        try:
            found = os.read(self._pipe, READ_BYTES)
        except BlockingIOError:
            return 0
        except OSError:
            found = b""
        if not found:
            self.close()
        elif self._keeps:
            self._total += len(found)
            self._kept += found
            if len(self._kept) > 2 * KEPT_BYTES:
                del self._kept[:-KEPT_BYTES]
        return len(found)

    def finish(self) -> str | None:
        """The end of what was written until now; None if that is nothing. What a process that the command has left in
        the background writes later is read, so that it can go on, and dropped."""
        for _ in range(LAST_READS):
            if not self.is_open or self._read() == 0:
                break
        self._keeps = False
        return self._text()

    def _text(self) -> str | None:
        if not self._total:
            return None
        if self._total <= KEPT_BYTES:
            return self._kept.decode(errors="replace")
        kept = bytes(self._kept[HEADING_BYTES - KEPT_BYTES :])
        rest = kept.lstrip(bytes(range(0x80, 0xC0)))  # the cut may be within a character
        return f"[{self._total - len(rest):,} bytes before this were not kept]\n{rest.decode(errors='replace')}"

    def close(self) -> None:
        """Stops reading: whoever still writes gets an error."""
        if self.is_open:
            self.is_open = False
            if self._pausing is not None:
                self._pausing.cancel()
            self._loop.remove_reader(self._pipe)
            with contextlib.suppress(OSError):
                os.close(self._pipe)
