"""Runs commands for a test."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from duly import Duly, Event, Retry
from duly.records.history import Entry
from duly.verbs.events.events import Events
from tests.worker.running_worker import until

ONCE = Retry(max_attempts=1)
QUIET: dict[str, Any] = {"poll_interval": "60s", "lease": "10m"}
"""So that a worker learns of something only because it was woken."""


async def ran(app: Duly, target: dict[str, Any], payload: Any = None, **options: Any) -> tuple[Event, Entry]:
    """An event with this command after one attempt, and the history of that."""
    event = await app.after(0, "job", payload, target=target, **({"retry": ONCE} | options))
    await app.tick()
    return await app.events.get(event.id), (await app.events.history(event.id))[-1]


async def pid_in(file: Path) -> int:
    """The process id that a command has written to this file."""
    return await until(lambda: _number_in(file), f"{file.name} has a process id")  # type: ignore[no-any-return]


def _number_in(file: Path) -> int | None:
    text = file.read_text() if file.exists() else ""
    return int(text) if text.endswith("\n") else None


def alive(pid: int) -> bool:
    """Whether a process runs; not one that only waits for its parent to notice its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(*pids: int) -> None:
    for pid in pids:
        await until(lambda pid=pid: not alive(pid), f"process {pid} is gone")


def open_pipes() -> int:
    """Ends of pipes that this process has open."""
    there = 0
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of this very look
            there += str(file.readlink()).startswith("pipe:")
    return there


async def event_when(events: Events, id: str, status: str) -> Event:
    async def look() -> Event | None:
        event = await events.get(id)
        return event if event.status == status else None

    event: Event = await until(look, f"it is {status}")
    return event


async def settled() -> None:
    """Lets the event loop run what is ready."""
    for _ in range(3):
        await asyncio.sleep(0)
