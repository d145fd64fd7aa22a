"""Claims ready events, oldest first, whether they are one second or one week late. There is no other recovery."""

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

CHEAP_FULL_SCAN_S = 0.02
"""Seconds up to which a full scan, from the oldest index entry, is cheap. It takes 6 ms where the index is clean."""

FULL_SCAN_WAIT_FACTOR = 20
"""After a full scan, the next one waits for this many times the excess over CHEAP_FULL_SCAN_S, so that the excess takes
at most a twentieth of the time."""

FRONTIER_MARGIN = timedelta(seconds=1)
"""A claim begins this much before the place where the last one ended: an event gets its instant before its commit, so
an older event may appear later."""

NO_HEADS = HeadsClaimed([], [], 0, [])


class Frontier:
    """The place in the index where unclaimed events begin, as far as this worker has seen.

    PostgreSQL cannot vacuum the index entries of settled events while a transaction stays open, such as a backup. A
    full scan steps over all of them and takes longer and longer: 20 ms instead of 6 behind a hundred thousand of them.
    So where full scans are slow, most claims continue where the last one ended. Events before that place, because they
    were added late or given back, are found by the next full scan; no worker sleeps past it.
    """

    def __init__(self) -> None:
        self._seen = NO_FRONTIER
        self._whole_at = 0.0
        self._claimed_whole = False  # the last claim was a full scan, and no horizon has been read since
        self._looked_whole = True  # the last horizon was read by a full scan

    @property
    def whole_in(self) -> float:
        """Seconds until the next full scan."""
        return max(0.0, self._whole_at - time.monotonic())

    @property
    def unsure_in(self) -> float:
        """Seconds for which the last horizon is reliable."""
        return math.inf if self._looked_whole else self.whole_in

    def begins(self) -> Mapping[str, datetime]:
        """Where a scan of each lane begins; empty if it is time for a full scan."""
        return self._seen.fresh if self.whole_in else {}

    def forget(self, lane: str) -> None:
        self._seen = self._seen._replace(fresh={other: due for other, due in self._seen.fresh.items() if other != lane})

    async def claim(self, store: ClaimPath, claimant: Claimant, room: Mapping[str, int]) -> list[Event]:
        self._claimed_whole, began = not self.whole_in, time.monotonic()
        worker, lease, as_of = claimant
        events = await store.claim(worker, room, lease, NO_FRONTIER if self._claimed_whole else self._seen, as_of)
        if self._claimed_whole:
            self._looked(began)
        # Events come oldest first by due time. A retried event became ready after its due time, so this is never too
        # far.
        ends = {event.lane: event.due - FRONTIER_MARGIN for event in events}
        self._seen = self._seen._replace(fresh={**self._seen.fresh, **ends})
        return events

    async def horizon(self, store: ClaimPath, lanes: Sequence[str], limited: Collection[str]) -> Horizon:
        """Reads when the next event is ready. In lanes with limits, ready events have been seen already, and only those
        that become ready later count. After a claim by full scan, the horizon is a full scan too: otherwise, where each
        of them is slow, the horizon would never get one."""
        whole, began = self._claimed_whole or not self.whole_in, time.monotonic()
        self._claimed_whole, self._looked_whole = False, whole
        known = NO_FRONTIER if whole else self._seen
        if limited:
            known = known._replace(fresh={**known.fresh, **dict.fromkeys(limited, NOT_YET)})
        horizon, seen = await store.horizon(lanes, known)
        if whole:
            self._looked(began)
            fresh = {} if limited else {lane: at - FRONTIER_MARGIN for lane, at in seen.fresh.items()}
            self._seen = seen._replace(fresh=fresh)
        return horizon

    def _looked(self, began: float) -> None:
        now = time.monotonic()
        self._whole_at = now + FULL_SCAN_WAIT_FACTOR * max(0.0, now - began - CHEAP_FULL_SCAN_S)


class Claims:
    """The claims of one worker: the oldest events, unless some tenants would get less than their fair share."""

    def __init__(self, store: ClaimPath, claimant: Claimant, fair_queue: FairQueue, signals: Signals) -> None:
        self._store, self._claimant, self._signals = store, claimant, signals
        self._frontier = Frontier()
        self.events = FairClaim(store.scan_backlog, self._frontier.begins, fair_queue)
        self.heads = FairClaim(store.scan_heads, dict, fair_queue)

    @property
    def limited(self) -> set[str]:
        """Lanes in which more events are ready than limits let start."""
        return self.events.limited | self.heads.limited

    def waiting(self) -> set[Key]:
        """Tenants and destinations with ready events that may not start."""
        return self.events.waiting() | self.heads.waiting()

    def rested(self) -> None:
        """Allows all backlog scans again at once, even expensive ones."""
        self.events.rested()
        self.heads.rested()

    async def begin_again(self, lane: str) -> None:
        """Forgets what was seen in a lane, because older events have been given back since."""
        self._frontier.forget(lane)
        await self.events.begin_again(lane)
        await self.heads.begin_again(lane)

    @property
    def unsure_in(self) -> float:
        """Seconds after which to claim again, even if the horizon is later."""
        return self._frontier.unsure_in

    async def stop(self) -> None:
        """Cancels the backlog scans under way, because no more claims follow."""
        await self.events.stop()
        await self.heads.stop()

    async def horizon(self, lanes: Sequence[str]) -> Horizon:
        """The time until events become ready in these lanes."""
        return await self._frontier.horizon(self._store, lanes, self.events.limited)

    async def take(self, room: Mapping[str, int]) -> AsyncIterator[list[Event]]:
        """Claims events until their leases end, at most as many of each lane as *room* says; yields them batch by
        batch."""
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
        """Claims due heads in the same way, and plans their successors in the same transaction."""
        chosen = {lane: await self.heads.choose(lane, free) for lane, free in room.items()}
        async with self._store.begin() as tx:
            found = await self._lock_heads(tx, room, chosen)
            succeeded = await succeed(tx, found, found.now, self._claimant) if found.heads else NO_HEADS
        tell_heads(succeeded, self._claimant.worker, self._signals)
        return succeeded

    async def claim_for_idle_tenants(self, lanes: Sequence[str], free: int) -> list[Event]:
        """Claims events of tenants and destinations that have nothing running here, because only the reserved places
        are free."""
        taken: list[Event] = []
        if chosen := await self.heads.choose_for_the_quiet(lanes, free):
            async with self._store.begin() as tx:
                found = await tx.these_heads([one.id for one in chosen], lanes, free, self._claimant.as_of)
                succeeded = await succeed(tx, found, found.now, self._claimant) if found.heads else NO_HEADS
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
        """Locks the chosen heads of each lane, and then the oldest ones. Locked heads are not claimed yet, so the
        oldest may be among the chosen."""
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


async def claim_interrupted(
    store: ClaimPath, claimant: Claimant, lanes: Sequence[str], tally: PassTally
) -> Event | None:
    """Claims one event that was running when its worker vanished. It must be delivered with no other event beside it:
    if the event crashed that worker, it will crash this one too, and only this event shall suffer from that."""
    signals, (worker, lease, as_of) = tally.signals, claimant
    while True:
        async with store.begin() as tx:  # else a store failing between claim and history leaves the event unstarted
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
