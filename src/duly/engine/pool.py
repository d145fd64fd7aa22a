"""Runs claimed events, up to the worker's concurrency at a time. Each runner takes one event after another: a task for
each event would cost more than most handlers do."""

import asyncio
import types
from collections import Counter
from collections.abc import Callable, Container, Coroutine, Generator, Iterable, Mapping
from contextvars import Context, copy_context
from datetime import timedelta
from functools import partial
from typing import Any

from duly.engine.fairness.fair_queue import FairQueue, Start
from duly.engine.faults.store_backoff import StoreBackoff
from duly.ports import Route, Threaded
from duly.records.event import Event, Failed, Outcome, Unreachable
from duly.signals import HandlerAbandoned, Signals

RUNNER_SLICE_S = 0.005
"""Seconds that a runner may keep the event loop to itself."""

ABANDONED_AFTER_S = 5.0
"""Seconds that a handler gets to end after its cancellation, before HandlerAbandoned is emitted."""

STOPPED = Unreachable("it was cancelled while it ran", timedelta())
"""The outcome of a handler that was cancelled on request. The store ends the event, because the request is stored."""

Attempt = Callable[[Event, Route], Coroutine[Any, Any, Outcome | None]]
Finish = Callable[[Event, Outcome | None, float], None]
"""Takes the outcome of an attempt, and how many seconds the attempt took."""


class Running:
    __slots__ = ("event", "expires", "gone", "route", "start", "stopped", "task", "waited")

    def __init__(self, start: Start, route: Route, expires: float, task: "asyncio.Task[None]") -> None:
        self.start, self.event = start, start[0]
        self.route, self.expires, self.task = route, expires, task
        self.gone = False  # taken from its runner by a deadline or a stop: the runner ignores the handler's outcome
        self.stopped = False  # the handler was cancelled because somebody asked the event to stop
        self.waited = False  # the handler awaited something, so the event loop ran other tasks

    @property
    def deadline_s(self) -> float:
        return self.route.deadline.total_seconds()


