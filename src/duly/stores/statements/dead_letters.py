"""The statements about dead letters, many at a time."""

from collections.abc import Sequence
from datetime import datetime

from duly.decide.error_text import LONGEST
from duly.ports import DeadLetter
from duly.records.event import Event
from duly.records.results import DeadLetterKind, DeadLetters
from duly.records.specs import Spec
from duly.stores.query_base import FIRST_ID, Columns, QueryBase


class DeadLetterQueries(QueryBase):
    async def find_dead(self, spec: Spec, *, since: datetime, after: str | None, limit: int) -> list[DeadLetter]:
        asked = self.statement("find_dead", since=self.instant(since), after=after or FIRST_ID, limit=limit)
        return [DeadLetter(*row) for row in await self.search(asked, spec)]

    async def count_dead(self, spec: Spec, *, most: int) -> DeadLetters:
        rows = await self.search(self.statement("count_dead", limit=most), spec)
        return DeadLetters(rows[0][-1] if rows else 0, tuple(DeadLetterKind(*row[:-1]) for row in map(tuple, rows)))

    async def replay_found(
        self, letters: Sequence[DeadLetter], ready: Sequence[datetime | None], by: str
    ) -> dict[str, datetime]:
        values = _columns(letters) | {"ready": self.instants(ready)}
        rows = await self.ask("replay_found", values, by=by, longest=LONGEST, soon=self.span(self.soon))
        return {row[0]: self.read_instant(row[1]) for row in rows}

    async def discard_found(self, letters: Sequence[DeadLetter], by: str, reason: str | None) -> set[str]:
        return {row[0] for row in await self.ask("discard_found", _columns(letters), by=by, detail=reason)}

    async def cancel_found(self, events: Sequence[Event], by: str, reason: str | None) -> set[str]:
        values: Columns = {"id": [event.id for event in events], "version": [event.version for event in events]}
        return {row[0] for row in await self.ask("cancel_found", values, by=by, detail=reason)}


def _columns(letters: Sequence[DeadLetter]) -> Columns:
    return {"id": [letter.id for letter in letters], "version": [letter.version for letter in letters]}
