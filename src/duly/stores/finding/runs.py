"""The statements that find what became of the recent occurrences of schedules."""

from collections.abc import Sequence

from duly.records.event import Status
from duly.records.figures.runs import Run
from duly.stores.query_base import LAST_ID, QueryBase


class RunQueries(QueryBase):
    async def recent_runs(self, series: Sequence[str], *, limit: int, before: str = LAST_ID) -> list[Run]:
        rows = await self.ask("recent_runs", series=self.listed(series), limit=limit, before=before)
        return [
            Run(
                name,
                id,
                Status(status),
                self.read_instant(due),
                self.maybe_instant(executed),
                occurrence,
                self.maybe_instant(scheduled),
                stands_for,
                reason,
            )
            for name, id, status, due, executed, occurrence, scheduled, stands_for, reason in rows
        ]
