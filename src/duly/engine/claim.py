"""Claims ready events, oldest first, whether they are one second or one week late. There is no other recovery.

On an ordinary day a claim is one statement: ``store.claim``. Its helpers matter only then: ``HeadClaims`` when an event
of a schedule or a user is due, because its successor is planned with it; ``FairClaim`` when more is ready than the
worker can take; ``Frontier`` when a transaction stays open for minutes and full scans of the index become slow.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple

from duly.decide.fair_share import Candidate, Key
from duly.engine.fairness.fair_claim import FairClaim
from duly.engine.fairness.fair_queue import FairQueue
from duly.engine.faults.frontier import Frontier
from duly.engine.series.claim_heads import HeadClaims
from duly.engine.series.heads import Claimant
from duly.ports import ClaimPath, Horizon
from duly.records.event import Event
from duly.signals import Claimed, Signals

HORIZON_EVERY_S = 1.0
"""Seconds between looks at the horizon, at most, even during a backlog: only the horizon shows interrupted events and
newly due heads."""

NO_HORIZON = Horizon(None, None, None)
"""The horizon of a worker that has no lane open: nothing becomes ready."""


class ClaimBatch(NamedTuple):
    """The result of a claim, or of one of its statements."""

    events: Sequence[Event] = ()
    skipped_heads: bool = False  # some due heads do not fire; their successors may be ready now
    left_heads_out: bool = False  # heads were not asked for, because none was due by the last horizon
    full: frozenset[str] = frozenset()  # lanes that have more due heads than were claimed
    horizon: Horizon | None = None  # when more events become ready, if the claim has read it

    @property
    def found(self) -> bool:
        return bool(self.events) or self.skipped_heads

    def plus(self, more: "ClaimBatch") -> "ClaimBatch":
        return ClaimBatch(
            [*self.events, *more.events],
            self.skipped_heads or more.skipped_heads,
            self.left_heads_out or more.left_heads_out,
            self.full | more.full,
            more.horizon or self.horizon,
        )


class Claims:
    """The claims of one worker."""

    def __init__(
        self, store: ClaimPath, claimant: Claimant, fair_queue: FairQueue, signals: Signals, *, heads: bool = True
    ) -> None:
        self._store, self._claimant, self._fair_queue, self._signals = store, claimant, fair_queue, signals
        self._frontier = Frontier()
        self._fair = FairClaim(store.scan_backlog, self._frontier.begins, fair_queue)
        self._heads = HeadClaims(store, claimant, fair_queue, signals) if heads else None
        self._read_at = 0.0  # when the horizon was last read, by time.monotonic
        self._held_back: set[Key] = set()  # tenants and destinations with ready events that limits keep from starting

    async def take(
        self, budget: Mapping[str, int], *, all_lanes: bool = True, with_horizon: bool = False
    ) -> AsyncIterator[ClaimBatch]:
        """Claims ready events until their leases end, at most ``budget[lane]`` of each lane; yields each batch as soon
        as it is claimed. *all_lanes*: the budget has every lane that this worker serves now; *with_horizon*: reads the
        horizon in the same statement, if that covers all of them."""
        rest = dict(budget)
        if self._heads is not None and self._heads.may_be_due:
            # Heads get at most half of the budget, and other events the rest, so that neither starves the other.
            half = {lane: (free + 1) // 2 for lane, free in budget.items()}
            heads = await self._heads.take(half, all_lanes=all_lanes)
            taken = Counter(event.lane for event in heads.fired)
            rest = {lane: free - taken[lane] for lane, free in budget.items() if free > taken[lane]}
            full = frozenset(lane for lane, many in taken.items() if many >= half[lane])
            yield ClaimBatch(heads.fired, len(heads.fired) < heads.many, full=full)
        elif self._heads is not None:
            yield ClaimBatch(left_heads_out=True)
        for lane, free in list(rest.items()):  # in a backlog: first those who would get less than their fair share
            if chosen := await self._fair.choose(lane, free):
                events = await self._claim_these(chosen, [lane], self._fair.at_most(lane, free))
                rest[lane] -= len(events)
                yield ClaimBatch(events)
        rest = {lane: free for lane, free in rest.items() if free > 0 and lane not in self._fair.limited}
        if rest:
            yield await self._claim_oldest(rest, with_horizon=with_horizon and all_lanes and len(rest) == len(budget))
        self._held_back = self._fair.waiting() | (self._heads.fair.waiting() if self._heads else set())

    async def _claim_oldest(self, budget: Mapping[str, int], *, with_horizon: bool) -> ClaimBatch:
        """The ordinary claim."""
        (worker, lease, as_of), begins, horizon = self._claimant, self._frontier.claim_begins(), None
        if with_horizon and as_of is None:
            events, horizon = await self._store.claim_with_horizon(worker, budget, lease, begins)
        else:
            events = await self._store.claim(worker, budget, lease, begins, as_of)
        self._frontier.claimed(events, with_horizon=horizon is not None)
        self._fair.taken_oldest(events, budget)
        return ClaimBatch(self._told(events), horizon=None if horizon is None else self._noted(horizon))

    async def _claim_these(self, chosen: Sequence[Candidate], lanes: Sequence[str], free: int) -> list[Event]:
        ids, (worker, lease, as_of) = [one.id for one in chosen], self._claimant
        events = await self._store.claim_these(worker, ids, lanes, free, lease, as_of)
        self._fair.taken(chosen, {event.id for event in events}, free)
        return self._told(events)

    def _told(self, events: list[Event]) -> list[Event]:
        if self._signals.wanted(Claimed):
            for event in events:
                self._signals.emit(Claimed(event, self._claimant.worker))
        return events

    async def take_for_idle_tenants(self, lanes: Sequence[str], free: int) -> list[Event]:
        """Claims events of tenants and destinations that have nothing running here, because only the reserved places
        are free."""
        heads = (await self._heads.take_for_idle_tenants(lanes, free)).fired if self._heads else []
        chosen = await self._fair.choose_for_the_quiet(lanes, free - len(heads))
        return [*heads, *(await self._claim_these(chosen, lanes, free - len(heads)) if chosen else ())]

    # -- when to claim again

    async def horizon(self, lanes: Sequence[str]) -> Horizon:
        """The time until events become ready in these lanes."""
        return self._noted(
            await self._frontier.horizon(self._store, lanes, self._fair.limited) if lanes else NO_HORIZON
        )

    def _noted(self, horizon: Horizon) -> Horizon:
        self._read_at = time.monotonic()
        if self._heads is None:
            return horizon._replace(heads=None)
        self._heads.read(horizon, self._read_at)
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
        return self._fair.limited | (self._heads.fair.limited if self._heads else set())

    def wants_more_like(self, event: Event) -> bool:
        """Whether an ended event calls for another claim: limits held some events of its tenant and destination back,
        and few of them are left here."""
        if not self._held_back:
            return False
        key = event.tenant, event.destination
        return key in self._held_back and self._fair_queue.runs_out(key)

    def look_everywhere(self) -> None:
        """Lets the next claim ask for heads and scan the whole backlog, however expensive the last scans were."""
        for fair in self._fair_claims():
            fair.rested()
        self.ask_for_heads()

    def ask_for_heads(self) -> None:
        """Lets the next claim ask for heads, whatever the last horizon was."""
        if self._heads is not None:
            self._heads.ask_again()

    async def begin_again(self, lane: str) -> None:
        """Forgets what was seen in a lane, because older events have been given back since."""
        self._frontier.forget(lane)
        self.ask_for_heads()
        for fair in self._fair_claims():
            await fair.begin_again(lane)

    async def stop(self) -> None:
        """Cancels the backlog scans under way, because no more claims follow."""
        for fair in self._fair_claims():
            await fair.stop()

    def _fair_claims(self) -> list[FairClaim]:
        return [self._fair] if self._heads is None else [self._fair, self._heads.fair]
