"""A tick: one pass over the events that were ready when it began."""

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from duly.engine.destinations.parking import FIRST_PROBE
from duly.engine.faults.boot_clock import steady
from duly.engine.figures.roll_up import roll_up_some
from duly.engine.pauses.pause_ends import end_pauses
from duly.engine.retention.forget_keys import forget_some_keys
from duly.errors import Misuse, StoreError
from duly.ports import PresencePort

if TYPE_CHECKING:
    from duly.engine.worker import Loop


async def run_one_pass(loop: "Loop", worker: str) -> None:
    """Claims and delivers until nothing is ready any more, or until the worker is stopped. Events that a rate keeps
    from starting are left for the next pass."""
    await loop.preload.load_what_is_due()
    await loop.release.once()
    in_vain = 0
    while in_vain <= len(loop.lanes.open):  # with more lanes than places, each claim covers only some of the lanes
        if in_vain:
            loop.claims.look_everywhere()
        batch = await loop.claim()
        in_vain = 0 if batch.found else in_vain + 1
        if not await loop.executor.finish_all():
            return
    loop.executor.give_back_unstarted("may not start yet, by its limits")
    while await loop.executor.finish_all() and await loop.interrupted.deliver_one(loop.lanes.open):
        pass
    loop.pulse.passed()
    await forget_some_keys(loop.store)
    with contextlib.suppress(StoreError):  # the role may not be allowed to; figures are right without it
        if await loop.store.has_ended():
            await roll_up_some(loop.store, worker)


LOCKED_TRIES = 50
"""Claims in vain before an event counts as locked: other tasks and threads of a test have transactions too."""

LOCKED_RETRY_S = 0.02
"""Seconds between them."""

LOCKED = "an event that is due is locked by an open transaction: commit it or roll it back before time moves on"


async def run_what_is_ready(loop: "Loop", store: PresencePort, now: datetime) -> datetime | None:
    """Delivers until nothing is ready any more, while the store's clock stands still at *now*: for tests that move it.
    Returns when more will be ready, or a parked destination can be tried; None if nothing will. It claims only in lanes
    with ready events: a claim in each lane of a process takes five times as long."""
    await loop.preload.load_what_is_due()
    parked = bool(await loop.store.unparking())
    next_end = await end_pauses(loop.store)
    if parked:
        await loop.release.once()
    in_vain = 0
    while True:
        waiting = {lane: ready for lane, ready in await store.waiting_lanes() if lane in loop.lanes.open}
        ready = [lane for lane, at in waiting.items() if at <= now]
        if not ready and not loop.claims.undecided:
            break
        if await _claim(loop, ready) or await loop.interrupted.deliver_one(ready):
            in_vain = 0
        elif (in_vain := in_vain + 1) < LOCKED_TRIES:
            await asyncio.sleep(LOCKED_RETRY_S)
        else:
            raise Misuse(LOCKED)
        if not await loop.executor.finish_all():
            return None
        await loop.claims.complete_heads()
    probes = [now + FIRST_PROBE] if await loop.store.unparking() else []
    ends = [] if next_end is None else [now + next_end]
    return min([*waiting.values(), *probes, *ends], default=None)


async def _claim(loop: "Loop", lanes: Sequence[str]) -> bool:
    """Claims and starts what is ready in these lanes; returns whether there was anything."""
    for lane in lanes:
        await loop.claims.begin_again(lane)  # a test may have added what was due long ago
    found, sent = False, steady()
    async for batch in loop.claims.take(dict.fromkeys(lanes, loop.prefetch.batch), all_lanes=False):
        found |= batch.found
        await loop.executor.learn_and_start(batch.events, sent)
    return found
