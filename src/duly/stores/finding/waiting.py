"""The statements that find waiting events in the order of their due times."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from duly.ports import DUE_EXAMINED, PAGE_BYTES, CutShort, DuePage
from duly.records.event import Event
from duly.records.finding.sorting import DuePlace
from duly.records.specs import Spec
from duly.stores.filters.waiting import WaitingPart, waiting_part
from duly.stores.queries import Query
from duly.stores.query_base import FIRST_ID, LAST_ID, WITHIN, QueryBase, each

FIRST = DuePlace(datetime(1, 1, 3, tzinfo=UTC), FIRST_ID)
"""Before every event. (Two days after the calendar begins: a driver may write it in another zone.)"""

LAST = DuePlace(datetime(9999, 12, 29, tzinfo=UTC), LAST_ID)
"""After every event."""

ASCENDING = {"order": "ASC", "beyond": ">", "up_to": "<="}
DESCENDING = {"order": "DESC", "beyond": "<", "up_to": ">="}


class WaitingQueries(QueryBase):
    async def page_by_due(
        self, spec: Spec, *, limit: int, latest_first: bool = False, after: DuePlace | None = None
    ) -> DuePage:
        part, words = waiting_part(spec), DESCENDING if latest_first else ASCENDING
        begin, end = _ends(part, latest_first)
        if after is not None:
            begin = min(begin, after) if latest_first else max(begin, after)
        more: DuePlace | None = None
        if part.leaves:
            between = self.between(begin, end)
            asked = self.statement("waiting_bound", tenant=part.tenant, examined=DUE_EXAMINED, **between)
            if bound := await self.in_order(asked, words, part.due):
                end = more = DuePlace(self.read_instant(bound[0][0]), bound[0][1])
        bounds = {**self.between(begin, end), WITHIN: PAGE_BYTES}
        asked = self.statement("waiting", tenant=part.tenant, limit=limit + 1, **bounds)
        rows = await self.in_order(asked, words, spec)
        found = each(self.readers.event.read, rows)
        page = found[:limit]
        if len(found) > limit or isinstance(found, CutShort):
            more = _place(page[-1])
        return DuePage(page, more)

    def between(self, begin: DuePlace, end: DuePlace) -> dict[str, Any]:
        """Parameters for the events after a place, up to another one."""
        return {
            "after_due": self.instant(begin.due),
            "after_id": begin.id,
            "last_due": self.instant(end.due),
            "last_id": end.id,
        }

    async def in_order(self, asked: tuple[Query, dict[str, Any]], words: Mapping[str, str], spec: Spec) -> list[Any]:
        """The rows of a query that is written for both orders."""
        query, parameters = asked
        sql = query.sql
        for word, written in words.items():
            sql = sql.replace(f"{{{word}}}", written)
        return await self.search((Query(query.name, sql, query.reads), parameters), spec)


def _ends(part: WaitingPart, latest_first: bool) -> tuple[DuePlace, DuePlace]:
    """Where the list begins and ends. (Every id is greater than the first one, so a beginning is included, and an end
    is not.)"""
    low = FIRST if part.low is None else DuePlace(part.low, FIRST_ID)
    high = LAST if part.high is None else DuePlace(part.high, FIRST_ID)
    return (high, low) if latest_first else (low, high)


def _place(event: Event) -> DuePlace:
    return DuePlace(event.due, event.id)
