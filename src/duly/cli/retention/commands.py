"""``duly prune``: delete finished events that are kept no longer, or show what would be deleted."""

import asyncio
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from rich.table import Table

from duly.cli.invocation import Hidden, Invocation
from duly.cli.output import STYLES, counted, print_json, readable, screen, utc
from duly.cli.progress import ProgressLine
from duly.records.event import Status
from duly.records.results import Pruned

MOST_SHOWN = 20
"""Statuses and types that are listed; --json has all of them."""


def register(commands: App) -> None:
    commands.command(prune)


def prune(
    *,
    dry_run: Annotated[bool, Parameter(help="Show what would be deleted, and delete nothing")] = False,
    invocation: Hidden,
) -> None:
    """Delete finished events that are older than DULY_RETENTION (90d), with their history.

    Workers do the same in small batches all the time. Dead letters stay until somebody replays or discards them.

    DULY_RETENTION=30d,completed=7d duly prune --dry-run
    """
    asyncio.run(_prune(dry_run, invocation))


async def _prune(dry_run: bool, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        verb = "found" if dry_run else "deleted"
        with ProgressLine(json=invocation.json) as line:
            pruned = await duly.prune(
                dry_run=dry_run,
                on_progress=lambda so_far: line.tell(so_far.events, f"{counted(so_far.events, 'event')} {verb}"),
            )
    if invocation.json:
        print_json(msgspec.to_builtins(pruned) | {"retention": str(duly.settings.retention)})
        return
    _show(pruned, str(duly.settings.retention))


def _show(pruned: Pruned, retention: str) -> None:
    console, by = screen(), f"DULY_RETENTION={retention}"
    if not pruned.events:
        console.print(f"nothing to delete: no finished event is older than {by} allows", soft_wrap=True)
        return
    console.print(_table(pruned))
    if (left := len(pruned.kinds) - MOST_SHOWN) > 0:
        console.print(f"… and {left:,} more; --json has them all")
    done = "would be deleted" if pruned.dry_run else ("was deleted" if pruned.events == 1 else "were deleted")
    console.print(f"{counted(pruned.events, 'event')} {done}, with their history ({by})", soft_wrap=True)


def _table(pruned: Pruned) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("status", "type"):
        table.add_column(name)
    table.add_column("events", justify="right")
    table.add_column("oldest ended (UTC)")
    for kind in pruned.kinds[:MOST_SHOWN]:
        status = Status(kind.status)
        table.add_row(status, readable(kind.type), f"{kind.events:,}", utc(kind.ended), style=STYLES[status])
    return table
