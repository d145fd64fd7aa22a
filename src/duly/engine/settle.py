"""Stores the results of claims: outcome → verdict → status and history, many events in one statement."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Container, Sequence
from datetime import timedelta

from duly.decide.lifecycle import REJECTED, judge
from duly.engine.faults.store_backoff import StoreBackoff
from duly.engine.series.holds import let_go_after
from duly.engine.tally import PassTally, Tally, tally_of
from duly.errors import RowLocked, StoreUnavailable
from duly.ports import ClaimPath, SettledIds
from duly.records.event import TERMINAL, Event, Outcome, Settlement, Status, Unreachable, Verdict
from duly.signals import (
    Cancelled,
    Completed,
    DeadLettered,
    FailReason,
    GivenBack,
    HeldBack,
    Late,
    Lost,
    Retried,
    Settled,
    Signals,
    Skipped,
    lateness,
)

log = logging.getLogger("duly")

LARGEST_BATCH = 1000
"""Settlements in one statement, at most."""

LOCKED_RETRY_S = 0.25
"""Seconds between attempts to settle events whose rows somebody else has locked."""

NOW = timedelta()


async def settle(
    store: ClaimPath, settlements: Sequence[Settlement], worker: str, signals: Signals, *, again: bool = False
) -> Tally:
    """Commits verdicts, then emits their signals. The verdict of a claim that was lost meanwhile is dropped, and does
    not count in the tally. *again*: an earlier try failed, but may have been committed. Raises RowLocked if somebody
    else's transaction keeps one of the events locked: then nothing was settled."""
    settled = await _settled(store, settlements, worker)
    if again and len(settled) < len(settlements):
        settled |= await _settled_before(store, [one for one in settlements if one.event.id not in settled])
    return _told(settlements, settled, signals)


async def settle_unlocked(
    store: ClaimPath, settlements: Sequence[Settlement], worker: str, signals: Signals, *, again: bool = False
) -> tuple[Tally, list[Settlement]]:
    """Does the same for the events that nobody else has locked; also returns the settlements of the others."""
    async with store.begin() as tx:
        free = await tx.unlocked([one.event.id for one in settlements])
        these = [one for one in settlements if one.event.id in free]
        settled = await tx.settle(these, worker) if these else SettledIds()
    if again and len(settled) < len(these):
        settled |= await _settled_before(store, [one for one in these if one.event.id not in settled])
    if ended := _gated(these, settled):
        with contextlib.suppress(RowLocked):  # the schedule is locked: the next look at held events releases them
            async with store.begin() as tx:
                await tx.unlocked([event.id for event in ended])
                await let_go_after(tx, ended)
    return _told(these, settled, signals), [one for one in settlements if one.event.id not in free]


def _told(settlements: Sequence[Settlement], settled: SettledIds, signals: Signals) -> Tally:
    """Emits the signals of settled events, and counts them."""
    stopped = settled.cancelled
    kept = settlements
    if stopped or len(settled) < len(settlements):
        kept = [one for one in settlements if one.event.id in settled and one.event.id not in stopped]
    if signals.wanted(Settled):
        signals.emit(Settled(kept))
    tally = tally_of(kept, signals.late_after)
    if tally.processed == len(settlements) and not tally.late and not signals.wanted(Completed):
        return tally
    for settlement in settlements:
        event, verdict = settlement.event, settlement.verdict
        if event.id not in settled:
            signals.emit(Lost(event, verdict.act))
        elif event.id in stopped:
            signals.emit(Cancelled(event))
        elif verdict.status is Status.COMPLETED:
            completed(event, signals)
        elif verdict.status is Status.FAILED:
            signals.emit(DeadLettered(event, verdict.error or "", why_failed(verdict)))
        elif verdict.status is Status.SKIPPED:
            signals.emit(Skipped(event, verdict.error or ""))
        elif verdict.counts:
            signals.emit(Retried(event, verdict.error or "", verdict.wait or NOW))
        else:
            error, wait = verdict.error or "", verdict.wait or NOW
            back = GivenBack(event, error, wait, verdict.told) if verdict.held is None else HeldBack(event, error)
            signals.emit(back)
    return tally


async def _settled(store: ClaimPath, settlements: Sequence[Settlement], worker: str) -> SettledIds:
    """Settles events and returns the ids of those that were settled. Where a schedule limits how many of its events run
    at once, the end of one event releases the next one in the same transaction."""
    if not any(settlement.event.gated for settlement in settlements):
        return await store.settle(settlements, worker)
    async with store.begin() as tx:
        settled = await tx.settle(settlements, worker)
        await let_go_after(tx, _gated(settlements, settled))
    return settled


def _gated(settlements: Sequence[Settlement], settled: SettledIds) -> list[Event]:
    """The events that have ended, and whose end may release others of their series."""
    ended = [one for one in settlements if one.event.id in settled.cancelled or has_ended(one)]
    return [one.event for one in ended if one.event.gated and one.event.id in settled]


async def _settled_before(store: ClaimPath, settlements: Sequence[Settlement]) -> set[str]:
    """The ids of events that already have the status of their verdict and have not been claimed again."""
    found = [(one, await store.get(one.event.id)) for one in settlements]
    return {
        one.event.id
        for one, event in found
        if event is not None and (event.version, event.status) == (one.event.version, one.verdict.status)
    }


