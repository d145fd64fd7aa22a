"""Imports the jobs of Celery beat and APScheduler: each becomes a schedule, at first in shadow."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from duly.cli.output import counted, note, print_json, screen
from duly.cli.schedules.imports import views
from duly.cli.schedules.imports.apply import Entry, ImportResult, Source, apply, source_name
from duly.cli.schedules.imports.sources import Scheduler
from duly.cli.schedules.put import warn_of_unserved
from duly.decide.targets.brokers import CELERY
from duly.duly import Duly
from duly.imports.found import FoundJob, RefusedJob
from duly.records.schedule import Schedule
from duly.records.wire.schedule_reader import editable
from duly.rules.policies import LIVE, SHADOW

WORDS = views.ImportWords("TASK", "MODE", "the other scheduler")

TOLD = (
    "timezone",
    "payload",
    "target",
    "start",
    "end",
    "dst",
    "jitter",
    "expires",
    "misfire",
    "overlap",
    "max_concurrent",
)
"""Fields that the other scheduler decides: one that it does not tell goes back to the default."""

AT_FIRST = ("retry", "enabled")
"""Fields that a job gives its schedule when it is created; after that, they are the operator's."""


class JobOptions(NamedTuple):
    """Options for the schedules that jobs become."""

    prefix: str
    tenant: str
    max_attempts: int | None
    paused: bool
    policies: Mapping[str, Any]  # as JSON


async def import_jobs(
    duly: Duly, scheduler: Scheduler, options: JobOptions, *, prune: bool, dry_run: bool, json: bool
) -> int:
    """Stores the schedules and reports; returns the exit code."""
    source = Source(source_name(scheduler.kind, scheduler.place, options.prefix), options.tenant)
    known = {one.imported_as: one for one in await _known(duly, scheduler, source, options.prefix)}
    entries = [_entry(job, known.get(job.name), options) for job in scheduler.found.jobs]
    there = {job.name for job in scheduler.found.jobs} | {refused.name for refused in scheduler.found.refused}
    gone = [one for place, one in known.items() if place not in there]
    result = await apply(duly, source, entries, gone, prune=prune, dry_run=dry_run)
    if not dry_run:
        await warn_of_unserved(duly, [one.schedule for one in result.done])
        await _warn_of_celery(duly, [one.schedule for one in result.done])
    report = _Report(scheduler, result, await duly.now(), dry_run)
    if json:
        print_json(report.as_json(source.name))
    else:
        report.print()
    return 1 if report.refused or result.kept else 0


async def _known(duly: Duly, scheduler: Scheduler, source: Source, prefix: str) -> list[Schedule]:
    """The schedules of this source so far, also those that remember it by the other text for its place."""
    known = await duly.schedules.imported(source.name, tenant=source.tenant)
    if scheduler.same is None:
        return known
    same = source_name(scheduler.kind, scheduler.same, prefix)
    return [*await duly.schedules.imported(same, tenant=source.tenant), *known]


async def _warn_of_celery(duly: Duly, schedules: Sequence[Schedule]) -> None:
    """Notes on standard error that no worker has sent tasks to Celery yet, if live schedules need one that does."""
    if not any(CELERY in (one.target or {}) and one.policies.mode == LIVE for one in schedules):
        return
    if not any(lane.lane == CELERY and lane.seen is not None for lane in await duly.workers.lanes()):
        note("warning: no worker sends tasks to Celery yet: they wait until one runs with DULY_CELERY_URL")


def _entry(job: FoundJob, before: Schedule | None, options: JobOptions) -> Entry:
    fields: dict[str, Any] = {**dict.fromkeys(TOLD), **job.schedule}
    if before is not None:
        fields = {name: value for name, value in fields.items() if name not in AT_FIRST}
    else:
        fields["mode"] = SHADOW
    if options.paused:
        fields["enabled"] = False
    if options.max_attempts is not None:
        own = fields.get("retry", {}) if before is None else editable(before)["retry"]
        fields["retry"] = {**own, "max_attempts": options.max_attempts}
    return Entry(job.name, f"{options.prefix}{job.name}", {**fields, **options.policies}, before)


class _Report(NamedTuple):
    """What an import has done, for people and for programs."""

    scheduler: Scheduler
    result: ImportResult
    now: datetime
    dry_run: bool

    @property
    def refused(self) -> list[RefusedJob]:
        return [*self.scheduler.found.refused, *(RefusedJob(place, reason) for place, reason in self.result.refused)]

    def print(self) -> None:
        console = screen()
        if rows := self._rows():
            console.print(views.table(rows, WORDS, self.now, console.width))
        for change in views.changes(self.result.done, WORDS._replace(place="JOB")):
            console.print(change, soft_wrap=True)
        console.print(views.summary(self.result, self.dry_run), style="bold")
        for line in (*self._notes(), *self._of_the_refused(), *self._remarks()):
            note(line)

    def _rows(self) -> list[views.Row]:
        modes = {one.entry.place: one.schedule.policies.mode for one in self.result.done}
        return [row._replace(place=row.schedule.type) for row in views.rows(self.result, modes)]

    def _notes(self) -> Iterator[str]:
        """What does not carry over, by job."""
        done = {one.entry.place for one in self.result.done}
        for job in self.scheduler.found.jobs:
            for told in job.notes if job.name in done else ():
                yield f"{job.name}: {told}"

    def _of_the_refused(self) -> Iterator[str]:
        for name, reason in self.refused:
            yield f"{name}: not imported: {reason}"
        if self.refused:
            yield f"{counted(len(self.refused), 'job')} could not be imported"

    def _remarks(self) -> Iterator[str]:
        yield from self.scheduler.found.remarks
        yield from views.of_the_gone(self.result, WORDS)
        shadows = [one for one in self.result.done if one.schedule.policies.mode == SHADOW]
        if shadows:
            yield (
                f"{counted(len(shadows), 'schedule')} in shadow: they record what would fire and deliver nothing. "
                "Compare with `duly schedules compare`; then stop the other scheduler and import again with --mode live"
            )

    def as_json(self, source: str) -> dict[str, Any]:
        notes = {job.name: list(job.notes) for job in self.scheduler.found.jobs}
        told = views.as_json(self.result, "job")
        places = [one.entry.place for one in self.result.done]
        told["schedules"] = [
            {**one, "job": place, "notes": notes[place]} for one, place in zip(told["schedules"], places, strict=True)
        ]
        refused = [one._asdict() for one in self.refused]
        return {"source": source, **told, "refused": refused, "remarks": [*self._remarks()], "dry_run": self.dry_run}
