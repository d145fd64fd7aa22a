"""The verbs for pages about many occurrences of schedules: recent runs, and days."""

import builtins
from collections.abc import Callable, Sequence
from datetime import date

from duly.decide.series.days import ScheduleDay, days_of, days_problems
from duly.decide.series.preview import never
from duly.engine.series.rule_threads import evaluated
from duly.errors import Invalid, Problem
from duly.records.figures.runs import Run
from duly.records.schedule import Schedule
from duly.verbs.marks import for_doors, reads
from duly.verbs.schedules.group import ScheduleGroup

MOST_RUNS = 2_000
"""Runs of one schedule that are looked at together, at most: a query of some 10 ms."""


NEWEST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
"""Sorts after every id."""


class ScheduleOverviews(ScheduleGroup):
    """The part of ``duly.schedules`` that pages need."""

    @for_doors
    @reads
    async def recent_runs(
        self, schedules: Sequence[Schedule], *, limit: int = 20, before: str = NEWEST
    ) -> dict[str, builtins.list[Run]]:
        """The newest runs of each schedule, the newest first, by the schedule's id: one query for all of them. With
        *before*, only those whose event was created before this id."""
        if len(schedules) * limit > MOST_RUNS:
            raise Invalid([Problem("limit", f"{MOST_RUNS:,} runs can be shown together, at most")])
        by_series = {schedule.series: schedule.id for schedule in schedules}
        runs: dict[str, builtins.list[Run]] = {schedule.id: [] for schedule in schedules}
        if by_series:
            for run in await self._store.recent_runs([*by_series], limit=limit, before=before):
                runs[by_series[run.series]].append(run)
        return runs

    @for_doors
    @reads
    async def days(
        self,
        name: str,
        first: date,
        last: date,
        *,
        tenant: str = "default",
        times: int = 0,
        enough: Callable[[], bool] = never,
    ) -> builtins.list[ScheduleDay]:
        """The days from *first* to *last* in the schedule's zone: how often its rules fire on each, with up to *times*
        instants. Rules before an edit count as long as they were in force. They are computed in a thread; before each
        day, *enough* is called there, and leaves the rest open if it returns true."""
        if problems := days_problems(first, last):
            raise Invalid(problems)
        shown = await self._named(name, tenant)
        schedule = await self._store.schedule_named(tenant, name) or shown  # with its earlier rules
        try:
            return await evaluated(days_of, schedule.timetable, first, last, schedule.created, times, enough)
        except ValueError as error:
            raise Invalid([Problem("rule", str(error))]) from error
