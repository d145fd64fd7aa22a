"""The beat of a worker: it writes its row regularly, with what is known of its loop, and deletes it when it stops."""

import asyncio
import hashlib
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from duly import __version__
from duly.config import Settings
from duly.decide.workers import pass_limit
from duly.engine.stopping import Stopping
from duly.errors import StoreError, StoreUnavailable
from duly.ports import BeatPort
from duly.records.workers.worker import WorkerInfo, WorkerKind
from duly.signals import Signals, WorkerNotShown

BEAT = timedelta(seconds=10)
"""The time between two beats. A beat takes less than a millisecond of CPU time, 0.01 % of it."""

FORGET_EVERY_S = 3600.0
"""Seconds between two deletions of rows of workers that vanished."""

FORGET_AFTER = timedelta(days=1)
"""How long the row of a worker that vanished is kept, so that people see what became of it."""

NEVER = datetime.min.replace(tzinfo=UTC)
"""Stands for instants that the store fills in."""


def new_name() -> str:
    """The name of a worker, which no other one has. It tells no host, because tenants find it in their histories: the
    worker's row and its log line have the host and the process."""
    return f"worker-{secrets.token_hex(5)}"


def tick_name(lanes: Iterable[str]) -> str:
    """The name under which ticks of the same lanes on the same host share one row: each is a process of its own."""
    digest = hashlib.sha256("\n".join((socket.gethostname(), *sorted(lanes))).encode()).hexdigest()
    return f"tick-{digest[:10]}"


class Pulse:
    """When the loop of a worker last completed a pass."""

    def __init__(self) -> None:
        self._at: float | None = None  # by time.monotonic

    def passed(self) -> None:
        self._at = time.monotonic()

    @property
    def since(self) -> timedelta | None:
        """How long ago; None: it has not completed any pass."""
        return None if self._at is None else timedelta(seconds=time.monotonic() - self._at)


class Presence:
    """The row of one worker."""

    def __init__(
        self,
        store: BeatPort,
        worker: WorkerInfo,
        pulse: Pulse,
        closed: Callable[[], Mapping[str, str]],
        stopping: Stopping,
        signals: Signals,
    ) -> None:
        self._store, self._worker, self._pulse, self._closed = store, worker, pulse, closed
        self._stopping, self._signals = stopping, signals
        self._is_tick = worker.kind is WorkerKind.TICK
        self._begun = self._refused = False
        self._forgotten = -FORGET_EVERY_S

    async def run(self) -> None:
        """Beats until it is cancelled. A tick writes its row when it ends, so it beats only if it takes longer."""
        if self._is_tick:
            await asyncio.sleep(self._worker.beat.total_seconds())
        while True:
            began = time.monotonic()
            await self._try(self._beat())
            if began - self._forgotten >= FORGET_EVERY_S:
                self._forgotten = began
                await self._try(self._store.forget_workers(FORGET_AFTER))
            wait = max(0.0, began + self._worker.beat.total_seconds() - time.monotonic())
            if self._worker.draining:
                await asyncio.sleep(wait)
            else:
                await self._stopping.wait(wait)

    async def end(self) -> None:
        """Deletes the row; that of a tick tells instead when it ended."""
        await self._try(self._beat(stops=True) if self._is_tick else self._store.leave(self._worker.name))

    async def _beat(self, *, stops: bool = False) -> None:
        closed = msgspec.json.encode(dict(self._closed())).decode()
        self._worker = msgspec.structs.replace(
            self._worker, closed_json=closed, draining=self._stopping.is_asked and not stops
        )
        await self._store.beat(self._worker, self._pulse.since, begins=not self._begun, stops=stops)
        self._begun = True

    async def _try(self, work: Awaitable[None]) -> None:
        """Whatever becomes of a beat, the worker goes on: an outage is reported by its loop, and a refusal once."""
        try:
            await work
        except StoreUnavailable:
            pass
        except StoreError as error:
            if not self._refused:
                self._refused = True
                self._signals.emit(WorkerNotShown(self._worker.name, str(error)))


def row_of(name: str, lanes: Iterable[str], settings: Settings, *, tick: bool) -> WorkerInfo:
    """The row of a worker of this process, before its first beat."""
    served = sorted(lanes)
    return WorkerInfo(
        name=tick_name(served) if tick else name,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=__version__,
        kind=WorkerKind.TICK if tick else WorkerKind.WORKER,
        lanes_json=msgspec.json.encode(served).decode(),
        started=NEVER,
        seen=NEVER,
        beat=BEAT,
        pass_limit=pass_limit(settings.poll_interval, settings.lease, settings.store_timeout),
    )
