"""Encodes values for SQLite, and decodes its rows."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from duly.decide.fair_share import Candidate
from duly.decide.figures.alike import alike
from duly.ports import ClaimedEvents, Heads, KnownFrontier, PlantedHead, ScanRequest, ScanResult
from duly.records.event import Event
from duly.stores.columns.dialects import SQLITE
from duly.stores.columns.lists import CLAIMED
from duly.stores.columns.readers import EPOCH, RowReaders
from duly.stores.filters.specs import Dialect
from duly.stores.queries import load
from duly.stores.query_base import THEN, Columns
from duly.stores.statements.statements import StoreQueries, by_due

MICROSECOND = timedelta(microseconds=1)

SUCCESSOR_COLUMNS = 5
"""The columns of the rows that tell which successors a claim has planted: those of ``PlantedHead``, and the due time. A
head that was put back has its id alone, and a claimed event has more."""

HEAD = [column.field for column in CLAIMED].index("head")
"""The place of the column ``head`` in a row of a claimed event."""

_encode = msgspec.json.Encoder().encode


def micros(value: datetime) -> int:
    return (value - EPOCH) // MICROSECOND


def span_micros(value: timedelta) -> int:
    return value // MICROSECOND


def from_micros(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


SPECS = Dialect(
    now=":now",
    instant=micros,
    span=span_micros,
    typed=lambda _field, placeholder, _value: placeholder,
    contains="instr(lower({column}), {text}) > 0",
    # The sign keeps SQLite from using an index for each status: with two of its partial indexes and a tenant, SQLite
    # 3.54 fails with "internal query planner error".
    status_of_several="+e.status",
)


class SqliteQueries(StoreQueries):
    """Encodes values for SQLite, and decodes its rows."""

    dialect = "sqlite"
    specs = SPECS
    readers = RowReaders(SQLITE)
    no_limit = -1
    most_counted = 100_000  # 10 ms of reading an index; SQLite's planner knows nothing of more
    window_s = 0.2  # other reads wait for each query

    def columns(self, values: Columns) -> dict[str, Any]:
        if "each" in values:
            return values
        return {"rows": _encode(list(zip(*values.values(), strict=True))).decode()}

    def pairs(self, ids: Sequence[str], versions: Sequence[int]) -> dict[str, Any]:
        return self.columns({"id": list(ids), "version": list(versions)})

    def listed(self, values: Sequence[str]) -> Any:
        return _encode(values).decode()

    def instant(self, value: datetime) -> Any:
        return micros(value)

    def span(self, value: timedelta) -> Any:
        return span_micros(value)

    def read_instant(self, value: Any) -> datetime:
        return from_micros(value)

    def present(self) -> Any:
        return micros(self.clock.now()) if self.clock else time.time_ns() // 1000

    def system_time(self) -> float | None:
        return None if self.clock else time.time_ns() / 1e9

    def settled(self, ids: Sequence[str], rows: Sequence[Any]) -> set[str]:
        return {row[0] for row in rows}

    def counting(self, events: Sequence[Event]) -> dict[str, Any]:
        return {THEN: partial(self._count_ended, events)}

    def _count_ended(
        self, events: Sequence[Event], rows: Sequence[Any], parameters: dict[str, Any]
    ) -> tuple[str, dict[str, Any]] | None:
        """The statement that counts the events which were completed: one row for all that are alike and took about as
        long."""
        if len(rows) < len(events):
            settled = {row[0] for row in rows}
            events = [event for event in events if event.id in settled]
        if not events:
            return None
        now = from_micros(parameters["now"])
        ended = [
            (tenant, schedule, type, lane, max(0.0, (now - claimed).total_seconds()), lateness, many)
            for tenant, schedule, type, lane, claimed, lateness, many in alike(events)
        ]
        return load(self.dialect)["add_ended"].sql, {"now": parameters["now"], "ended": _encode(ended).decode()}

    async def read_heads(self, rows: Sequence[Any]) -> Heads:
        # Nobody else can write during this transaction, so a second query sees the same state.
        heads = [self.readers.event.read(row) for row in rows]
        heads.sort(key=by_due)
        ids = {(head.series or "").partition(":")[2] for head in heads if head.rule_json is None}
        found = await self.schedules(sorted(ids)) if ids else []
        return Heads(heads, found, from_micros(self.readers.event.rest(rows[0])[0] if rows else 0))

    def read_planted(self, rows: Sequence[Any]) -> tuple[Sequence[Any], list[PlantedHead]]:
        beside = [row for row in rows if len(row) <= SUCCESSOR_COLUMNS]
        if not beside:
            return rows, []
        put_back = {row[0] for row in beside if len(row) == 1}
        claimed = [row for row in rows if len(row) > SUCCESSOR_COLUMNS]
        if put_back:
            claimed = [(*row[:HEAD], 1, *row[HEAD + 1 :]) if row[0] in put_back else row for row in claimed]
        return claimed, [PlantedHead(*row[:-1]) for row in beside if len(row) == SUCCESSOR_COLUMNS]

    def of_all_claimed(self, row: Any) -> Sequence[Any]:
        of_all: Sequence[Any] = self.readers.claimed.rest(row)
        return of_all

    def read_claims(
        self, rows: Sequence[Any], worker: str, lease: timedelta, *, with_horizon: bool = False
    ) -> ClaimedEvents:
        claimed = super().read_claims(rows, worker, lease, with_horizon=with_horizon)
        if claimed.horizon is not None and (claimed.planted or claimed.careful):
            now = self.of_all_claimed(next(row for row in rows if len(row) > SUCCESSOR_COLUMNS))[0]
            later = [row[-1] - now for row in rows if len(row) == SUCCESSOR_COLUMNS]
            spans = [timedelta(microseconds=span) for span in later] + [lease] * bool(claimed.careful)
            first = min(spans)
            claimed.horizon = claimed.horizon._replace(fresh=min(claimed.horizon.fresh or first, first))
        return claimed

    def read_looked(self, rows: Sequence[Any]) -> ScanResult:
        others = [
            Candidate(id, lane, tenant, destination, from_micros(ready))
            for lane, id, tenant, destination, ready, examined in rows
            if examined is None
        ]
        return ScanResult(others, {row[0]: row[-1] for row in rows if row[-1] is not None})

    def horizon_parameters(self, lanes: Sequence[str], seen: KnownFrontier) -> dict[str, Any]:
        return self.columns({"lane": list(lanes), "since": self.instants([seen.fresh.get(lane) for lane in lanes])})

    def room(self, room: Mapping[str, int], since: Mapping[str, datetime] | None = None) -> Columns:
        # SQLite has no LATERAL: `execute` runs the query once for each lane of this list.
        return {"each": [{"lane": lane, "free": free} for lane, free in room.items()]}

    def looking(self, where: ScanRequest) -> Columns:
        return {"each": [{"lane": lane, "depth": depth} for lane, depth in where.depth.items()]}

    def series_room(self, room: Mapping[str, int]) -> Columns:
        return {"each": [{"series": series, "free": free} for series, free in room.items()]}
