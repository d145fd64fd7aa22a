"""Adds the runs that have ended to the roll-ups: a bounded batch at a time, by one worker at a time."""

import asyncio
import time
from datetime import timedelta

from duly.decide.figures.roll_up import DAYS_KEPT, HOURS_KEPT, RunCounts, roll_up
from duly.errors import StoreError, StoreUnavailable
from duly.ports.figures.stats import StatsStore
from duly.signals import RollUpRefused, Signals

AT_ONCE = 2000
"""Rows of ended runs in one transaction. A busy worker writes a few of them for a thousand events."""

EVERY_S = 30.0
"""Seconds between two looks. Whoever asks for figures sees what is not rolled up as well: waiting longer only means
that more runs go into each row that is written."""

SHARE = 0.2
"""The share of the time in which a worker rolls up while there is much to do; the rest is a pause after each batch."""

FORGET_EVERY_S = 3600.0
"""Seconds between looks for roll-ups that are kept no longer."""

FORGOTTEN_AT_ONCE = 1000
"""Roll-ups of each span that one transaction deletes."""

LEASE = timedelta(minutes=1)
"""How long other workers leave the task to one that does not come back. It is not what keeps two from counting the same
run: the row of the task stays locked until the batch is committed, and its ended runs are deleted in it."""

NOT_KEPT = timedelta()

TASK = "roll up"


async def roll_up_some(store: StatsStore, worker: str, lease: timedelta = NOT_KEPT) -> bool:
    """Adds a batch of ended runs to the roll-ups, in one transaction; returns whether there may be more. Nothing
    happens while another worker has the task. *lease*: how long this one keeps it afterwards."""
    async with store.begin() as tx:
        if await tx.take_upkeep(TASK, worker, lease) is None:
            return False
        ended = await tx.take_ended(AT_ONCE)
        added = roll_up(ended)
        rows = await tx.roll_ups(added.keys())
        for key, counts in added.items():
            rows.setdefault(key, RunCounts()).merge(counts)
        if rows:
            await tx.put_roll_ups(rows)
    return len(ended) == AT_ONCE


class RollingUp:
    """The roll-ups of one worker. All workers ask for the task; one has it."""

    def __init__(self, store: StatsStore, worker: str, signals: Signals) -> None:
        self._store, self._worker, self._signals = store, worker, signals
        self._refused = False
        self._forgot = time.monotonic()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self._look()
            except StoreUnavailable:
                pass  # the worker's loop reports that
            except StoreError as error:
                self._tell_refused(error)

    async def _look(self) -> None:
        more = await self._store.has_ended()
        while more:
            began = time.monotonic()
            more = await roll_up_some(self._store, self._worker, LEASE)
            took = time.monotonic() - began
            await asyncio.sleep(took / SHARE - took)
        if time.monotonic() - self._forgot > FORGET_EVERY_S:
            self._forgot = time.monotonic()
            while await self._store.forget_roll_ups(HOURS_KEPT, DAYS_KEPT, FORGOTTEN_AT_ONCE) >= FORGOTTEN_AT_ONCE:
                pass

    def _tell_refused(self, error: StoreError) -> None:
        if not self._refused:
            self._refused = True
            self._signals.emit(RollUpRefused(self._worker, str(error)))
