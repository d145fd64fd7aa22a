"""What can be asked of a store about dead letters."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from duly.ports.transactions import Clocked
from duly.records.results import DeadLetters
from duly.records.specs import Spec


class DeadLetter(NamedTuple):
    """A dead letter as it was found. Whoever takes it up must show the version: since then, somebody else may have."""

    id: str
    version: int
    via: str | None = None  # how it came
    target_json: str | None = None  # of those that came over HTTP


class DeadLetterPort(Protocol):
    """What can be asked of a store about dead letters, many at a time."""

    async def find_dead(self, spec: Spec, *, since: datetime, after: str | None, limit: int) -> list[DeadLetter]:
        """Those that satisfy the spec and with which nothing has happened after *since*, oldest id first, at most
        *limit*, newer than the id *after*."""

    async def count_dead(self, spec: Spec, *, most: int) -> DeadLetters:
        """How many satisfy the spec, and at most so many kinds of them."""

    async def replay_found(
        self, letters: Sequence[DeadLetter], ready: Sequence[datetime | None], by: str
    ) -> dict[str, datetime]:
        """Let them be tried again, each from its own instant on, or at once; when those are ready that went back. The
        others somebody else has changed, or is changing."""

    async def discard_found(self, letters: Sequence[DeadLetter], by: str, reason: str | None) -> set[str]:
        """Put them away; the ids of those that were."""


class DeadLetterStore(DeadLetterPort, Clocked, Protocol):
    """A store as replays and discards of many dead letters see it."""
