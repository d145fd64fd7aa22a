"""Runs one command in a process group of its own, and ends all of that group."""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from subprocess import DEVNULL
from typing import BinaryIO, NamedTuple

from duly.channels.command.output import OutputTail

TERM_GRACE_S = 5.0
"""Seconds from SIGTERM to SIGKILL, for a command that is to end."""

KILLED_WITHIN_S = 1.0
"""Seconds that a killed group gets to be gone; more only helps a process that the kernel cannot end."""

FIRST_LOOK_S, LONGEST_LOOK_S = 0.005, 0.1
"""Seconds between looks whether a group is gone: doubled from the first to the longest."""


class Program(NamedTuple):
    """A command that is ready to be run."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    stdin: bytes
    executable: str | None = None  # the file to run; None: the first argument, looked up in PATH


class Ended(NamedTuple):
    """How a command has ended."""

    status: int | None  # the exit code; negative: the signal that killed it; None: it could not be ended
    output: str | None
    overran: bool = False  # it was ended at its deadline
    stopped: bool = False  # it was ended because its attempt was cancelled


class ProcessGroup:
    """A command that runs, with all processes that it has started and that have not left its group."""

    def __init__(self, process: asyncio.subprocess.Process, tail: OutputTail) -> None:
        self._process, self.tail = process, tail
        self.id = process.pid  # with a session of its own, a process leads the group with its id
        self.is_to_end = False  # its attempt was cancelled while it was being started

    async def ended(self, within: float) -> bool:
        """Waits until the command itself has ended; returns False if it has not *within* seconds."""
        try:
            async with asyncio.timeout(within):
                await self._process.wait()
        except TimeoutError:
            return False
        return True

    @property
    def status(self) -> int | None:
        return self._process.returncode

    async def end(self) -> None:
        """Ends the whole group: SIGTERM, then SIGKILL after TERM_GRACE_S, or at once if this is cancelled."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # or a stopped process would never see it
        try:
            gone = await self._gone(TERM_GRACE_S)
        except asyncio.CancelledError:  # nobody has that time any more
            gone = False
        if not gone:
            self.signal(signal.SIGKILL)
            with contextlib.suppress(asyncio.CancelledError):
                await self._gone(KILLED_WITHIN_S)

    async def _gone(self, within: float) -> bool:
        look = FIRST_LOOK_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self.status is None or self.signal(0):
                    await asyncio.sleep(look)
                    look = min(2 * look, LONGEST_LOOK_S)
                return True
        return False

    def signal(self, number: int) -> bool:
        """Sends a signal to the group; returns whether there is any process in it."""
        try:
            os.killpg(self.id, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # every process in it runs as somebody else by now
            return self.status is None
        return True


async def start(program: Program) -> ProcessGroup:
    """Starts a command. Raises OSError if that is not possible. A cancellation waits for the start, which takes
    milliseconds: asyncio would kill the process alone, and not what it may have started already."""
    ours, theirs = os.pipe()
    try:
        with _readable(program.stdin) as stdin:
            starting = asyncio.ensure_future(_spawned(program, stdin, theirs))
            cancelled = await _outlasted(starting)
        group = ProcessGroup(starting.result(), OutputTail(ours))
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    group.is_to_end = cancelled
    return group


async def _spawned(program: Program, stdin: int, output: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *program.argv,
        executable=program.executable,
        stdin=stdin,
        stdout=output,
        stderr=output,
        cwd=program.folder,
        env=dict(program.environment),
        start_new_session=True,
    )


async def _outlasted(work: "asyncio.Future[asyncio.subprocess.Process]") -> bool:
    """Waits until the work is done; returns whether this was cancelled meanwhile."""
    cancelled = False
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


@contextlib.contextmanager
def _readable(text: bytes) -> Iterator[int]:
    """A file with this text, for a process to read. (With a pipe, somebody would have to write it as the process reads,
    which it may never do.)"""
    if not text:
        yield DEVNULL
        return
    with _file() as file:
        file.write(text)
        file.seek(0)
        yield file.fileno()


def _file() -> BinaryIO:
    """A file without a name: in memory on Linux, where a full disk or a missing TMPDIR does not matter."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("stdin"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


async def run(group: ProcessGroup, deadline: float) -> Ended:
    """Waits for the end of a command, and ends it at its deadline or when this is cancelled. Swallows the cancellation:
    it is answered by the end of the command, with what it has written."""
    overran = stopped = False
    try:
        stopped = group.is_to_end
        overran = not stopped and not await group.ended(deadline)
    except asyncio.CancelledError:
        stopped = True
    if overran or stopped:
        await group.end()
    return Ended(group.status, group.tail.finish(), overran, stopped)
