"""The journey of one webhook timer through the package, traced while it happens: which files it enters, in which order.

A Duly on a temporary SQLite file sends one webhook to a receiver on loopback. `python -m tests.house.journey` does it
and prints what it saw as JSON; ``trace()`` runs that in a process of its own, for a profiler slows all that is around.

Three parts are told apart: set-up (until the worker waits for work), the life of the event (from the call of ``after``
until it is COMPLETED), and the end (stopping and closing). A file is entered when one of its functions is called. What
runs because a module is imported does not count, nor does a coroutine that goes on after an ``await``. What the loops
beside the path do meanwhile does count.
"""

import asyncio
import dis
import inspect
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import msgspec

SETTLE_S = 1.0
"""Seconds after its start in which a worker has looked around and waits for work."""

DELAY = timedelta(seconds=0.3)
"""How long before it is due the timer is made, so that the worker first waits for it. The loops beside the path look
every 0.25 seconds: so each of them runs meanwhile, and the number of files is the same every time."""

LIMIT_S = 60.0
"""Seconds after which a run that has not ended is given up."""

ROOT = Path(__file__).parents[2]
SECRET_KEY = "a key of at least thirty-two characters"
SET_UP = "set-up"
LIFE = "life"
END = "end"


class Part(NamedTuple):
    """What was seen of one part: its files in the order of their first entry, each with the function that was called;
    and its changes of direction, calls from one file into another that had been entered before. Such a pair of files
    counts once, however often the one calls the other."""

    files: dict[str, str]
    changes: list[tuple[str, str]]


class Profiler:
    """Notes the calls of functions that stand in a folder, in every thread, by the part in which they happen."""

    def __init__(self, folder: Path) -> None:
        self._folder = f"{folder}/"
        self._forward: set[tuple[str, str]] = set()  # calls by which a file was first entered
        self.part = SET_UP
        self.parts = {name: Part({}, []) for name in (SET_UP, LIFE, END)}

    def start(self) -> None:
        threading.setprofile(self._hear)
        sys.setprofile(self._hear)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def enter(self, part: str) -> None:
        self.part = part
        self._forward = set()

    def _hear(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(self._folder) or not begins(frame):
            return
        codes = list(self._stack(frame))
        if all(map(is_function, codes)):  # or a module is being imported
            path, *callers = (code.co_filename.removeprefix(self._folder) for code in codes)
            self._entered(path, callers[0] if callers else None, frame.f_code.co_qualname)

    def _stack(self, frame: FrameType | None) -> Iterator[CodeType]:
        """What is being called, and by whom, as far as it stands in the folder."""
        while frame is not None:
            if frame.f_code.co_filename.startswith(self._folder):
                yield frame.f_code
            frame = frame.f_back

    def _entered(self, path: str, caller: str | None, function: str) -> None:
        files, changes = self.parts[self.part]
        step = caller or path, path
        if path not in files:
            files[path] = function
            self._forward.add(step)
        elif step[0] != path and step not in self._forward and step not in changes:
            changes.append(step)


def is_function(code: CodeType) -> bool:
    """Modules and the bodies of classes have no fast locals."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED)


def begins(frame: FrameType) -> bool:
    """Whether a call enters the function, and does not merely go on after a ``yield`` or an ``await``."""
    return frame.f_lasti <= _first_resume(frame.f_code)


@cache
def _first_resume(code: CodeType) -> int:
    """Where a function begins. It goes on at later instructions of this name."""
    return next((one.offset for one in dis.get_instructions(code) if one.opname == "RESUME"), 0)


# -- the run


def trace() -> dict[str, Part]:
    """Run it in another process. RuntimeError, with the end of what it said, where it does not come to its end."""
    command = [sys.executable, "-m", "tests.house.journey"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
    done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[-2000:])
    return msgspec.json.decode(done.stdout, type=dict[str, Part])


async def travel(profiler: Profiler, folder: Path) -> None:
    from duly import Duly, webhook
    from duly.signals import Completed, WorkerStarted

    started, completed = asyncio.Event(), asyncio.Event()
    async with a_receiver() as url:
        profiler.start()
        options: dict[str, Any] = {"webhook_allow": "127.0.0.0/8", "secret_key": SECRET_KEY}
        async with Duly(f"sqlite:///{folder / 'journey.db'}", **options) as duly:
            duly.observe(lambda _: started.set(), WorkerStarted)
            duly.observe(lambda _: completed.set(), Completed)
            worker = asyncio.create_task(duly.run(signals=False))
            await started.wait()
            await asyncio.sleep(SETTLE_S)
            target = webhook(url)
            profiler.enter(LIFE)
            await duly.after(DELAY, "journey", {}, target=target)
            await completed.wait()
            profiler.enter(END)
            duly.stop()
            await worker
        profiler.stop()


@asynccontextmanager
async def a_receiver() -> AsyncIterator[str]:
    """Somebody else's server on loopback, which takes whatever is sent to it; its address."""
    from aiohttp import web

    async def take(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


def main() -> None:
    import duly

    profiler = Profiler(Path(duly.__file__).parent)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(asyncio.wait_for(travel(profiler, Path(folder)), LIMIT_S / 2))
    sys.stdout.write(msgspec.json.encode(profiler.parts).decode())


if __name__ == "__main__":
    main()
