"""Interrupted events: those that were running when their worker vanished. Skip this while no worker crashes.

An interrupted event is delivered with no other event beside it: if it crashed its worker, it will crash this one too,
and only this event shall suffer from that.
"""

import time
from collections.abc import Sequence
from datetime import timedelta

from duly.engine.executor import Executor
from duly.engine.faults.boot_clock import steady
from duly.engine.faults.clock_steps import StoreClock
from duly.engine.lookahead.reserve import Lookahead
from duly.engine.series.heads import Claimant
from duly.engine.series.holds import let_go_after
from duly.engine.tally import DEAD, PassTally
from duly.ports import ClaimPath
from duly.records.event import TERMINAL, Event, Status
from duly.signals import Cancelled, Claimed, ClaimMade, DeadLettered, FailReason, Interrupted

QUIET_RECHECK = timedelta(milliseconds=50)
"""How long a worker with running events waits before it looks again whether an interrupted event can be delivered."""

WAIT_FOR_QUIET_S = 1.0
"""Seconds for which a worker waits for its running events to end before it delivers an interrupted event."""

PRESSING_AFTER_LEASES = 10
"""Once an interrupted event is overdue by this many leases, the worker waits for one whole lease and then delivers it
even beside running events: a handler that takes hours must not delay an interrupted event for hours."""

ALONE_FOR_S = 5.0
"""Seconds for which an interrupted event has the process to itself. If it has not crashed the process by then, other
events may start beside it."""

REST_FACTOR = 4
"""After interrupted events were waited for and delivered, other events get this many times that duration, so that
interrupted events take at most a fifth of the time."""


class InterruptedEvents:
    """Delivers interrupted events one at a time, when nothing else runs in this worker."""

    def __init__(
        self,
        store: ClaimPath,
        claimant: Claimant,
        executor: Executor,
        lookahead: Lookahead,
        clock: StoreClock,
        tally: PassTally,
    ) -> None:
        self._store, self._claimant, self._executor, self._lookahead = store, claimant, executor, lookahead
        self._clock, self._tally = clock, tally
        self._force_after = 0.0  # when others may be kept waiting for interrupted events again, by time.monotonic

    async def deliver_when_quiet(self, overdue: timedelta, lanes: Sequence[str]) -> bool:
        """Delivers an interrupted event, if nothing else runs; returns whether it did. Waiting for a quiet moment costs
        nothing, so it comes first; once the event is overdue by a lease, nothing else is started until there is such a
        moment."""
        if self._clock.in_doubt:
            return False
        began, lease = time.monotonic(), self._claimant.lease
        if not self._is_quiet and (overdue < lease or began < self._force_after):
            return False
        if not self._is_quiet and not await self._store.has_interrupted(lanes):
            return False  # somebody's transaction has locked it: nothing has to wait for it
        pressing = overdue > PRESSING_AFTER_LEASES * lease
        with self._lookahead.quiet():
            goes_on = await self._executor.finish_all(lease.total_seconds() if pressing else WAIT_FOR_QUIET_S)
            delivered = goes_on and (self._is_quiet or pressing) and await self.deliver_one(lanes)
        self._force_after = time.monotonic() + REST_FACTOR * (time.monotonic() - began)
        return delivered

    async def deliver_one(self, lanes: Sequence[str]) -> bool:
        """Delivers one interrupted event, which is alone for ALONE_FOR_S; returns whether there was one."""
        if self._clock.in_doubt:
            return False
        sent = steady()
        event = await claim_interrupted(self._store, self._claimant, lanes, self._tally)
        if event is None:
            return False
        self._executor.start([event], sent)
        await self._executor.finish_all(ALONE_FOR_S)
        return True

    @property
    def _is_quiet(self) -> bool:
        return self._executor.is_idle and self._lookahead.under_way == 0


async def claim_interrupted(
    store: ClaimPath, claimant: Claimant, lanes: Sequence[str], tally: PassTally
) -> Event | None:
    """Claims one interrupted event. On the way, events that were interrupted too often become dead letters, and events
    that were asked to stop are cancelled."""
    signals, (worker, lease, as_of) = tally.signals, claimant
    while True:
        began = time.monotonic()
        async with store.begin() as tx:  # else a store failing after the claim leaves the event unstarted
            claimed = await tx.claim_interrupted(worker, lanes, lease, as_of)
            await let_go_after(tx, [event for event, _ in claimed if event.status in TERMINAL])
        if not claimed:
            return None
        [(event, before)] = claimed
        if before is not None:
            signals.emit(Interrupted(before))
        if event.status is Status.FAILED:
            tally.count(DEAD)
            signals.emit(DeadLettered(event, event.last_error or "", FailReason.INTERRUPTED))
        elif event.status is Status.CANCELLED:
            signals.emit(Cancelled(event))
        else:
            signals.emit(Claimed(event, worker))
            signals.emit(ClaimMade([event], time.monotonic() - began, None))
            return event
