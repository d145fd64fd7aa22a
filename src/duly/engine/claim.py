"""Claims ready events, oldest first, whether they are one second or one week late. There is no other recovery.

On an ordinary day a claim is one statement: ``store.claim``. It claims a head of a schedule or a user like any event,
and plants its successor. The helpers matter only then: ``CarefulHeads`` when something has to be decided about a head,
for instance after downtime; ``FairClaim`` when more is ready than the worker can take; ``Frontier`` when a transaction
stays open for minutes and full scans of the index become slow.
"""

import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple

from duly.decide.fair_share import Candidate, Key
from duly.engine.fairness.fair_claim import FairClaim
from duly.engine.fairness.fair_queue import FairQueue
from duly.engine.faults.frontier import Frontier
from duly.engine.series.careful_heads import CarefulHeads
from duly.engine.series.heads import Claimant
from duly.ports import ClaimedEvents, ClaimPath, Horizon
from duly.records.event import Event
from duly.signals import Claimed, ClaimMade, Signals

HORIZON_EVERY_S = 1.0
"""Seconds between looks at the horizon, at most, even during a backlog: only the horizon shows interrupted events."""

NO_HORIZON = Horizon(None, None)
"""The horizon of a worker that has no lane open: nothing becomes ready."""


class ClaimBatch(NamedTuple):
    """The result of a claim, or of one of its statements."""

    events: Sequence[Event] = ()
    rows: Sequence[Event] = ()  # events and reserved heads that took up the budget
    skipped_heads: bool = False  # some due heads do not fire; their successors may be ready now
    horizon: Horizon | None = None  # when more events become ready, if the claim has read it

    @property
    def found(self) -> bool:
        return bool(self.events) or bool(self.rows) or self.skipped_heads

    def plus(self, more: "ClaimBatch") -> "ClaimBatch":
        return ClaimBatch(
            [*self.events, *more.events],
            [*self.rows, *more.rows],
            self.skipped_heads or more.skipped_heads,
            more.horizon,  # what came after a horizon may have planted earlier events
        )


