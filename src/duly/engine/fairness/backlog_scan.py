"""Who else has something ready. A claim takes the oldest of a lane; where all of that is one tenant's, somebody has to
go and see whether there are others behind it."""

import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from duly.decide.fair_share import Candidate, Key
from duly.ports import ScanRequest, ScanResult

NEWEST, OFTEN, AT_LEAST, AT_MOST = 200, 3, 0.005, 0.05
"""How many of the newest are looked at, for what a quiet tenant has is mostly just due; and how soon again: after so
many times the time that it took, within these seconds."""

FRONT, DEEPER = 4000, 16
"""How many of the oldest are looked at; and so many times as many as long as nobody else is found."""

SELDOM, LONGEST, AT_THE_FRONT = 100, 10.0, 1.0
"""A look that finds too little is paid for by so many times the time that it took without another one; but by no more
seconds than this, and fewer if it was over soon, for then it was something else that took the time."""

MOST, ALL = 2000, 4000
"""How many to be told of in one look, and to remember."""

OTHERS, MORE, QUIET, NEAR = "others", "more", "quiet", "near"
"""What a look is for: those who are not known at all, more of those who are, or those who have nothing under way. The
last one is any of these, among the newest alone."""

Look = Callable[[ScanRequest, Collection[Key]], Awaitable[ScanResult]]
Begins = Callable[[], Mapping[str, datetime]]
"""Where the oldest of each lane begin, as far as that is known."""

_ready = attrgetter("ready")


class BacklogScan:
    def __init__(self, look: Look, begins: Begins) -> None:
        self._look, self._begins = look, begins
        self._known: defaultdict[str, dict[Key, list[Candidate]]] = defaultdict(dict)  # by lane
        self._rests: dict[tuple[str, str], float] = {}  # until when, by time.monotonic, for each lane and purpose
        self.more: set[str] = set()  # lanes in which a look found so much that there may be more of it

    def known(self, lane: str) -> Mapping[Key, Sequence[Candidate]]:
        """Who is known to have something in this lane; of each the oldest first. None at all: there may be more."""
        return self._known[lane]

    def many(self, lane: str) -> int:
        return sum(map(len, self._known[lane].values()))

    def forget(self, candidates: Iterable[Candidate]) -> None:
        gone = {one.id for one in candidates}
        for lane, key in {(one.lane, (one.tenant, one.destination)) for one in candidates}:
            left = [one for one in self._known[lane].pop(key, ()) if one.id not in gone]
            if left or (lane in self.more and len(self._known[lane]) < ALL):
                self._known[lane][key] = left

    def forget_all(self, lane: str) -> None:
        self._known.pop(lane, None)
        self.more.discard(lane)

    def rested(self) -> None:
        """Look again whenever asked, whatever the last look has cost."""
        self._rests.clear()

    async def look(self, lanes: Iterable[str], past: Collection[Key], wanted: int, purpose: str) -> set[str]:
        """Find others than those, so many in each lane if there are; the lanes of which all was seen. Each purpose
        rests by itself."""
        began, whole, found = time.monotonic(), set(), Counter[str]()
        depth = {lane: FRONT if purpose != NEAR and self.may(purpose, lane) else 0 for lane in lanes}
        depth = {lane: deep for lane, deep in depth.items() if deep or purpose == NEAR or self.may(NEAR, lane)}
        while depth:
            looked = await self._look(ScanRequest(depth, NEWEST, MOST, self._begins()), past)
            found.update(self._remember(looked.others))
            now = time.monotonic()
            spent = SELDOM * (now - began)
            deeper = {}
            for lane, deep in depth.items():
                self._rests[NEAR, lane] = now + max(AT_LEAST, min(OFTEN * (now - began), AT_MOST))
                if looked.examined[lane] < deep:
                    whole.add(lane)
                if not deep:
                    continue
                if found[lane] >= wanted:
                    self.more.add(lane)
                elif lane not in whole:
                    deeper[lane] = DEEPER * deep
                else:
                    self._rests[purpose, lane] = now + min(spent, LONGEST if deep > FRONT else AT_THE_FRONT)
                    if purpose == MORE:
                        self._no_more(lane)
            depth = deeper
        return whole

    def _no_more(self, lane: str) -> None:
        """All that there is in this lane is known."""
        self.more.discard(lane)
        self._known[lane] = {key: found for key, found in self._known[lane].items() if found}

    def may(self, purpose: str, lane: str) -> bool:
        """Whether it has rested enough."""
        return self._rests.get((purpose, lane), 0.0) <= time.monotonic()

    def _remember(self, others: Sequence[Candidate]) -> Counter[str]:
        """How many of each lane are new."""
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
            most = max(1, ALL // len(self._known[lane]))
            for known in self._known[lane].values():
                del known[most:]
        return new