class Pool:
    def __init__(
        self,
        routes: Mapping[str, Route],
        fair_queue: FairQueue,
        attempt: Attempt,
        finish: Finish,
        store_backoff: StoreBackoff,
        signals: Signals,
    ) -> None:
        self._routes, self._fair_queue, self._store_backoff = routes, fair_queue, store_backoff
        self._attempt, self._finish, self._signals = attempt, finish, signals
        self._loop = asyncio.get_running_loop()
        self._base = copy_context()
        self._runners = 0
        self._starting = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.running: set[Running] = set()
        self.finished = 0

    @property
    def load(self) -> int:
        """How many events are running, or wait only for a free place."""
        return self._fair_queue.startable + len(self.running)

    def keep(self, events: Iterable[Event]) -> None:
        """Adds claimed events, without starting any."""
        self._fair_queue.extend(events)

    def start(self, events: Iterable[Event]) -> None:
        self._fair_queue.extend(events)
        self._spawn()

    def poke(self) -> None:
        """Starts waiting events that limits or the store kept from starting before."""
        self._fair_queue.poke()
        self._spawn()

    def events(self) -> list[Event]:
        return [*self._fair_queue, *(running.event for running in self.running)]

    def what_runs(self) -> tuple[dict[str, int], float]:
        """How many events of each type are running, and for how many seconds the oldest of them has."""
        now = self._loop.time()
        oldest = max((now - running.expires + running.deadline_s for running in self.running), default=0.0)
        return dict(Counter(running.event.type for running in self.running)), oldest

    def remove_waiting(self, ids: Container[str]) -> list[Event]:
        """Removes the events with these ids that have not started; returns the removed ones."""
        removed = [event for event in self._fair_queue if event.id in ids]
        for event in removed:
            self._fair_queue.remove(event)
        return removed

    def drop(self, ids: Container[str]) -> list[Event]:
        """Drops the events with these ids, whose leases are lost: those that have not started, and those whose
        deliveries end with the lease."""
        return [*self.remove_waiting(ids), *self._end_leased(lambda event: event.id in ids)]

    def drop_ended(self, has_ended: Callable[[Event], bool]) -> list[Event]:
        """Drops the running events whose leases have ended by this worker's own clock, and whose deliveries end with
        the lease: the store may be out of reach."""
        return self._end_leased(has_ended)

    def _end_leased(self, chosen: Callable[[Event], bool]) -> list[Event]:
        ended = [one for one in self.running if one.route.ends_with_lease and chosen(one.event)]
        for running in ended:
            self._take_away(running, None)
        return [running.event for running in ended]

    def take_waiting(self) -> list[Event]:
        """Removes the events that have not started, and returns them to be given back."""
        taken = list(self._fair_queue)
        self._fair_queue.clear()
        return taken

    def expire(self) -> None:
        """Ends the events that have run past their deadlines, as failed."""
        now = self._loop.time()
        for running in [running for running in self.running if running.expires <= now]:
            route = running.route
            then = "; its thread still runs and cannot be stopped" if _in_thread(route) else " and was cancelled"
            outcome = Failed(f"went on past its deadline of {route.deadline.total_seconds():g} s{then}")
            self._take_away(running, outcome)
            self._finish(running.event, outcome, now - running.expires + running.deadline_s)
            if _in_thread(route):
                # When the task is done, the channel counts its thread as hung.
                running.task.add_done_callback(partial(self._tell_abandoned, running))
            else:
                self._loop.call_later(ABANDONED_AFTER_S, self._check_abandoned, running)

    def stop(self, ids: Container[str]) -> None:
        """Asks running events to stop. A handler in a thread is told; any other is cancelled, and its event ends when
        the handler has: it may have to clean up."""
        for running in [running for running in self.running if running.event.id in ids]:
            if isinstance(running.route.channel, Threaded):
                running.route.channel.ask_to_stop(running.event)
            elif not running.stopped:
                running.stopped = True
                running.task.cancel()

    @property
    def leased(self) -> set[str]:
        """The ids of running events whose deliveries must have ended before they are given back."""
        return {running.event.id for running in self.running if running.route.ends_with_lease}

    def tell_threads_to_stop(self) -> None:
        """Lets the handlers that run in threads see that the worker stops."""
        for running in self.running:
            if isinstance(running.route.channel, Threaded):
                running.route.channel.ask_to_stop(running.event)

    def cancel(self) -> list[Event]:
        """Cancels all running events and returns them."""
        ended = list(self.running)
        for running in ended:
            self._take_away(running, None)
        return [running.event for running in ended]

    def _take_away(self, running: Running, outcome: Outcome | None) -> None:
        running.gone = True
        self.running.remove(running)
        self._runners -= 1
        self._fair_queue.ended(running.start, outcome)
        running.task.cancel()
        self._spawn()

    def _check_abandoned(self, running: Running) -> None:
        if not running.task.done():
            self._tell_abandoned(running)

    def _tell_abandoned(self, running: Running, _: Any = None) -> None:
        channel = running.route.channel
        hung = channel.hung if isinstance(channel, Threaded) else 0
        self._signals.emit(HandlerAbandoned(running.event, running.route.deadline, hung))

    def _spawn(self) -> None:
        if self._store_backoff.lasts:  # outcomes could not be stored, so events started now would be repeated
            return
        if not self._starting and self._runners < self._fair_queue.most and self._fair_queue.may_start:
            self._starting = True
            self._runners += 1
            task = self._loop.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self) -> None:
        """Runs one event after another, until no event may start or the running one was taken away."""
        self._starting = False
        turn = self._loop.time() + RUNNER_SLICE_S
        task = asyncio.current_task()
        assert task is not None
        start = self._fair_queue.next()
        while start is not None:
            self._spawn()  # another runner takes the next event if this one has to wait
            event = start[0]
            route = self._routes[event.lane]
            began = self._loop.time()
            running = Running(start, route, began + route.deadline.total_seconds(), task)
            self.running.add(running)
            outcome: Outcome | None
            try:
                outcome = await _in_context(self._attempt(event, route), self._base.copy(), running)
            except asyncio.CancelledError:
                outcome = STOPPED if running.stopped else Failed("was cancelled from within")
            if running.stopped:
                task.uncancel()
            if running.gone:
                return
            self.running.remove(running)
            self.finished += 1
            ended = self._loop.time()
            self._finish(event, outcome, ended - began)
            if running.waited:
                turn = ended + RUNNER_SLICE_S
            elif ended > turn:
                await asyncio.sleep(0)
                turn = self._loop.time() + RUNNER_SLICE_S
            if self._store_backoff.lasts:
                self._fair_queue.ended(start, outcome)
                break
            start = self._fair_queue.then(start, outcome)
        self._runners -= 1


def _in_thread(route: Route) -> bool:
    return isinstance(route.channel, Threaded)


@types.coroutine
def _in_context(coroutine: Coroutine[Any, Any, Any], context: Context, running: Running) -> Generator[Any, Any, Any]:
    """Runs a coroutine in a context of its own, so that a handler does not see the context variables of the one before
    it."""
    step: Callable[..., Any] = coroutine.send
    value: Any = None
    while True:
        try:
            waits_for = context.run(step, value)
        except StopIteration as done:
            return done.value
        running.waited = True
        try:
            value = yield waits_for
            step = coroutine.send
        except BaseException as error:
            value, step = error, coroutine.throw
