"""Encodes values for PostgreSQL, and decodes its rows, for every driver."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from duly.decide.fair_share import Candidate
from duly.decide.figures.alike import alike
from duly.ports import Heads, KnownFrontier, PlantedHead, ScanResult
from duly.records.event import Event
from duly.stores.columns.dialects import POSTGRES
from duly.stores.columns.readers import EPOCH, RowReaders
from duly.stores.filters.specs import Dialect
from duly.stores.query_base import Columns
from duly.stores.statements.statements import StoreQueries, by_due

MICROSECOND = timedelta(microseconds=1)


COUNTED = ("tenants", "schedules", "types", "lanes", "claims", "latenesses", "counts")
"""The parameters of ``complete`` that have the fields of ``AlikeEvents``."""


def _typed(field: str, placeholder: str, value: Any) -> str:
    if isinstance(value, datetime):
        return f"{placeholder}::timestamptz"
    if isinstance(value, timedelta):
        return f"{placeholder}::bigint * interval '1 microsecond'"
    if isinstance(value, str):
        return f"{placeholder}::{'uuid' if field == 'id' else 'text'}"
    return f"{placeholder}::bigint"


def _same(value: Any) -> Any:
    return value


def micros(span: timedelta) -> int:
    return span // MICROSECOND


SPECS = Dialect(
    now="coalesce(:now::timestamptz, statement_timestamp())",
    instant=_same,
    span=micros,
    typed=_typed,
    contains='strpos(lower({column} COLLATE "C"), {text}) > 0',
)


class PostgresQueries(StoreQueries):
    """Encodes values for PostgreSQL, and decodes its rows."""

    dialect = "postgres"
    specs = SPECS
    readers = RowReaders(POSTGRES)
    no_limit = None
    most_counted = 10_000  # where VACUUM has not been yet, each takes a look at its row; above it, the planner knows

    def columns(self, values: Columns) -> dict[str, Any]:
        return values

    def pairs(self, ids: Sequence[str], versions: Sequence[int]) -> dict[str, Any]:
        return {"ids": ",".join(ids), "versions": ",".join(map(str, versions))}

    def counting(self, events: Sequence[Event]) -> dict[str, Any]:
        rows = alike(events)
        return dict(zip(COUNTED, map(list, zip(*rows, strict=True)), strict=True))

    def listed(self, values: Sequence[str]) -> Any:
        return list(values)

    def instant(self, value: datetime) -> Any:
        return value

    def span(self, value: timedelta) -> Any:
        return micros(value)

    def read_instant(self, value: Any) -> datetime:
        return value  # type: ignore[no-any-return]

    def present(self) -> Any:
        return self.clock.now() if self.clock else None

    async def read_heads(self, rows: Sequence[Any]) -> Heads:
        readers = self.readers
        heads = [readers.event.read(row) for row in rows]
        heads.sort(key=by_due)
        after = [readers.event.rest(row) for row in rows]  # the clock and the schedule of each head
        now = EPOCH + timedelta(microseconds=after[0][0] if after else 0)
        schedules = [readers.schedule.joined(schedule) for _, *schedule in after]
        return Heads(heads, [schedule for schedule in schedules if schedule is not None], now)

    def read_planted(self, rows: Sequence[Any]) -> tuple[Sequence[Any], list[PlantedHead]]:
        names = [column.name for column in self.readers.claimed.columns]
        place, shared = len(names), itemgetter(*(names.index(name) for name in PlantedHead._fields[1:]))
        return rows, [PlantedHead(row[place], *shared(row)) for row in rows if row[place] is not None]

    def of_all_claimed(self, row: Any) -> Sequence[Any]:
        of_all: Sequence[Any] = self.readers.claimed.rest(row)[1:]
        return of_all

    def read_looked(self, rows: Sequence[Any]) -> ScanResult:
        others = [
            Candidate(id, lane, tenant, destination, ready)
            for lane, *columns, _ in rows
            for id, tenant, destination, ready in zip(*(column or () for column in columns), strict=True)
        ]
        return ScanResult(others, {row[0]: row[-1] for row in rows})

    def horizon_parameters(self, lanes: Sequence[str], seen: KnownFrontier) -> dict[str, Any]:
        return {"lane": list(lanes), "since": [seen.fresh.get(lane) for lane in lanes], "leased": seen.leased}

    def settled(self, ids: Sequence[str], rows: Sequence[Any]) -> set[str]:
        return set(rows[0][0] or ()) if rows else set(ids)
