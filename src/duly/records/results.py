"""What acts return: how many events a replay has changed, which rows an import has refused, and so on."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from duly.errors import Invalid, Problem
from duly.records.marks import FromOne, FromZero, Id, Instant
from duly.records.schedule import SCHEDULE_JSON, Schedule


class Replayed(msgspec.Struct, frozen=True, kw_only=True, rename={"events": "replayed", "until": "last_ready_at"}):
    """What a replay of many has done so far."""

    events: FromZero = 0
    until: Instant | None = None  # when the last of them is ready
    left_alone: FromZero = (
        0  # somebody else was changing these when it was their turn, or their broker is closed over HTTP
    )


class Discarded(msgspec.Struct, frozen=True, kw_only=True, rename={"events": "discarded"}):
    """What a discard of many has done so far."""

    events: FromZero = 0
    left_alone: FromZero = 0


class DeadLetterKind(msgspec.Struct, frozen=True):
    """Dead letters of one tenant and type that go the same way, and how many they are."""

    tenant: str
    type: str
    lane: str
    destination: str | None  # the target's name, or the origin of its URL
    events: FromOne


class DeadLetters(msgspec.Struct, frozen=True, rename={"events": "dead_letters"}):
    """How many there are in all, and the most frequent kinds."""

    events: FromZero
    kinds: tuple[DeadLetterKind, ...]


class Resumed(msgspec.Struct, frozen=True):
    """A schedule that goes on, and what becomes of the occurrences that its pause has passed over."""

    schedule: Schedule
    passed: FromZero
    fires: bool  # by the misfire policy; else they are left out

    def to_json(self) -> dict[str, Any]:
        """The schedule, and beside its fields what becomes of those."""
        return SCHEDULE_JSON.write(self.schedule) | {"passed": self.passed, "fires": self.fires}


class Backfilled(msgspec.Struct, frozen=True, rename={"ids": "events"}):
    """What a backfill has made. Those that one with the same label had made before are not made again."""

    label: str
    ids: list[Id]
    existing: FromZero


class RefusedRow(NamedTuple):
    """A row that was not imported."""

    number: int
    problems: Sequence[Problem]


class StoredRow(NamedTuple):
    """A row that was imported: of which user, and whether they were added, changed, or unchanged."""

    number: int
    id: str
    act: str


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import has done so far."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    refused: int = 0
    last: int = 0  # the number of the last row that was dealt with; what comes before it is stored
    problems: tuple[RefusedRow, ...] = ()  # of the first thousand that were refused

    @property
    def rows(self) -> int:
        return self.added + self.changed + self.unchanged + self.refused


class Refreshed(NamedTuple):
    """What a refresh has done: how many events followed, and whom no event type can use any more."""

    users: int
    events: int
    refused: dict[str, Invalid]


class ReplannedHead(msgspec.Struct, frozen=True, order=True, rename={"old": "old_due_at", "new": "new_due_at"}):
    """A head that newer zone data moves."""

    tenant: str
    schedule: str
    timezone: str
    event: str  # its id
    old: datetime
    new: datetime
    zone_data: str  # the edition that gave the old instant
