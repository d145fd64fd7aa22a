"""The statements about workers and lanes."""

from datetime import datetime, timedelta

from duly.decide.why import MOST_AHEAD, Ahead
from duly.decide.workers import LaneLoad, WaitingLane
from duly.records.event import Event
from duly.records.workers.worker import WorkerInfo
from duly.stores.columns.lists import BEAT
from duly.stores.query_base import QueryBase


class WorkerQueries(QueryBase):
    async def beat(
        self, worker: WorkerInfo, since_pass: timedelta | None, *, begins: bool = False, stops: bool = False
    ) -> None:
        since = None if since_pass is None else self.span(since_pass)
        await self.ask("beat", self.batch(BEAT, [worker]), since_pass=since, begins=begins, stops=stops)

    async def leave(self, worker: str) -> None:
        await self.ask("leave", worker=worker)

    async def forget_workers(self, memory: timedelta) -> None:
        await self.ask("forget_workers", memory=self.span(memory))

    async def workers(self) -> list[WorkerInfo]:
        return [self.readers.worker.read(row) for row in await self.ask("workers")]

    async def remembered_lanes(self) -> dict[str, datetime]:
        return {lane: self.read_instant(served) for lane, served in await self.ask("remembered_lanes")}

    async def waiting_lanes(self) -> list[WaitingLane]:
        return [WaitingLane(lane, self.read_instant(ready)) for lane, ready in await self.ask("waiting_lanes")]

    async def lane_loads(self, limit: int) -> list[LaneLoad]:
        rows = await self.ask("lane_loads", limit=limit)
        return [LaneLoad(lane, self.maybe_instant(ready), *counts) for lane, ready, *counts in rows]

    async def ahead(self, event: Event) -> Ahead:
        [row] = await self.ask(
            "ahead",
            lane=event.lane,
            id=event.id,
            ready=self.instant(event.ready or event.due),
            tenant=event.tenant,
            destination=event.destination,
            limit=MOST_AHEAD,
        )
        ready, running, of_tenant, of_destination, spent = row
        return Ahead(ready, running, of_tenant, of_destination, bool(spent))

    async def count_ready(self, lane: str, before: datetime, *, limit: int) -> int:
        [row] = await self.ask("count_ready", lane=lane, before=self.instant(before), limit=limit)
        return int(row[0])
