"""Statistics of runs: which range is told by which roll-ups, and the figures of the counts in them."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from duly.decide.figures.histogram import Histogram, percentile, seconds
from duly.decide.figures.roll_up import DAY, DAYS_KEPT, HOUR, HOURS_KEPT, RunCounts, day_of, hour_of
from duly.errors import Invalid, Problem
from duly.records.figures.stats import DayStats, GroupStats, Percentiles, RunStats, StepOfRuns
from duly.values.instants import instant_problems

By = Literal["type", "lane"]
BY: tuple[By, ...] = ("type", "lane")

USUAL_RANGE = timedelta(days=30)
"""The range of figures that were asked for without a start."""


def read_stats_range(start: Any, end: Any, now: datetime) -> tuple[datetime, datetime]:
    """The range of figures: whole hours, or whole days at an end that is older than roll-ups of hours are kept. Without
    an end, it ends now; without a start, it has USUAL_RANGE. Raises Invalid with every problem."""
    if problems := [*instant_problems("from", start), *instant_problems("to", end)]:
        raise Invalid(problems)
    until = now + _NEXT if end is None else end.astimezone(UTC)
    since = max(until - USUAL_RANGE, _FIRST) if start is None else start.astimezone(UTC)
    if since >= until:
        raise Invalid([Problem("to", "must be after the start of the range")])
    if until - since > DAYS_KEPT:
        message = f"must be at most {DAYS_KEPT.days} days before the end of the range: figures are kept for so long"
        raise Invalid([Problem("from", message)])
    by_hour = now - HOURS_KEPT
    since = hour_of(since) if since >= by_hour and start is not None else day_of(since)
    return since, _rounded_up(until, HOUR if until >= by_hour else DAY)


_NEXT = timedelta(microseconds=1)
"""What ends in this microsecond is in a range that ends now."""

_FIRST = datetime(2, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _rounded_up(at: datetime, span: timedelta) -> datetime:
    return at + (_EPOCH - at) % span


def whole_days(since: datetime, until: datetime) -> tuple[datetime, datetime]:
    """The first day in the range, and the end of the last one; twice the end of the range if it has no whole day."""
    first, last = _rounded_up(since, DAY), day_of(until)
    return (first, last) if first < last else (until, until)


def days_of(since: datetime, until: datetime) -> list[datetime]:
    """The beginnings of all days of which the range has a part."""
    first = day_of(since)
    return [first + nth * DAY for nth in range(-((first - until) // DAY))]


def day_stats(day: datetime, counts: RunCounts) -> DayStats:
    return DayStats(*_figures(counts), day=day.date())


def group_stats(name: str, counts: RunCounts) -> GroupStats:
    return GroupStats(*_figures(counts), name=name)


def run_stats(counts: RunCounts) -> RunStats:
    return RunStats(*_figures(counts))


def _figures(counts: RunCounts) -> tuple[int, int, int, int, float | None, Percentiles, Percentiles]:
    runs = counts.completed + counts.failed
    rate = counts.completed / runs if runs else None
    ended = runs, counts.completed, counts.failed, counts.skipped
    return *ended, rate, _percentiles(counts.duration), _percentiles(counts.lateness)


def _percentiles(histogram: Histogram) -> Percentiles:
    return Percentiles(*(percentile(histogram, share) for share in (0.5, 0.95, 0.99)))


def by_problems(by: Any) -> list[Problem]:
    if by is None or by in BY:
        return []
    return [Problem("by", f"expected {' or '.join(BY)}, not {by!r:.50}")]


def step_of_runs(at: datetime, counts: RunCounts, late_after: timedelta) -> StepOfRuns:
    """The runs of one step. How late each was is known within 5 %, and so is which of them count as late."""
    late = sum(many for each, many in counts.lateness.items() if seconds(each) > late_after.total_seconds())
    return StepOfRuns(at, counts.completed, min(late, counts.completed), counts.failed, counts.skipped)
