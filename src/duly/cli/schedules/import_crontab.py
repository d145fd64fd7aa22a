"""``duly schedules import``: a crontab becomes schedules."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from cyclopts import App, Parameter
from rich.table import Table
from rich.text import Text

from duly.cli.events.views import empty_table
from duly.cli.invocation import Hidden, Invocation, person
from duly.cli.output import counted, note, print_json, readable, screen, utc
from duly.cli.payloads import read_text
from duly.cli.schedules.crontab import BadLine, Job, name_jobs, read_crontab
from duly.cli.schedules.put import change, existing
from duly.cli.schedules.views import ONE_LINE_EACH, rule_in_words, when_next
from duly.duly import Duly
from duly.errors import Conflict, Invalid, NotFound
from duly.records.schedule import SCHEDULE_JSON, Schedule
from duly.records.wire.schedule_reader import read_schedule
from duly.rules.notation import zone_problems
from duly.rules.recurrence import DEFAULT_ZONE


def register(app: App) -> None:
    app.command(import_, name="import", sort_key=5)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Options for the schedules that the lines become."""

    type: Annotated[str, Parameter(help="Event type; it selects the handler (default: command)")] = "command"
    prefix: Annotated[str, Parameter(help="Prefix of the schedules' names")] = ""
    timezone: Annotated[str, Parameter(help="Time zone, if the file names none (default: UTC)", metavar="ZONE")] = (
        DEFAULT_ZONE
    )
    mode: Annotated[
        str | None, Parameter(help="live, or shadow: record what would fire, and deliver nothing", metavar="MODE")
    ] = None
    tenant: Annotated[str, Parameter(help="Tenant of the schedules")] = "default"
    paused: Annotated[bool, Parameter(help="Import them paused: they do not fire until resumed")] = False

    def written(self, name: str, job: Job) -> dict[str, Any]:
        return {
            "name": name,
            "type": self.type,
            "rule": {"cron": job.cron},
            "timezone": job.timezone or self.timezone,
            "payload": job.payload,
            "mode": self.mode,
            "tenant": self.tenant,
            "enabled": False if self.paused else None,
        }


AS_COMMANDS = ImportOptions()


LEAST_OF_A_COMMAND = 20
"""Columns; with less room, commands are not shown."""


class ImportedCrontab(NamedTuple):
    job: Job
    schedule: Schedule
    change: str


class _DryRun(Exception):
    """Raised to roll back a dry run."""


def import_(
    file: Annotated[str, Parameter(help="Crontab file; - is standard input")],
    /,
    *,
    become: ImportOptions = AS_COMMANDS,
    system: Annotated[
        bool, Parameter(help="System crontab: each line has a user before its command, as in /etc/crontab")
    ] = False,
    dry_run: Annotated[bool, Parameter(help="Show what would be imported, and change nothing")] = False,
    invocation: Hidden,
) -> int:
    """Import a crontab: each line becomes a schedule.

    Invalid lines are reported with their reasons; the others are imported. The payload of each has its
    command, stdin, user and environment. Importing the same file again changes nothing.

    crontab -l | duly schedules import - --timezone Europe/Brussels --dry-run
    """
    if problems := zone_problems(become.timezone):
        raise Invalid(problems)
    jobs, bad = read_crontab(read_text(file), system=system)
    return asyncio.run(_import(jobs, bad, become, dry_run, invocation))


async def _import(
    jobs: list[Job], bad: list[BadLine], become: ImportOptions, dry_run: bool, invocation: Invocation
) -> int:
    async with _duly(invocation, dry_run) as duly:
        done, refused = await _put_all(duly, jobs, become, dry_run)
        now = await duly.now()
    bad = sorted([*bad, *refused])
    if invocation.json:
        print_json({"schedules": [_to_json(one) for one in done], "bad": [one._asdict() for one in bad],
                    "dry_run": dry_run})  # fmt: skip
        return 1 if bad else 0
    if done:
        screen().print(_table(done, now, screen().width))
    screen().print(_summary(done, dry_run), style="bold")
    for line in (*_told(bad), *_remarks(done, become)):
        note(line)
    return 1 if bad else 0


