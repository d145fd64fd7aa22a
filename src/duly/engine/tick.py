"""A tick: one pass over the events that were ready when it began."""

from typing import TYPE_CHECKING

from duly.engine.upkeep import forget_some_keys

if TYPE_CHECKING:
    from duly.engine.worker import Loop


async def run_one_pass(loop: "Loop") -> None:
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
