"""The executor of a worker: takes claimed events to their settlement. It keeps their leases, starts them as the pool
has places, delivers them, and settles what came of them."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from duly.engine.deliver import deliver, deliver_and_settle, unless_expired
from duly.engine.destinations.circuit_breaker import CircuitBreaker
from duly.engine.fairness.fair_queue import FairQueue
from duly.engine.faults.store_backoff import StoreBackoff
from duly.engine.leases import LeasedEvents, Leases
from duly.engine.pool import Pool
from duly.engine.series.heads import Claimant
from duly.engine.settle import Settler, give_back
from duly.engine.stopping import Stopping
from duly.engine.tally import PassTally
from duly.errors import StoreUnavailable
from duly.ports import ClaimPath, HandlerTransaction, Route
from duly.records.event import Event, Outcome, Unreachable
from duly.signals import Lost

LOAD_RECHECK_S = 0.05
"""Seconds between checks of the load while waiting for it to fall: limits that set events aside also reduce it."""


STOPS_RECHECK_S = 0.2
"""Seconds between two looks for events that were asked to stop, at least."""


class Executor:
    def __init__(
        self,
        store: ClaimPath,
        routes: Mapping[str, Route],
        fair_queue: FairQueue,
        destinations: CircuitBreaker,
        claimant: Claimant,
        store_backoff: StoreBackoff,
        tally: PassTally,
        stopping: Stopping,
        wake: Callable[[], None],
    ) -> None:
        self._store, self._destinations, self._tally, self._stopping = store, destinations, tally, stopping
        self._pool = Pool(routes, fair_queue, self._attempt, self._finished, store_backoff, tally.signals)
        self._settler = Settler(store, tally, store_backoff, retrying=wake)
        self._leases = Leases(store, claimant.lease, [self._pool, self._settler], store_backoff, tally.signals)
        self._wake = wake
        self._lent: dict[tuple[str, int], HandlerTransaction] = {}  # transactions that handlers use now, by claim
        self._awaited: tuple[int, Callable[[], None]] | None = None  # a load, and what to call when it is reached
        self._stops_again = 0.0  # when to look for requests to stop again, by time.monotonic
        self._stops_timer: asyncio.TimerHandle | None = None
        self.ended: Callable[[Event], None] = lambda event: None  # called for each event that has ended

    # -- the path of an event

    async def learn_and_start(self, events: Sequence[Event], sent: float) -> None:
        """Starts claimed events, once the limits of their destinations are known."""
        try:
            await self._destinations.learn(events)
        except asyncio.CancelledError:
            self._pool.keep(events)  # so that the drain gives them back
            raise
        self.start(events, sent)

    def start(self, events: Sequence[Event], sent: float) -> None:
        """Starts claimed events. *sent*: when their claim was sent, by the steady clock; the leases began after
        that."""
        if events:
            self._leases.claimed(events, sent)
            self._tally.begin()
            self._pool.start(events)

    def _attempt(self, event: Event, route: Route) -> Coroutine[Any, Any, Outcome | None]:
        if self._leases.has_ended(event):
            return _too_late()
        attempt: Coroutine[Any, Any, Outcome | None]
        if route.transactional:
            attempt = deliver_and_settle(event, route, self._store, self._tally, self._lent)
        else:
            attempt = deliver(event, route, self._destinations)
        return attempt if event.expires is None else unless_expired(event, self._store, attempt)

    def _finished(self, event: Event, outcome: Outcome | None, took_s: float) -> None:
        if outcome is not None:
            if self._lent and (tx := self._lent.pop((event.id, event.version), None)) is not None:
                tx.abandon()  # the handler is past its deadline and still has the transaction
            self._settler.add(event, outcome, took_s)
        if self._awaited is not None and self._pool.load <= self._awaited[0]:
            self._awaited[1]()
        self.ended(event)

    # -- how much there is

    @property
    def load(self) -> int:
        """How many events are running, or wait only for a free place."""
        return self._pool.load

    @property
    def finished(self) -> int:
        """How many events have ended so far."""
        return self._pool.finished

    @property
    def is_idle(self) -> bool:
        """Whether no event is under way and all are settled."""
        return self._pool.load == 0 and self._settler.is_idle

    def what_runs(self) -> tuple[dict[str, int], float]:
        """How many events of each type are running, and for how many seconds the oldest of them has."""
        return self._pool.what_runs()

    def claimed_events(self) -> list[Event]:
        """The events that are claimed and not settled yet."""
        return self._leases.claimed_events()

    @contextlib.contextmanager
    def calling_at(self, load: int, call: Callable[[], None]) -> Iterator[None]:
        """Within this context, *call* is called each time an event ends and the load is at most *load*."""
        self._awaited = load, call
        try:
            yield
        finally:
            self._awaited = None

    async def load_falls_to(self, load: int, within: float) -> None:
        """Waits until an event has ended and the load is that low, *within* seconds at most. It always waits: reserved
        events may take the places of a worker that has no load, and their tasks need the event loop."""
        fallen = asyncio.Event()
        with self.calling_at(load, fallen.set), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await fallen.wait()

    async def finish_all(self, within: float = math.inf, *, even_if_stopping: bool = False) -> bool:
        """Waits until the executor is idle, *within* seconds at most, or until the worker is stopped. Returns whether
        the worker goes on."""
        until = time.monotonic() + within
        while self._pool.load and self._goes_on(even_if_stopping) and time.monotonic() < until:
            await self.load_falls_to(0, LOAD_RECHECK_S)
        if not self._settler.is_idle:
            waits = [self._settler.idle()] if even_if_stopping else [self._settler.idle(), self._stopping.wait()]
            tasks: list[asyncio.Task[Any]] = [asyncio.create_task(wait) for wait in waits]
            try:
                left = None if within == math.inf else max(0.0, until - time.monotonic())
                await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
        return self._goes_on(even_if_stopping)

    def _goes_on(self, even_if_stopping: bool) -> bool:
        return even_if_stopping or not self._stopping.is_asked

    # -- stopping events that run

    async def stop_what_was_asked(self) -> None:
        """Stops the events that somebody has cancelled while they were claimed here. Looks at most every
        STOPS_RECHECK_S; the worker is woken when that has passed."""
        now = time.monotonic()
        if not (self._pool.running or self._pool.load):
            return
        if now < self._stops_again:
            if self._stops_timer is None:
                self._stops_timer = asyncio.get_running_loop().call_later(self._stops_again - now, self._wake)
            return
        self._stops_again, self._stops_timer = now + STOPS_RECHECK_S, None
        if ids := set(await self._store.stop_requests(self._tally.worker)):
            self.give_back(self._pool.remove_waiting(ids), "it was cancelled before it was started")
            self._pool.stop(ids)

    def tell_threads_to_stop(self) -> None:
        """Lets the handlers that run in threads see that the worker stops."""
        self._pool.tell_threads_to_stop()

    async def _watch_for_stops(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            with contextlib.suppress(StoreUnavailable):  # the renewal of leases reports that
                await self.stop_what_was_asked()

    # -- beside the path

    def tasks(self) -> Iterable[Coroutine[Any, Any, None]]:
        """The loops that run beside the worker's own: they settle, renew leases, and learn what is to be stopped."""
        between = self._leases.between
        return self._settler.run(), self._settler.retry_locked(), self._leases.beat(), self._watch_for_stops(between)

    def also_renew(self, others: LeasedEvents) -> None:
        """Renews the leases of these claimed events too, which have not been started."""
        self._leases.also_renew(others)

    def renew_leases_now(self) -> None:
        """Renews all leases and claims again at once, because the store's clock was set."""
        self._leases.renew_now()
        self._wake()

    def poke(self) -> None:
        """Starts waiting events that limits or the store kept from starting before."""
        self._pool.poke()

    def end_overdue(self) -> None:
        """Ends the events that have run past their deadlines, as failed, and commands that have run past their leases:
        another worker may have started them again."""
        self._pool.expire()
        for event in self._pool.drop_ended(self._leases.has_ended):
            self._tally.signals.emit(Lost(event, "renew"))

    async def end_commands(self, within: float) -> int:
        """Ends the commands that still run, and waits for that, *within* seconds at most: given back before, another
        worker would start them beside what is left of them here. Returns how many have ended."""
        if commands := self._pool.leased:
            self._pool.stop(commands)
            await self.finish_all(within, even_if_stopping=True)
        return len(commands - self._pool.leased)

    def give_back_unstarted(self, reason: str) -> list[Event]:
        """Gives the claims of events that have not started back to the store; returns the events."""
        return self.give_back(self._pool.take_waiting(), reason)

    def give_back_running(self, reason: str) -> list[Event]:
        """Cancels all running events and gives their claims back to the store; returns the events."""
        return self.give_back(self._pool.cancel(), reason)

    def give_back(self, events: list[Event], reason: str) -> list[Event]:
        for event in events:
            self._settler.add_settlement(give_back(event, reason))
        return events

    async def settle_all(self, within: float) -> None:
        """Waits until all verdicts are stored, *within* seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._settler.idle()


async def _too_late() -> Outcome:
    """The outcome of an event that waited here until its lease ended: another worker may have claimed it by now."""
    return Unreachable("its lease ended before it could be started", timedelta())
