"""``duly schedules import``: a crontab, or the jobs of another scheduler, become schedules."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import App, Parameter

from duly.cli.invocation import Hidden, Invocation
from duly.cli.output import counted, note, print_json, screen
from duly.cli.payloads import STDIN, read_text
from duly.cli.schedules.imports import views
from duly.cli.schedules.imports.apply import CRONTAB, ImportResult, Source, apply, source_name
from duly.cli.schedules.imports.cron_commands import work_of_job, work_of_schedule
from duly.cli.schedules.imports.crontab import BadLine, Crontab, Job, read_crontab
from duly.cli.schedules.imports.crontab_entries import AS_COMMANDS, ImportOptions, Plan, plan_import
from duly.cli.schedules.imports.job_names import name_jobs
from duly.cli.schedules.imports.jobs import JobOptions, import_jobs
from duly.cli.schedules.imports.line_zones import remarks_on_zones
from duly.cli.schedules.imports.sources import NOTHING_NAMED, WHICH, SchedulerOptions
from duly.cli.schedules.options import AS_USUAL, DeliveryOptions
from duly.cli.schedules.put import existing, warn_of_unserved
from duly.decide.targets.commands import timeout_problems
from duly.duly import Duly
from duly.errors import Invalid, Misuse, NotFound
from duly.records.schedule import Schedule
from duly.records.wire.schedule_reader import read_schedule
from duly.rules.recurrence import DEFAULT_ZONE

WORDS = views.ImportWords("LINE", "COMMAND", "the file")


def register(app: App) -> None:
    app.command(import_, name="import", sort_key=5)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ImportHow:
    """Options for the import itself."""

    dry_run: Annotated[bool, Parameter(help="Show what would be imported, and change nothing")] = False
    prune: Annotated[
        bool, Parameter(help="Delete the schedules that were imported from there and are not there any more")
    ] = False
    system: Annotated[
        bool, Parameter(help="System crontab: each line has a user before its command, as in /etc/crontab")
    ] = False
    moved_from: Annotated[
        str | None,
        Parameter(help="The file at the last import, if it was moved or renamed since", metavar="FILE",
                  allow_leading_hyphen=True),
    ] = None  # fmt: skip


ALL_OF_IT = ImportHow()


class Options(NamedTuple):
    become: ImportOptions
    how: ImportHow
    policies: Mapping[str, Any]  # of the schedules, as JSON


def import_(
    file: Annotated[str | None, Parameter(help="Crontab file; - is standard input")] = None,
    /,
    *,
    others: SchedulerOptions = NOTHING_NAMED,
    become: ImportOptions = AS_COMMANDS,
    delivery: DeliveryOptions = AS_USUAL,
    how: ImportHow = ALL_OF_IT,
    invocation: Hidden,
) -> int:
    """Import a crontab, or the jobs of Celery beat or APScheduler: each becomes a schedule.

    A worker runs the lines of a crontab with `duly worker --commands`. A comment `# name: nightly-report` names the
    schedule of the line below it. Jobs of other schedulers become schedules in shadow, unless --mode live is given.
    What cannot be imported is reported with the reason; the rest is imported. Importing the same again changes nothing.

    duly schedules import crontab.txt --timezone Europe/Brussels --dry-run
    """
    options = Options(become, how, delivery.policies())
    _check(options)
    if others != NOTHING_NAMED:
        return asyncio.run(_import_jobs(file, others, options, invocation))
    if file is None:
        raise Misuse(f"give the FILE of a crontab, or {WHICH}")
    if how.prune and file == STDIN and not become.prefix:
        raise Misuse(
            "standard input has no name by which its schedules are known: with --prune, give a --prefix, or a file"
        )
    read = read_crontab(read_text(file), system=how.system)
    return asyncio.run(_import(file, read, options, invocation))


async def _import_jobs(file: str | None, others: SchedulerOptions, options: Options, invocation: Invocation) -> int:
    become, how, policies = options
    own = {
        "a crontab file": file is not None,
        "--type": become.type is not None,
        "--timezone": become.timezone is not None,
        "--timeout": become.timeout is not None,
        "--system": how.system,
        "--moved-from": how.moved_from is not None,
    }
    if wrong := [name for name, given in own.items() if given]:
        raise Misuse(f"{' and '.join(others.given)} cannot be used together with {' or '.join(wrong)}")
    scheduler = await others.read()
    jobs = JobOptions(become.prefix, become.tenant, become.max_attempts, become.paused, policies)
    async with _duly(invocation, how.dry_run) as duly:
        return await import_jobs(duly, scheduler, jobs, prune=how.prune, dry_run=how.dry_run, json=invocation.json)


async def _import(file: str, read: Crontab, options: Options, invocation: Invocation) -> int:
    become, how, policies = options
    source = Source(_source_name(file, become.prefix), become.tenant)
    async with _duly(invocation, how.dry_run) as duly:
        plan = plan_import(read, await _known(duly, source, read.jobs, become, how), become, policies)
        prune = how.prune and not read.is_unread
        result = await apply(duly, source, plan.entries, plan.gone, prune=prune, dry_run=how.dry_run)
        now = await duly.now()
        if not how.dry_run:
            await warn_of_unserved(duly, [one.schedule for one in result.done])
    commands = {str(job.line): job for job in read.jobs}
    bad = sorted([*read.bad, *plan.bad, *(_refused(commands[place], reason) for place, reason in result.refused)])
    if invocation.json:
        told = {"source": source.name, **views.as_json(result, "line"), "bad": [one._asdict() for one in bad]}
        print_json({**told, "dry_run": how.dry_run})
    else:
        _print(result, {place: job.command for place, job in commands.items()}, how.dry_run, now)
        for line in (*_told(bad), *_remarks(read.jobs, plan, become), *views.of_the_gone(result, WORDS)):
            note(line)
        if how.prune and read.is_unread and plan.gone:
            note("nothing was deleted, because a line that cannot be read may be that of a schedule: mend it first")
    return 1 if bad or result.kept else 0


def _check(options: Options) -> None:
    """Raises Invalid if the options are not valid for any line."""
    become = options.become
    if become.timeout is not None:
        if become.type is not None:
            raise Misuse("--timeout and --type cannot be used together: a handler of your own has its own deadline")
        if problems := list(timeout_problems("timeout", become.timeout)):
            raise Invalid(problems)
    every_line = {
        "name": "import",
        "type": CRONTAB if become.type is None else become.type,
        "tenant": become.tenant,
        "rule": {"cron": "@daily"},
    }
    retry = {} if become.max_attempts is None else {"retry": {"max_attempts": become.max_attempts}}
    read_schedule({**every_line, "timezone": become.timezone or DEFAULT_ZONE, **retry, **options.policies})


def _source_name(file: str, prefix: str) -> str:
    return source_name(CRONTAB, file if file == STDIN else str(Path(file).absolute()), prefix)


def _duly(invocation: Invocation, dry_run: bool) -> Duly:
    """The Duly for the import. A dry run creates no database: if there is none, it uses one in memory."""
    if not dry_run:
        return invocation.duly()
    try:
        return invocation.duly_for_looking()
    except NotFound:
        return Duly("sqlite://")


async def _known(
    duly: Duly, source: Source, jobs: Sequence[Job], become: ImportOptions, how: ImportHow
) -> list[Schedule]:
    """The schedules of this source so far, those of the file that it was before, and those that its lines became before
    schedules remembered their sources."""
    tenant = source.tenant
    known = await duly.schedules.imported(source.name, tenant=tenant)
    if how.moved_from is not None:
        known += await duly.schedules.imported(_source_name(how.moved_from, become.prefix), tenant=tenant)
    names = {one.name for one in known}
    for job, name in zip(jobs, name_jobs(list(jobs), become.prefix), strict=True):
        there = None if name in names else await existing(duly, name, tenant)
        if there is not None and _was_imported(there, job):
            known.append(there)
    return known


def _was_imported(schedule: Schedule, job: Job) -> bool:
    """Whether a line became this schedule at an import that remembered no source. What was put over HTTP is no such
    schedule, whatever it looks like: the command of the line would run by the policies of a caller."""
    if schedule.imported_from is not None or schedule.origin is not None or schedule.via is not None:
        return False
    return work_of_schedule(schedule.target, schedule.payload) == work_of_job(job)


def _refused(job: Job, reason: str) -> BadLine:
    return BadLine(job.line, f"{job.cron} {job.command}", reason)


def _print(result: ImportResult, commands: Mapping[str, str], dry_run: bool, now: datetime) -> None:
    console = screen()
    if found := views.rows(result, commands):
        console.print(views.table(found, WORDS, now, console.width))
    for line in views.changes(result.done, WORDS):
        console.print(line, soft_wrap=True)
    console.print(views.summary(result, dry_run), style="bold")


def _told(bad: Sequence[BadLine]) -> Iterator[str]:
    for one in bad:
        yield f"line {one.line}, {one.text[:60]!r}: {one.reason}"
    if bad:
        yield f"{counted(len(bad), 'line')} could not be imported"


def _remarks(jobs: Sequence[Job], plan: Plan, become: ImportOptions) -> Iterator[str]:
    if become.timezone is None:
        yield from remarks_on_zones(jobs, plan)
    if any(job.user is None and job.command.split()[0] == "root" for job in jobs):
        yield "some commands begin with root: if this is a system crontab, add --system"
    if become.type is None and any(job.environment.get("MAILTO") for job in jobs):
        yield (
            "MAILTO does not carry over, nothing is mailed: what a command prints is kept with its run and shown by "
            "`duly events show`, and what failed is listed by `duly events list --status failed`"
        )
