"""``duly workers``: who is at work. ``duly top``: the same and the load, live."""

import asyncio
import time
from typing import Annotated, Any, NamedTuple

from cyclopts import App, Parameter
from cyclopts.validators import Number
from rich.console import RenderableType
from rich.live import Live

from duly.cli.columns import Columns, check_columns, in_chosen_columns
from duly.cli.invocation import Hidden, Invocation
from duly.cli.output import note, print_json, screen
from duly.cli.workers.views import load_table, unserved_lines, workers_table
from duly.decide.workers import LaneLoad
from duly.duly import Duly
from duly.errors import StoreUnavailable
from duly.records.workers.worker import LANE_JSON, WORKER_JSON, LaneInfo, WorkerInfo

MOST_COUNTED = 1000
"""The number up to which `duly top` counts the events of a lane: below a millisecond each."""

EVERY_S = 2.0
"""Seconds between two looks of `duly top`."""


def register(commands: App) -> None:
    commands.command(workers)
    commands.command(top)


def workers(*, columns: Columns = None, invocation: Hidden) -> None:
    """List the workers: their hosts and lanes, since when they run, and when each was last seen.

    A worker that was not seen for two beats of 10 seconds is dead. Also lists lanes in which events wait and that
    nobody serves.
    """
    asyncio.run(_workers(check_columns(WORKER_JSON, columns), invocation))


async def _workers(columns: list[str], invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        found, lanes, now = await duly.workers.list(), await duly.workers.lanes(), await duly.now()
    if invocation.json:
        print_json(_to_json(found, lanes))
        return
    console = screen()
    if found:
        usual = workers_table(found, now, console.width)
        console.print(in_chosen_columns(WORKER_JSON, found, columns, console.width) if columns else usual)
    else:
        note("no workers: start one with `duly worker` or `duly serve`")
    for line in unserved_lines(lanes, now):
        console.print(line, soft_wrap=True)


def top(
    *,
    once: Annotated[bool, Parameter(help="Print it once, then exit")] = False,
    every: Annotated[
        float, Parameter(help="Seconds between two looks (default: 2)", validator=Number(gte=0.1, lte=3600))
    ] = EVERY_S,
    invocation: Hidden,
) -> None:
    """Show workers and the load of each lane, live: what is due, pending and running, and how late the oldest is.

    Ctrl-C ends it. Where the output is no terminal, and with --json, it is printed once.
    """
    asyncio.run(_top(every, invocation, once=once))


class Look(NamedTuple):
    """What ``top`` shows."""

    workers: list[WorkerInfo]
    loads: list[LaneLoad]
    lanes: list[LaneInfo]
    shown: RenderableType


async def _look(duly: Duly, width: int) -> Look:
    workers, lanes = await duly.workers.list(), await duly.workers.lanes()
    loads, now = await duly.workers.loads(MOST_COUNTED), await duly.now()
    return Look(workers, loads, lanes, load_table(workers, loads, lanes, now, width, MOST_COUNTED))


async def _top(every: float, invocation: Invocation, *, once: bool) -> None:
    console = screen()
    async with invocation.duly_for_looking() as duly:
        look = await _look(duly, console.width)
        if invocation.json:
            told = _to_json(look.workers, look.lanes)
            print_json(told | {"load": [load._asdict() for load in look.loads]})
        elif once or not console.is_terminal:
            console.print(look.shown)
        else:
            with Live(look.shown, console=console, screen=True, auto_refresh=False) as live:
                while True:
                    await asyncio.sleep(every)
                    live.update(await _shown(duly, console.width), refresh=True)


async def _shown(duly: Duly, width: int) -> RenderableType:
    """The next picture; during an outage, what is wrong."""
    try:
        return (await _look(duly, width)).shown
    except StoreUnavailable as error:
        return f"{time.strftime('%H:%M:%S')} {error}"


def _to_json(workers: list[WorkerInfo], lanes: list[LaneInfo]) -> dict[str, Any]:
    return {
        "workers": [WORKER_JSON.write(worker) for worker in workers],
        "lanes": [LANE_JSON.write(lane) for lane in lanes],
    }
