"""Worker processes on a host of their own, which a test can cut off from their database."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

APP = """
import asyncio, json, os, time
from pathlib import Path

from duly import Duly, Event

duly = Duly()


def tell(act: str, event: Event) -> None:
    line = {"act": act, "id": event.id, "pid": os.getpid(), "at": time.clock_gettime(time.CLOCK_BOOTTIME)}
    with Path("journal").open("a") as journal:
        journal.write(json.dumps(line) + "\\n")


@duly.on("task")
async def task(event: Event) -> None:
    tell("begin", event)
    await asyncio.sleep(event.payload["seconds"])
    tell("end", event)


@duly.on("stuck")
async def stuck(event: Event) -> None:
    tell("begin", event)  # and leaves a thread behind that nobody can stop
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 3600)
"""


class WorkerProcess:
    """One process of Duly's command line, in a folder whose ``journal`` its handlers write to."""

    def __init__(self, folder: Path, arguments: Sequence[str], within: Sequence[str], **environment: str) -> None:
        (folder / "shop.py").write_text(APP)
        self.journal = folder / "journal"
        self.log = folder / f"log-{len(list(folder.glob('log-*')))}"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*within, sys.executable, "-m", "duly", *arguments],
                cwd=folder,
                env=clean | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), **environment},
                stdout=log,
                stderr=log,
            )

    def said(self, act: str) -> bool:
        return any(line.partition(" ")[0] == act or f" {act} " in line for line in self.log.read_text().splitlines())

    def told(self, act: str) -> list[dict[str, Any]]:
        """What this process's handlers wrote."""
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        entries = [json.loads(line) for line in lines]
        return [entry for entry in entries if entry["act"] == act and entry["pid"] == self.process.pid]

    def ends_within(self, seconds: float) -> bool:
        """Ask it to stop; whether it does."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> None:
        self.process.kill()
        self.process.wait(timeout=30)


@contextmanager
def worker_process(
    folder: Path, *arguments: str, within: Sequence[str] = (), **environment: str
) -> Iterator[WorkerProcess]:
    process = WorkerProcess(folder, arguments, within, **environment)
    try:
        yield process
    except BaseException:
        sys.stderr.write(f"-- the log of {' '.join(arguments)}:\n{process.log.read_text()[-4000:]}\n")
        raise
    finally:
        process.end()


def now() -> float:
    """The clock of the journals."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
