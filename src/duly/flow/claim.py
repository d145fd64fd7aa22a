"""Take what is ready, oldest first, one second late or one week late. Recovery is this and nothing else."""

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from duly.core.model import Event, Status
from duly.flow.gates import let_go_after
from duly.flow.heads import Claimant, Succeeded, succeed_heads
from duly.flow.passes import DEAD, Passes
from duly.ports import NOTHING_SEEN, Horizon, Store
from duly.signals import Claimed, DeadLettered, Halted, Interrupted, Signals, Skipped

SPARING, CHEAP = 20, 0.02
"""A look from the beginning that takes more than so many seconds is paid for by so many times that without one."""


NONE = Succeeded([], [], 0, {}, {})


class Frontier:
    """Where the fresh work begins, as far as this worker has seen.

    PostgreSQL cannot clear away what was claimed and settled while somebody holds a transaction open, such as a backup.
    A claim from the beginning steps over all of it, and takes longer and longer: behind a hundred thousand of them 20
    ms instead of 6. So where that takes long, most claims go on where the last one ended. What comes before that,
    because it was added late or given back, is found at the next look from the beginning.
    """

    def __init__(self) -> None:
        self._seen = NOTHING_SEEN
        self._whole_at = 0.0

    @property
    def whole_in(self) -> float:
        """Seconds until the next look from the beginning."""
        return max(0.0, self._whole_at - time.monotonic())

    async def claim(self, store: Store, worker: str, room: Mapping[str, int], lease: timedelta) -> list[Event]:
        whole, began = not self.whole_in, time.monotonic()
        events = await store.claim(worker, room, lease, NOTHING_SEEN if whole else self._seen)
        if whole:
            self._looked(began)
        # By their due times, oldest first: a retried one became ready after that, so this is never too far.
        self._seen = self._seen._replace(fresh={**self._seen.fresh, **{event.lane: event.due for event in events}})
        return events

    async def horizon(self, store: Store, lanes: Sequence[str]) -> Horizon:
        whole, began = not self.whole_in, time.monotonic()
        horizon, seen = await store.horizon(lanes, NOTHING_SEEN if whole else self._seen)
        if whole:
            self._looked(began)
            self._seen = seen
        return horizon

    def _looked(self, began: float) -> None:
        now = time.monotonic()
        self._whole_at = now + SPARING * max(0.0, now - began - CHEAP)


async def claim(
    store: Store, worker: str, room: Mapping[str, int], lease: timedelta, signals: Signals, frontier: Frontier
) -> list[Event]:
    """Events that are this worker's until the lease ends."""
    events = await frontier.claim(store, worker, room, lease)
    if signals.wanted(Claimed):
        for event in events:
            signals.emit(Claimed(event, worker))
    return events


async def claim_heads(
    store: Store, worker: str, room: Mapping[str, int], lease: timedelta, signals: Signals
) -> Succeeded:
    """Heads that are this worker's until the lease ends. Their successors are planned already."""
    async with store.begin() as tx:
        found = await tx.due_heads(room)
        succeeded = await succeed_heads(tx, found, found.now, Claimant(worker, lease)) if found.heads else NONE
    tell_heads(succeeded, worker, signals)
    return succeeded


def tell_heads(succeeded: Succeeded, worker: str, signals: Signals) -> None:
    for schedule, reason in succeeded.halted.items():
        signals.emit(Halted(schedule, reason, succeeded.names.get(schedule, "")))
    for event, reason in succeeded.dropped:
        signals.emit(Skipped(event, reason))
    for event in succeeded.fired:
        signals.emit(Claimed(event, worker))


async def claim_alone(
    store: Store, worker: str, lanes: Sequence[str], lease: timedelta, passes: Passes
) -> Event | None:
    """One event that was under way when a worker vanished. It must be delivered with nothing beside it: if it
    is what ended that worker, it will end this one, and only it shall pay for that."""
    signals = passes.signals
    while True:
        async with store.begin() as tx:  # or a store that fails between the two would leave it claimed and unstarted
            claimed = await tx.claim_alone(worker, lanes, lease)
            history = await tx.history(claimed[0].id) if claimed else []
            await let_go_after(tx, [event for event in claimed if event.status is Status.FAILED])
        if not claimed:
            return None
        [event] = claimed
        for entry in history:
            if entry.act == "interrupted" and entry.version == event.version - 1:
                signals.emit(Interrupted(msgspec.structs.replace(event, worker=entry.worker, claimed=entry.claimed)))
        if event.status is Status.FAILED:
            passes.count(DEAD)
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
