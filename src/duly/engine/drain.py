"""The drain of a stopped worker: running events may end within the grace, all others are given back to the store."""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta

from duly.engine.executor import Executor
from duly.engine.lookahead.reserve import Lookahead
from duly.engine.stopping import LAST_CYCLE_S, Stopping, end_tasks
from duly.records.event import Event

TOLD_EVERY_S = 5.0
"""Seconds between two reports of what a stopping worker still waits for."""

COMMANDS_END_S = 2.0
"""Seconds that commands get to end after the grace, from SIGTERM to SIGKILL: the last settlements need the rest of what
a process manager waits."""

Tell = Callable[[dict[str, int], timedelta, timedelta], None]
"""Called with how many events of each type still run, for how long the oldest has, and what is left of the grace."""


async def drain(executor: Executor, lookahead: Lookahead, stopping: Stopping, grace: timedelta, tell: Tell) -> int:
    """Waits for running events within the grace, which counts from the stop, and gives all other events back. Returns
    how many were given back."""
    within = stopping.grace_left(grace)
    unstarted = "the worker stopped before starting it"
    many = len(executor.give_back_unstarted(unstarted))
    executor.tell_threads_to_stop()
    reserved: list[Event] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_CYCLE_S):
            reserved = await lookahead.stop()
    many += len(executor.give_back(reserved, unstarted))
    telling = asyncio.create_task(_tell_what_runs(executor, stopping, grace, tell))
    try:
        await stopping.unless_at_once(executor.finish_all(within, even_if_stopping=True))
    finally:
        await end_tasks(telling)
    many += await executor.end_commands(COMMANDS_END_S)
    many += len(executor.give_back_running("the worker stopped before it ended"))
    await executor.settle_all(stopping.settling_left)
    return many


async def _tell_what_runs(executor: Executor, stopping: Stopping, grace: timedelta, tell: Tell) -> None:
    while True:
        types, oldest = executor.what_runs()
        left = stopping.grace_left(grace)
        if types and left > 0:
            tell(types, timedelta(seconds=oldest), timedelta(seconds=left))
        await asyncio.sleep(TOLD_EVERY_S)
