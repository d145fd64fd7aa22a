"""The worker's loop: wake, claim as many events as there is room for, deliver, settle; renew leases; drain on stop."""

import asyncio
import contextlib
import math
import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from duly.decide.fair_share import Key
from duly.engine.boot_clock import steady
from duly.engine.claim import Claims, claim_interrupted
from duly.engine.clock_steps import StoreClock
from duly.engine.deliver import deliver, deliver_and_settle, unless_expired
from duly.engine.destinations.broker_health import BrokerHealth, prepare
from duly.engine.destinations.circuit_breaker import CircuitBreaker
from duly.engine.destinations.destination_cache import DestinationCache
from duly.engine.destinations.parking import look_after_parked
from duly.engine.fairness.fair_queue import FairQueue
from duly.engine.fairness.lanes import Lanes, share
from duly.engine.fairness.limits import Limits, Unlimited
from duly.engine.fairness.prefetch import Prefetch
from duly.engine.leases import Leases
from duly.engine.lookahead.reserve import Lookahead
from duly.engine.pool import Pool
from duly.engine.preload import Preload
from duly.engine.series.heads import Claimant
from duly.engine.series.holds import look_after_held
from duly.engine.settle import Settler, give_back
from duly.engine.sleep import FOREVER, LIMITS_RECHECK, NOW, Sleep
from duly.engine.store_backoff import StoreBackoff
from duly.engine.tally import PassTally
from duly.errors import StoreUnavailable
from duly.ports import HandlerTransaction, Horizon, Reachable, Route, Waker, WorkerStore
from duly.records.event import Event, Outcome, Unreachable
from duly.signals import PassEnded, Signals, WorkerStarted, WorkerStopped

HORIZON_EVERY_S = 1.0
"""Seconds between looks at the horizon, at most, even during a backlog: only the horizon shows interrupted events and
newly due heads."""

WAIT_FOR_QUIET_S = 1.0
"""Seconds for which a worker waits for its running events to end before it delivers an interrupted event."""

PRESSING_AFTER_LEASES = 10
"""Once an interrupted event is overdue by this many leases, the worker waits for one whole lease and then delivers it
even beside running events: a handler that takes hours must not delay an interrupted event for hours."""

QUIET_RECHECK = timedelta(milliseconds=50)
"""How long to wait before checking again whether the worker is quiet (nothing running, nothing unsettled)."""

ALONE_FOR_S = 5.0
"""Seconds for which an interrupted event has the process to itself. If it has not crashed the process by then, other
events may start beside it."""

LAST_CYCLE_S = 1.0
"""Seconds that a stopping worker gives the cycle under way to end, such as a claim that waits for the store."""

FINAL_SETTLE_S = 3.0
"""Seconds after the grace in which a stopping worker settles its last events. If the store does not answer by then, it
finds those events interrupted when their leases end."""

SHORTEST_STEP_S = 0.1
"""Seconds that each of the last steps of a stop gets at least, even if the stop is already over time."""

SWEEP_EVERY_S = 0.25
"""Seconds between checks of handlers' deadlines, and of whether a pass has ended."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a worker; the defaults equal those of the settings."""

    poll_interval: timedelta = timedelta(seconds=5)
    lookahead: timedelta = NOW
    batch_size: int = 1000
    concurrency: int = 100
    lease: timedelta = timedelta(seconds=30)
    grace: timedelta = timedelta(seconds=25)
    events_alone: bool = False  # no heads and no destinations: the worker's lanes have none


