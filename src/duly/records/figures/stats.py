"""What has become of runs: how many, how they ended, how long they took, and how late they began."""

from datetime import date, datetime
from typing import Annotated, NamedTuple

import msgspec

from duly.records.marks import FromZero, Instant, told
from duly.records.wire.forms import JsonForm, OneField, as_utc


class Percentiles(msgspec.Struct, frozen=True):
    """Seconds that half, 95 % and 99 % of the runs do not exceed, within 5 %; null if there was none."""

    p50: float | None
    p95: float | None
    p99: float | None


class RunStats(msgspec.Struct, frozen=True):
    """What has become of the runs of some time."""

    runs: Annotated[FromZero, told("Events that completed or failed: `completed` and `failed` together")]
    completed: FromZero
    failed: Annotated[FromZero, told("Dead letters. One that is replayed and completes is a run of its own")]
    skipped: Annotated[FromZero, told("Events that a policy, an edit or a person passed over; they are no runs")]
    success_rate: Annotated[float | None, told("The share of the runs that completed, from 0 to 1; null without runs")]
    duration: Annotated[Percentiles, told("From the claim of the last attempt to its end")]
    lateness: Annotated[Percentiles, told("From the due time to the claim of the last attempt")]


class DayStats(RunStats, frozen=True):
    """What has become of the runs of one day."""

    day: Annotated[date, told("A day in UTC")]


class GroupStats(RunStats, frozen=True):
    """What has become of the runs of one type or lane."""

    name: Annotated[str, told("The type or lane")]


class Stats(msgspec.Struct, frozen=True):
    """What has become of the runs that ended in a range, together and by day. The range has whole hours; what is older
    than 15 days is told by whole days."""

    from_: datetime
    to: datetime
    total: RunStats
    days: tuple[DayStats, ...]
    groups: Annotated[
        tuple[GroupStats, ...], told("By type or lane, those with most runs first; empty unless `by` is given")
    ] = ()


STATS_JSON = JsonForm(
    Stats,
    parts={
        "from_": OneField("from_", "from", Instant, as_utc),
        "to": OneField("to", "to", Instant, as_utc),
    },
)


class StepOfRuns(NamedTuple):
    """The runs that ended within some hours from an instant on."""

    at: datetime
    completed: int
    late: int  # of these, or as many as all that ended late if they are fewer
    failed: int
    skipped: int
