"""Starts worker processes, kills them, and starts others in their place, two at a time."""

import asyncio
import inspect
import itertools
import json
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from duly import Duly, InStatus, Status
from tests.crash import killed_worker
from tests.crash.forked import FORKED
from tests.crash.killed_worker import SPARED, Orders

AT_RANDOM = None
"""In place of a named point: the supervisor kills, whatever the worker is doing."""

LOOK_EVERY = 0.02
PATIENCE = 60.0
HUNGER = 1.0
"""Seconds after which a worker that has not reached its point is given more to do."""


class Journal:
    """What the workers wrote, by act; each reading goes on from where the last one ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._entries: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def of(self, act: str, worker: str | None = None) -> list[dict[str, Any]]:
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read += len(whole)
            for line in whole.splitlines():
                entry = json.loads(line)
                self._entries[entry["act"]].append(entry)
        return [entry for entry in self._entries[act] if worker in (None, entry["worker"])]


class Supervisor:
    def __init__(self, app: Duly, folder: Path, **options: Any) -> None:
        self._app, self._folder, self._options = app, folder, options
        self._names = (f"w{number}" for number in itertools.count(1))
        self._processes: dict[str, ForkServerProcess] = {}
        self.journal = Journal(folder / "journal")
        self.killed: dict[str, float] = {}  # worker → when, in seconds since 1970

    def start(self, point: str | None = None, countdown: int = 1) -> str:
        name = next(self._names)
        orders = Orders(
            url=self._app.settings.database_url,
            journal=str(self.journal.path),
            stderr=str(self._folder / "stderr"),
            name=name,
            point=point,
            countdown=countdown,
            options=self._options,
        )
        self._processes[name] = FORKED.Process(target=killed_worker.main, args=(orders,))
        self._processes[name].start()
        return name

    async def started(self, *workers: str) -> None:
        for worker in workers:
            await self.until(lambda worker=worker: self.journal.of("started", worker), f"{worker} starts")

    def release(self) -> None:
        """What shared handlers wait for."""
        Path(f"{self.journal.path}.go").touch()

    async def stop(self, *workers: str) -> None:
        """Let them end in good order."""
        for worker in workers:
            self.signal(worker, signal.SIGTERM)
        for worker in workers:
            await self.ends(worker)

    def signal(self, worker: str, number: signal.Signals) -> None:
        pid = self._processes[worker].pid
        assert pid is not None
        os.kill(pid, number)

    async def ends(self, worker: str) -> None:
        await self.until(lambda: self._processes[worker].exitcode is not None, f"{worker} ends")
        code = self._processes[worker].exitcode
        assert code == 0, f"{worker} ended with {code}: {self._stderr()}"

    def end(self) -> None:
        """Leave nobody behind."""
        for process in self._processes.values():
            process.kill()
            process.join(PATIENCE)

    # -- killing

    async def kill_many(self, points: Iterator[str | None], feed: Callable[[], Awaitable[Any]]) -> None:
        """One kill for each point, at that point or at random, two workers at a time."""
        async with asyncio.TaskGroup() as places:
            for _ in range(2):
                places.create_task(self._fill_place(points, feed))

    async def _fill_place(self, points: Iterator[str | None], feed: Callable[[], Awaitable[Any]]) -> None:
        for point in points:
            await feed()
            if point is AT_RANDOM:
                worker = self.start()
                await self.started(worker)
                killed = False
                while not killed:
                    await asyncio.sleep(random.uniform(0, 0.15))
                    killed = await self._kill_unless_cruel(worker)
            else:
                worker = self.start(point, countdown=random.randint(1, 5))
                await self._dies(worker, point, feed)

    async def _dies(self, worker: str, point: str, feed: Callable[[], Awaitable[Any]]) -> None:
        hungry = time.monotonic() + HUNGER

        async def is_dead() -> bool:
            nonlocal hungry
            if time.monotonic() > hungry:
                await feed()
                hungry += HUNGER
            return self.is_dead(worker)

        await self.until(is_dead, f"{worker} dies at {point}")

    def is_dead(self, worker: str) -> bool:
        """True when it was killed; that it ended in any other way is an error."""
        code = self._processes[worker].exitcode
        if code is None:
            return False
        assert code == -signal.SIGKILL, f"{worker} ended with {code}: {self._stderr()}"
        if worker not in self.killed:
            [struck] = self.journal.of("struck", worker)
            self.killed[worker] = struck["at"]
        return True

    async def _kill_unless_cruel(self, worker: str) -> bool:
        """Stop it, look whom the kill would strike, and kill it or let it go on."""
        now = time.time()
        self.signal(worker, signal.SIGSTOP)
        under_way = await self._app.events.find(InStatus(Status.PROCESSING), limit=1000)
        if any(event.worker == worker and event.interruptions >= SPARED for event in under_way):
            self.signal(worker, signal.SIGCONT)
            return False
        self.kill(worker, now)
        return self.is_dead(worker)

    def kill(self, worker: str, at: float | None = None) -> None:
        self.killed[worker] = at or time.time()
        self._processes[worker].kill()
        self._processes[worker].join(PATIENCE)

    # -- waiting

    async def finish(self, patience: float = PATIENCE) -> None:
        """Keep two workers at work until nothing is left, and let them end."""
        workers = [self.start(), self.start()]

        async def nothing_is_left() -> bool:
            workers[:] = [self.start() if self.is_dead(worker) else worker for worker in workers]
            return not await self._unfinished()

        await self.until(nothing_is_left, "every event has ended", patience)
        workers = [worker for worker in workers if not self.is_dead(worker)]
        await self.started(*workers)  # before that, SIGTERM would end them as it ends any process
        await self.stop(*workers)

    async def _unfinished(self) -> int:
        overview = await self._app.store.overview()
        return sum(count for _, status, count, _ in overview if status in (Status.PENDING, Status.PROCESSING))

    async def until(self, condition: Callable[..., Any], wanted: str, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not (await found if inspect.isawaitable(found := condition()) else found):
            assert time.monotonic() < deadline, f"waited {patience:g} s in vain until {wanted}: {self._stderr()}"
            await asyncio.sleep(LOOK_EVERY)

    def _stderr(self) -> str:
        stderr = self._folder / "stderr"
        return stderr.read_text()[-3000:] if stderr.exists() else "nothing was said"
