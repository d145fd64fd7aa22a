"""The statements about roll-ups of runs."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from duly.decide.figures.histogram import bucket
from duly.decide.figures.roll_up import EndedRuns, RollUpKey, RollUps, RunCounts, Span
from duly.ports.figures.stats import CountedRuns, RollUpRange
from duly.records.event import Status
from duly.stores.query_base import Columns, QueryBase

_read_histogram = msgspec.json.Decoder(dict[int, int]).decode
_write = msgspec.json.Encoder().encode


class StatsQueries(QueryBase):
    async def has_ended(self) -> bool:
        return bool(await self.ask("has_ended"))

    async def take_ended(self, limit: int) -> list[EndedRuns]:
        rows = await self.ask("take_ended", limit=limit)
        return [EndedRuns(self.read_instant(row[0]), *row[1:]) for row in rows]

    async def roll_ups(self, keys: Collection[RollUpKey]) -> dict[RollUpKey, RunCounts]:
        rows = await self.ask("roll_ups", self._keys(keys))
        return {
            RollUpKey(tenant, schedule, Span(span), self.read_instant(begins), type, lane): _counts(counted)
            for tenant, schedule, span, begins, type, lane, *counted in rows
        }

    async def put_roll_ups(self, rows: RollUps) -> None:
        ordered = sorted(rows.items())
        counts = [counts for _, counts in ordered]
        values = self._keys([key for key, _ in ordered]) | {
            "completed": [one.completed for one in counts],
            "failed": [one.failed for one in counts],
            "skipped": [one.skipped for one in counts],
            "duration": [_write(one.duration).decode() for one in counts],
            "lateness": [_write(one.lateness).decode() for one in counts],
        }
        await self.ask("put_roll_ups", values)

    async def forget_roll_ups(self, hours: timedelta, days: timedelta, limit: int) -> int:
        spans = {"hours": self.span(hours), "days": self.span(days)}
        return len(await self.ask("forget_roll_ups", limit=limit, **spans))

    async def count_runs(self, tenant: str | None, schedule: str, range: RollUpRange) -> Sequence[CountedRuns]:
        within = {name: self.instant(instant) for name, instant in range._asdict().items()}
        rows = await self.ask("count_runs", tenant=tenant, schedule=schedule, **within)
        return [
            CountedRuns(self.read_instant(begins), type, lane, _counts(counted))
            for begins, type, lane, *counted in rows
        ]

    def _keys(self, keys: Collection[RollUpKey]) -> Columns:
        return {
            "tenant": [key.tenant for key in keys],
            "schedule": [key.schedule for key in keys],
            "span": [key.span.value for key in keys],
            "begins": self.instants([key.begins for key in keys]),
            "type": [key.type for key in keys],
            "lane": [key.lane for key in keys],
        }


def _counts(row: Sequence[Any]) -> RunCounts:
    """Counts from a row: of a roll-up, or of runs that ended, which have seconds in place of histograms."""
    completed, failed, skipped, duration, lateness, of_each = row
    counts = RunCounts()
    counts.statuses.update({Status.COMPLETED: completed, Status.FAILED: failed, Status.SKIPPED: skipped})
    for counter, told in ((counts.duration, duration), (counts.lateness, lateness)):
        if of_each is None:
            counter.update(_read_histogram(told))
        elif told is not None:
            counter[bucket(float(told))] += of_each
    return counts
