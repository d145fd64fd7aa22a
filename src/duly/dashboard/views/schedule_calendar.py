"""The calendar of a schedule: a month in which each day tells what ran and what will run, and the year around it."""

import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from starlette.responses import Response

from duly.dashboard.charts.sparkline import outcome, told
from duly.dashboard.charts.year import YearMonth, kind_of, months
from duly.dashboard.pages import Pages
from duly.dashboard.rule_words import rule_in_words
from duly.dashboard.upcoming import Budget
from duly.dashboard.visit import Visit
from duly.decide.series.days import FIRST_YEAR, LAST_YEAR, ScheduleDay
from duly.errors import Invalid, Problem
from duly.ids import first_id_of
from duly.records.figures.runs import Run
from duly.records.schedule import Schedule
from duly.rules.zones import to_wall
from duly.verbs.schedules.overviews import NEWEST

pages = Pages()

MOST_RUNS = 1_000
"""Runs that a month looks at; of schedules with more of them, the days before are not counted."""

NAMED = 3
"""Runs, or times to come, that a day names; it counts the others."""

BUDGET_S = 0.3
"""Seconds for computing the days of a month or year; then the rest is left open."""

MONTHS_OF_YEAR = 12
AHEAD = timedelta(days=1)
"""Clocks of computers differ: ids made this long after a month may still belong to it."""

_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")


class Ran(NamedTuple):
    """A run on a day of the calendar."""

    run: Run
    outcome: str
    told: str
    clock: str


class CalendarDay(NamedTuple):
    """A day of the calendar."""

    day: ScheduleDay
    kind: str
    is_today: bool
    is_past: bool
    ran: Sequence[Ran]
    counts: Mapping[str, int]  # of all runs of the day, by outcome
    coming: Sequence[str]  # local times to come
    more: int  # further times to come
    silent: bool  # it is over, and nothing ran
    ask: str  # the local moment to ask about


@pages.get("/schedules/{name}/calendar")
async def calendar(visit: Visit) -> Response:
    """A month of a schedule."""
    schedule = await visit.own.schedules.get(visit.named("name"), tenant=visit.tenant)
    today = to_wall(visit.times.now, schedule.timezone).date()
    first = _month(visit.query.get("month", ""), today)
    last = _next(first) - timedelta(days=1)
    days = await visit.own.schedules.days(
        schedule.name, first, last, tenant=visit.tenant, times=NAMED + 1, enough=Budget(BUDGET_S)
    )
    runs, complete = await _runs(visit, schedule, days)
    return visit.page(
        "schedule_calendar.html",
        here_is="schedules",
        schedule=schedule,
        words=rule_in_words(schedule),
        month=f"{first:%B %Y}",
        blank=first.weekday(),
        days=[_day(visit, schedule, day, runs.get(day.day, []), today) for day in days],
        complete=complete,
        previous=_ask(_previous(first)),
        following=_ask(_next(first)),
        this_month=_ask(today) if first != today.replace(day=1) else None,
        year=await _year(visit, schedule, first),
    )


@pages.get("/schedules/{name}/year")
async def year(visit: Visit) -> Response:
    """The year from this month on, as a part of the schedule's page."""
    schedule = await visit.own.schedules.get(visit.named("name"), tenant=visit.tenant)
    today = to_wall(visit.times.now, schedule.timezone).date()
    shown = await _year(visit, schedule, today.replace(day=1))
    return visit.page("parts/year.html", schedule=schedule, year=shown, month_of=_ask)


async def _year(visit: Visit, schedule: Schedule, first: date) -> Sequence[tuple[YearMonth, str]]:
    last = first
    for _ in range(MONTHS_OF_YEAR):
        last = _next(last)
    days = await visit.own.schedules.days(
        schedule.name, first, last - timedelta(days=1), tenant=visit.tenant, enough=Budget(BUDGET_S)
    )
    today = to_wall(visit.times.now, schedule.timezone).date()
    return [(month, _ask(month.first)) for month in months(days, today)]


def _month(asked: str, today: date) -> date:
    """The first day of the month that is asked for, such as ``2026-12``; by default, of this month."""
    if not asked:
        return today.replace(day=1)
    found = _MONTH.fullmatch(asked)
    if found is None or not FIRST_YEAR < int(found[1]) < LAST_YEAR:
        raise Invalid([Problem("month", f"{asked[:20]!r} is not a month such as {today:%Y-%m}")])
    return date(int(found[1]), int(found[2]), 1)


def _ask(month: date) -> str:
    return f"{month:%Y-%m}"


def _next(first: date) -> date:
    return (first.replace(day=28) + timedelta(days=4)).replace(day=1)


def _previous(first: date) -> date:
    return (first - timedelta(days=1)).replace(day=1)


async def _runs(visit: Visit, schedule: Schedule, days: Sequence[ScheduleDay]) -> tuple[Mapping[date, list[Run]], bool]:
    """The runs of a month by their local day, and whether these are all."""
    if days[0].starts > visit.times.now:
        return {}, True
    is_over = days[-1].ends + AHEAD < visit.times.now
    before = first_id_of(days[-1].ends + AHEAD) if is_over else NEWEST
    found = (await visit.own.schedules.recent_runs([schedule], limit=MOST_RUNS, before=before))[schedule.id]
    by_day: dict[date, list[Run]] = {}
    for run in reversed(found):
        by_day.setdefault(to_wall(run.at, schedule.timezone).date(), []).append(run)
    reached_begin = len(found) < MOST_RUNS or found[-1].due < days[0].starts
    return by_day, reached_begin


def _day(visit: Visit, schedule: Schedule, day: ScheduleDay, runs: Sequence[Run], today: date) -> CalendarDay:
    now, zone = visit.times.now, schedule.timezone
    fires = schedule.next_at is not None and day.excluded is None
    coming = [f"{to_wall(at, zone):%H:%M}" for at in day.first if at > now] if fires else []
    counts: dict[str, int] = {}
    for run in runs:
        counts[outcome(run)] = counts.get(outcome(run), 0) + 1
    shown = [Ran(run, outcome(run), told(run, visit.times), f"{to_wall(run.at, zone):%H:%M}") for run in runs[-NAMED:]]
    over = day.ends <= now
    more = max(0, (day.expected or 0) - NAMED) if not over and day.starts > now and coming else 0
    wall = to_wall(day.first[0] if day.first else day.starts, zone)
    return CalendarDay(
        day, kind_of(day), day.day == today, over, shown, counts, coming[:NAMED], more, over and not runs,
        wall.isoformat(),
    )  # fmt: skip
