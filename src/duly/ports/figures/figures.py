"""The store as monitoring asks it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from duly.records.workers.worker import WorkerInfo


class LaneDepth(NamedTuple):
    """How many events of a lane could begin now, those that a crash interrupted among them."""

    lane: str
    due: int  # counted up to a limit
    oldest: datetime | None  # since when the oldest event is ready, or from when on


class StoreFigures(NamedTuple):
    """What a database holds. Large numbers are counted up to a limit; beyond it they are estimates on PostgreSQL, and
    the limit on SQLite."""

    now: datetime  # by the store's clock
    lanes: Sequence[LaneDepth]
    pending: int  # events that wait for their time
    dead_letters: int
    held: Mapping[str, int]  # held events by kind
    parked: int  # destinations
    halted: Mapping[str, int]  # schedules without a next event, by kind


class FigurePort(Protocol):
    """Figures of the whole database, of all tenants."""

    async def figures(self, limit: int, most: int | None = None) -> StoreFigures:
        """At most *limit* due events of each lane are counted, and at most *most* rows of all else; unless that is
        given, as many as the database counts in a few milliseconds."""

    async def workers(self) -> list[WorkerInfo]:
        """The rows of all workers."""
