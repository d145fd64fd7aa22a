"""``duly schedules compare``: the runs that another scheduler has, beside those that Duly has."""

import asyncio
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple

from cyclopts import App, Parameter
from rich.text import Text

from duly.cli.invocation import Hidden, Invocation
from duly.cli.names import DEFAULT_TENANT
from duly.cli.output import counted, note, print_json, readable, screen
from duly.cli.schedules.imports.sources import NOTHING_NAMED, Scheduler, SchedulerOptions
from duly.cli.schedules.views import rule_in_words
from duly.decide.series.preview import table_of
from duly.duly import Duly
from duly.errors import Invalid, Misuse, NotFound
from duly.imports.comparison import MOST_COMPARED, MOST_DIFFERENCES, Compared, Difference, compare
from duly.imports.found import FoundJob
from duly.records.schedule import Schedule
from duly.records.wire.schedule_reader import read_schedule
from duly.rules.policies import FIELDS as POLICIES
from duly.rules.recurrence import DEFAULT_ZONE
from duly.rules.timetable import Timetable
from duly.values.instants import write_instant

MOST_DAYS = 3_660
SHOWN = 20
"""Differences of one job that are printed, unless --limit says otherwise."""


def register(app: App) -> None:
    app.command(compare_, name="compare", sort_key=6)


class JobComparison(NamedTuple):
    job: FoundJob
    schedule: Schedule | None  # None: it was not imported, and what an import would make of it is compared
    timezone: str
    rule: dict[str, Any]
    found: Compared


class Comparison(NamedTuple):
    scheduler: Scheduler
    start: datetime
    end: datetime
    jobs: list[JobComparison]
    refused: list[tuple[str, str]]

    @property
    def same(self) -> bool:
        return not self.refused and not any(one.found.differences for one in self.jobs)


def compare_(
    *,
    what: SchedulerOptions = NOTHING_NAMED,
    days: Annotated[int, Parameter(help="How many days from now")] = 400,
    prefix: Annotated[str, Parameter(help="Prefix that the schedules were imported with")] = "",
    tenant: Annotated[str, Parameter(help="Tenant of the schedules")] = DEFAULT_TENANT,
    limit: Annotated[int, Parameter(help="Differences of a job that are printed; --json has all")] = SHOWN,
    invocation: Hidden,
) -> int:
    """Compare the coming runs of another scheduler's jobs with those of their schedules, and list where they differ.

    The other scheduler's own code is asked for its runs. Jobs that were not imported yet are compared as they would be.
    400 days have both changes of the clocks. Exits with 1 if anything differs.

    duly schedules compare --celery shop.tasks:app
    """
    if not 1 <= days <= MOST_DAYS:
        raise Misuse(f"--days must be 1 to {MOST_DAYS:,}, not {days}")
    if limit < 0:
        raise Misuse(f"--limit must be 0 or more, not {limit}")
    return asyncio.run(_compare(what, days, (prefix, tenant), limit, invocation))


async def _compare(
    what: SchedulerOptions, days: int, whose: tuple[str, str], limit: int, invocation: Invocation
) -> int:
    scheduler = await what.read()
    async with _duly(invocation) as duly:
        start = await duly.now()
        stored = {job.name: await _stored(duly, whose[0] + job.name, whose[1]) for job in scheduler.found.jobs}
    done = Comparison(scheduler, start, start + timedelta(days=days), [], list(scheduler.found.refused))
    for job in scheduler.found.jobs:
        try:
            done.jobs.append(_of_job(done, job, stored[job.name]))
        except (Invalid, ValueError) as error:
            done.refused.append((job.name, str(error)))
    if invocation.json:
        print_json(_as_json(done))
    else:
        _print(done, limit)
    return 0 if done.same else 1


def _duly(invocation: Invocation) -> Duly:
    """The Duly with the schedules; if there is no database yet, one in memory: then nothing was imported."""
    try:
        return invocation.duly_for_looking()
    except NotFound:
        return Duly("sqlite://")


async def _stored(duly: Duly, name: str, tenant: str) -> Schedule | None:
    try:
        return await duly.schedules.get(name, tenant=tenant)
    except NotFound:
        return None


