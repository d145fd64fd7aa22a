"""A process beside the worker that ends its commands if the worker is killed. (The kernel could send a signal to each
command, but only to the process itself, and only when the thread that started it ends.)"""

import asyncio
import os
import sys
from pathlib import Path
from subprocess import DEVNULL

PROGRAM = Path(__file__).with_name("watchdog_process.py")

ENDS_WITHIN_S = 1.0
"""Seconds that the watchdog gets to end at the end of the worker."""


class Watchdog:
    """Knows which process groups run. It is started with the first command; commands run without it if that fails. A
    command whose worker is killed within milliseconds after its start, before this is told of it, runs on."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._pipe: int | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()

    async def begin(self) -> None:
        """Starts it, unless it runs."""
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return
            self._close_pipe()
            theirs, ours = os.pipe()
            try:
                os.set_blocking(ours, False)
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-I", "-S", str(PROGRAM),
                    stdin=theirs, stdout=DEVNULL, stderr=DEVNULL, cwd="/", start_new_session=True,
                )  # fmt: skip
            except BaseException as error:
                os.close(ours)
                if not isinstance(error, OSError):
                    raise
                return
            finally:
                os.close(theirs)
            self._pipe = ours
            for group in self._groups:
                self._tell("+", group)

    def add(self, group: int) -> None:
        self._groups.add(group)
        self._tell("+", group)

    def remove(self, group: int) -> None:
        self._groups.discard(group)
        self._tell("-", group)

    def _tell(self, sign: str, group: int) -> None:
        if self._pipe is not None:
            try:
                os.write(self._pipe, f"{sign}{group}\n".encode())
            except OSError:  # it was killed itself, or stands still: the next command starts another one
                self._close_pipe()
                if self._process is not None and self._process.returncode is None:
                    self._process.kill()

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    async def close(self) -> None:
        """Ends it. What still runs is left to whoever closes this."""
        for group in list(self._groups):
            self.remove(group)
        self._close_pipe()
        if self._process is None:
            return
        try:
            async with asyncio.timeout(ENDS_WITHIN_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._process = None