def _duly(invocation: Invocation, dry_run: bool) -> Duly:
    """The Duly for the import. A dry run creates no database: if there is none, it uses one in memory."""
    if not dry_run:
        return invocation.duly()
    try:
        return invocation.duly_for_looking()
    except NotFound:
        return Duly("sqlite://")


async def _put_all(
    duly: Duly, jobs: list[Job], become: ImportOptions, dry_run: bool
) -> tuple[list[ImportedCrontab], list[BadLine]]:
    names = [f"{become.prefix}{name}" for name in name_jobs(jobs)]
    before = {name: await existing(duly, name, become.tenant) for name in names}
    done: list[ImportedCrontab] = []
    refused: list[BadLine] = []
    with contextlib.suppress(_DryRun):
        async with duly.transaction() as tx:
            for name, job in zip(names, jobs, strict=True):
                try:
                    _refuse_others(before[name], become.type)
                    written = read_schedule(become.written(name, job))
                    after = await duly.schedules.put(**written, by=person(), transaction=tx)
                except (Invalid, Conflict) as error:
                    refused.append(BadLine(job.line, f"{job.cron} {job.command}", str(error)))
                else:
                    done.append(ImportedCrontab(job, after, change(before[name], after)))
            if dry_run:
                raise _DryRun
    return done, refused


def _refuse_others(schedule: Schedule | None, type: str) -> None:
    """Refuses to overwrite a schedule that was not imported, if a command happens to have the same name."""
    if schedule is not None and (schedule.type != type or schedule.origin is not None):
        raise Conflict(f"a schedule {schedule.name!r} that is not from a crontab already exists: give a --prefix")


def _table(done: Sequence[ImportedCrontab], now: datetime, width: int) -> Table:
    columns = {
        "LINE": [str(one.job.line) for one in done],
        "": [one.change for one in done],
        "NAME": [readable(one.schedule.name) for one in done],
        "RULE": [readable(_rule(one.schedule)) for one in done],
        "NEXT (UTC)": ["–" if one.schedule.next_at is None else utc(one.schedule.next_at) for one in done],
    }
    wide = width >= ONE_LINE_EACH
    if wide:
        columns |= {" ": [when_next(one.schedule, now) or "paused" for one in done]}
    taken = sum(max(len(cell) for cell in (title, *cells)) + 2 for title, cells in columns.items())
    if wide and width - taken >= LEAST_OF_A_COMMAND:
        columns |= {"COMMAND": [readable(one.job.command) for one in done]}
    drawn = empty_table()
    for title in columns:
        if title == "COMMAND":
            drawn.add_column(title, no_wrap=True, overflow="ellipsis", max_width=width - taken)
        else:
            drawn.add_column(title, no_wrap=title not in ("NAME", "RULE"), overflow="fold")
    for row in zip(*columns.values(), strict=True):
        drawn.add_row(*(Text(cell, "green" if cell in ("created", "changed") else "") for cell in row))
    return drawn


def _rule(schedule: Schedule) -> str:
    zone = "" if schedule.timezone == DEFAULT_ZONE else f" in {schedule.timezone}"
    return f"{rule_in_words(schedule.rule)}{zone}"


def _summary(done: Sequence[ImportedCrontab], dry_run: bool) -> str:
    if not done:
        return "nothing to import"
    many = Counter(one.change for one in done)
    told = ", ".join(f"{many[word]:,} {word}" for word in ("created", "changed", "unchanged") if many[word])
    return f"{told}{' (a dry run: nothing was done)' if dry_run else ''}"


def _told(bad: Sequence[BadLine]) -> Iterator[str]:
    for one in bad:
        yield f"line {one.line}, {one.text[:60]!r}: {one.reason}"
    if bad:
        yield f"{counted(len(bad), 'line')} could not be imported"


def _remarks(done: Sequence[ImportedCrontab], become: ImportOptions) -> Iterator[str]:
    if any(one.job.timezone is None for one in done) and become.timezone == DEFAULT_ZONE:
        yield "the file names no time zone, so its times are read as UTC: use --timezone for another zone"
    if any(one.job.user is None and one.job.command.split()[0] == "root" for one in done):
        yield "some commands begin with root: if this is a system crontab, add --system"


def _to_json(one: ImportedCrontab) -> dict[str, Any]:
    return {"line": one.job.line, "change": one.change, **SCHEDULE_JSON.write(one.schedule)}
