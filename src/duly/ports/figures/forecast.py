"""The store as a forecast needs it: what waits, and what follows it by rules."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from duly.decide.series.forecast import StepRange
from duly.decide.series.pauses import PausedTime
from duly.ports.transactions import Clocked


class CountedRows(NamedTuple):
    """Waiting events of one type in one step."""

    step: int | None  # None: before the range
    type: str | None  # None: all types beyond the most frequent
    many: int
    repeating: int  # heads of users whose next occurrence may be in the range too


class RepeatingHeads(NamedTuple):
    """Heads of users with the same rule, whose next occurrences follow the same instant."""

    type: str
    rule_json: str
    timezone: str
    after: datetime
    many: int


class ScheduledHead(NamedTuple):
    """A schedule as far as its rule goes, and its head."""

    id: str
    name: str
    tenant: str
    type: str
    rule_json: str
    timezone: str
    policies_json: str | None
    earlier_json: str | None
    due: datetime
    scheduled: datetime
    occurrence: str
    paused: PausedTime | None = None  # if it is paused, and the pause ends by itself


class DueWindow(NamedTuple):
    """A part of the events of a forecast: those of a tenant, or of all, that are due from *since* until *until*."""

    tenant: str | None
    since: datetime
    until: datetime


class ForecastPort(Clocked, Protocol):
    """Counts events by their due times. Those of paused and shadow schedules are left out: they will not fire then."""

    window_s: float
    """Seconds that one query should take."""

    async def count_due(self, window: DueWindow, asked: StepRange, *, types: int) -> Sequence[CountedRows]:
        """The waiting events in each step, by type; apart from the most frequent *types*, together."""

    async def repeating_heads(self, window: DueWindow, ends: datetime, *, limit: int) -> Sequence[RepeatingHeads]:
        """Heads of users whose next occurrence may also come before an instant, the earliest first."""

    async def scheduled_heads(self, tenant: str | None, ends: datetime, *, limit: int) -> Sequence[ScheduledHead]:
        """Heads of schedules whose next occurrence may also come before an instant, the earliest first; and held heads
        of those whose pause ends by itself before that."""
