"""How those who have something ready in a lane share what a worker can take.

As long as it can take all that there is, nobody has to share. In a backlog it takes what is oldest, as ever, but first
what those have who would get less than their share by that. In a lane with limits it takes only what may start.
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

SPARE = 2
"""So many times as many are named as can be taken, for another worker may have taken the first ones."""

OLDEST = 4
"""One of so many is the oldest all the same, however many others there are."""

FEW, CROWD = 10, 50
"""Where so many get their share of what is oldest, or if it is little at least so few and half of it, nobody keeps all
others waiting, and what is oldest is fair enough. Only those who have just come are still looked for."""

AWAITED_S = 0.005
"""Seconds for which a claim waits for a look while tenants share a worker. What is found is claimed at once, and not
after the next batch of somebody else; a look among the newest takes 1 ms."""

ENOUGH = 100
"""So many of a claim are looked at to see whether all of it is one tenant's."""

_key = attrgetter("tenant", "destination")


class FairClaim:
    """For one kind of events: heads, or all others."""

    def __init__(self, look: Look, begins: Begins, fair_queue: FairQueue) -> None:
        self._scan, self._fair_queue = BacklogScan(look, begins), fair_queue
        self._served: dict[str, set[Key]] = {}  # in lanes with a backlog: those who get their share of what is oldest
        self._looking: dict[str, asyncio.Task[set[str]]] = {}  # by lane: among the oldest, too
        self._looking_near: dict[str, asyncio.Task[set[str]]] = {}  # the same among the newest alone
        self._looked_at: set[str] = set()  # lanes with a backlog that somebody has looked behind
        self._crowded: set[str] = set()  # those of them in which so many do that nobody else is looked for
        self.limited: set[str] = set()  # lanes in which what is oldest may not be what may start

    def rested(self) -> None:
        self._scan.rested()

    async def begin_again(self, lane: str) -> None:
        """Forget what is known of this lane, and what somebody is about to find."""
        looks = [looking for kind in self._kinds if (looking := kind.pop(lane, None)) is not None]
        await asyncio.gather(*looks, return_exceptions=True)
        self._forget(lane)

    def waiting(self) -> set[Key]:
        """Who has something that there was no room for."""
        return {key for lane in self.limited for key in self._scan.known(lane)}

    # -- choosing

    async def choose(self, lane: str, free: int) -> list[Candidate]:
        """What to take first."""
        if lane in self.limited:
            return await self._what_may_start(lane, free)
        if lane not in self._served:
            return []
        self._look_behind(lane, free)
        looks = [looking for kind in self._kinds if (looking := kind.get(lane)) is not None and not looking.done()]
        if (
            looks and self._fair_queue.shared
        ):  # claims are small, and whoever comes meanwhile must not wait for a deep look
            await asyncio.wait(looks, timeout=AWAITED_S, return_when=asyncio.FIRST_COMPLETED)
        elif looks and lane not in self._looked_at:  # so that nobody waits behind a flood that begins
            await asyncio.wait(looks)
            self._looked_at.add(lane)
        return self._fairly(lane, free)

    def at_most(self, lane: str, free: int) -> int:
        """How many of the chosen to take."""
        return free if lane in self.limited else free - free // OLDEST

    async def choose_for_the_quiet(self, lanes: Sequence[str], free: int) -> list[Candidate]:
        """What to take where only those may have something who have nothing here."""
        here = self._fair_queue.keys()
        await self._scan.look(lanes, here, free, QUIET)
        room = FreePlaces(
            lambda *key: 0 if key in here else min(1, self._fair_queue.room(*key)), self._fair_queue.room_of
        )
        known = {key: found for lane in lanes for key, found in self._scan.known(lane).items()}
        return choose(known, SPARE * free, {}, room)

    def _look_behind(self, lane: str, free: int) -> None:
        """For others than those who are well served, beside the claims, which need not wait for it. A look that goes
        deep may take long: what has just become due is looked for beside it."""
        for kind in self._kinds:
            if lane in kind and kind[lane].done():
                with contextlib.suppress(StoreUnavailable):  # as the claims have found since, if it still is
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
        """Look no further."""
        looks = [looking for kind in self._kinds for looking in kind.values()]
        for looking in looks:
            looking.cancel()
        await asyncio.gather(*looks, return_exceptions=True)

    @property
    def _kinds(self) -> tuple[dict[str, asyncio.Task[set[str]]], ...]:
        return self._looking, self._looking_near

    def _fairly(self, lane: str, free: int) -> list[Candidate]:
        """What those have who are not well served: the others get what is oldest."""
        known, served, in_hand = self._scan.known(lane), self._served[lane], self._fair_queue.in_hand()
        share = fair_share(in_hand, {tenant for tenant, _ in (*known, *served)}, free)
        room = FreePlaces(
            self._fair_queue.room, lambda tenant: min(share - in_hand[tenant], self._fair_queue.room_of(tenant))
        )
        others = {key: found for key, found in known.items() if key not in served}
        return choose(others, SPARE * self.at_most(lane, free), in_hand, room)

    async def _what_may_start(self, lane: str, free: int) -> list[Candidate]:
        await self._scan.look([lane], set(self._scan.known(lane)), free, OTHERS)
        known = self._scan.known(lane)
        enough = {key for key, found in known.items() if len(found) >= min(free, self._fair_queue.room(*key))}
        if not known or len(enough) < len(known):
            await self._scan.look([lane], enough, free, MORE)
            if not self._scan.known(lane) and lane not in self._scan.more and not self._fair_queue.holds_back:
                self.limited.discard(lane)
        room = FreePlaces(self._fair_queue.room, self._fair_queue.room_of)
        return choose(self._scan.known(lane), SPARE * free, self._fair_queue.in_hand(), room)

    # -- what came of it

    def taken(self, chosen: Sequence[Candidate], ids: Collection[str], free: int) -> None:
        """Those of the chosen that could be had. If there was room for no more, the others may be there still."""
        last = max((n for n, one in enumerate(chosen) if one.id in ids), default=-1)
        self._scan.forget(chosen[: last + 1] if len(ids) >= free else chosen)

    def taken_oldest(self, events: Sequence[Event], room: Mapping[str, int]) -> None:
        """What was there, where at most so many of the oldest of each lane were taken."""
        for lane, free in room.items():
            of_lane = events if len(room) == 1 else [event for event in events if event.lane == lane]
            backlog, whose = len(of_lane) >= free, _whose(of_lane)
            if any(self._fair_queue.binds(*key) for key in whose) and self._is_limited(whose, backlog):
                self.limited.add(lane)
            if backlog:
                self._served[lane] = served = well_served(whose)
                crowded = len(served) >= max(FEW, min(CROWD, len(of_lane) // 2))
                (self._crowded.add if crowded else self._crowded.discard)(lane)
            elif lane in self._served:
                self._forget(lane)

    def _forget(self, lane: str) -> None:
        self._served.pop(lane, None)
        self._looked_at.discard(lane)
        self._scan.forget_all(lane)

    def _is_limited(self, whose: Mapping[Key, int], backlog: bool) -> bool:
        """Whether more may come of those who have these than may start."""
        for key, many in whose.items():
            room = min(self._fair_queue.room(*key), self._fair_queue.room_of(key[0]))
            if room < UNBOUNDED and (backlog or room <= many):
                return True
        return False


def _whose(events: Sequence[Event]) -> Mapping[Key, int]:
    """How many each has. If enough of them are one tenant's, for one destination, all are taken for that."""
    some = Counter(map(_key, events[:: 1 + len(events) // ENOUGH]))
    return Counter(map(_key, events)) if len(some) > 1 else dict.fromkeys(some, len(events))
