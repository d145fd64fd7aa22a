"""Deletes finished events that are kept no longer, with their history: a small batch at a time, by one worker."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from duly.decide.retention import Retention
from duly.errors import StoreError, StoreUnavailable
from duly.ports import Prunable, PruneStore
from duly.records.results import Pruned, PrunedKind
from duly.signals import EventsPruned, PruningRefused, Signals

AT_ONCE = 1000
"""The most events that one transaction looks at."""

AT_FIRST = 250
"""Events that the first transaction looks at: how long it takes decides about the next one."""

AT_LEAST = 250
"""The fewest events that one transaction looks at. Where the database is busy, the commit takes most of the time:
with 25, finished events would become more and more."""

BATCH_S = 0.01
"""Seconds that a batch should take at most: a claim on SQLite waits as long."""

SHARE_OF_WORKER = 0.2
"""The share of the time in which a worker prunes, while there is something to prune. The rest is a pause after each
batch: a database that is slow because it has much to do is asked less often."""

SHARE_BY_HAND = 0.5
"""The same for somebody who waits for the end."""

SHARE_OF_LOOKS = 0.1
"""The share of the time that looks through all events may take: after t seconds, the next one begins t / 0.1 later."""

SELDOM_S = 600.0
"""Seconds between two looks through all events, or a tenth of the shortest retention, if that is less."""

OFTEN_S = 1.0
"""Seconds between two looks at least: each writes a row twice."""

FIRST_LOOK_S = 60.0
"""Seconds from the start of a worker until its first look, at most: many a worker does not live for SELDOM_S."""

LEASE = timedelta(minutes=1)
"""How long other workers leave the task to one that does not come back."""

RENEW_S = 10.0
"""Seconds between two renewals of that lease, which also store how far the worker has come."""

TASK = "prune"
NO_ID = "00000000-0000-0000-0000-000000000000"


class Batch(NamedTuple):
    """What one transaction has deleted, and the last event that it has looked at."""

    gone: Sequence[Prunable]
    last: str


async def prune(
    store: PruneStore, retention: Retention, *, share: float, after: str = NO_ID, dry_run: bool = False
) -> AsyncIterator[Batch]:
    """Looks through the events after an id, in the order of their creation, until those that are too young for every
    retention; deletes those that are kept no longer."""
    cutoffs = retention.cutoffs(await store.now())
    newest, limit = max(cutoff.before for cutoff in cutoffs), AT_ONCE if dry_run else AT_FIRST
    while True:
        began = time.monotonic()
        page = await store.prunable(cutoffs, after, limit)
        gone = page.events if dry_run else await _delete(store, page.events)
        took = time.monotonic() - began
        if page.last is None or page.created is None:
            return
        after = page.last
        yield Batch(gone, after)
        if page.created > newest:
            return
        if not dry_run:
            limit = next_limit(limit, took)
        await asyncio.sleep(took / share - took)


def next_limit(limit: int, took: float) -> int:
    """How many events the next batch looks at, after one of *limit* events has taken so many seconds."""
    return max(AT_LEAST, limit // 2) if took > BATCH_S else min(AT_ONCE, limit * 2)


async def _delete(store: PruneStore, events: Sequence[Prunable]) -> Sequence[Prunable]:
    if not events:
        return events
    deleted = await store.delete_ended([event.id for event in events])
    return [event for event in events if event.id in deleted]


class Tally:
    """What was pruned so far: the numbers by status and type, and the oldest of each."""

    def __init__(self) -> None:
        self._events: Counter[tuple[str, str]] = Counter()
        self._oldest: dict[tuple[str, str], datetime] = {}

    def add(self, events: Sequence[Prunable]) -> None:
        for event in events:
            kind = event.status, event.type
            self._events[kind] += 1
            if kind not in self._oldest or event.ended < self._oldest[kind]:
                self._oldest[kind] = event.ended

    def result(self, *, dry_run: bool) -> Pruned:
        kinds = [PrunedKind(*kind, events, self._oldest[kind]) for kind, events in self._events.most_common()]
        return Pruned(self._events.total(), tuple(kinds), dry_run)


class Pruner:
    """The pruning of one worker. All workers ask for the task; one has it."""

    def __init__(self, store: PruneStore, retention: Retention, worker: str, signals: Signals) -> None:
        self._store, self._retention, self._worker, self._signals = store, retention, worker, signals
        self._refused = False
        self._every = min(SELDOM_S, max(OFTEN_S, retention.shortest.total_seconds() / 10))

    async def run(self) -> None:
        await asyncio.sleep(min(FIRST_LOOK_S, self._every))
        while True:
            wait = self._every
            try:
                wait = await self._look()
            except StoreUnavailable:
                pass  # the worker's loop reports that
            except StoreError as error:
                self._tell_refused(error)
            await asyncio.sleep(wait)

    async def _look(self) -> float:
        """Looks through all events, or through those that an interrupted look has left; returns the seconds until the
        next one."""
        place = await self._store.take_upkeep(TASK, self._worker, LEASE)
        if place is None:
            return self._every
        began = renewed = time.monotonic()
        events = 0
        async for batch in prune(self._store, self._retention, share=SHARE_OF_WORKER, after=place or NO_ID):
            events += len(batch.gone)
            if time.monotonic() - renewed > RENEW_S:
                renewed = time.monotonic()
                if await self._store.take_upkeep(TASK, self._worker, LEASE, batch.last) is None:
                    break
        took = time.monotonic() - began
        wait = max(self._every, took / SHARE_OF_LOOKS)
        await self._store.take_upkeep(TASK, self._worker, timedelta(seconds=wait) + LEASE, "")
        if events:
            self._signals.emit(EventsPruned(self._worker, events, timedelta(seconds=took)))
        return wait

    def _tell_refused(self, error: StoreError) -> None:
        if not self._refused:
            self._refused = True
            self._signals.emit(PruningRefused(self._worker, str(error)))
