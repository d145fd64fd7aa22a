"""The processes under faults: workers and callers, each in a place that is filled again when its process has ended."""

import asyncio
import itertools
import os
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos import caller, worker
from tests.chaos.orders import Orders
from tests.crash.forked import FORKED
from tests.crash.supervisor import Journal
from tests.network import Namespace

LOOK_EVERY = 0.02  # seconds
START_PATIENCE = 60.0  # seconds

STOP_EXTRA_SECONDS = 5.0
"""A worker ends so long after its grace at the latest, whatever its database does."""

NOISE_SECONDS = 5.0
"""What a busy machine may add to that. A worker that waits for its database takes longer, or for ever."""


class Place(NamedTuple):
    """Where a process is started, and how."""

    kind: str  # worker or caller
    url: str
    options: dict[str, Any]
    namespace: Namespace | None = None


class Processes:
    def __init__(self, folder: Path, seed: str, receiver: str, places: Sequence[Place]) -> None:
        self._folder, self._seed, self._receiver = folder, seed, receiver
        self._numbers = itertools.count(1)
        self._processes: dict[str, ForkServerProcess] = {}
        self._filled: dict[str, Place] = {}  # by whom, while it runs
        self._places = places
        self.journal = Journal(folder / "journal")
        self.slowest_stop = 0.0  # seconds

    def start_all(self) -> None:
        for place in self._places:
            self.start(place)

    def start(self, place: Place) -> str:
        name = f"{place.kind[0]}{next(self._numbers)}"
        orders = Orders(
            url=place.url,
            journal=str(self.journal.path),
            log=str(self.log_of(name)),
            name=name,
            seed=f"{self._seed} {name}",
            receiver=self._receiver,
            namespace=None if place.namespace is None else place.namespace.name,
            options=place.options,
        )
        main = worker.main if place.kind == "worker" else caller.main
        self._processes[name] = FORKED.Process(target=main, args=(orders,))
        self._processes[name].start()
        self._filled[name] = place
        return name

    def of(self, kind: str) -> list[str]:
        return [name for name, place in self._filled.items() if place.kind == kind]

    def in_namespaces(self) -> dict[str, Namespace]:
        return {name: place.namespace for name, place in self._filled.items() if place.namespace is not None}

    def log_of(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def logs(self) -> dict[str, str]:
        paths = {name: self.log_of(name) for name in self._processes}
        return {name: path.read_text() for name, path in paths.items() if path.exists()}

    async def started(self, *names: str) -> None:
        for name in names:
            await self.until(lambda name=name: self.journal.of("started", name), f"{name} has started", START_PATIENCE)

    def signal(self, name: str, number: signal.Signals) -> None:
        pid = self._processes[name].pid
        assert pid is not None
        os.kill(pid, number)

    def kill(self, name: str) -> Place:
        """End it without a word; the place that is free now."""
        self._processes[name].kill()
        self._processes[name].join(START_PATIENCE)
        code = self._processes[name].exitcode
        assert code == -signal.SIGKILL, f"{name} had ended by itself, with {code}: {self.logs()[name][-3000:]}"
        return self._filled.pop(name)

    async def stop(self, name: str) -> Place:
        """Let it end in good order, and see that it does so in time."""
        began = time.monotonic()
        self.signal(name, signal.SIGTERM)
        grace = float(self._filled[name].options["shutdown_grace"].removesuffix("s"))
        process = self._processes[name]
        patience = grace + STOP_EXTRA_SECONDS + NOISE_SECONDS
        while process.exitcode is None:
            if time.monotonic() - began > patience:
                self.signal(name, signal.SIGUSR1)
                await asyncio.sleep(0.5)
                raise AssertionError(f"{name} has not ended {patience:g} s after SIGTERM: {self.logs()[name][-8000:]}")
            await asyncio.sleep(LOOK_EVERY)
        assert process.exitcode == 0, f"{name} ended with {process.exitcode}: {self.logs()[name][-3000:]}"
        self.slowest_stop = max(self.slowest_stop, time.monotonic() - began)
        return self._filled.pop(name)

    def check(self) -> None:
        """Nobody has ended who was not told to."""
        for name in self._filled:
            code = self._processes[name].exitcode
            assert code is None, f"{name} ended by itself, with {code}: {self.logs()[name][-3000:]}"

    def end(self) -> None:
        """Leave nobody behind, stopped or not."""
        for process in self._processes.values():
            process.kill()
            process.join(START_PATIENCE)

    async def until(self, condition: Callable[..., Any], wanted: str, patience: float) -> None:
        deadline = time.monotonic() + patience
        while not condition():
            self.check()
            assert time.monotonic() < deadline, f"waited {patience:g} s in vain until {wanted}"
            await asyncio.sleep(LOOK_EVERY)
