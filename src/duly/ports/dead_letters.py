"""The store as replays and discards of dead letters need it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import NamedTuple, Protocol

from duly.ports.transactions import Clocked
from duly.records.results import DeadLetters
from duly.records.specs import Spec


class DeadLetter(NamedTuple):
    """A dead letter as it was found. A change of it must present this version, because somebody else may have changed
    the event since."""

    id: str
    version: int
    via: str | None = None  # how it was put: see decide/targets/origin.py
    target_json: str | None = None  # only of events that were put over HTTP, and of commands
    keyless: bool = False  # whether a later event took its key


class DeadLetterPort(Protocol):
    """Finds, counts, replays and discards dead letters, many at a time."""

    async def find_dead(self, spec: Spec, *, since: datetime, after: str | None, limit: int) -> list[DeadLetter]:
        """Dead letters that satisfy the spec and have no history entry after *since*, oldest id first, at most *limit*,
        with ids greater than *after*."""

    async def count_dead(self, spec: Spec, *, most: int) -> DeadLetters:
        """The number of dead letters that satisfy the spec, and their most frequent kinds, at most *most*."""

    async def take_keys(self, ids: Sequence[str]) -> dict[str, str]:
        """Gives dead letters the keys back that later events have taken, unless such an event is open. Returns the dead
        letters for which that is not possible, each with the id of the event that has its key."""

    async def replay_found(
        self, letters: Sequence[DeadLetter], ready: Sequence[datetime | None], by: str
    ) -> dict[str, datetime]:
        """Makes the dead letters PENDING again, each from its own instant on, or at once. Returns the ready time of
        each replayed event, by id. The others were changed by somebody else, or are being changed."""

    async def discard_found(self, letters: Sequence[DeadLetter], by: str, reason: str | None) -> set[str]:
        """Discards the dead letters; returns the ids of the discarded events."""


class DeadLetterStore(DeadLetterPort, Clocked, Protocol):
    """A store as replays and discards of many dead letters see it."""

    def begin(self) -> AbstractAsyncContextManager[DeadLetterPort]: ...