class Worker:
    """A worker. Any number of workers, in any number of processes and on any number of hosts, share one store."""

    def __init__(
        self,
        store: WorkerStore,
        routes: Mapping[str, Route],
        options: Options,
        signals: Signals,
        name: str | None = None,
        destination_cache: DestinationCache | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._store, self._routes, self._options, self._signals = store, routes, options, signals
        self._lanes = Lanes(routes)
        self._destination_cache = destination_cache or DestinationCache(store)
        if options.events_alone:
            limits = Unlimited(options.concurrency)
        self._limits = limits  # replaces the limits of destinations
        self._store_backoff = StoreBackoff(signals)
        self._tally = PassTally(self.name, signals)
        self._asleep = False  # whether the loop waits for the next event to become ready
        self._stopping = asyncio.Event()
        self._gone_by = math.inf  # by when a stopping worker ends, even without the store, by time.monotonic
        self._roomier = asyncio.Event()
        self._heads_at = 0.0  # when the next head may be ready, by time.monotonic
        self._decided = False  # whether the last claim found heads that do not fire
        self._enough = 0  # the load at which there is room again
        self._full = False
        self._held_up: set[Key] = set()  # tenants and destinations with ready events that limits keep from starting
        self._waker: Waker | None = None
        self._lent: dict[tuple[str, int], HandlerTransaction] = {}  # transactions that handlers use now, by claim
        self._broken: BaseException | None = None
        self._looked = 0.0
        self._in_vain = 0  # claims in a row that returned no event
        self._force_after = 0.0
        self._rest = Sleep(options.lookahead, options.poll_interval)

    # -- running

    async def run(self) -> None:
        """Works until stopped; then drains within the grace and gives unstarted events back to the store."""
        async with self._store.listen(list(self._routes)) as self._waker, self._at_work():
            self._signals.emit(WorkerStarted(self.name, list(self._routes)))
            try:
                await self._until_stopped(self._cycles())
            except asyncio.CancelledError:
                await self._drain(grace=timedelta())
                raise
            await self._drain(self._options.grace)

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the work to its end, or until stopped. After a stop, the work gets LAST_CYCLE_S to end by itself: events
        of a claim that is cancelled before its answer arrives would wait until their leases end."""
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({working}, timeout=LAST_CYCLE_S)
        finally:
            await end_tasks(working, stopping)
        if not working.cancelled():
            working.result()

    async def _cycles(self) -> None:
        while not self._stopping.is_set():
            await self._cycle()

    async def tick(self, within: timedelta | None = None) -> PassEnded:
        """Runs one pass over the events that were ready when it began, by the store's clock. Events that become ready
        during the pass are left for the next one, and so are events that a rate keeps from starting. After *within* the
        pass stops as ``stop`` would stop it."""
        self._tally.begin()
        loop = asyncio.get_running_loop()
        over = None if within is None else loop.call_later(within.total_seconds(), self.stop)
        try:
            async with self._at_work(as_of=await self._store.now()):
                try:
                    await self._until_stopped(self._pass())
                except BaseException as error:  # no event may stay claimed after any error
                    await self._drain(timedelta() if isinstance(error, asyncio.CancelledError) else self._options.grace)
                    raise
                if self._stopping.is_set():
                    await self._drain(self._options.grace)
        finally:
            if over is not None:
                over.cancel()
        return self._tally.end(time.monotonic())

    async def _pass(self) -> None:
        in_vain = 0
        await self._preload.load_what_is_due()
        await look_after_held(self._store)
        await self._try_parked()
        # With more lanes than room, each claim covers only some of the lanes.
        while in_vain <= len(self._lanes.open) and not self._stopping.is_set():
            self._heads_at = 0.0  # an event that has just ended may have released a held head
            if in_vain:
                self._claims.rested()
            in_vain = 0 if await self._claim() or self._decided else in_vain + 1
            await self._finish_all()
        if self._stopping.is_set():
            return
        for event in self._pool.take_waiting():
            self._settler.add_settlement(give_back(event, "may not start yet, by its limits"))
        await self._finish_all()
        while not self._stopping.is_set() and await self._one_alone():
            await self._finish_all()

    def stop(self) -> None:
        if not self._stopping.is_set():
            self._gone_by = time.monotonic() + self._options.grace.total_seconds() + FINAL_SETTLE_S
        self._stopping.set()
        self._roomier.set()
        if self._waker is not None:
            self._waker.wake()

    @contextlib.asynccontextmanager
    async def _at_work(self, as_of: datetime | None = None) -> AsyncIterator[None]:
        self._destinations = CircuitBreaker(
            self._store, self._destination_cache, self._options.concurrency, self.name, self._signals
        )
        fair_queue = FairQueue(self._limits or self._destinations, self._options.concurrency)
        self._claimant = Claimant(self.name, self._options.lease, as_of)
        self._claims = Claims(self._store, self._claimant, fair_queue, self._signals)
        self._settler = Settler(self._store, self.name, self._tally, self._store_backoff, self._wake)
        self._pool = Pool(self._routes, fair_queue, self._attempt, self._finished, self._store_backoff, self._signals)
        self._destinations.changed = self._pool.poke
        self._lookahead = Lookahead(
            self._store, self.name, self._options.lease, self._start, self._signals, self._store_backoff
        )
        self._leases = Leases(
            self._store,
            self._options.lease,
            self._lookahead,
            self._pool,
            self._settler,
            self._store_backoff,
            self._signals,
        )
        self._clock = StoreClock(self._store, self._options.lease, self._signals, self._clock_was_set)
        self._prefetch = Prefetch(self._options.concurrency, self._options.batch_size, self._pool, self._lookahead)
        self._preload = Preload(self._routes, self._store, lambda: self._reaches(broker_health))
        runs = self._waker is not None  # called by ``run``, not by ``tick``
        works = (
            self._settler.run(),
            self._leases.beat(),
            self._clock.run(),
            self._sweep(),
            self._lookahead.run(),
            prepare(self._routes, self._store, self._options.poll_interval),
            *((self._preload.run(),) if runs else ()),
            *(() if self._options.events_alone else (self._look_after(), self._destinations.run())),
        )
        helpers = [asyncio.create_task(work) for work in works]
        for helper in helpers:
            helper.add_done_callback(self._helper_ended)
        channels = {lane: route.channel for lane, route in self._routes.items()}
        brokers = {lane: channel for lane, channel in channels.items() if isinstance(channel, Reachable)}
        broker_health = BrokerHealth(brokers, self._signals, lambda: self._reaches(broker_health))
        broker_health.begin()
        if runs and self._preload.lanes:
            self._reaches(broker_health)
        try:
            yield
        finally:
            broker_health.end()
            await end_tasks(*helpers)
            await self._claims.stop()
            with contextlib.suppress(StoreUnavailable, TimeoutError):  # other workers will park these destinations too
                async with asyncio.timeout(self._left):
                    await self._destinations.write_down()
        if self._broken is not None:
            raise self._broken

    def _clock_was_set(self) -> None:
        self._leases.renew_now()
        self._wake()

    def _reaches(self, broker_health: BrokerHealth) -> None:
        loading = self._preload.lanes if self._waker is not None else ()
        open = {lane for lane in self._routes if broker_health.is_open(lane) and lane not in loading}
        self._lanes.open_only(open, broker_health.on_trial)
        self._heads_at = 0.0
        self._wake()

    def _helper_ended(self, helper: "asyncio.Task[None]") -> None:
        """Stops the worker when a helper task has failed: a worker that no longer settles or renews leases must not
        claim more events."""
        if not helper.cancelled() and (error := helper.exception()) is not None:
            self._broken = error
            self.stop()

    async def _cycle(self) -> None:
        asked = time.monotonic()
        self._asleep = False
        self._pool.poke()
        try:
            if self._prefetch.free < self._prefetch.worth:
                await self._wait_for_room()
                await self._claim_for_the_quiet()
                return
            no_heads = time.monotonic() < self._heads_at
            events = await self._claim()
            if events and self._lanes.busy and time.monotonic() - self._looked < HORIZON_EVERY_S:
                await asyncio.sleep(0)
                return
            horizon = await self._look()
            if self._store_backoff.lasts:
                await self._store_backoff.read(self._store)
            if no_heads and self._heads_at <= self._looked:
                return  # a head has become ready that the last horizon did not show
            if horizon.alone is not None and horizon.alone <= NOW:
                if await self._interrupted_first(overdue=-horizon.alone):
                    return
                horizon = horizon._replace(alone=QUIET_RECHECK)
            if not self._lanes.busy and self._waker is not None and not self._stopping.is_set():
                reserved = await self._reserve(horizon)
                self._asleep = True
                if self._preload.lanes:
                    self._preload.idle()
                await self._waker.wait(self._sleep(horizon, found=bool(events) or self._decided, reserved=reserved))
            else:
                await asyncio.sleep(0)  # lets other tasks of the event loop run
        except StoreUnavailable as error:
            await self.pause(self._store_backoff.failed(error, asked))

    async def _look(self) -> Horizon:
        lanes = self._lanes.open
        horizon = await self._claims.horizon(lanes) if lanes else Horizon(None, None, None)
        self._looked = time.monotonic()
        self._heads_at = math.inf if horizon.heads is None else self._looked + horizon.heads.total_seconds()
        return horizon

    async def _reserve(self, horizon: Horizon) -> bool:
        """Reserves the events that are due within the look-ahead; returns whether there were any."""
        soon = min(span for span in (horizon.fresh, horizon.heads, FOREVER) if span is not None)
        free = self._options.batch_size - self._lookahead.load
        lanes = [lane for lane in self._lanes.trusted if lane not in self._claims.limited]
        if not NOW < soon <= self._options.lookahead or not lanes or free < len(lanes):
            return False
        return await self._lookahead.reserve(share(lanes, free, self._lanes.busy), self._options.lookahead) > 0

    async def _interrupted_first(self, overdue: timedelta) -> bool:
        """Delivers an event that a crash interrupted, if the worker is quiet; returns whether it did. Waiting for a
        quiet moment costs nothing, so it comes first; once the event is overdue by a lease, the worker starts nothing
        else until it is quiet."""
        if self._clock.in_doubt:
            return False
        now = time.monotonic()
        if not self._quiet() and (overdue < self._options.lease or now < self._force_after):
            return False
        pressing = overdue > PRESSING_AFTER_LEASES * self._options.lease
        with self._lookahead.quiet():
            await self._finish_all(within=self._options.lease.total_seconds() if pressing else WAIT_FOR_QUIET_S)
            delivered = (self._quiet() or pressing) and not self._stopping.is_set() and await self._one_alone()
        # Interrupted events take at most a fifth of the time, so that they do not starve all other events.
        self._force_after = time.monotonic() + 4 * (time.monotonic() - now)
        return delivered

    def _quiet(self) -> bool:
        return self._pool.load == 0 and self._lookahead.under_way == 0 and self._settler.is_idle

    def _sleep(self, horizon: Horizon, *, found: bool, reserved: bool) -> float:
        """Seconds until the next claim."""
        limited = bool(self._claims.limited) or self._pool.fair_queue.holds_back
        if reserved:
            return min(self._claims.unsure_in, self._rest.after_reserving(limited=limited))
        whole = self._in_vain * self._options.concurrency >= len(self._lanes.open)
        return min(self._claims.unsure_in, self._rest.after_a_claim(horizon, found=found, limited=limited, whole=whole))

    async def _claim(self) -> list[Event]:
        self._decided = False
        free = self._prefetch.batch
        if not self._lanes.open or free < 1:
            return []
        sent = steady()
        room = self._lanes.room(free, self._claims.limited, self._leases.under_way)
        if not room:
            self._in_vain += 1
            return []
        for lane in self._lanes.returned(room):
            await self._claims.begin_again(lane)
        # Heads get at most half of the room, and other events the rest, so that neither starves the other.
        half = {lane: (free + 1) // 2 for lane, free in room.items()}
        left = self._pool.fair_queue.startable > 0
        heads = await self._claim_heads(half) if self._may_have_heads else []
        await self._learn_and_start(heads, sent)
        taken = Counter(event.lane for event in heads)
        full = {lane for lane, count in taken.items() if count >= half[lane]}
        rest = {lane: free - taken[lane] for lane, free in room.items() if free > taken[lane]}
        events = list(heads)
        async for more in self._claims.take(rest):
            await self._learn_and_start(more, sent)
            events = events + more
        self._lanes.claimed(events, room, full)
        self._held_up = self._claims.waiting()
        self._in_vain = 0 if events else self._in_vain + 1
        if events:
            self._prefetch.claimed(len(events), backlog=bool(self._lanes.busy), left=left)
        return events

    @property
    def _may_have_heads(self) -> bool:
        return time.monotonic() >= self._heads_at and not self._options.events_alone

    async def _claim_heads(self, room: Mapping[str, int]) -> list[Event]:
        succeeded = await self._claims.take_heads(room)
        self._decided = len(succeeded.fired) < succeeded.many
        if not succeeded.many and len(room) == len(self._lanes.open):
            self._heads_at = time.monotonic() + HORIZON_EVERY_S  # at the latest; the next horizon has the exact instant
        return succeeded.fired

    async def _one_alone(self) -> bool:
        if self._clock.in_doubt:
            return False
        sent = steady()
        event = await claim_interrupted(self._store, self._claimant, self._lanes.open, self._tally)
        if event is None:
            return False
        self._start([event], sent)
        await self._finish_all(within=ALONE_FOR_S)
        return True

    # -- room

    async def _wait_for_room(self) -> None:
        """Waits until there is room for a claim. While reserved places are free, new events wake this as well: they may
        belong to a tenant or destination that has nothing running here."""
        self._enough = self._prefetch.enough
        self._roomier.clear()
        if self._prefetch.free >= self._prefetch.worth or self._stopping.is_set():
            return
        if self._pool.fair_queue.kept and self._waker is not None:
            self._full = True
            await self._waker.wait(LIMITS_RECHECK.total_seconds())
            self._full = False
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LIMITS_RECHECK.total_seconds()):
                    await self._roomier.wait()

    async def _claim_for_the_quiet(self) -> None:
        """Claims events of idle tenants and destinations for the reserved places; all other places are taken."""
        if (kept := self._pool.fair_queue.kept) and not self._stopping.is_set():
            sent = steady()
            await self._learn_and_start(await self._claims.claim_for_idle_tenants(self._lanes.trusted, kept), sent)

    def _finished(self, event: Event, outcome: Outcome | None) -> None:
        if outcome is not None:
            if self._lent and (tx := self._lent.pop((event.id, event.version), None)) is not None:
                tx.abandon()  # the handler is past its deadline and still has the transaction
            self._settler.add(event, outcome)
        if self._pool.load <= self._enough:
            self._roomier.set()
            if self._full:
                self._wake()
        if self._held_up and self._runs_out(event):
            self._wake()

    def _runs_out(self, event: Event) -> bool:
        """Whether the tenant and destination of an ended event need another claim: limits held some of its events up,
        and few are left here."""
        key = event.tenant, event.destination
        return key in self._held_up and self._pool.fair_queue.runs_out(key)

    # -- one attempt

    async def _learn_and_start(self, events: list[Event], sent: float) -> None:
        try:
            await self._destinations.learn(events)
        except asyncio.CancelledError:
            self._pool.fair_queue.extend(events)  # so that the drain gives them back
            raise
        self._start(events, sent)

    def _start(self, events: list[Event], sent: float) -> None:
        """Starts claimed events. *sent*: when their claim was sent, by the steady clock; the leases began after
        that."""
        if events:
            self._leases.claimed(events, sent)
            self._tally.begin()
            self._pool.start(events)

    def _attempt(self, event: Event, route: Route) -> Coroutine[Any, Any, Outcome | None]:
        if self._leases.has_ended(event):
            return too_late(event)
        attempt: Coroutine[Any, Any, Outcome | None]
        if route.transactional:
            attempt = deliver_and_settle(event, route, self._store, self.name, self._tally, self._lent)
        else:
            attempt = deliver(event, route, self._destinations)
        return attempt if event.expires is None else unless_expired(event, self._store, attempt)

    async def _finish_all(self, *, even_if_stopping: bool = False, within: float = math.inf) -> None:
        """Returns when no event is under way and all are settled, after *within* seconds, or when the worker stops."""
        self._enough = 0
        until = time.monotonic() + within
        while self._pool.load and (even_if_stopping or not self._stopping.is_set()) and time.monotonic() < until:
            self._roomier.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await self._roomier.wait()
        if not self._settler.is_idle:
            waits = [self._settler.idle()] if even_if_stopping else [self._settler.idle(), self._stopping.wait()]
            tasks = [asyncio.ensure_future(wait) for wait in waits]
            try:
                left = None if within == math.inf else max(0.0, until - time.monotonic())
                await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()

    # -- beside the loop

    def _wake(self) -> None:
        if self._waker is not None:
            self._waker.wake()

    async def pause(self, seconds: float) -> bool:
        """Waits for that many seconds, or until stopped; returns whether the worker is stopped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()

    async def stopped_before(self, task: "asyncio.Task[Any]") -> bool:
        """Waits for a task, or until stopped. Returns True if the worker was stopped first; the task is then
        cancelled."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if task.done():
            return False
        await end_tasks(task)
        return True

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(self._options.poll_interval.total_seconds())
            with contextlib.suppress(StoreUnavailable):  # the loop reports that
                await look_after_held(self._store)
                await self._try_parked()

    async def _try_parked(self) -> None:
        sent = steady()
        probes = await look_after_parked(self._store, self._lanes.trusted, self.name, self._options.lease)
        if probes:
            self._destinations.trying(probes)
            self._start(probes, sent)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            self._pool.expire()
            self._pool.poke()  # events that could not start, for instance while the store was unavailable
            if self._waker is not None:  # a tick is one pass, even if it takes long
                self._tally.look(idle=self._asleep and self._quiet())

    @property
    def _left(self) -> float:
        """Seconds that a stopping worker has left for its last settlements, at most FINAL_SETTLE_S."""
        return min(max(self._gone_by - time.monotonic(), SHORTEST_STEP_S), FINAL_SETTLE_S)

    async def _drain(self, grace: timedelta) -> None:
        """Waits for running events within the grace, which counts from the call of ``stop``, and gives all other events
        back to the store."""
        until = min(self._gone_by - FINAL_SETTLE_S, time.monotonic() + grace.total_seconds())
        unstarted = self._pool.take_waiting()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_CYCLE_S):
                unstarted += await self._lookahead.stop()
        for event in unstarted:
            self._settler.add_settlement(give_back(event, "the worker stopped before starting it"))
        await self._finish_all(even_if_stopping=True, within=until - time.monotonic())
        for event in self._pool.cancel():
            self._settler.add_settlement(give_back(event, "the worker stopped before it ended"))
            unstarted.append(event)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._left):
                await self._settler.idle()
        if self._waker is not None:  # a tick reports its pass itself
            self._tally.look(idle=True)
            self._signals.emit(WorkerStopped(self.name, len(unstarted)))


async def end_tasks(*tasks: "asyncio.Task[Any]") -> None:
    """Cancels tasks and waits until they have ended, at most LAST_CYCLE_S: a task may ignore its cancellation."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=LAST_CYCLE_S)


async def too_late(event: Event) -> Outcome:
    """The outcome of an event that waited here until its lease ended: another worker may have claimed it by now."""
    return Unreachable("its lease ended before it could be started", timedelta())
