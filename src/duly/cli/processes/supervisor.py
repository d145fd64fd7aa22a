"""Worker processes under one parent: spawned, never forked; restarted when they die; stopped together with the
parent."""

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from typing import Any

from duly.backoff import Backoff
from duly.cli.processes.child_link import ChildLink
from duly.cli.processes.metrics import FamilyMetrics
from duly.engine.stopping import signal_handlers
from duly.observers.logs import Line
from duly.observers.metrics.snapshots import Snapshot

log = logging.getLogger("duly")

FIRST_RESTART_DELAY_S = 1.0
"""Seconds before a process that died is restarted, the first time."""

LONGEST_RESTART_DELAY_S = 30.0
"""Seconds before a restart, at most: the delay grows, so that a process that cannot start does not fill the logs."""

STEADY_AFTER_S = 60.0
"""Seconds; a process that lived this long did not die at its start, so the back-off begins again."""


class Processes:
    """Keeps a number of processes of one command alive, until SIGTERM or SIGINT; then lets them drain."""

    def __init__(self, command: Sequence[str], count: int, patience: float, *, asks: bool = False) -> None:
        """*asks*: whether the processes can be asked for their readiness and their metrics."""
        self._command, self._count, self._patience, self._asks = list(command), count, patience, asks
        self._children: dict[Process, ChildLink | None] = {}
        self._metrics = FamilyMetrics()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Returns when all processes have ended."""
        loop = asyncio.get_running_loop()
        for number, handler in signal_handlers(self.stop).items():
            loop.add_signal_handler(number, handler)
        # A pipe to which nothing is written. When this process ends, even by SIGKILL, its end closes, and the children
        # notice.
        self._lifeline, self._held = os.pipe()
        async with asyncio.TaskGroup() as group:
            for _ in range(self._count):
                group.create_task(self._keep_one())
            await self._stopping.wait()
            hurry = loop.call_later(self._patience, self._kill)
        hurry.cancel()

    def stop(self, now: bool = False) -> None:
        """Lets the processes drain; with *now*, passes a second Ctrl-C on to them."""
        self._stopping.set()
        for child in self._children:
            _signal(child, signal.SIGINT if now else signal.SIGTERM)

    async def not_ready(self) -> str | None:
        """Why not all processes are ready; None if they are."""
        asked = {child.pid: link for child, link in self._children.items() if link is not None}
        if self._stopping.is_set() or len(asked) < self._count:
            return "it stops" if self._stopping.is_set() else f"{self._count - len(asked)} of its processes do not run"
        reasons = await asyncio.gather(*(link.reason() for link in asked.values()))
        told = [f"process {pid}: {reason}" for pid, reason in zip(asked, reasons, strict=True) if reason is not None]
        return "; ".join(told) or None

    async def metrics(self) -> Snapshot:
        """The metrics of all processes, added up."""
        return await self._metrics.snapshot(link for link in self._children.values() if link is not None)

    def _kill(self) -> None:
        for child in self._children:
            _tell(logging.ERROR, "process.killed", process=child.pid, after=self._patience)
            _signal(child, signal.SIGKILL)

    async def _keep_one(self) -> None:
        backoff = Backoff(FIRST_RESTART_DELAY_S, LONGEST_RESTART_DELAY_S)
        while not self._stopping.is_set():
            began = time.monotonic()
            child = await self._start()
            code = await child.wait()
            if (link := self._children.pop(child)) is not None:
                self._metrics.ended(link)
                link.close()
            if self._stopping.is_set():
                return
            if time.monotonic() - began > STEADY_AFTER_S:
                backoff.reset()
            wait = backoff.next()
            _tell(logging.ERROR, "process.died", process=child.pid, ended=_ended(code), restart_in=wait)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._stopping.wait()

    async def _start(self) -> Process:
        link = ChildLink() if self._asks else None
        asked = [] if link is None else ["--asked", str(link.childs.fileno())]
        child = await asyncio.create_subprocess_exec(
            *self._command,
            "--parent",
            str(self._lifeline),
            *asked,
            stdin=DEVNULL,
            pass_fds=[self._lifeline, *([] if link is None else [link.childs.fileno()])],
            start_new_session=True,  # Ctrl-C reaches only the parent, which passes it on
        )
        if link is not None:
            link.childs.close()
        self._children[child] = link
        _tell(logging.INFO, "process.started", process=child.pid)
        if self._stopping.is_set():  # stopped while the process was starting
            _signal(child, signal.SIGTERM)
        return child


def drain_without_parent(lifeline: int) -> None:
    """Stops this process, like SIGTERM does, when its parent is gone, which holds the other end of *lifeline*."""
    os.set_inheritable(lifeline, False)

    def watch() -> None:
        os.read(lifeline, 1)
        _tell(logging.WARNING, "parent.gone", process=os.getpid())
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="duly-parent", daemon=True).start()


def _signal(child: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        child.send_signal(number)


def _ended(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _tell(level: int, act: str, **facts: Any) -> None:
    log.log(level, Line(act, facts))
