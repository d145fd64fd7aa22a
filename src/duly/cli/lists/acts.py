"""Acts of the command line on everything that a filter matches: a dry run, a confirmation, progress, and the result."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from duly.cli.exit_codes import DONE, FAILED
from duly.cli.invocation import Invocation, confirmed, require_terminal
from duly.cli.output import note, print_json, readable, screen
from duly.duly import Duly
from duly.records.finding.acts import ActedOn
from duly.records.finding.counts import Count

Progress = Callable[[ActedOn], object] | None

Deed = Callable[[Duly, bool, Progress], Awaitable[ActedOn]]
"""The act, of a Duly: as a dry run or not, and whom to tell the progress."""


class Words(NamedTuple):
    """How an act is told."""

    verb: str  # pause
    participle: str  # paused
    noun: str  # schedules

    def many(self, count: Count | int | None) -> str:
        """How many, in words."""
        one = count == 1 or (isinstance(count, Count) and count.value == 1 and count.exact)
        written = f"{count:,}" if isinstance(count, int) else str(count)
        return f"{written} {self.noun.removesuffix('s') if one else self.noun}"


def act_on_all(deed: Deed, words: Words, *, dry_run: bool, yes: bool, invocation: Invocation) -> int:
    """Shows what would be done; does it unless it is a *dry_run*, after a confirmation unless *yes*."""
    would = asyncio.run(_do(deed, None, invocation, dry_run=True))
    if dry_run:
        return _tell_dry_run(would, words, invocation)
    many = words.many(would.would)
    if would.would is not None and not would.would.value and not invocation.json:
        note(f"no {words.noun} match that could be {words.participle}")
        return DONE
    if not yes and not _agreed(would, words, many, invocation):
        note(f"nothing was {words.participle}")
        return FAILED

    there = 0 if would.would is None else would.would.value

    def tell(so_far: ActedOn) -> None:
        if not invocation.json and so_far.done + so_far.left_alone < there:
            note(f"{so_far.done:,} {words.participle} so far")

    done = asyncio.run(_do(deed, tell, invocation, dry_run=False))
    if invocation.json:
        print_json({words.participle: done.done, "left_alone": done.left_alone})
    else:
        left = f"; {done.left_alone:,} left alone: somebody else changes them, or it is not allowed" * bool(
            done.left_alone
        )
        screen().print(f"{words.participle} {words.many(done.done)}{left}", style="bold", soft_wrap=True)
    return FAILED if done.left_alone else DONE


async def _do(deed: Deed, tell: Progress, invocation: Invocation, *, dry_run: bool) -> ActedOn:
    async with invocation.duly_for_looking() as duly:
        return await deed(duly, dry_run, tell)


def _tell_dry_run(would: ActedOn, words: Words, invocation: Invocation) -> int:
    if invocation.json:
        print_json({"dry_run": True, **msgspec.to_builtins({"would": would.would, "kinds": would.kinds})})
        return DONE
    if would.kinds:
        screen().print(_kinds(would))
    screen().print(
        f"would {words.verb} {words.many(would.would)} (a dry run: nothing was changed)", style="bold", soft_wrap=True
    )
    return DONE


def _kinds(would: ActedOn) -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="dim")
    drawn.add_column("TYPE", overflow="fold")
    drawn.add_column("STATE", no_wrap=True)
    drawn.add_column("NUMBER", justify="right", no_wrap=True)
    for kind in would.kinds:
        tenant = "" if kind.tenant == "default" else f"{kind.tenant} · "
        drawn.add_row(readable(f"{tenant}{kind.type}"), kind.state, f"{kind.many:,}")
    return drawn


def _agreed(would: ActedOn, words: Words, many: str, invocation: Invocation) -> bool:
    """Whether the person at the terminal confirms what is shown."""
    told = f"this would {words.verb} {many}: add --yes to do it, or --dry-run to see which"
    require_terminal(told, json=invocation.json)
    Console(stderr=True, markup=False, highlight=False, emoji=False).print(_kinds(would))
    return confirmed(f"{words.verb} {many}?")
