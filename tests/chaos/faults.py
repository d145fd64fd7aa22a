"""What goes wrong: each fault begins, lasts, and is mended, whatever becomes of the test; and is written down."""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import psycopg

from duly import Duly, InStatus, Status
from duly.errors import StoreUnavailable
from tests.chaos.processes import Processes
from tests.servers import Postgres

GAP_SECONDS = 0.8, 3.0
"""Between the end of a fault and the next one of the same track."""

AIMS = 40
AIM_SECONDS = 0.05
"""How often a worker is stopped and let go, and for how long at most, until it is at work when it is stopped."""

TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'duly%'"

HOLD = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(60_000)  # a worker may have been frozen with the lock
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
"""

STORE = "store"
"""The victim of faults that all processes feel."""


class Fault(msgspec.Struct, frozen=True):
    kind: str
    victim: str  # the name of a process, or STORE
    began: float  # in seconds since 1970
    ended: float

    def overlaps(self, began: float, ended: float) -> bool:
        return self.began <= ended and began <= self.ended


class FaultLog:
    def __init__(self) -> None:
        self.began = time.time()
        self.faults: list[Fault] = []

    @asynccontextmanager
    async def note(self, kind: str, victim: str) -> AsyncIterator[None]:
        began = time.time()
        try:
            yield
        finally:
            self.faults.append(Fault(kind, victim, began, time.time()))

    def told(self) -> str:
        lines = (
            f"{fault.began - self.began:6.2f} – {fault.ended - self.began:6.2f}  {fault.kind} {fault.victim}"
            for fault in sorted(self.faults, key=lambda fault: fault.began)
        )
        return "\n".join(lines)


Faults = Mapping[Callable[[], Awaitable[None]], int]
"""How often each happens in one round."""


class Spans(msgspec.Struct, frozen=True):
    """In seconds."""

    lease: float
    store_timeout: float


class ProcessFaults:
    """What happens to workers and callers."""

    def __init__(self, processes: Processes, app: Duly, log: FaultLog, spans: Spans, luck: random.Random) -> None:
        self._processes, self._app, self._log, self._spans, self._luck = processes, app, log, spans, luck

    async def kill_worker(self) -> None:
        await self._kill("worker")

    async def kill_caller(self) -> None:
        await self._kill("caller")

    async def _kill(self, kind: str) -> None:
        name = self._luck.choice(self._processes.of(kind))
        async with self._log.note("kill", name):
            if kind == "worker" and self._luck.random() < 0.7:
                await self._stop_at_work(name, 1)
            place = self._processes.kill(name)
            await asyncio.sleep(self._luck.choice((0, 0.5)))
            self._processes.start(place)

    async def freeze_worker(self) -> None:
        name = self._luck.choice(self._processes.of("worker"))
        async with self._log.note("freeze", name):
            await self._others_are_at(await self._stop_at_work(name, 2), name)
            self._processes.signal(name, signal.SIGCONT)

    async def _stop_at_work(self, worker: str, most: int) -> set[str]:
        """Stop it when it has so many events in hand, or whatever it has after a while; which these are."""
        for _ in range(AIMS):
            self._processes.signal(worker, signal.SIGSTOP)
            had = await self._in_hand_of(worker)
            if len(had) >= most:
                return had
            self._processes.signal(worker, signal.SIGCONT)
            await asyncio.sleep(self._luck.uniform(0, AIM_SECONDS))
        self._processes.signal(worker, signal.SIGSTOP)
        return await self._in_hand_of(worker)

    async def _in_hand_of(self, worker: str) -> set[str]:
        try:
            under_way = await self._app.events.find(InStatus(Status.PROCESSING), limit=1000)
        except StoreUnavailable:  # which has faults of its own
            return set()
        return {event.id for event in under_way if event.worker == worker}

    async def retire_worker(self) -> None:
        """It is told to stop, and does so in time, whatever has befallen the store meanwhile."""
        name = self._luck.choice(self._processes.of("worker"))
        await self._processes.started(name)  # before that, SIGTERM would end it as it ends any process
        async with self._log.note("retire", name):
            place = await self._processes.stop(name)
            self._processes.start(place)

    async def cut_worker_off(self) -> None:
        """No packet arrives, and nobody is told."""
        name, namespace = self._luck.choice(sorted(self._processes.in_namespaces().items(), key=lambda one: one[0]))
        async with self._log.note("cut off", name):
            await self._stop_at_work(name, 2)
            namespace.cut()
            self._processes.signal(name, signal.SIGCONT)
            try:
                await self._others_are_at(await self._in_hand_of(name), name)
            finally:
                namespace.mend()

    async def _others_are_at(self, had: set[str], worker: str) -> None:
        """Longer than a lease, until another worker has taken one of these events and is at it: when the first one
        comes back now, its verdict must not count. If nobody takes any, two and a half leases."""
        began = time.monotonic()
        while (waited := time.monotonic() - began) < self._spans.lease * (2.5 if had else 1.2):
            with suppress(StoreUnavailable):
                under_way = await self._app.events.find(InStatus(Status.PROCESSING), limit=1000)
                if waited > self._spans.lease and any(one.id in had and one.worker != worker for one in under_way):
                    return
            await asyncio.sleep(0.05)


class PostgresFaults:
    def __init__(self, server: Postgres, log: FaultLog, spans: Spans, luck: random.Random) -> None:
        self._server, self._log, self._spans, self._luck = server, log, spans, luck

    async def crash(self) -> None:
        async with self._log.note("crash", STORE):
            try:
                await asyncio.to_thread(self._server.kill)
                await asyncio.sleep(self._luck.choice((0, 0.5, 1)))
            finally:
                await asyncio.to_thread(self._server.start)

    async def freeze(self) -> None:
        """For longer than a query may take."""
        await self._freeze(self._spans.store_timeout * 1.5)

    async def freeze_past_leases(self) -> None:
        await self._freeze(self._spans.lease * 1.3)

    async def _freeze(self, seconds: float) -> None:
        async with self._log.note("freeze", STORE):
            self._server.freeze()
            try:
                await asyncio.sleep(seconds)
            finally:
                self._server.thaw()

    async def terminate_backends(self) -> None:
        async with self._log.note("terminate", STORE):
            await asyncio.to_thread(self._terminate)

    def _terminate(self) -> None:
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            connection.execute(TERMINATE)


class SqliteFaults:
    def __init__(self, file: Path, log: FaultLog, spans: Spans, luck: random.Random) -> None:
        self._file, self._log, self._spans, self._luck = file, log, spans, luck

    async def hold_lock(self) -> None:
        """Another process writes, for longer than anybody waits for it."""
        await self._hold_lock(self._spans.store_timeout * 1.5)

    async def hold_lock_past_leases(self) -> None:
        await self._hold_lock(self._spans.lease * 1.3)

    async def _hold_lock(self, seconds: float) -> None:
        pipe = asyncio.subprocess.PIPE
        words = [sys.executable, "-c", HOLD, str(self._file)]
        process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe)
        assert process.stdout
        try:
            assert await process.stdout.readline() == b"held\n"
            async with self._log.note("lock", STORE):
                await asyncio.sleep(seconds)
                await process.communicate(b"\n")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def fill_disk(self) -> None:
        """To the last byte, by a file beside the database."""
        await self._fill_disk(self._luck.uniform(0.5, 2))

    async def fill_disk_past_leases(self) -> None:
        await self._fill_disk(self._spans.lease * 1.3)

    async def _fill_disk(self, seconds: float) -> None:
        filler = self._file.with_name("filler")
        async with self._log.note("full disk", STORE):
            try:
                with filler.open("wb", buffering=0) as file:
                    _fill(file.fileno())
                    deadline = time.monotonic() + seconds
                    while time.monotonic() < deadline:
                        await asyncio.sleep(0.1)
                        _fill(file.fileno())  # what a checkpoint or a rollback has given back
            finally:
                filler.unlink(missing_ok=True)


def _fill(file: int) -> None:
    for size in (1 << 16, 1 << 12, 1):
        try:
            while True:
                os.write(file, b"x" * size)
        except OSError:
            continue


async def befall(faults: Faults, luck: random.Random, until: float) -> None:
    """Each as often as it says, in any order; again and again until that time, by time.monotonic."""
    while True:
        order = [fault for fault, often in faults.items() for _ in range(often)]
        luck.shuffle(order)
        for fault in order:
            await asyncio.sleep(luck.uniform(*GAP_SECONDS))
            await fault()
        if time.monotonic() >= until:
            return


def luck_of(seed: str, track: str) -> random.Random:
    """Its own for each track, so that what one draws does not depend on when the other does."""
    return random.Random(f"{seed} {track}")
