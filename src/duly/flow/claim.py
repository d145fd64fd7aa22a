"""Take what is ready, oldest first, one second late or one week late. Recovery is this and nothing else."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from duly.core.model import Event, Status
from duly.flow.heads import succeed_heads
from duly.ports import Store
from duly.signals import Claimed, DeadLettered, Halted, Interrupted, Signals


async def claim(store: Store, worker: str, room: Mapping[str, int], lease: timedelta, signals: Signals) -> list[Event]:
    """Events that are this worker's until the lease ends. Claimed heads have their successors already."""
    halted: dict[str, str] = {}
    async with store.begin() as tx:
        events = await tx.claim(worker, room, lease)
        heads = [event for event in events if event.head]
        if heads:
            succeeded, halted = await succeed_heads(tx, heads, heads[0].claimed or heads[0].due)
            fired = {event.id: event for event in succeeded}
            events = [fired.get(event.id, event) for event in events]
    for schedule, reason in halted.items():
        signals.emit(Halted(schedule, reason))
    if signals.wanted(Claimed):
        for event in events:
            signals.emit(Claimed(event, worker))
    return events


async def claim_alone(
    store: Store, worker: str, lanes: Sequence[str], lease: timedelta, signals: Signals
) -> Event | None:
    """One event that was under way when a worker vanished. It must be delivered with nothing beside it: if it
    is what ended that worker, it will end this one, and only it shall pay for that."""
    while True:
        async with store.begin() as tx:  # or a store that fails between the two would leave it claimed and unstarted
            claimed = await tx.claim_alone(worker, lanes, lease)
            history = await tx.history(claimed[0].id) if claimed else []
        if not claimed:
            return None
        [event] = claimed
        for entry in history:
            if entry.act == "interrupted" and entry.version == event.version - 1:
                signals.emit(Interrupted(msgspec.structs.replace(event, worker=entry.worker, claimed=entry.claimed)))
        if event.status is Status.FAILED:
            signals.emit(DeadLettered(event, event.last_error or ""))
        else:
            signals.emit(Claimed(event, worker))
            return event


def share(lanes: Sequence[str], free: int, busy: frozenset[str]) -> dict[str, int]:
    """Split the room among lanes: those with a backlog share it, the others get a look in."""
    if not busy or len(busy) == len(lanes):
        each = max(1, free // len(lanes))
        return dict.fromkeys(lanes, each)
    look = max(1, free // (4 * len(lanes)))
    rest = max(1, (free - look * (len(lanes) - len(busy))) // len(busy))
    return {lane: rest if lane in busy else look for lane in lanes}
