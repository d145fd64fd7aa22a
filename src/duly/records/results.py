"""What acts return: how many events a replay has changed, which rows an import has refused, and so on."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from duly.errors import Invalid, Problem
from duly.records.schedule import Schedule


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay of many has done so far."""

    events: int = 0
    until: datetime | None = None  # when the last of them is ready
    left_alone: int = 0  # somebody else was changing these when it was their turn, or their broker is closed over HTTP


class Discarded(msgspec.Struct, frozen=True, kw_only=True):
    """What a discard of many has done so far."""

    events: int = 0
    left_alone: int = 0


class Resumed(NamedTuple):
    """A schedule that goes on, and what becomes of the occurrences that its pause has passed over."""

    schedule: Schedule
    passed: int
    fires: bool  # by the misfire policy; else they are left out


class Backfilled(NamedTuple):
    """What a backfill has made. Those that one with the same label had made before are not made again."""

    label: str
    ids: list[str]
    existing: int


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


class ReplannedHead(NamedTuple):
    """A head that newer zone data moves."""

    tenant: str
    schedule: str
    timezone: str
    event: str  # its id
    old: datetime
    new: datetime
    zone_data: str  # the edition that gave the old instant
