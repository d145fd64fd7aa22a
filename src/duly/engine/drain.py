"""The drain of a stopped worker: running events may end within the grace, all others are given back to the store."""

import asyncio
import contextlib
from datetime import timedelta

from duly.engine.executor import Executor
from duly.engine.lookahead.reserve import Lookahead
from duly.engine.stopping import LAST_CYCLE_S, Stopping
from duly.records.event import Event


async def drain(executor: Executor, lookahead: Lookahead, stopping: Stopping, grace: timedelta) -> int:
    """Waits for running events within the grace, which counts from the stop, and gives all other events back. Returns
    how many were given back."""
    within = stopping.grace_left(grace)
    unstarted = "the worker stopped before starting it"
    many = len(executor.give_back_unstarted(unstarted))
    reserved: list[Event] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_CYCLE_S):
            reserved = await lookahead.stop()
    many += len(executor.give_back(reserved, unstarted))
    await executor.finish_all(within, even_if_stopping=True)
    many += len(executor.give_back_running("the worker stopped before it ended"))
    await executor.settle_all(stopping.settling_left)
    return many
