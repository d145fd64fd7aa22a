"""The schedules that the lines of a crontab become."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
from cyclopts import Parameter

from duly.cli.schedules.imports.apply import Entry
from duly.cli.schedules.imports.cron_commands import account_of, cron_command, work_of_job, work_of_schedule
from duly.cli.schedules.imports.crontab import BadLine, Crontab, Job
from duly.cli.schedules.imports.job_names import GENERATED, name_of, slug_of
from duly.cli.schedules.imports.matching import Line, matched
from duly.decide.targets.commands import COMMAND, is_command, spelled_out
from duly.errors import Invalid
from duly.records.schedule import Schedule
from duly.records.wire.schedule_reader import editable
from duly.rules.notation import parse_rule
from duly.rules.recurrence import DEFAULT_ZONE

ONCE = {"max_attempts": 1}
"""As under cron, a command that fails runs again at its next time, and not before."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Options for the schedules that the lines become."""

    type: Annotated[
        str | None,
        Parameter(
            help="Event type of a handler of your own, which gets the line as its payload (default: run the command)"
        ),
    ] = None
    prefix: Annotated[str, Parameter(help="Prefix of the schedules' names")] = ""
    timezone: Annotated[
        str | None,
        Parameter(
            help="Time zone, if the file names none (default: that of the schedule so far; UTC for a new one)",
            metavar="ZONE",
        ),
    ] = None
    max_attempts: Annotated[
        int | None,
        Parameter(help="Attempts at each run (default: 1 for commands, and what is set already)", metavar="N"),
    ] = None
    timeout: Annotated[
        str | None,
        Parameter(
            help="Deadline of each run of a command, such as 36h, 7d at most (default: 1d, and what is set already)",
            metavar="SPAN",
        ),
    ] = None
    tenant: Annotated[str, Parameter(help="Tenant of the schedules")] = "default"
    paused: Annotated[bool, Parameter(help="Import them paused: they do not fire until resumed")] = False

    def fields(self, job: Job, before: Schedule | None, policies: Mapping[str, Any]) -> dict[str, Any]:
        """What a line says of its schedule; raises ValueError if its command cannot be run here."""
        so_far = DEFAULT_ZONE if before is None else before.timezone
        when = {"rule": {"cron": job.cron}, "timezone": job.timezone or self.timezone or so_far}
        return {**when, **self._content(job, before), **policies, **self._own_policies(before)}

    def _content(self, job: Job, before: Schedule | None) -> dict[str, Any]:
        if self.type is not None:
            return {"type": self.type, "payload": job.payload, "target": None}
        timeout = self.timeout or (None if before is None else _timeout_of(before.target))
        return {"type": COMMAND, "payload": None, "target": cron_command(job, account_of(job.user), timeout)}

    def _own_policies(self, before: Schedule | None) -> dict[str, Any]:
        told: dict[str, Any] = {"enabled": False} if self.paused else {}
        if self.max_attempts is not None:
            own = {} if before is None else editable(before)["retry"]
            told["retry"] = {**own, "max_attempts": self.max_attempts}
        elif self.type is None and not (before is not None and is_command(before.target)):
            told["retry"] = ONCE
        return told


def _timeout_of(target: Any) -> str | None:
    """The deadline that a schedule has for its command so far."""
    return spelled_out(target[COMMAND]).get("timeout") if is_command(target) else None


AS_COMMANDS = ImportOptions()


class Plan(NamedTuple):
    """What an import does: the entries, the lines that cannot become schedules, and the schedules without a line."""

    entries: Sequence[Entry]
    bad: Sequence[BadLine]
    gone: Sequence[Schedule]


def plan_import(read: Crontab, known: Sequence[Schedule], become: ImportOptions, policies: Mapping[str, Any]) -> Plan:
    """The plan for the lines of a crontab, whose schedules so far are *known*. All get the given *policies*. While a
    line cannot be read, no other takes over a schedule, because it may be that line's."""
    jobs, known = read.jobs, sorted(known, key=_line_number)
    lines = [_line(job, become.prefix) for job in jobs]
    pairs = matched(lines, [_line_before(one) for one in known], by_place=not read.is_unread)
    names = _names(jobs, {at: known[old] for at, old in pairs.items()}, {one.name for one in known}, become.prefix)
    entries: list[Entry] = []
    bad: list[BadLine] = []
    for at, (job, name) in enumerate(zip(jobs, names, strict=True)):
        before = known[pairs[at]] if at in pairs else None
        try:
            entries.append(Entry(str(job.line), name, become.fields(job, before, policies), before))
        except ValueError as error:
            bad.append(BadLine(job.line, f"{job.cron} {job.command}", str(error)))
    kept = set(pairs.values())
    return Plan(entries, bad, [one for at, one in enumerate(known) if at not in kept])


def _names(jobs: Sequence[Job], before: Mapping[int, Schedule], used: set[str], prefix: str) -> Iterator[str]:
    """The names of the lines' schedules: from a comment, that of the schedule so far, or a new one."""
    used |= {f"{prefix}{job.name}" for job in jobs if job.name is not None}
    for at, job in enumerate(jobs):
        if job.name is not None:
            name = f"{prefix}{job.name}"
        else:
            name = before[at].name if at in before else name_of(job, used, prefix)
        used.add(name)
        yield name


def _line(job: Job, prefix: str) -> Line:
    name = None if job.name is None else f"{prefix}{job.name}"
    return Line(name, work_of_job(job), slug_of(job.command), _text(parse_rule({"cron": job.cron}).to_json()))


def _line_before(schedule: Schedule) -> Line:
    work = work_of_schedule(schedule.target, schedule.payload)
    program = "" if work is None else slug_of(work.command)
    try:
        rule = _text(parse_rule(schedule.rule, schedule.timezone).to_json())
    except (Invalid, ValueError):  # the row was edited by hand
        rule = schedule.rule_json
    return Line(schedule.name, work, program, rule, GENERATED.fullmatch(schedule.name) is not None)


def _text(rule: Any) -> str:
    return msgspec.json.encode(rule, order="sorted").decode()


def _line_number(schedule: Schedule) -> int:
    """The line that a schedule was at the last import; those from before schedules remembered it come first."""
    place = schedule.imported_as or ""
    return int(place) if place.isascii() and place.isdigit() else 0
