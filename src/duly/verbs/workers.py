"""The verbs of workers: who is at work, and what nobody serves."""

import builtins
import contextlib
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from duly.decide.targets.commands import COMMAND
from duly.decide.why import Surroundings
from duly.decide.workers import LaneLoad, lanes_told, last_served, last_tick, served_lanes, serves, with_states
from duly.errors import StoreError
from duly.ports import EventPort, PresencePort
from duly.records.event import HANDLER, Event, Status
from duly.records.specs import OfTenant, OneOf
from duly.records.target import DESTINATION_OF_ALL
from duly.records.workers.worker import LaneInfo, WorkerInfo
from duly.verbs.marks import for_doors, reads

EXAMINED = 10_000
"""The number of a tenant's newest events among which its lanes are looked for: about 10 ms of work."""

MOST_COUNTED = 1000
"""The number up to which the events of a lane are counted."""


ASKED_EVERY_S = 5.0
"""Seconds between two questions whether lanes have been served that were not served before."""

NEVER_SERVED = "no worker has served the type {!r} yet: it waits until one runs whose app has a handler for it"
NEVER_RUN = "no worker has run a command yet: it waits until one runs with --commands"


class UnservedLane(NamedTuple):
    """A lane with overdue events that nobody serves."""

    lane: str
    ready: datetime  # since when its oldest event could have begun
    events: int  # how many of them, at most MOST_COUNTED, without those that a crash interrupted
    served: datetime | None  # when it was last served; None: it never was


async def surroundings(store: PresencePort, event: Event, now: datetime) -> Surroundings:
    """What is around an event that could begin."""
    workers = [worker for worker in await store.workers() if event.lane in worker.lanes]
    seen = last_served(workers, await store.remembered_lanes())
    serving = [worker for worker in workers if serves(worker, now)]
    down = [worker.closed.get(event.lane) for worker in serving]
    keys = [(event.tenant, key) for key in (event.destination, DESTINATION_OF_ALL) if key is not None]
    return Surroundings(
        served=bool(serving),
        seen=seen.get(event.lane),
        down=down[0] if down and None not in down else None,
        known=await store.destinations(keys),
        ahead=await store.ahead(event),
        ticked=last_tick(serving, event.lane, now),
    )


class Workers:
    """``duly.workers``."""

    def __init__(self, store: PresencePort, events: EventPort) -> None:
        self._store, self._events = store, events  # those events whose lanes a tenant may know
        self._ever_served: set[str] = set()
        self._asked = -ASKED_EVERY_S

    @reads
    async def list(self) -> builtins.list[WorkerInfo]:
        """The workers that are at work, and those that vanished within a day."""
        return with_states(await self._store.workers(), await self._store.now())

    @reads
    async def lanes(self, *, tenant: str | None = None) -> builtins.list[LaneInfo]:
        """The lanes in which events wait or which a worker serves; with a tenant, the lanes of its own open events,
        among its newest 10,000 events. Tells of each whether a worker serves it, and when one was last seen."""
        now, workers = await self._store.now(), await self._store.workers()
        remembered = await self._store.remembered_lanes()
        if tenant is None:
            lanes = {one.lane for one in await self._store.waiting_lanes()} | served_lanes(workers, now)
        else:
            is_open = OneOf("status", (Status.PENDING, Status.PROCESSING))
            lanes = set(await self._events.lanes_of(OfTenant(tenant) & is_open, examine=EXAMINED))
        return list(lanes_told(lanes, workers, remembered, now))

    @for_doors
    @reads
    async def warnings(self, lanes: Iterable[str]) -> tuple[str, ...]:
        """A warning for each lane of handlers or commands among these that no worker has ever served."""
        return tuple(
            NEVER_RUN if lane == COMMAND else NEVER_SERVED.format(lane.partition(":")[2])
            for lane in await self.never_served(lanes)
        )

    @for_doors
    @reads
    async def never_served(self, lanes: Iterable[str]) -> builtins.list[str]:
        """The lanes of handlers and commands among these that no worker has ever served. Lanes that were served are
        remembered, and the database is asked for others at most once in ASKED_EVERY_S. An outage is no reason to
        fail."""
        handled = {lane for lane in lanes if lane.startswith(f"{HANDLER}:") or lane == COMMAND}
        if not handled <= self._ever_served and time.monotonic() - self._asked >= ASKED_EVERY_S:
            with contextlib.suppress(StoreError):
                remembered = await self._store.remembered_lanes()
                self._ever_served |= last_served(await self._store.workers(), remembered).keys()
                self._asked = time.monotonic()
        return sorted(handled - self._ever_served)

    @for_doors
    @reads
    async def loads(self, limit: int) -> builtins.list[LaneLoad]:
        """How many events of each lane wait and run, each number up to the limit."""
        return builtins.list(await self._store.lane_loads(limit))

    @for_doors
    @reads
    async def unserved(self, late_after: timedelta) -> builtins.list[UnservedLane]:
        """The lanes that no worker serves, with events that could have begun before that long."""
        now, workers = await self._store.now(), await self._store.workers()
        served, late = served_lanes(workers, now), now - late_after
        waiting = [one for one in await self._store.waiting_lanes() if one.ready <= late and one.lane not in served]
        if not waiting:
            return []
        seen = last_served(workers, await self._store.remembered_lanes())
        return [
            UnservedLane(lane, ready, await self._store.count_ready(lane, late, limit=MOST_COUNTED), seen.get(lane))
            for lane, ready in waiting
        ]
