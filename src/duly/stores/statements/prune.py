"""The statements about deleting finished events."""

from collections.abc import Sequence
from datetime import timedelta

from duly.decide.retention import Cutoff
from duly.ports.pruning import Prunable, PrunePage
from duly.stores.query_base import Columns, QueryBase


class PruneQueries(QueryBase):
    key_memory: timedelta

    async def prunable(self, cutoffs: Sequence[Cutoff], after: str, limit: int) -> PrunePage:
        values: Columns = {
            "status": [cutoff.status for cutoff in cutoffs],
            "type": [cutoff.type for cutoff in cutoffs],
            "before": self.instants([cutoff.before for cutoff in cutoffs]),
        }
        rows = await self.ask("prunable", values, after=after, limit=limit, memory=self.span(self.key_memory))
        if not rows:
            return PrunePage((), None, None)
        last, created = rows[0][:2]
        found = [
            Prunable(id, status, type, self.read_instant(ended))
            for _, _, id, status, type, ended in rows
            if id is not None
        ]
        return PrunePage(found, last, self.read_instant(created))

    async def take_upkeep(self, task: str, worker: str, lease: timedelta, place: str | None = None) -> str | None:
        rows = await self.ask("take_upkeep", task=task, worker=worker, lease=self.span(lease), place=place)
        return str(rows[0][0]) if rows else None