def _of_job(done: Comparison, job: FoundJob, schedule: Schedule | None) -> JobComparison:
    table, rule, timezone = _wished(job, done.start) if schedule is None else _table(schedule)
    runs = done.scheduler.runs(job.old)
    found = compare(table, runs, done.start, done.end, done.scheduler.kind)
    return JobComparison(job, schedule, timezone, rule, found)


def _table(schedule: Schedule) -> tuple[Timetable, dict[str, Any], str]:
    return schedule.timetable, schedule.rule, schedule.timezone


def _wished(job: FoundJob, now: datetime) -> tuple[Timetable, dict[str, Any], str]:
    """The timetable of the schedule that an import would make."""
    fields = read_schedule(job.schedule, name=job.name)
    timezone = fields.get("timezone") or DEFAULT_ZONE
    policies = {name: fields[name] for name in POLICIES if name in fields}
    return table_of(fields["rule"], timezone, policies, now), job.schedule["rule"], timezone


# -- output


def _print(done: Comparison, limit: int) -> None:
    console = screen()
    for one in done.jobs:
        console.print(_headline(one), soft_wrap=True)
        for difference in one.found.differences[:limit]:
            console.print(_line(difference), soft_wrap=True)
        if len(one.found.differences) > limit:
            console.print(f"  and {len(one.found.differences) - limit:,} more: --limit shows them")
    for name, reason in done.refused:
        note(f"{name}: {reason}")
    console.print(_summary(done), style="bold")
    for remark in _remarks(done):
        note(remark)


def _headline(one: JobComparison) -> Text:
    zone = "" if one.timezone == DEFAULT_ZONE else f" in {one.timezone}"
    told = f" {rule_in_words(one.rule)}{zone}: {counted(one.found.same, 'run')} in both"
    many = len(one.found.differences)
    differing = Text(f", {counted(many, 'run')} in one alone", "yellow") if many else Text("")
    return Text.assemble((readable(one.job.name), "bold"), readable(told), differing)


def _line(difference: Difference) -> str:
    local, at = f"{difference.local:%Y-%m-%d %H:%M:%S}", write_instant(difference.at)
    return f"  {local}  {at}  only in {difference.only_in}: {difference.reason}"


def _summary(done: Comparison) -> str:
    many = sum(bool(one.found.differences) for one in done.jobs)
    until = f"from {done.start:%Y-%m-%d} to {done.end:%Y-%m-%d}"
    if not done.jobs and not done.refused:
        return "no jobs to compare"
    told = f"{counted(len(done.jobs), 'job')} compared {until}: "
    told += "the same runs in both" if not many else f"{counted(many, 'job')} with runs that differ"
    return told + (f"; {counted(len(done.refused), 'job')} cannot be compared" if done.refused else "")


def _remarks(done: Comparison) -> Iterator[str]:
    parts = [one for one in done.jobs if not one.found.whole]
    if frequent := [one for one in parts if len(one.found.differences) < MOST_DIFFERENCES]:
        days = max(sum((high - low).days for low, high in one.found.ranges) for one in frequent)
        yield (
            f"of {_names(frequent)}, with more than {MOST_COMPARED:,} runs, the first days and those around changes of "
            f"clocks were compared, at most {days} days"
        )
    if ended := [one for one in parts if len(one.found.differences) >= MOST_DIFFERENCES]:
        yield f"of {_names(ended)}, no more runs were compared after {MOST_DIFFERENCES:,} that differ"
    if fresh := [one for one in done.jobs if one.schedule is None]:
        yield f"not imported yet, and compared as they would be: {_names(fresh)}"


def _names(jobs: Iterable[JobComparison]) -> str:
    return ", ".join(readable(one.job.name) for one in jobs)


def _as_json(done: Comparison) -> dict[str, Any]:
    return {
        "source": f"{done.scheduler.kind} {done.scheduler.place}",
        "from": done.start,
        "until": done.end,
        "same": done.same,
        "jobs": [
            {
                "name": one.job.name,
                "imported": one.schedule is not None,
                "in_both": one.found.same,
                "whole": one.found.whole,
                "compared": [{"from": low, "until": high} for low, high in one.found.ranges],
                "differences": [
                    {"at": each.at, "local_at": each.local, "only_in": each.only_in, "reason": each.reason}
                    for each in one.found.differences
                ],
            }
            for one in done.jobs
        ],
        "refused": [{"name": name, "reason": reason} for name, reason in done.refused],
    }
