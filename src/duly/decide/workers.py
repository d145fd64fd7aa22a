"""Which workers are alive, and which lanes they serve, by their rows and the store's clock."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from duly.records.workers.worker import LaneInfo, WorkerInfo, WorkerKind, WorkerState

MISSED_BEATS = 2
"""A worker that was not seen for this many beats is dead."""

TICK_COUNTS_FOR = timedelta(hours=1)
"""How long after its last pass a tick counts as serving its lanes: a cron job runs it again, mostly within minutes."""


class WaitingLane(NamedTuple):
    """A lane in which events wait, and since when its oldest event is ready."""

    lane: str
    ready: datetime


class LaneLoad(NamedTuple):
    """How many events of a lane wait and run; each number is counted up to a limit."""

    lane: str
    ready: datetime | None  # since when its oldest waiting event is ready, or from when on
    due: int
    pending: int  # those that wait for their time
    running: int
    interrupted: int


def pass_limit(poll_interval: timedelta, lease: timedelta, store_timeout: timedelta) -> timedelta:
    """How long a pass of a sound loop takes at most: it sleeps for a poll interval, waits for a lease until an
    interrupted event can be delivered, and makes a few queries."""
    return poll_interval + lease + 3 * store_timeout


def state_of(worker: WorkerInfo, now: datetime) -> WorkerState:
    if worker.stopped is not None:
        return WorkerState.STOPPED
    if now - worker.seen > MISSED_BEATS * worker.beat:
        return WorkerState.DEAD
    if worker.draining:
        return WorkerState.DRAINING
    passed = worker.started if worker.last_pass is None else max(worker.started, worker.last_pass)
    if worker.kind is WorkerKind.WORKER and now - passed > worker.pass_limit:
        return WorkerState.STALLED
    return WorkerState.RUNNING


def with_states(workers: Iterable[WorkerInfo], now: datetime) -> list[WorkerInfo]:
    return [msgspec.structs.replace(worker, state=state_of(worker, now)) for worker in workers]


def serves(worker: WorkerInfo, now: datetime) -> bool:
    """Whether a worker claims events at present; a tick, whether it did within the last hour."""
    state = state_of(worker, now)
    if worker.kind is WorkerKind.TICK:
        return state is WorkerState.RUNNING or (worker.stopped is not None and now - worker.stopped <= TICK_COUNTS_FOR)
    return state is WorkerState.RUNNING


def last_tick(workers: Iterable[WorkerInfo], lane: str, now: datetime) -> datetime | None:
    """When the last tick of a lane ended, if ticks alone serve it and none of them runs just now."""
    serving = [worker for worker in workers if lane in worker.lanes and serves(worker, now)]
    ended = [worker.stopped for worker in serving if worker.stopped is not None]
    return max(ended) if ended and len(ended) == len(serving) else None


def served_lanes(workers: Iterable[WorkerInfo], now: datetime) -> set[str]:
    """The lanes that living workers serve; also those that a worker cannot serve just now, because a broker is down."""
    return {lane for worker in workers if serves(worker, now) for lane in worker.lanes}


def last_served(workers: Iterable[WorkerInfo], remembered: Mapping[str, datetime]) -> dict[str, datetime]:
    """When a worker that serves a lane was last seen. *remembered*: the same of workers that have no row any more."""
    seen = dict(remembered)
    for worker in workers:
        for lane in worker.lanes:
            seen[lane] = max(worker.seen, seen.get(lane, worker.seen))
    return seen


def lanes_told(
    lanes: Iterable[str], workers: Sequence[WorkerInfo], remembered: Mapping[str, datetime], now: datetime
) -> Iterator[LaneInfo]:
    """What is known of these lanes, in the order of their names."""
    served, seen = served_lanes(workers, now), last_served(workers, remembered)
    for lane in sorted(lanes):
        yield LaneInfo(lane=lane, served=lane in served, seen=seen.get(lane))
