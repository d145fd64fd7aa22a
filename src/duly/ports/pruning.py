"""The store as deleting finished events needs it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from duly.decide.retention import Cutoff
from duly.ports.timers import KeyMemory


class Prunable(NamedTuple):
    """A finished event that is kept no longer."""

    id: str
    status: str
    type: str
    ended: datetime


class PrunePage(NamedTuple):
    """Some events in the order of their ids, as far as they are concerned."""

    events: Sequence[Prunable]
    last: str | None  # the id of the last event that was looked at; None: there was none
    created: datetime | None  # when the oldest of them was created


class PrunePort(KeyMemory, Protocol):
    """Finds and deletes finished events. ``delete_ended`` deletes."""

    async def prunable(self, cutoffs: Sequence[Cutoff], after: str, limit: int) -> PrunePage:
        """Those of the next *limit* events by id that are kept no longer. What has to outlive its retention is not
        among them."""

    async def take_upkeep(self, task: str, worker: str, lease: timedelta, place: str | None = None) -> str | None:
        """Takes or keeps a task that one worker at a time does; None if another worker has it. Returns how far it has
        come, which is *place* if that is given, and empty at first."""


class PruneStore(PrunePort, Protocol):
    """A store as whoever prunes sees it."""

    async def now(self) -> datetime: ...
