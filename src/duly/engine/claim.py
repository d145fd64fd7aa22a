"""Take what is ready, oldest first, one second late or one week late. Recovery is this and nothing else."""

import math
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain

import msgspec

from duly.decide.fair_share import Candidate, Key
from duly.engine.fairness.fair_claim import FairClaim
from duly.engine.fairness.fair_queue import FairQueue
from duly.engine.series.heads import Claimant, HeadsClaimed
from duly.engine.series.holds import LONG_AGO, let_go_after, succeed
from duly.engine.tally import DEAD, PassTally
from duly.ports import NO_FRONTIER, NOT_YET, ClaimPath, ClaimTransaction, Heads, Horizon
from duly.records.event import Event, Status
from duly.signals import Claimed, DeadLettered, Interrupted, Signals, Skipped

SPARING, CHEAP = 20, 0.02
"""A look from the beginning that takes more than so many seconds is paid for by so many times that without one."""

MARGIN = timedelta(seconds=1)
"""So much before where the last look ended does the next one begin: an instant is written before it is committed."""

NONE = HeadsClaimed([], [], 0, [])


class Frontier:
    """Where the fresh work begins, as far as this worker has seen.

    PostgreSQL cannot clear away what was claimed and settled while somebody holds a transaction open, such as a backup.
    A claim from the beginning steps over all of it, and takes longer and longer: behind a hundred thousand of them 20
    ms instead of 6. So where that takes long, most claims go on where the last one ended. What comes before that,
    because it was added late or given back, is found at the next look from the beginning; nobody sleeps past that.
    """

    def __init__(self) -> None:
        self._seen = NO_FRONTIER
        self._whole_at = 0.0
        self._claimed_whole = False  # the last claim was from the beginning, and nobody has looked ahead since
        self._looked_whole = True  # the last look ahead was from the beginning

    @property
    def whole_in(self) -> float:
        """Seconds until the next look from the beginning."""
        return max(0.0, self._whole_at - time.monotonic())

    @property
    def unsure_in(self) -> float:
        """Seconds for which what the last look ahead said can be relied on."""
        return math.inf if self._looked_whole else self.whole_in

    def begins(self) -> Mapping[str, datetime]:
        """Where to begin in each lane, unless it is time for a look from the beginning."""
        return self._seen.fresh if self.whole_in else {}

    def forget(self, lane: str) -> None:
        self._seen = self._seen._replace(fresh={other: due for other, due in self._seen.fresh.items() if other != lane})

    async def claim(self, store: ClaimPath, claimant: Claimant, room: Mapping[str, int]) -> list[Event]:
        self._claimed_whole, began = not self.whole_in, time.monotonic()
        worker, lease, as_of = claimant
        events = await store.claim(worker, room, lease, NO_FRONTIER if self._claimed_whole else self._seen, as_of)
        if self._claimed_whole:
            self._looked(began)
        # By their due times, oldest first: a retried one became ready after that, so this is never too far.
        ends = {event.lane: event.due - MARGIN for event in events}
        self._seen = self._seen._replace(fresh={**self._seen.fresh, **ends})
        return events

    async def horizon(self, store: ClaimPath, lanes: Sequence[str], limited: Collection[str]) -> Horizon:
        """In lanes with limits, whatever is ready has been seen, and what counts is what will be. After a claim from
        the beginning the look is from there as well: or none would ever be, where every one takes long."""
        whole, began = self._claimed_whole or not self.whole_in, time.monotonic()
        self._claimed_whole, self._looked_whole = False, whole
        known = NO_FRONTIER if whole else self._seen
        if limited:
            known = known._replace(fresh={**known.fresh, **dict.fromkeys(limited, NOT_YET)})
        horizon, seen = await store.horizon(lanes, known)
        if whole:
            self._looked(began)
            fresh = {} if limited else {lane: at - MARGIN for lane, at in seen.fresh.items()}
            self._seen = seen._replace(fresh=fresh)
        return horizon

    def _looked(self, began: float) -> None:
        now = time.monotonic()
        self._whole_at = now + SPARING * max(0.0, now - began - CHEAP)