def has_ended(settlement: Settlement) -> bool:
    return settlement.verdict.status in TERMINAL


def completed(event: Event, signals: Signals) -> None:
    signals.emit(Completed(event))
    if (late := lateness(event)) > signals.late_after:
        signals.emit(Late(event, late))


def why_failed(verdict: Verdict) -> FailReason:
    return FailReason.REJECTED if verdict.act == REJECTED else FailReason.SPENT


def give_back(event: Event, reason: str) -> Settlement:
    """The settlement that returns a claim without using up an attempt."""
    return Settlement(event, judge(Unreachable(reason, NOW), event, 0))


def next_batch(waiting: list[Settlement]) -> tuple[list[Settlement], list[Settlement]]:
    """Splits waiting settlements into the next batch and the rest. Of two claims of one event, the later one waits: the
    store returns which were settled by event id only."""
    batch, rest = waiting[:LARGEST_BATCH], waiting[LARGEST_BATCH:]
    if len({one.event.id for one in batch}) == len(batch):
        return batch, rest
    first: dict[str, Settlement] = {}
    for one in batch:
        first.setdefault(one.event.id, one)
    return list(first.values()), [*(one for one in batch if first[one.event.id] is not one), *rest]


class Settler:
    """Collects verdicts while a batch is being stored, so that they fill the next batch. A single verdict is stored at
    once."""

    def __init__(
        self, store: ClaimPath, tally: PassTally, store_backoff: StoreBackoff, retrying: Callable[[], None]
    ) -> None:
        self._store, self._tally, self._store_backoff = store, tally, store_backoff
        self._retrying = retrying  # called when a settled event will be ready again, so that the worker wakes for it
        self._waiting: list[Settlement] = []
        self._under_way: list[Settlement] = []
        self._locked: list[Settlement] = []  # their rows are locked by somebody else's transaction
        self._some_locked = asyncio.Event()
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, event: Event, outcome: Outcome, took_s: float) -> None:
        self.add_settlement(Settlement(event, judge(outcome, event, random.random()), took_s))

    def add_settlement(self, settlement: Settlement) -> None:
        self._waiting.append(settlement)
        if len(self._waiting) == 1:
            self._arrived.set()
            self._idle.clear()

    def events(self) -> list[Event]:
        """The events that were added and are not settled yet."""
        return [settlement.event for settlement in [*self._under_way, *self._waiting, *self._locked]]

    def drop(self, _: Container[str]) -> list[Event]:
        """Drops nothing: a verdict whose claim is lost is dropped by the store."""
        return []

    async def idle(self) -> None:
        """Returns when all added settlements are stored."""
        await self._idle.wait()

    @property
    def is_idle(self) -> bool:
        return self._idle.is_set()

    async def run(self) -> None:
        while True:
            await self._arrived.wait()
            self._under_way, self._waiting = next_batch(self._waiting)
            await self._settle(self._under_way)
            if any(settlement.verdict.wait is not None for settlement in self._under_way):
                self._retrying()
            self._under_way = []
            if not self._waiting:
                self._arrived.clear()
                self._rest()

    async def retry_locked(self) -> None:
        """Settles the events whose rows were locked, as soon as they are not; the others do not wait for them."""
        while True:
            await self._some_locked.wait()
            await asyncio.sleep(LOCKED_RETRY_S)
            batch = list(self._locked)
            with contextlib.suppress(StoreUnavailable):  # the next settlements tell of an outage
                left = await self._settle_unlocked(batch, again=True)
                self._locked = [*left, *self._locked[len(batch) :]]
            if not self._locked:
                self._some_locked.clear()
                self._rest()

    def _rest(self) -> None:
        if not (self._waiting or self._under_way or self._locked):
            self._idle.set()

    async def _settle_unlocked(self, batch: list[Settlement], *, again: bool) -> list[Settlement]:
        """Settles the events that nobody has locked; returns the settlements of the others."""
        worker, signals = self._tally.worker, self._tally.signals
        tally, locked = await settle_unlocked(self._store, batch, worker, signals, again=again)
        self._tally.count(tally)
        return locked

    def _add_locked(self, settlements: list[Settlement]) -> None:
        self._locked += settlements
        if self._locked:
            self._some_locked.set()

    async def _settle(self, batch: list[Settlement]) -> None:
        again, some_locked, signals = False, False, self._tally.signals
        while True:
            asked = time.monotonic()
            try:
                if some_locked:
                    self._add_locked(await self._settle_unlocked(batch, again=again))
                else:
                    self._tally.count(await settle(self._store, batch, self._tally.worker, signals, again=again))
            except RowLocked:
                if some_locked:  # by a row that is no event's
                    await asyncio.sleep(LOCKED_RETRY_S)
                some_locked = True
            except StoreUnavailable as error:
                again = True
                await asyncio.sleep(self._store_backoff.failed(error, asked))
            except Exception:
                if len(batch) == 1:  # its lease will expire, which counts as an interruption
                    log.exception("settle.failed event=%s", batch[0].event.id)
                    return
                for settlement in batch:  # a settlement that cannot be written must not fail its neighbours
                    await self._settle([settlement])
                return
            else:
                if self._store_backoff.lasts:
                    self._store_backoff.over()
                return