class Claims:
    """The claims of one worker."""

    def __init__(
        self, store: ClaimPath, claimant: Claimant, fair_queue: FairQueue, heads: CarefulHeads, signals: Signals
    ) -> None:
        self._store, self._claimant, self._fair_queue, self._signals = store, claimant, fair_queue, signals
        self._frontier = Frontier()
        self._fair = FairClaim(store.scan_backlog, self._frontier.begins, fair_queue)
        self._heads = heads
        self._read_at = 0.0  # when the horizon was last read, by time.monotonic
        self._reserving: ClaimMade | None = None  # a claim that has reserved heads, until they are decided about
        self._held_back: set[Key] = set()  # tenants and destinations with ready events that limits keep from starting

    async def take(
        self, budget: Mapping[str, int], *, all_lanes: bool = True, with_horizon: bool = False
    ) -> AsyncIterator[ClaimBatch]:
        """Claims ready events until their leases end, at most ``budget[lane]`` of each lane; yields each batch as soon
        as it is claimed. *all_lanes*: the budget has every lane that this worker serves now; *with_horizon*: reads the
        horizon in the same statement, if that covers all of them."""
        waiting = self._heads.waiting
        rest = {lane: free - waiting[lane] for lane, free in budget.items() if free > waiting[lane]}
        for lane, free in list(rest.items()):  # in a backlog: first those who would get less than their fair share
            if chosen := await self._fair.choose(lane, free):
                claimed = await self._claim_these(chosen, [lane], self._fair.at_most(lane, free))
                rest[lane] -= len(claimed.rows)
                yield ClaimBatch(claimed, claimed.rows)
        rest = {lane: free for lane, free in rest.items() if free > 0 and lane not in self._fair.limited}
        if rest:
            yield await self._claim_oldest(rest, with_horizon=with_horizon and all_lanes and len(rest) == len(budget))
        if self._heads.waiting:
            yield await self._decide()
        self._held_back = self._fair.waiting()

    async def _claim_oldest(self, budget: Mapping[str, int], *, with_horizon: bool) -> ClaimBatch:
        """The ordinary claim."""
        (worker, lease, as_of), begins = self._claimant, self._frontier.claim_begins()
        with_horizon, began = with_horizon and as_of is None, time.monotonic()
        claimed = await self._store.claim(worker, budget, lease, begins, as_of, with_horizon=with_horizon)
        horizon, rows = claimed.horizon, claimed.rows
        self._frontier.claimed(rows, with_horizon=horizon is not None)
        self._fair.taken_oldest(rows, budget)
        return ClaimBatch(self._told(claimed, began), rows, horizon=None if horizon is None else self._noted(horizon))

    async def _claim_these(self, chosen: Sequence[Candidate], lanes: Sequence[str], free: int) -> ClaimedEvents:
        ids, (worker, lease, as_of), began = [one.id for one in chosen], self._claimant, time.monotonic()
        claimed = await self._store.claim_these(worker, ids, lanes, free, lease, as_of)
        self._fair.taken(chosen, {event.id for event in claimed.rows}, free)
        return self._told(claimed, began)

    def _told(self, claimed: ClaimedEvents, began: float) -> ClaimedEvents:
        """Announces what a claim has found, and how long it took."""
        if self._signals.wanted(ClaimMade):
            self._end_claim()
            self._reserving = ClaimMade(claimed, time.monotonic() - began, claimed.took_s)
            if not claimed.careful:
                self._end_claim()
        if claimed.careful:
            self._heads.add(claimed.careful)
        if claimed.planted:
            self._heads.successors.add(claimed.planted)
        if self._signals.wanted(Claimed):
            for event in claimed:
                self._signals.emit(Claimed(event, self._claimant.worker))
        return claimed

    async def _decide(self) -> ClaimBatch:
        """Decides about reserved heads. Their successors may be due already."""
        for lane in self._heads.waiting:
            self._frontier.forget(lane)
        began = time.monotonic()
        decided = await self._heads.decide()
        self._end_claim(decided.fired, time.monotonic() - began)
        return ClaimBatch(decided.fired, skipped_heads=len(decided.fired) < decided.many)

    def _end_claim(self, fired: Sequence[Event] = (), deciding_s: float = 0.0) -> None:
        """Emits ClaimMade, of a claim and the decisions about the heads that it has reserved; of these alone, if the
        claim left them waiting."""
        made, self._reserving = self._reserving, None
        if made is not None and not deciding_s:
            self._signals.emit(made)
        elif made is not None:
            self._signals.emit(ClaimMade([*made.events, *fired], made.transaction_s + deciding_s, made.query_s))
        elif deciding_s:
            self._signals.emit(ClaimMade(fired, deciding_s, None))

    @property
    def undecided(self) -> bool:
        """Whether reserved heads wait for a decision."""
        return bool(self._heads.waiting)

    async def complete_heads(self) -> None:
        """Returns when the heads that claims have planted know what follows them; from now on they wait for nothing
        else."""
        await self._heads.successors.finish(math.inf)

    async def take_for_idle_tenants(self, lanes: Sequence[str], free: int) -> list[Event]:
        """Claims events of tenants and destinations that have nothing running here, because only the reserved places
        are free."""
        chosen = await self._fair.choose_for_the_quiet(lanes, free)
        events: list[Event] = await self._claim_these(chosen, lanes, free) if chosen else []
        return [*events, *((await self._decide()).events if self.undecided else ())]

    # -- when to claim again

    async def horizon(self, lanes: Sequence[str]) -> Horizon:
        """The time until events become ready in these lanes."""
        return self._noted(
            await self._frontier.horizon(self._store, lanes, self._fair.limited) if lanes else NO_HORIZON
        )

    def _noted(self, horizon: Horizon) -> Horizon:
        self._read_at = time.monotonic()
        return horizon

    @property
    def horizon_is_recent(self) -> bool:
        """Whether a worker with a backlog may claim again without reading the horizon."""
        return time.monotonic() - self._read_at < HORIZON_EVERY_S

    @property
    def unsure_in(self) -> float:
        """Seconds after which to claim again, even if the horizon is later."""
        return self._frontier.unsure_in

    @property
    def limited(self) -> set[str]:
        """Lanes in which more events are ready than limits let start."""
        return self._fair.limited

    def wants_more_like(self, event: Event) -> bool:
        """Whether an ended event calls for another claim: limits held some events of its tenant and destination back,
        and few of them are left here."""
        if not self._held_back:
            return False
        key = event.tenant, event.destination
        return key in self._held_back and self._fair_queue.runs_out(key)

    def look_everywhere(self) -> None:
        """Lets the next claim scan the whole backlog, however expensive the last scans were."""
        self._fair.rested()

    async def begin_again(self, lane: str) -> None:
        """Forgets what was seen in a lane, because older events have been given back since."""
        self._frontier.forget(lane)
        await self._fair.begin_again(lane)

    async def stop(self) -> None:
        """Cancels the backlog scans under way and releases reserved heads, because no more claims follow."""
        await self._fair.stop()
        await self._heads.stop()