class Claims:
    """What one worker takes: what is oldest, unless those who have to share it would come off badly."""

    def __init__(self, store: ClaimPath, claimant: Claimant, fair_queue: FairQueue, signals: Signals) -> None:
        self._store, self._claimant, self._signals = store, claimant, signals
        self._frontier = Frontier()
        self.events = FairClaim(store.scan_backlog, self._frontier.begins, fair_queue)
        self.heads = FairClaim(store.scan_heads, dict, fair_queue)

    @property
    def limited(self) -> set[str]:
        """Lanes in which more is ready than may start."""
        return self.events.limited | self.heads.limited

    def waiting(self) -> set[Key]:
        """Who has something ready that may not start."""
        return self.events.waiting() | self.heads.waiting()

    def rested(self) -> None:
        """Look at everything again, whatever that costs."""
        self.events.rested()
        self.heads.rested()

    async def begin_again(self, lane: str) -> None:
        """Forget what was seen in this lane: older ones have been given back since."""
        self._frontier.forget(lane)
        await self.events.begin_again(lane)
        await self.heads.begin_again(lane)

    @property
    def unsure_in(self) -> float:
        """Seconds after which to look again, whatever was said of the next one."""
        return self._frontier.unsure_in

    async def stop(self) -> None:
        """Nobody will take anything any more."""
        await self.events.stop()
        await self.heads.stop()

    async def horizon(self, lanes: Sequence[str]) -> Horizon:
        """When there is something to take."""
        return await self._frontier.horizon(self._store, lanes, self.events.limited)

    async def take(self, room: Mapping[str, int]) -> AsyncIterator[list[Event]]:
        """Events that are this worker's until the lease ends, as they come, at most so many of each lane."""
        rest = dict(room)
        for lane, free in room.items():
            if chosen := await self.events.choose(lane, free):
                these = await self._take_these(chosen, [lane], self.events.at_most(lane, free))
                rest[lane] -= len(these)
                yield self._told(these)
        rest = {lane: free for lane, free in rest.items() if free > 0 and lane not in self.events.limited}
        if rest:
            oldest = await self._frontier.claim(self._store, self._claimant, rest)
            self.events.taken_oldest(oldest, rest)
            yield self._told(oldest)

    async def take_heads(self, room: Mapping[str, int]) -> HeadsClaimed:
        """The same with heads. Their successors are planned already."""
        chosen = {lane: await self.heads.choose(lane, free) for lane, free in room.items()}
        async with self._store.begin() as tx:
            found = await self._lock_heads(tx, room, chosen)
            succeeded = await succeed(tx, found, found.now, self._claimant) if found.heads else NONE
        tell_heads(succeeded, self._claimant.worker, self._signals)
        return succeeded

    async def claim_for_idle_tenants(self, lanes: Sequence[str], free: int) -> list[Event]:
        """When there is room only for those who have nothing under way here."""
        taken: list[Event] = []
        if chosen := await self.heads.choose_for_the_quiet(lanes, free):
            async with self._store.begin() as tx:
                found = await tx.these_heads([one.id for one in chosen], lanes, free, self._claimant.as_of)
                succeeded = await succeed(tx, found, found.now, self._claimant) if found.heads else NONE
            self.heads.taken(chosen, [head.id for head in found.heads], free)
            tell_heads(succeeded, self._claimant.worker, self._signals)
            taken = succeeded.fired
        if chosen := await self.events.choose_for_the_quiet(lanes, free - len(taken)):
            taken = taken + self._told(await self._take_these(chosen, lanes, free - len(taken)))
        return taken

    async def _take_these(self, chosen: Sequence[Candidate], lanes: Sequence[str], free: int) -> list[Event]:
        ids, (worker, lease, as_of) = [one.id for one in chosen], self._claimant
        events = await self._store.claim_these(worker, ids, lanes, free, lease, as_of)
        self.events.taken(chosen, {event.id for event in events}, free)
        return events

    async def _lock_heads(
        self, tx: ClaimTransaction, room: Mapping[str, int], chosen: Mapping[str, Sequence[Candidate]]
    ) -> Heads:
        """What was chosen in each lane, and then the oldest. They are only locked, so the oldest may be among the
        chosen."""
        found: list[Heads] = []
        for lane, candidates in chosen.items():
            if candidates:
                most = self.heads.at_most(lane, room[lane])
                these = await tx.these_heads([one.id for one in candidates], [lane], most, self._claimant.as_of)
                self.heads.taken(candidates, {head.id for head in these.heads}, most)
                found.append(these)
        plain = {lane: free for lane, free in room.items() if lane not in self.heads.limited}
        if plain:
            oldest = await tx.due_heads(plain, self._claimant.as_of)
            self.heads.taken_oldest(oldest.heads, plain)
            found.append(oldest)
        return found[0] if len(found) == 1 else _together(found, room)

    def _told(self, events: list[Event]) -> list[Event]:
        if self._signals.wanted(Claimed):
            for event in events:
                self._signals.emit(Claimed(event, self._claimant.worker))
        return events


def _together(found: Sequence[Heads], room: Mapping[str, int]) -> Heads:
    """As many as there is room for, the first ones first."""
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


async def claim_interrupted(
    store: ClaimPath, claimant: Claimant, lanes: Sequence[str], tally: PassTally
) -> Event | None:
    """One event that was under way when a worker vanished. It must be delivered with nothing beside it: if it
    is what ended that worker, it will end this one, and only it shall pay for that."""
    signals, (worker, lease, as_of) = tally.signals, claimant
    while True:
        async with store.begin() as tx:  # or a store that fails between the two would leave it claimed and unstarted
            claimed = await tx.claim_interrupted(worker, lanes, lease, as_of)
            history = await tx.history(claimed[0].id) if claimed else []
            await let_go_after(tx, [event for event in claimed if event.status is Status.FAILED])
        if not claimed:
            return None
        [event] = claimed
        for entry in history:
            if entry.act == "interrupted" and entry.version == event.version - 1:
                signals.emit(Interrupted(msgspec.structs.replace(event, worker=entry.worker, claimed=entry.claimed)))
        if event.status is Status.FAILED:
            tally.count(DEAD)
            signals.emit(DeadLettered(event, event.last_error or ""))
        else:
            signals.emit(Claimed(event, worker))
            return event
