"""The worker: a loop that claims as many events as it has capacity for, starts them, and sleeps until more are ready.

Read ``Loop`` first: it is an ordinary day. ``Worker`` starts it, runs the loops beside it, and stops it.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from duly.config import Settings
from duly.engine.claim import ClaimBatch, Claims
from duly.engine.destinations.broker_health import prepare
from duly.engine.destinations.circuit_breaker import CircuitBreaker
from duly.engine.destinations.destination_cache import DestinationCache
from duly.engine.destinations.open_lanes import OpenLanes
from duly.engine.destinations.preload import Preload
from duly.engine.drain import Tell, drain
from duly.engine.executor import Executor
from duly.engine.fairness.fair_queue import FairQueue
from duly.engine.fairness.lanes import Lanes, share
from duly.engine.fairness.limits import Limits, Unlimited
from duly.engine.fairness.prefetch import Prefetch
from duly.engine.faults.boot_clock import steady
from duly.engine.faults.clock_steps import StoreClock
from duly.engine.faults.interrupted import QUIET_RECHECK, InterruptedEvents
from duly.engine.faults.store_backoff import StoreBackoff
from duly.engine.figures.roll_up import RollingUp
from duly.engine.lookahead.reserve import Lookahead
from duly.engine.pauses.pause_ends import PauseEnds
from duly.engine.presence.beat import Presence, Pulse, new_name, row_of
from duly.engine.retention.forget_keys import forget_keys
from duly.engine.retention.prune import Pruner
from duly.engine.series.careful_heads import CarefulHeads
from duly.engine.series.heads import Claimant
from duly.engine.series.successors import Successors
from duly.engine.sleep import LIMITS_RECHECK, NOW, LocalWaker, Sleep
from duly.engine.stopping import Stopping
from duly.engine.tally import PassTally
from duly.engine.tick import run_one_pass
from duly.engine.upkeep import Follow, Release, beside, follow_every, nothing_to_follow, sweep
from duly.errors import StoreUnavailable
from duly.ports import Horizon, Route, Waker, WorkerStore
from duly.records.event import Event
from duly.signals import PassEnded, Signals, WorkerDraining, WorkerStarted, WorkerStopped


@dataclass(frozen=True, kw_only=True, slots=True)
class Loop:
    """The loop of one worker, and the parts that its phases ask. Each phase returns a value that the next one takes."""

    store: WorkerStore
    lanes: Lanes  # which lanes can be served now, and their shares of a claim
    fair_queue: FairQueue  # claimed events that wait for a free place
    prefetch: Prefetch  # how many events to claim
    claims: Claims
    executor: Executor  # from claimed to settled
    lookahead: Lookahead  # events that are due in a moment; does nothing unless there is a look-ahead
    interrupted: InterruptedEvents  # events of workers that crashed
    preload: Preload  # libraries of channels
    release: Release  # held events and parked destinations
    pauses: PauseEnds  # pauses that end by themselves
    sleep: Sleep
    backoff: StoreBackoff  # outages of the store
    stopping: Stopping
    pulse: Pulse  # when the last pass was completed

    async def run(self) -> None:
        """Repeats: capacity → claim → start → horizon → sleep."""
        while not self.stopping.is_asked:
            began = time.monotonic()
            self.executor.poke()
            self.pauses.stir()
            try:
                await self.executor.stop_what_was_asked()
                if self.prefetch.is_claim_worthwhile:
                    await self._cycle()
                else:
                    await self._wait_for_capacity()
                    await self._claim_for_idle_tenants()
                self.pulse.passed()
            except StoreUnavailable as error:
                await self.stopping.wait(self.backoff.failed(error, began))

    async def _cycle(self) -> None:
        batch = await self.claim()
        if batch.events and self.lanes.busy and self.claims.horizon_is_recent:
            await asyncio.sleep(0)  # lets other tasks run; then claims on, because more events are ready
            return
        horizon = batch.horizon or await self.claims.horizon(self.lanes.open)
        if self.backoff.lasts:
            await self.backoff.read(self.store)
        next_ready = await self._interrupted_first(horizon)
        if next_ready is None or self.lanes.busy or self.claims.undecided:
            await asyncio.sleep(0)
        elif not self.stopping.is_asked:
            reserved = await self._reserve(next_ready)
            self.preload.idle()
            await self.sleep.until_woken(self._until_next_claim(batch, next_ready, reserved=reserved))

    async def claim(self) -> ClaimBatch:
        """Claims as many ready events as there is capacity for, and starts each batch as soon as it is claimed."""
        free, batch = self.prefetch.batch, ClaimBatch()
        if not self.lanes.open or free < 1:
            return batch
        budget = self.lanes.budget(free, self.claims.limited, self.executor.claimed_events)
        asked = {lane: places for lane, places in budget.items() if places}
        for lane in self.lanes.returned(asked):
            await self.claims.begin_again(lane)
        left, sent = self.fair_queue.startable > 0, steady()
        if asked:
            all_lanes, calm = len(asked) == len(self.lanes.open), not self.lanes.busy
            async for more in self.claims.take(asked, all_lanes=all_lanes, with_horizon=calm):
                await self.executor.learn_and_start(more.events, sent)
                batch = batch.plus(more)
        self.lanes.claimed(batch.rows, budget)
        if batch.events:
            self.prefetch.claimed(len(batch.events), backlog=bool(self.lanes.busy), left=left)
        return batch

    async def _interrupted_first(self, horizon: Horizon) -> Horizon | None:
        """Delivers an event that a crash interrupted, if there is one. Returns the horizon to sleep until; None if the
        next claim is to follow at once."""
        if horizon.alone is None or horizon.alone > NOW:
            return horizon
        if await self.interrupted.deliver_when_quiet(-horizon.alone, self.lanes.open):
            return None
        return horizon._replace(alone=QUIET_RECHECK)

    async def _reserve(self, horizon: Horizon) -> bool:
        """Reserves the events that are due within the look-ahead; returns whether there were any."""
        if not self.lookahead.wants(horizon):
            return False
        lanes = [lane for lane in self.lanes.trusted if lane not in self.claims.limited]
        if not lanes or self.lookahead.free < len(lanes):
            return False
        return await self.lookahead.reserve(share(lanes, self.lookahead.free, self.lanes.busy)) > 0

    def _until_next_claim(self, batch: ClaimBatch, horizon: Horizon, *, reserved: bool) -> float:
        """Seconds until the next claim."""
        limited = bool(self.claims.limited) or self.fair_queue.holds_back
        if reserved:
            seconds = self.sleep.after_reserving(limited=limited)
        else:
            whole = self.lanes.all_were_empty
            seconds = self.sleep.after_a_claim(horizon, found=batch.found, limited=limited, whole=whole)
        return min(self.claims.unsure_in, seconds)

    async def _wait_for_capacity(self) -> None:
        """Waits until enough events have ended for another claim. While reserved places are free, new events end this
        wait too: they may belong to a tenant or destination that has nothing running here."""
        load, within = self.prefetch.worthwhile_at, LIMITS_RECHECK.total_seconds()
        if self.fair_queue.kept:
            with self.executor.calling_at(load, self.sleep.wake):
                await self.sleep.nap(within)
        else:
            await self.executor.load_falls_to(load, within)

    async def _claim_for_idle_tenants(self) -> None:
        """Claims events of idle tenants and destinations for the reserved places; all other places are taken."""
        if (reserved := self.fair_queue.kept) and not self.stopping.is_asked:
            sent = steady()
            events = await self.claims.take_for_idle_tenants(self.lanes.trusted, reserved)
            await self.executor.learn_and_start(events, sent)

    @property
    def is_idle(self) -> bool:
        """Whether the worker sleeps and no event is under way."""
        return self.sleep.is_asleep and self.executor.is_idle and not self.lookahead.under_way

    def ended(self, event: Event) -> None:
        """Claims again at once if limits kept other events of the same tenant and destination from being claimed."""
        if self.claims.wants_more_like(event):
            self.sleep.wake()


class Worker:
    """A worker. Any number of workers, in any number of processes and on any number of hosts, share one store."""

    def __init__(
        self,
        store: WorkerStore,
        routes: Mapping[str, Route],
        settings: Settings,
        signals: Signals,
        name: str | None = None,
        destination_cache: DestinationCache | None = None,
        limits: Limits | None = None,
        timers_only: bool = False,  # the lanes have neither heads nor destinations
        follow: Follow = nothing_to_follow,  # makes events of some users follow what their tenant has set
    ) -> None:
        self.name = name or new_name()
        self._store, self._routes, self._settings, self._signals = store, routes, settings, signals
        self._destination_cache = destination_cache or DestinationCache(store)
        self._limits = Unlimited(settings.concurrency) if timers_only else limits  # instead of destinations'
        self._timers_only, self._follow = timers_only, follow
        self._tally = PassTally(self.name, signals)
        self._waker: Waker = LocalWaker()
        self.pulse = Pulse()
        self.stopping = Stopping(settings.shutdown_grace)

    async def run(self) -> None:
        """Works until stopped; then drains within the grace and gives unstarted events back to the store."""
        async with self._store.listen(list(self._routes)) as self._waker, self._at_work() as loop:
            self._signals.emit(WorkerStarted(self.name, list(self._routes)))
            try:
                await self.stopping.limits(loop.run())
            except asyncio.CancelledError:
                self._drained(await self._drain(loop, NOW))
                raise
            self._drained(await self._drain(loop, self._settings.shutdown_grace))

    async def _drain(self, loop: Loop, grace: timedelta) -> int:
        tell: Tell = lambda *what: self._signals.emit(WorkerDraining(self.name, *what))  # noqa: E731 - one line
        return await drain(loop.executor, loop.lookahead, self.stopping, grace, tell)

    def _drained(self, given_back: int) -> None:
        self._tally.look(idle=True)
        self._signals.emit(WorkerStopped(self.name, given_back))

    async def tick(self, within: timedelta | None = None) -> PassEnded:
        """Runs one pass over the events that were ready when it began, by the store's clock. Events that become ready
        during the pass are left for the next one. After *within* the pass stops as ``stop`` would stop it."""
        self._tally.begin()
        over = None if within is None else asyncio.get_running_loop().call_later(within.total_seconds(), self.stop)
        try:
            async with self._at_work(as_of=await self._store.now(), ticks=True) as loop:
                try:
                    await self.stopping.limits(run_one_pass(loop, self.name))
                except BaseException as error:  # no event may stay claimed after any error
                    grace = NOW if isinstance(error, asyncio.CancelledError) else self._settings.shutdown_grace
                    await self._drain(loop, grace)
                    raise
                if self.stopping.is_asked:
                    await self._drain(loop, self._settings.shutdown_grace)
        finally:
            if over is not None:
                over.cancel()
        return self._tally.end(time.monotonic())

    def stop(self, *, now: bool = False) -> None:
        self.stopping.ask(now=now)
        self._wake()

    def _wake(self) -> None:
        self._waker.wake()

    @contextlib.asynccontextmanager
    async def by_hand(self) -> AsyncIterator[Loop]:
        """A worker without a loop of its own: the caller runs ``run_what_is_ready`` each time it has moved the store's
        clock."""
        async with self._at_work(ticks=True) as loop:
            yield loop

    @contextlib.asynccontextmanager
    async def _at_work(self, as_of: datetime | None = None, *, ticks: bool = False) -> AsyncIterator[Loop]:
        """Puts the parts of a worker together and runs the loops beside its own. *as_of*: for a tick, when it began;
        *ticks*: without the loops that look after what others do."""
        store, settings, signals = self._store, self._settings, self._signals
        claimant = Claimant(self.name, settings.lease, as_of)
        backoff, lanes = StoreBackoff(signals), Lanes(self._routes)
        destinations = CircuitBreaker(store, self._destination_cache, settings.concurrency, self.name, signals)
        fair_queue = FairQueue(self._limits or destinations, settings.concurrency)
        heads = CarefulHeads(store, claimant, Successors(store, lambda: bool(lanes.busy)), signals)
        claims = Claims(store, claimant, fair_queue, heads, signals)
        executor = Executor(
            store, self._routes, fair_queue, destinations, claimant, backoff, self._tally, self.stopping, self._wake
        )
        lookahead = Lookahead(store, claimant, settings, executor.start, self._wake, heads, backoff, signals)
        executor.also_renew(lookahead)
        clock = StoreClock(store, settings.lease, signals, executor.renew_leases_now)
        open_lanes = OpenLanes(lanes, self._routes, store, signals, self._wake, wait_for_libraries=not ticks)
        loop = Loop(
            store=store,
            lanes=lanes,
            fair_queue=fair_queue,
            prefetch=Prefetch(settings.concurrency, settings.batch_size, executor, lookahead, fair_queue),
            claims=claims,
            executor=executor,
            lookahead=lookahead,
            interrupted=InterruptedEvents(store, claimant, executor, lookahead, clock, self._tally),
            preload=open_lanes.preload,
            release=Release(store, claimant, lanes, destinations, executor),
            pauses=PauseEnds(store, settings.poll_interval),
            sleep=Sleep(settings.lookahead, settings.poll_interval, self._waker),
            backoff=backoff,
            stopping=self.stopping,
            pulse=self.pulse,
        )
        destinations.changed, executor.ended = executor.poke, loop.ended
        row = row_of(self.name, self._routes, settings, tick=ticks)
        presence = Presence(store, row, self.pulse, lambda: open_lanes.closed, self.stopping, signals)
        works: list[Coroutine[Any, Any, None]] = [
            *executor.tasks(),
            clock.run(),
            presence.run(),
            lookahead.run(),
            heads.successors.run(),
            sweep(executor, lambda: None if ticks else self._tally.look(idle=loop.is_idle)),
            prepare(self._routes, store, settings.poll_interval),
        ]
        every = settings.poll_interval
        if not ticks:
            pruner = Pruner(store, settings.retention, self.name, signals)
            rolling_up = RollingUp(store, self.name, signals)
            works += [loop.preload.run(), follow_every(every, self._follow), forget_keys(store, every)]
            works += [pruner.run(), rolling_up.run()]
        if not self._timers_only:
            works += [loop.release.every(every), destinations.run(), *([] if ticks else [loop.pauses.run()])]
        try:
            async with beside(works, self.stop):
                with open_lanes.watched():
                    yield loop
                await heads.successors.finish(self.stopping.settling_left)
        finally:
            await claims.stop()
            await self.stopping.last_step(presence.end())
            await self.stopping.last_step(destinations.write_down())  # or else, other workers will park them too
