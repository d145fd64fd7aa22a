"""The statements about one occurrence of a schedule: what became of it, and who did what."""

from duly.decide.series.why_not import BACKFILL, Neighbour
from duly.records.history import Entry
from duly.stores.query_base import QueryBase

NEAR = 100
"""Events on each side of an occurrence among which the one is found that stands for it: only occurrences that had an
event before their turn lie between the two."""

ACTS_EXAMINED = 5_000
"""The latest entries of a schedule's history that are read."""


class SlotQueries(QueryBase):
    async def near_occurrence(self, series: str, occurrence: str) -> list[Neighbour]:
        backfilled = f"{BACKFILL}{occurrence}"
        rows = await self.ask("near_occurrence", series=series, occurrence=occurrence, backfilled=backfilled, many=NEAR)
        return [
            Neighbour(
                id, name, self.read_instant(scheduled), self.read_instant(due), *map(self.maybe_instant, instants)
            )
            for id, name, scheduled, due, *instants in rows
        ]

    async def acts_on_schedule(self, id: str) -> list[Entry]:
        rows = await self.ask("acts_on_schedule", subject=id, examined=ACTS_EXAMINED)
        return [self.readers.entry.read(row) for row in rows]
