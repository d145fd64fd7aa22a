"""``duly doctor``: finds what would keep events from firing on time, and says what to do."""

import asyncio
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.table import Table
from rich.text import Text

from duly.cli.doctor.check_result import FAIL, WARN, CheckResult
from duly.cli.doctor.checks import Wanted, examine
from duly.cli.invocation import Hidden
from duly.cli.output import note, print_json, readable, screen

MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "bold red")}


def register(commands: App) -> None:
    commands.command(doctor)


def doctor(
    *,
    all: Annotated[bool, Parameter(help="Check the rows of all events, not only of the newest 10,000")] = False,
    warn_only: Annotated[
        bool, Parameter(help="Let unserved lanes, dead letters and halted schedules be warnings")
    ] = False,
    fix: Annotated[
        bool, Parameter(negative="", help="Do what is safe about findings, then check again; see docs/operations.md")
    ] = False,
    nats_monitor: Annotated[
        str | None, Parameter(help="Address of NATS' monitoring (default: port 8222 of its host)", metavar="URL")
    ] = None,
    invocation: Hidden,
) -> int:
    """Check the database, durability, clocks, workers, waiting events, destinations and the consistency of rows.

    With --app, also check that every due event has a handler. The exit code is 1 if a check fails. Overdue events in a
    lane that nobody serves, dead letters, and schedules that an error has halted fail too, except with --warn-only.
    """
    wanted = Wanted(all, WARN if warn_only else FAIL, nats_monitor, fix)
    findings, fixed = asyncio.run(examine(invocation, wanted))
    failed = any(finding.level == FAIL for finding in findings)
    if invocation.json:
        told = {"fixed": fixed} if fix else {}
        print_json({"ok": not failed, **told, "checks": [_to_json(finding) for finding in findings]})
    else:
        for one in fixed or ["nothing to fix"] * fix:
            note(one)
        screen().print(_table(findings))
    return 1 if failed else 0


def _to_json(finding: CheckResult) -> dict[str, Any]:
    return finding._asdict()


def _table(findings: list[CheckResult]) -> Table:
    drawn = Table.grid(padding=(0, 2, 0, 0))
    drawn.add_column(no_wrap=True, width=4)
    drawn.add_column(no_wrap=True)
    drawn.add_column(overflow="fold")
    for finding in findings:
        said = Text(readable(finding.found))
        if finding.advice:
            said.append(f"\n→ {readable(finding.advice)}", "bold")
        if finding.fix:
            said.append("\n  (`duly doctor --fix` does it)", "dim")
        for statement in finding.sql:
            said.append(f"\n{readable(statement)}")
        drawn.add_row(Text(*MARKS[finding.level]), finding.subject, said)
    return drawn
