"""Scans of a backlog for other tenants. A claim takes the oldest events of a lane; where all of them belong to one
tenant, a scan finds the ready events of other tenants behind them."""

import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from duly.decide.fair_share import Candidate, Key
from duly.ports import ScanRequest, ScanResult

NEWEST_EVENTS = 200
"""The newest events of a lane that each scan reads: the events of a quiet tenant have mostly just become due."""

NEAR_WAIT_FACTOR = 3
"""The next scan of the newest events waits for this many times the duration of the last one, within these bounds."""

NEAR_WAIT_LEAST_S = 0.005
"""Seconds that this wait lasts at least."""

NEAR_WAIT_MOST_S = 0.05
"""Seconds that this wait lasts at most: a quiet tenant may wait that long to be found."""

OLDEST_EVENTS = 4000
"""The oldest events of a lane that a deep scan reads first."""

DEEPER_FACTOR = 16
"""While a deep scan finds too few events of others, it is repeated with this many times as many of the oldest."""

DEEP_WAIT_FACTOR = 100
"""After a deep scan that finds too few events, the next one waits for this many times its duration, so that such scans
take at most 1% of the time."""

DEEP_WAIT_MOST_S = 10.0
"""Seconds that this wait lasts at most."""

SHALLOW_WAIT_MOST_S = 1.0
"""Seconds that this wait lasts at most if the scan read no more than OLDEST_EVENTS: its duration had another cause."""

MOST_FOUND = 2000
"""The most candidates that one scan returns."""

MOST_REMEMBERED = 4000
"""The most candidates that are remembered for each lane."""

# The purposes of a scan:
OTHERS = "others"  # tenants and destinations without known candidates
MORE = "more"  # more candidates of tenants and destinations that are already known
QUIET = "quiet"  # tenants and destinations with no events here
NEAR = "near"  # any of these, among the newest events only

Look = Callable[[ScanRequest, Collection[Key]], Awaitable[ScanResult]]
Begins = Callable[[], Mapping[str, datetime]]
"""Returns where the oldest events of each lane begin, as far as that is known."""

_ready = attrgetter("ready")


class BacklogScan:
    def __init__(self, look: Look, begins: Begins) -> None:
        self._look, self._begins = look, begins
        self._known: defaultdict[str, dict[Key, list[Candidate]]] = defaultdict(dict)  # by lane
        self._rests: dict[tuple[str, str], float] = {}  # earliest next scan by purpose and lane, by time.monotonic
        self.more: set[str] = set()  # lanes whose last scan found enough, so that there may be more

    def known(self, lane: str) -> Mapping[Key, Sequence[Candidate]]:
        """The candidates of each tenant and destination in a lane, the oldest first. An empty list means that there may
        be more."""
        return self._known[lane]

    def many(self, lane: str) -> int:
        return sum(map(len, self._known[lane].values()))

    def forget(self, candidates: Iterable[Candidate]) -> None:
        gone = {one.id for one in candidates}
        for lane, key in {(one.lane, (one.tenant, one.destination)) for one in candidates}:
            left = [one for one in self._known[lane].pop(key, ()) if one.id not in gone]
            if left or (lane in self.more and len(self._known[lane]) < MOST_REMEMBERED):
                self._known[lane][key] = left

    def forget_all(self, lane: str) -> None:
        self._known.pop(lane, None)
        self.more.discard(lane)

    def rested(self) -> None:
        """Allows all scans again at once, even after expensive ones."""
        self._rests.clear()

    async def look(self, lanes: Iterable[str], past: Collection[Key], wanted: int, purpose: str) -> set[str]:
        """Scans for events of other tenants and destinations than *past*, up to *wanted* in each lane; returns the
        lanes that were read to their end. The wait between scans is kept for each purpose."""
        began, whole, found = time.monotonic(), set(), Counter[str]()
        depth = {lane: OLDEST_EVENTS if purpose != NEAR and self.may(purpose, lane) else 0 for lane in lanes}
        depth = {lane: deep for lane, deep in depth.items() if deep or purpose == NEAR or self.may(NEAR, lane)}
        while depth:
            looked = await self._look(ScanRequest(depth, NEWEST_EVENTS, MOST_FOUND, self._begins()), past)
            found.update(self._remember(looked.others))
            now = time.monotonic()
            spent = DEEP_WAIT_FACTOR * (now - began)
            deeper = {}
            for lane, deep in depth.items():
                self._rests[NEAR, lane] = now + max(
                    NEAR_WAIT_LEAST_S, min(NEAR_WAIT_FACTOR * (now - began), NEAR_WAIT_MOST_S)
                )
                if looked.examined[lane] < deep:
                    whole.add(lane)
                if not deep:
                    continue
                if found[lane] >= wanted:
                    self.more.add(lane)
                elif lane not in whole:
                    deeper[lane] = DEEPER_FACTOR * deep
                else:
                    self._rests[purpose, lane] = now + min(
                        spent, DEEP_WAIT_MOST_S if deep > OLDEST_EVENTS else SHALLOW_WAIT_MOST_S
                    )
                    if purpose == MORE:
                        self._no_more(lane)
            depth = deeper
        return whole

    def _no_more(self, lane: str) -> None:
        """Notes that all candidates of a lane are known."""
        self.more.discard(lane)
        self._known[lane] = {key: found for key, found in self._known[lane].items() if found}

    def may(self, purpose: str, lane: str) -> bool:
        """Whether the wait since the last scan for this purpose is over."""
        return self._rests.get((purpose, lane), 0.0) <= time.monotonic()

    def _remember(self, others: Sequence[Candidate]) -> Counter[str]:
        """Adds candidates; returns how many of each lane are new."""
        new: Counter[str] = Counter()
        found: defaultdict[tuple[str, Key], set[Candidate]] = defaultdict(set)
        for one in others:
            found[one.lane, (one.tenant, one.destination)].add(one)
        for (lane, key), candidates in found.items():
            known = self._known[lane].get(key, [])
            candidates.difference_update(known)
            new[lane] += len(candidates)
            self._known[lane][key] = sorted([*known, *candidates], key=_ready)
        for lane in new:
            most = max(1, MOST_REMEMBERED // len(self._known[lane]))
            for known in self._known[lane].values():
                del known[most:]
        return new
