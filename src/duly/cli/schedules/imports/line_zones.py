"""Remarks on the time zones of lines of a crontab that names none for them."""

from collections.abc import Iterator, Sequence

from duly.cli.output import counted
from duly.cli.schedules.imports.crontab import ZONE, Job
from duly.cli.schedules.imports.crontab_entries import Plan
from duly.rules.recurrence import DEFAULT_ZONE

ZONE_OF_COMMANDS = "TZ"
"""The setting for the time zone in which commands run; times are not read in it."""


def remarks_on_zones(jobs: Sequence[Job], plan: Plan) -> Iterator[str]:
    """Which lines without a time zone keep that of their schedules, and which are read as UTC."""
    zones = {entry.place: entry.fields["timezone"] for entry in plan.entries}
    lines = {job.line: zones[str(job.line)] for job in jobs if job.timezone is None and str(job.line) in zones}
    kept = [zone for zone in lines.values() if zone != DEFAULT_ZONE]
    if kept:
        named = " and ".join(sorted(set(kept)))
        yield f"{counted(len(kept), 'line')} without a time zone: kept in {named}, as at the last import"
    read_as_utc = [line for line, zone in lines.items() if zone == DEFAULT_ZONE]
    if not read_as_utc:
        return
    if kept or any(job.timezone is not None for job in jobs):
        at = ", ".join(str(line) for line in read_as_utc)
        which = f"line{'s' if len(read_as_utc) > 1 else ''} {at} without a time zone: read as UTC"
    else:
        which = "the file names no time zone, so its times are read as UTC"
    if any(ZONE_OF_COMMANDS in job.environment for job in jobs if job.line in read_as_utc):
        which += f" ({ZONE_OF_COMMANDS} is for the commands, {ZONE} for the times)"
    yield f"{which}: use --timezone for another zone"
