"""The statement that finds anything by an id, a key or a name."""

from abc import abstractmethod
from typing import Any

from duly.records.finding.search import SearchResult, Wanted
from duly.stores.filters.specs import LAST_CHARACTER
from duly.stores.query_base import Columns, QueryBase

NAMES_EXAMINED = 5_000
"""Users of all tenants whose names begin so that a search examines, for each order of the names: about 5 ms of work."""


class AnythingQueries(QueryBase):
    @abstractmethod
    def columns(self, values: Columns) -> dict[str, Any]: ...

    async def find_anything(self, tenant: str, wanted: Wanted, *, limit: int) -> list[SearchResult]:
        lows = list(wanted.beginnings)
        rows = await self.ask(
            "find_anything",
            {"low": lows, "high": [low + LAST_CHARACTER for low in lows]},
            tenant=tenant,
            id=wanted.id,
            text=wanted.text,
            beyond=wanted.text + LAST_CHARACTER,
            limit=limit,
            examined=NAMES_EXAMINED,
        )
        found: dict[tuple[str, str], SearchResult] = {}
        for _, kind, id, name, title, status in rows:
            found.setdefault((kind, id), SearchResult(kind=kind, id=id, name=name, title=title, status=status))
        return list(found.values())[:limit]
