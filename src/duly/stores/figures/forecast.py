"""The statements that a forecast is made of."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from duly.decide.series.forecast import StepRange
from duly.decide.series.pauses import PausedTime
from duly.ports import CountedRows, DueWindow, RepeatingHeads, ScheduledHead
from duly.records.schedule import Passed
from duly.stores.query_base import QueryBase


class ForecastQueries(QueryBase):
    window_s = 2.0  # a wider window does not read the same pages again and again

    async def count_due(self, window: DueWindow, asked: StepRange, *, types: int) -> list[CountedRows]:
        rows = await self.ask(
            "count_due",
            **self._within(window),
            start=self.instant(asked.start),
            step=self.span(asked.step),
            begins=self.instants([asked.begin(index) for index in range(asked.many)]),
            ends=self.instant(asked.end),
            types=types,
        )
        return [CountedRows(*row) for row in rows]

    async def repeating_heads(self, window: DueWindow, ends: datetime, *, limit: int) -> list[RepeatingHeads]:
        rows = await self.ask("repeating_heads", **self._within(window), ends=self.instant(ends), limit=limit)
        return [
            RepeatingHeads(type, rule, timezone, self.read_instant(after), many)
            for type, rule, timezone, after, many in rows
        ]

    async def scheduled_heads(self, tenant: str | None, ends: datetime, *, limit: int) -> list[ScheduledHead]:
        rows = await self.ask("scheduled_heads", tenant=tenant, ends=self.instant(ends), limit=limit)
        return [self._scheduled_head(row) for row in rows]

    def _within(self, window: DueWindow) -> dict[str, Any]:
        tenant, since, until = window
        return {"tenant": tenant, "since": self.instant(since), "until": self.instant(until)}

    def _scheduled_head(self, row: Sequence[Any]) -> ScheduledHead:
        id, name, tenant, type, rule, timezone, policies, earlier, *instants, occurrence, since, until, passed = row
        paused = None
        if until is not None:
            passes = None if passed is None else Passed(passed)
            paused = PausedTime(self.maybe_instant(since), self.read_instant(until), passes)
        due, scheduled = map(self.read_instant, instants)
        of_rule = (id, name, tenant, type, rule, timezone, policies, earlier)
        return ScheduledHead(*of_rule, due, scheduled, occurrence, paused)
