"""Claims due heads, and plans their successors in the same transaction. Skip this for one-shot timers."""

import math
import time
from collections.abc import Mapping, Sequence
from itertools import chain

from duly.decide.fair_share import Candidate
from duly.engine.fairness.fair_claim import FairClaim
from duly.engine.fairness.fair_queue import FairQueue
from duly.engine.series.heads import NO_HEADS, Claimant, HeadsClaimed
from duly.engine.series.holds import LONG_AGO, succeed
from duly.ports import ClaimPath, ClaimTransaction, Heads, Horizon
from duly.signals import Claimed, Signals, Skipped

ASKED_AGAIN_AFTER_S = 1.0
"""Seconds after a claim without due heads at which heads are asked for again, unless a horizon tells the instant."""


class HeadClaims:
    """The claims of heads of one worker. Heads are asked for only when the horizon says that some are due."""

    def __init__(self, store: ClaimPath, claimant: Claimant, fair_queue: FairQueue, signals: Signals) -> None:
        self._store, self._claimant, self._signals = store, claimant, signals
        self.fair = FairClaim(store.scan_heads, dict, fair_queue)
        self._due_at = 0.0  # when the next head may be ready, by time.monotonic

    @property
    def may_be_due(self) -> bool:
        return time.monotonic() >= self._due_at

    def ask_again(self) -> None:
        """Asks for heads at the next claim, whatever the last horizon was."""
        self._due_at = 0.0

    def read(self, horizon: Horizon, at: float) -> None:
        """Notes a horizon that was read at an instant of time.monotonic."""
        self._due_at = math.inf if horizon.heads is None else at + horizon.heads.total_seconds()

    async def take(self, room: Mapping[str, int], *, all_lanes: bool) -> HeadsClaimed:
        """Claims due heads, at most as many of each lane as *room* says. *all_lanes*: the worker has no other lanes."""
        chosen = {lane: await self.fair.choose(lane, free) for lane, free in room.items()}
        async with self._store.begin() as tx:
            found = await self._lock(tx, room, chosen)
            succeeded = await succeed(tx, found, found.now, self._claimant) if found.heads else NO_HEADS
        tell_heads(succeeded, self._claimant.worker, self._signals)
        if all_lanes and not succeeded.many:
            self._due_at = time.monotonic() + ASKED_AGAIN_AFTER_S
        return succeeded

    async def take_for_idle_tenants(self, lanes: Sequence[str], free: int) -> HeadsClaimed:
        """Claims due heads of tenants and destinations that have nothing running here."""
        chosen = await self.fair.choose_for_the_quiet(lanes, free)
        if not chosen:
            return NO_HEADS
        async with self._store.begin() as tx:
            found = await tx.these_heads([one.id for one in chosen], lanes, free, self._claimant.as_of)
            succeeded = await succeed(tx, found, found.now, self._claimant) if found.heads else NO_HEADS
        self.fair.taken(chosen, [head.id for head in found.heads], free)
        tell_heads(succeeded, self._claimant.worker, self._signals)
        return succeeded

    async def _lock(
        self, tx: ClaimTransaction, room: Mapping[str, int], chosen: Mapping[str, Sequence[Candidate]]
    ) -> Heads:
        """Locks the chosen heads of each lane, and then the oldest ones. Locked heads are not claimed yet, so the
        oldest may be among the chosen."""
        found: list[Heads] = []
        for lane, candidates in chosen.items():
            if candidates:
                most = self.fair.at_most(lane, room[lane])
                these = await tx.these_heads([one.id for one in candidates], [lane], most, self._claimant.as_of)
                self.fair.taken(candidates, {head.id for head in these.heads}, most)
                found.append(these)
        plain = {lane: free for lane, free in room.items() if lane not in self.fair.limited}
        if plain:
            oldest = await tx.due_heads(plain, self._claimant.as_of)
            self.fair.taken_oldest(oldest.heads, plain)
            found.append(oldest)
        return found[0] if len(found) == 1 else _together(found, room)


def _together(found: Sequence[Heads], room: Mapping[str, int]) -> Heads:
    """Merges locked heads without duplicates, as many as there is room for, in the order in which they were found."""
    free, heads = dict(room), {}
    for head in chain.from_iterable(one.heads for one in found):
        if head.id not in heads and free[head.lane] > 0:
            heads[head.id] = head
            free[head.lane] -= 1
    schedules = {schedule.id: schedule for one in found for schedule in one.schedules}
    return Heads(list(heads.values()), list(schedules.values()), max((one.now for one in found), default=LONG_AGO))


def tell_heads(succeeded: HeadsClaimed, worker: str, signals: Signals) -> None:
    for halted in succeeded.halted:
        signals.emit(halted)
    for event, reason in succeeded.dropped:
        signals.emit(Skipped(event, reason))
    for event in succeeded.fired:
        signals.emit(Claimed(event, worker))
