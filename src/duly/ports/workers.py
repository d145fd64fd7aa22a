"""The store as workers tell of themselves, and as people ask who is at work."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from duly.decide.why import Ahead
from duly.decide.workers import LaneLoad, WaitingLane
from duly.ports.targets import DestinationReader
from duly.ports.transactions import Clocked
from duly.records.event import Event
from duly.records.workers.worker import WorkerInfo


class BeatPort(Protocol):
    """The row of a worker, which tells that it lives."""

    async def beat(
        self, worker: WorkerInfo, since_pass: timedelta | None, *, begins: bool = False, stops: bool = False
    ) -> None:
        """Writes the worker's row: it was seen now, by the store's clock. *since_pass*: how long ago its loop completed
        a pass. The first beat *begins* the row anew, if a worker of this name had one."""

    async def leave(self, worker: str) -> None:
        """Deletes the row of a worker that has stopped; when its lanes were last served is remembered."""

    async def forget_workers(self, memory: timedelta) -> None:
        """Deletes the rows of workers that were not seen for that long; remembers the same."""


class PresencePort(Clocked, DestinationReader, Protocol):
    """Who is at work, and what waits."""

    async def workers(self) -> list[WorkerInfo]:
        """The rows of all workers."""

    async def remembered_lanes(self) -> dict[str, datetime]:
        """When lanes were last served by workers that have no row any more."""

    async def waiting_lanes(self) -> Sequence[WaitingLane]:
        """The lanes of all events that wait or were interrupted; in each, since when the oldest one is ready."""

    async def lane_loads(self, limit: int) -> Sequence[LaneLoad]:
        """How many events of each lane wait and run, each number up to the limit."""

    async def ahead(self, event: Event) -> Ahead:
        """The events of its lane that are before a ready event or run, and whether a rate keeps it from beginning."""

    async def count_ready(self, lane: str, before: datetime, *, limit: int) -> int:
        """How many events of a lane are ready before an instant, at most *limit*."""
