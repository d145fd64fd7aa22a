"""``--dry-run``: what an act on a schedule or a user would do."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from cyclopts import Parameter
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from duly.cli.events.views import empty_table
from duly.cli.output import readable, utc
from duly.errors import Invalid, Misuse
from duly.records.figures.consequence import Consequence, NextOccurrence
from duly.rules.notation import zone_problems
from duly.rules.recurrence import DEFAULT_ZONE


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DryRunOptions:
    """Options of an act that can be tried first."""

    dry_run: Annotated[bool, Parameter(help="Show what this would do, and change nothing")] = False
    viewer: Annotated[
        str | None, Parameter(help="With --dry-run: show the next occurrences in this time zone, too", metavar="ZONE")
    ] = None

    def seen(self, consequence: Consequence | None) -> Consequence:
        """The consequence in the zone of the viewer as well, if there is one."""
        assert consequence is not None  # every dry run has one
        return consequence if self.viewer is None else consequence.seen_from(self.viewer)

    def check(self) -> None:
        if self.viewer is None:
            return
        if not self.dry_run:
            raise Misuse("--viewer can only be given together with --dry-run")
        if problems := zone_problems(self.viewer):
            raise Invalid([problem._replace(path="viewer") for problem in problems])


IN_EARNEST = DryRunOptions()


def consequence_view(name: str, told: Consequence) -> RenderableType:
    """A consequence: its message, and the next occurrences on all clocks that matter."""
    heading = Text.assemble((readable(name), "bold"), "  (a dry run: nothing was done)")
    parts: list[RenderableType] = [heading, Text(readable(told.message))]
    if told.next:
        parts += ["", _table(told.next, told.viewer)]
    return Group(*parts)


def _table(ahead: Sequence[NextOccurrence], viewer: str | None) -> Table:
    zones = {one.timezone for one in ahead}
    local = next(iter(zones)) if len(zones) == 1 else "LOCAL"
    typed, noted = len({one.type for one in ahead}) > 1, any(one.note for one in ahead)
    drawn = empty_table()
    drawn.add_column("NEXT (UTC)", no_wrap=True)
    if local != DEFAULT_ZONE:
        drawn.add_column(readable(local), no_wrap=True)
    if viewer is not None:
        drawn.add_column(readable(viewer), no_wrap=True)
    if typed:
        drawn.add_column("TYPE", overflow="fold")
    if noted:
        drawn.add_column("NOTE", overflow="fold")
    for one in ahead:
        cells: list[str | Text] = [utc(one.due)]
        cells += [_clock(one.local)] if local != DEFAULT_ZONE else []
        cells += [_clock(one.viewer_at)] if one.viewer_at is not None else []
        cells += [readable(one.type)] if typed else []
        cells += [Text(readable(one.note or ""), "yellow")] if noted else []
        drawn.add_row(*cells)
    return drawn


def _clock(local: datetime) -> str:
    return f"{local:%a %Y-%m-%d %H:%M:%S}"
