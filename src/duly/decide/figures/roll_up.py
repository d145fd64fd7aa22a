"""Roll-ups: the runs that have ended, added up by hour and by day."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from duly.decide.figures.histogram import bucket
from duly.records.event import Status

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

HOURS_KEPT = timedelta(days=15)
"""How long roll-ups of hours are kept. Those of days have the same runs."""

DAYS_KEPT = timedelta(days=400)
"""How long roll-ups of days are kept: a year, and the month before it for comparison."""

ALL = ""
"""In the place of a schedule: all events of the type and lane, also those of schedules."""


class Span(StrEnum):
    HOUR = "hour"
    DAY = "day"


class EndedRuns(NamedTuple):
    """Runs of one type and lane that ended in the same way, at the same time, and took about as long."""

    at: datetime
    tenant: str
    schedule: str | None  # its id
    type: str
    lane: str
    status: str  # COMPLETED, FAILED or SKIPPED
    duration: float | None  # seconds from the claim to the end; None if it never ran, or nobody knows how long
    lateness: float | None  # seconds from the due time to the claim, not below 0
    many: int


class RollUpKey(NamedTuple):
    """What one row of the roll-ups is about."""

    tenant: str
    schedule: str
    span: Span
    begins: datetime
    type: str
    lane: str


class RunCounts:
    """Counts of runs, to which others are added."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.duration: Counter[int] = Counter()
        self.lateness: Counter[int] = Counter()

    def add(self, runs: EndedRuns) -> None:
        self.statuses[runs.status] += runs.many
        if runs.duration is not None:
            self.duration[bucket(runs.duration)] += runs.many
        if runs.lateness is not None:
            self.lateness[bucket(runs.lateness)] += runs.many

    def merge(self, other: "RunCounts") -> None:
        self.statuses.update(other.statuses)
        self.duration.update(other.duration)
        self.lateness.update(other.lateness)

    @property
    def completed(self) -> int:
        return self.statuses[Status.COMPLETED]

    @property
    def failed(self) -> int:
        return self.statuses[Status.FAILED]

    @property
    def skipped(self) -> int:
        return self.statuses[Status.SKIPPED]


RollUps = Mapping[RollUpKey, RunCounts]


def hour_of(at: datetime) -> datetime:
    return at - (at - EPOCH) % HOUR


def day_of(at: datetime) -> datetime:
    return at - (at - EPOCH) % DAY


def roll_up(ended: Iterable[EndedRuns]) -> RollUps:
    """The counts of runs for each row that they belong to: by hour and by day, among all of their type, and of their
    schedule."""
    by_hour: dict[tuple[str, str, datetime, str, str], RunCounts] = {}
    for runs in ended:
        at = runs.tenant, runs.schedule or ALL, hour_of(runs.at), runs.type, runs.lane
        by_hour.setdefault(at, RunCounts()).add(runs)
    found: dict[RollUpKey, RunCounts] = {}
    for (tenant, schedule, hour, type, lane), counts in by_hour.items():
        for about in {ALL, schedule}:
            for span, begins in ((Span.HOUR, hour), (Span.DAY, day_of(hour))):
                key = RollUpKey(tenant, about, span, begins, type, lane)
                found.setdefault(key, RunCounts()).merge(counts)
    return found
