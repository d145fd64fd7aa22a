"""Gauges of what the database holds. It is asked only when somebody asks for metrics, and at most every 15 s."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain

from duly.decide.workers import serves, with_states
from duly.errors import DulyError, StoreError, StoreUnavailable
from duly.observers.logs import Line
from duly.observers.metrics.counts import OTHER
from duly.observers.metrics.snapshots import Sample, Snapshot
from duly.ports import FigurePort, LaneDepth, StoreFigures
from duly.records.event import HoldKind
from duly.records.schedule import HaltKind
from duly.records.workers.worker import WorkerInfo, WorkerState

log = logging.getLogger("duly")

CACHED_FOR_S = 15.0
"""Seconds for which the database's answer is cached, however many servers of Prometheus ask."""

ANSWER_WITHIN_S = 4.0
"""Seconds in which the database must answer: a scrape has 10 s by default, and shows the other metrics in any case."""

MOST_DUE = 10_000
"""Due events of one lane that are counted: about 3 ms of work."""

MOST_LANES = 100
"""Lanes that are shown apart. Callers choose types, and each type has a lane."""


class StoreGauges:
    """The gauges of one database."""

    def __init__(self, store: FigurePort) -> None:
        self._store = store
        self._asking = asyncio.Lock()
        self._asked = -CACHED_FOR_S
        self._told = False  # that figures cannot be read
        self.latest: Snapshot = ()  # what was found last

    async def samples(self) -> Snapshot:
        async with self._asking:
            if time.monotonic() - self._asked >= CACHED_FOR_S:
                self.latest = await self._ask()
                self._asked = time.monotonic()
        return self.latest

    async def _ask(self) -> Snapshot:
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                workers, began = await self._store.workers(), time.time()
                figures = await self._store.figures(MOST_DUE)
                clock = (began + time.time()) / 2
        except StoreError as error:
            return (Sample("duly_store_up", (), 0 if isinstance(error, StoreUnavailable) else self._incomplete(error)),)
        except (DulyError, TimeoutError):
            return (Sample("duly_store_up", (), 0),)
        self._told = False
        skew = clock - figures.now.timestamp()
        return (*_of_events(figures), *_of_lanes(figures, workers), *_of_workers(workers, figures.now, skew))

    def _incomplete(self, error: StoreError) -> int:
        """Logs, once, that the database answers and does not let its figures be read."""
        if not self._told:
            self._told = True
            log.warning(Line("metrics.incomplete", {"error": str(error)}))
        return 1


def _of_events(figures: StoreFigures) -> Iterator[Sample]:
    yield Sample("duly_store_up", (), 1)
    yield Sample("duly_events_pending", (), figures.pending)
    for hold in HoldKind:
        yield Sample("duly_events_held", (hold.value,), figures.held.get(hold.value, 0))
    yield Sample("duly_dead_letters", (), figures.dead_letters)
    yield Sample("duly_destinations_parked", (), figures.parked)
    for halt in HaltKind:
        yield Sample("duly_schedules_halted", (halt.value,), figures.halted.get(halt.value, 0))


def _of_lanes(figures: StoreFigures, workers: Sequence[WorkerInfo]) -> Iterator[Sample]:
    """The figures of each lane in which events wait or which a worker serves. Those of the shortest queues are shown
    together, if there are too many."""
    serving = set(chain.from_iterable(worker.lanes for worker in workers if serves(worker, figures.now)))
    idle = serving - {depth.lane for depth in figures.lanes}
    depths = sorted([*figures.lanes, *(LaneDepth(lane, 0, None) for lane in sorted(idle))], key=lambda one: -one.due)
    for depth in depths[:MOST_LANES]:
        yield from _of_lane(depth.lane, [depth], figures.now, serving)
    if others := depths[MOST_LANES:]:
        yield from _of_lane(OTHER, others, figures.now, serving)


def _of_lane(label: str, depths: Sequence[LaneDepth], now: datetime, serving: set[str]) -> Iterator[Sample]:
    overdue = max((now - depth.oldest for depth in depths if depth.oldest is not None), default=timedelta())
    yield Sample("duly_events_due", (label,), sum(depth.due for depth in depths))
    yield Sample("duly_oldest_overdue_seconds", (label,), max(0.0, overdue.total_seconds()))
    yield Sample("duly_lane_served", (label,), int(all(depth.lane in serving for depth in depths)))


def _of_workers(workers: Sequence[WorkerInfo], now: datetime, skew: float) -> Iterator[Sample]:
    states = Counter(worker.state for worker in with_states(workers, now))
    for state in WorkerState:
        yield Sample("duly_workers", (state.value,), states[state])
    passes = [passed for worker in workers if (passed := worker.last_pass or worker.stopped) is not None]
    if passes:
        yield Sample("duly_pass_age_seconds", (), max(0.0, (now - max(passes)).total_seconds()))
    yield Sample("duly_clock_skew_seconds", (), skew)
