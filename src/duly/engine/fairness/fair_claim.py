"""Fair claims: how the tenants and destinations with ready events in a lane share what a worker can take.

While a worker can take all ready events, no sharing is needed. In a backlog it takes the oldest events, as always, but
first events of tenants that would get less than their fair share that way. In a lane with limits it takes only events
that may start.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter

from duly.decide.fair_share import Candidate, FreePlaces, Key, choose, fair_share, well_served
from duly.engine.fairness.backlog_scan import MORE, NEAR, OTHERS, QUIET, BacklogScan, Begins, Look
from duly.engine.fairness.fair_queue import UNBOUNDED, FairQueue
from duly.errors import StoreUnavailable
from duly.records.event import Event

CANDIDATES_PER_PLACE = 2
"""Candidates named for each event that can be taken, because another worker may have taken the first ones."""

ONE_OLDEST_IN = 4
"""A claim takes one in this many events by age alone, however many other candidates there are."""

CROWD_MOST = 50
"""A lane is crowded when this many tenants and destinations are well served by the oldest events, or half as many as
there were events in the claim, if that is less. Then nobody starves the others, taking the oldest is fair enough, and
scans read only the newest events."""

CROWD_LEAST = 10
"""Tenants and destinations that a crowded lane has at least, however small the claim."""

AWAITED_S = 0.005
"""Seconds for which a claim waits for a backlog scan while tenants share a worker. The events found are then claimed at
once, not after the next batch of another tenant; a scan of the newest events takes 1 ms."""

SAMPLE = 100
"""Events of a claim that are sampled to see whether all of them belong to one tenant."""

_key = attrgetter("tenant", "destination")


class FairClaim:
    """The fair claims of one worker."""

    def __init__(self, look: Look, begins: Begins, fair_queue: FairQueue) -> None:
        self._scan, self._fair_queue = BacklogScan(look, begins), fair_queue
        self._served: dict[str, set[Key]] = {}  # lanes with a backlog, and who is well served by their oldest events
        self._looking: dict[str, asyncio.Task[set[str]]] = {}  # by lane: scans among the oldest and the newest events
        self._looking_near: dict[str, asyncio.Task[set[str]]] = {}  # by lane: scans among the newest events only
        self._looked_at: set[str] = set()  # lanes with a backlog that were scanned at least once
        self._crowded: set[str] = set()  # crowded lanes with a backlog: scanned among the newest events only
        self.limited: set[str] = set()  # lanes with limits, whose oldest events may not be the ones that may start

    def rested(self) -> None:
        self._scan.rested()

    async def begin_again(self, lane: str) -> None:
        """Forgets the candidates of a lane, also those of scans under way."""
        looks = [looking for kind in self._kinds if (looking := kind.pop(lane, None)) is not None]
        await asyncio.gather(*looks, return_exceptions=True)
        self._forget(lane)

    def waiting(self) -> set[Key]:
        """Tenants and destinations with ready events in lanes with limits."""
        return {key for lane in self.limited for key in self._scan.known(lane)}

    # -- choosing

    async def choose(self, lane: str, free: int) -> list[Candidate]:
        """The candidates to claim before the oldest events."""
        if lane in self.limited:
            return await self._what_may_start(lane, free)
        if lane not in self._served:
            return []
        self._look_behind(lane, free)
        looks = [looking for kind in self._kinds if (looking := kind.get(lane)) is not None and not looking.done()]
        if looks and self._fair_queue.shared:  # claims are small, and new events must not wait for a deep scan
            await asyncio.wait(looks, timeout=AWAITED_S, return_when=asyncio.FIRST_COMPLETED)
        elif looks and lane not in self._looked_at:  # so that no tenant waits behind a flood that begins
            await asyncio.wait(looks)
            self._looked_at.add(lane)
        return self._fairly(lane, free)

    def at_most(self, lane: str, free: int) -> int:
        """How many of the chosen candidates to claim."""
        return free if lane in self.limited else free - free // ONE_OLDEST_IN

    async def choose_for_the_quiet(self, lanes: Sequence[str], free: int) -> list[Candidate]:
        """The candidates of tenants and destinations that have no events here, when only reserved places are free."""
        here = self._fair_queue.keys()
        await self._scan.look(lanes, here, free, QUIET)
        room = FreePlaces(
            lambda *key: 0 if key in here else min(1, self._fair_queue.room(*key)), self._fair_queue.room_of
        )
        known = {key: found for lane in lanes for key, found in self._scan.known(lane).items()}
        return choose(known, CANDIDATES_PER_PLACE * free, {}, room)

    def _look_behind(self, lane: str, free: int) -> None:
        """Starts scans for tenants and destinations that are not well served, concurrently with the claims. A deep scan
        may take long, so a scan of the newest events runs beside it."""
        for kind in self._kinds:
            if lane in kind and kind[lane].done():
                with contextlib.suppress(StoreUnavailable):  # if that lasts, the claims report it
                    kind.pop(lane).result()
        served, known = self._served[lane], self._scan.known(lane)
        few = lane not in self._crowded and self._scan.many(lane) < free
        if few and lane not in self._looking:
            if lane in self._scan.more and self._scan.may(MORE, lane):
                self._looking[lane] = asyncio.create_task(self._scan.look([lane], served, free, MORE))
                return
            if self._scan.may(OTHERS, lane):
                deep = self._scan.look([lane], {*served, *known}, free, OTHERS)
                self._looking[lane] = asyncio.create_task(deep)
                return
        if lane not in self._looking_near and (self._fair_queue.shared or self._scan.may(NEAR, lane)):
            near = self._scan.look([lane], {*served, *known}, free, NEAR)
            self._looking_near[lane] = asyncio.create_task(near)

    async def stop(self) -> None:
        """Cancels the scans under way."""
        looks = [looking for kind in self._kinds for looking in kind.values()]
        for looking in looks:
            looking.cancel()
        await asyncio.gather(*looks, return_exceptions=True)

    @property
    def _kinds(self) -> tuple[dict[str, asyncio.Task[set[str]]], ...]:
        return self._looking, self._looking_near

    def _fairly(self, lane: str, free: int) -> list[Candidate]:
        """The candidates of tenants and destinations that are not well served; the others get the oldest events."""
        known, served, in_hand = self._scan.known(lane), self._served[lane], self._fair_queue.in_hand()
        share = fair_share(in_hand, {tenant for tenant, _ in (*known, *served)}, free)
        room = FreePlaces(
            self._fair_queue.room, lambda tenant: min(share - in_hand[tenant], self._fair_queue.room_of(tenant))
        )
        others = {key: found for key, found in known.items() if key not in served}
        return choose(others, CANDIDATES_PER_PLACE * self.at_most(lane, free), in_hand, room)

    async def _what_may_start(self, lane: str, free: int) -> list[Candidate]:
        await self._scan.look([lane], set(self._scan.known(lane)), free, OTHERS)
        known = self._scan.known(lane)
        enough = {key for key, found in known.items() if len(found) >= min(free, self._fair_queue.room(*key))}
        if not known or len(enough) < len(known):
            await self._scan.look([lane], enough, free, MORE)
            if not self._scan.known(lane) and lane not in self._scan.more and not self._fair_queue.holds_back:
                self.limited.discard(lane)
        room = FreePlaces(self._fair_queue.room, self._fair_queue.room_of)
        return choose(self._scan.known(lane), CANDIDATES_PER_PLACE * free, self._fair_queue.in_hand(), room)

    # -- what came of it

    def taken(self, chosen: Sequence[Candidate], ids: Collection[str], free: int) -> None:
        """Notes which of the chosen candidates were claimed. If they filled the room, the rest may still be ready;
        otherwise another worker has them, and they are forgotten."""
        last = max((n for n, one in enumerate(chosen) if one.id in ids), default=-1)
        self._scan.forget(chosen[: last + 1] if len(ids) >= free else chosen)

    def taken_oldest(self, events: Sequence[Event], room: Mapping[str, int]) -> None:
        """Notes the result of claiming the oldest events, at most *room* of each lane: which lanes have a backlog, who
        is well served, and which lanes are limited."""
        for lane, free in room.items():
            of_lane = events if len(room) == 1 else [event for event in events if event.lane == lane]
            backlog, whose = len(of_lane) >= free, _whose(of_lane)
            if any(self._fair_queue.binds(*key) for key in whose) and self._is_limited(whose, backlog):
                self.limited.add(lane)
            if backlog:
                self._served[lane] = served = well_served(whose)
                crowded = len(served) >= max(CROWD_LEAST, min(CROWD_MOST, len(of_lane) // 2))
                (self._crowded.add if crowded else self._crowded.discard)(lane)
            elif lane in self._served:
                self._forget(lane)

    def _forget(self, lane: str) -> None:
        self._served.pop(lane, None)
        self._looked_at.discard(lane)
        self._scan.forget_all(lane)

    def _is_limited(self, whose: Mapping[Key, int], backlog: bool) -> bool:
        """Whether the owners of these events may have more ready events than limits let start."""
        for key, many in whose.items():
            room = min(self._fair_queue.room(*key), self._fair_queue.room_of(key[0]))
            if room < UNBOUNDED and (backlog or room <= many):
                return True
        return False


def _whose(events: Sequence[Event]) -> Mapping[Key, int]:
    """How many events each tenant and destination has. If a sample belongs to a single one, all events are counted as
    its own."""
    some = Counter(map(_key, events[:: 1 + len(events) // SAMPLE]))
    return Counter(map(_key, events)) if len(some) > 1 else dict.fromkeys(some, len(events))
