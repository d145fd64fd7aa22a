"""``duly.stats`` and ``duly.schedules.stats``: what has become of runs, together and by day."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any, Protocol

from duly.decide.checks import name_problems
from duly.decide.figures.roll_up import ALL, EPOCH, RunCounts, day_of
from duly.decide.figures.stats import (
    By,
    by_problems,
    day_stats,
    days_of,
    group_stats,
    read_stats_range,
    run_stats,
    step_of_runs,
    whole_days,
)
from duly.errors import Invalid
from duly.ports import RollUpRange, StatsPort
from duly.ports.transactions import Clocked
from duly.records.figures.stats import Stats, StepOfRuns

MOST_GROUPS = 1000
"""Types or lanes that are told: those with most runs."""


class StatsReader(StatsPort, Clocked, Protocol):
    """A store as figures need it."""


async def stats(
    store: StatsReader, start: Any, end: Any, tenant: str | None, *, schedule: str = ALL, by: By | None = None
) -> Stats:
    """The figures of one tenant, or of all; of one schedule by its id, or of all events."""
    problems = by_problems(by)
    if tenant is not None:
        problems += name_problems("tenant", tenant)
    if problems:
        raise Invalid(problems)
    since, until = read_stats_range(start, end, await store.now())
    counted = await store.count_runs(tenant, schedule, RollUpRange(since, *whole_days(since, until), until))
    total = RunCounts()
    days: dict[datetime, RunCounts] = defaultdict(RunCounts)
    groups: dict[str, RunCounts] = defaultdict(RunCounts)
    for begins, type, lane, counts in counted:
        total.merge(counts)
        days[day_of(begins)].merge(counts)
        if by is not None:
            groups[type if by == "type" else lane].merge(counts)
    told = sorted((group_stats(name, counts) for name, counts in groups.items()), key=lambda one: (-one.runs, one.name))
    return Stats(
        since,
        until,
        run_stats(total),
        tuple(day_stats(day, days[day]) for day in days_of(since, until)),
        tuple(told[:MOST_GROUPS]),
    )


async def runs_by_step(
    store: StatsReader, since: datetime, until: datetime, step: timedelta, tenant: str | None, late_after: timedelta
) -> list[StepOfRuns]:
    """The runs of one tenant, or of all, that ended in each step of a range. A step is some whole hours long, and
    begins when a whole number of steps have passed since 1970."""
    counted = await store.count_runs(tenant, ALL, RollUpRange(since, until, until, until))
    steps: dict[datetime, RunCounts] = defaultdict(RunCounts)
    for begins, _type, _lane, counts in counted:
        steps[begins - (begins - EPOCH) % step].merge(counts)
    first, many = since - (since - EPOCH) % step, -(-(until - since) // step)
    return [step_of_runs(first + number * step, steps[first + number * step], late_after) for number in range(many)]
