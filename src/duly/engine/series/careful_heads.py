"""Decides about due heads that a claim could only reserve, and plans their successors in the same transaction.

Skip this on an ordinary day: then a head carries its successor, and the claim fires it like any other event. These
heads have missed occurrences, a policy that depends on other events, a successor that is not known, or are the last of
their series.
"""

import contextlib
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from duly.engine.series.heads import NO_HEADS, Claimant, HeadsDecided
from duly.engine.series.holds import succeed
from duly.engine.series.successors import Successors
from duly.errors import StoreUnavailable
from duly.ports import ClaimPath, Reserved
from duly.records.event import Event
from duly.signals import Claimed, Signals, Skipped

MOST_AT_ONCE = 500
"""Heads that one transaction decides about. It takes some 0.2 ms for each, and holds their locks meanwhile."""


class Answer(NamedTuple):
    """The decisions about reserved heads."""

    decided: HeadsDecided
    found: frozenset[str]  # the ids of the heads that were still reserved
    now: datetime  # the store's clock


class CarefulHeads:
    """The reserved heads of one worker."""

    def __init__(self, store: ClaimPath, claimant: Claimant, successors: Successors, signals: Signals) -> None:
        self._store, self._claimant, self.successors, self._signals = store, claimant, successors, signals
        self._waiting: dict[str, Event] = {}  # by id

    def add(self, heads: Sequence[Event]) -> None:
        self._waiting |= {head.id: head for head in heads}

    @property
    def waiting(self) -> Counter[str]:
        """How many heads of each lane wait for a decision."""
        return Counter(head.lane for head in self._waiting.values())

    async def decide(self) -> HeadsDecided:
        """Decides about waiting heads, oldest first. Heads of slow rules may be left waiting."""
        heads = list(self._waiting.values())[:MOST_AT_ONCE]
        decided, found, _ = await self.decide_about(list(map(Reserved.of, heads)), self._claimant.lease)
        left = {head.id for head in decided.left}
        self._waiting = {id: head for id, head in self._waiting.items() if id in left or id not in found}
        if missed := [head for head in heads if head.id not in found]:
            await self._release(missed)
        return decided

    async def decide_about(self, reserved: Sequence[Reserved], ending_within: timedelta) -> Answer:
        """Decides about reserved heads that were not changed since, and whose reservation ends within *ending_within*
        by the store's clock. Heads that are due in a moment count as due."""
        async with self._store.begin() as tx:
            found = await tx.reserved_heads(reserved, ending_within)
            by = max((head.due for head in found.heads), default=found.now)
            decided = NO_HEADS
            if found.heads:
                decided = await succeed(tx, found, max(found.now, by), self._claimant)
        self._tell(decided)
        return Answer(decided, frozenset(head.id for head in found.heads), found.now)

    def _tell(self, decided: HeadsDecided) -> None:
        for halted in decided.halted:
            self._signals.emit(halted)
        for event, reason in decided.dropped:
            self._signals.emit(Skipped(event, reason))
        for event in decided.fired:
            self._signals.emit(Claimed(event, self._claimant.worker))

    async def stop(self) -> None:
        """Releases the heads that are left, so that other workers find them at once."""
        with contextlib.suppress(StoreUnavailable):  # their reservations end by themselves
            await self._release(list(self._waiting.values()))

    async def _release(self, heads: Sequence[Event]) -> None:
        for head in heads:
            self._waiting.pop(head.id, None)
        if heads:
            await self._store.release(list(map(Reserved.of, heads)), self._claimant.lease)
