"""The store as roll-ups of runs need it: what has ended, rows that add it up, and figures of a range."""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from duly.decide.figures.roll_up import EndedRuns, RollUpKey, RollUps, RunCounts


class RollUpRange(NamedTuple):
    """Which roll-ups tell of a range: days from *day* until *last_day*, and hours for what is before and after."""

    since: datetime
    day: datetime
    last_day: datetime
    until: datetime


class CountedRuns(NamedTuple):
    """Counts of runs that began to be counted at an instant: an hour, a day, or, if nobody has rolled them up yet, the
    instant of their end."""

    begins: datetime
    type: str
    lane: str
    counts: RunCounts


class StatsPort(Protocol):
    """Runs that ended are written by the transaction that ends them, many in one row; see ``EndedRuns``. Rolling them
    up deletes those rows and adds them to the roll-ups, in one transaction: each is in one of the two at every
    moment."""

    async def has_ended(self) -> bool:
        """Whether there is anything to roll up."""

    async def take_ended(self, limit: int) -> list[EndedRuns]:
        """Deletes and returns rows that were not rolled up yet, and that nobody else is rolling up."""

    async def roll_ups(self, keys: Collection[RollUpKey]) -> dict[RollUpKey, RunCounts]:
        """The roll-ups that exist, of these keys."""

    async def put_roll_ups(self, rows: RollUps) -> None:
        """Creates or replaces roll-ups."""

    async def forget_roll_ups(self, hours: timedelta, days: timedelta, limit: int) -> int:
        """Deletes roll-ups that began longer ago; returns how many."""

    async def count_runs(self, tenant: str | None, schedule: str, range: RollUpRange) -> Sequence[CountedRuns]:
        """The runs of a range, rolled up or not, by one snapshot: those of a schedule by its id, or, without one
        (``ALL``), of the tenant or of all tenants."""


class StatsTransaction(StatsPort, Protocol):
    async def take_upkeep(self, task: str, worker: str, lease: timedelta, place: str | None = None) -> str | None: ...


class StatsStore(StatsPort, Protocol):
    """A store as whoever rolls up sees it."""

    def begin(self) -> AbstractAsyncContextManager[StatsTransaction]: ...
