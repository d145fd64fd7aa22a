"""The base of every group of statements: running queries, and encoding values for the dialect."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, TypeVar

from duly.ports import CutShort, Reserved, SettledIds
from duly.records.columns import Column, ColumnKind
from duly.records.event import Event
from duly.records.specs import Spec
from duly.stores.columns.lists import Batch
from duly.stores.columns.readers import RowReaders
from duly.stores.queries import Query

Columns = dict[str, list[Any]]

TIMED = frozenset({"claim", "claim_with_horizon", "claim_these", "start"})
"""The queries whose statements are timed: those that claim."""


class TimedRows(list[Any]):
    """The rows of a statement, and how many seconds it took."""

    def __init__(self, rows: Iterable[Any], took_s: float) -> None:
        super().__init__(rows)
        self.took_s = took_s


Read = TypeVar("Read")

WITHIN = "within"
"""A parameter for the driver, not for the query: the number of bytes of rows to read; the result is CutShort if there
are more."""

THEN = "then"
"""A parameter for SQLite's driver: a function of the rows and the parameters that returns another statement with its
parameters, to be run in the same transaction, or None."""

FIRST_ID = "00000000-0000-0000-0000-000000000000"
"""Sorts before every id of a row."""

LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"
"""Sorts after every id of a row."""


class QueryBase(ABC):
    soon: timedelta = timedelta(seconds=5)
    readers: RowReaders

    @abstractmethod
    async def ask(self, name: str, values: Columns | None = None, **parameters: Any) -> list[Any]:
        """The rows of a named query; *values* is a batch, by columns."""

    @abstractmethod
    def statement(self, name: str, values: Columns | None = None, **parameters: Any) -> tuple[Query, dict[str, Any]]:
        """The named query that ``ask`` would run, and its parameters."""

    @abstractmethod
    async def search(self, asked: tuple[Query, dict[str, Any]], spec: Spec, also: str = "") -> list[Any]:
        """The rows of a query whose ``{where}`` is this spec, followed by the condition *also*."""

    @abstractmethod
    def listed(self, values: Sequence[str]) -> Any:
        """A list of texts, as one parameter."""

    @abstractmethod
    def instant(self, value: datetime) -> Any: ...

    @abstractmethod
    def span(self, value: timedelta) -> Any: ...

    @abstractmethod
    def read_instant(self, value: Any) -> datetime: ...

    @abstractmethod
    def room(self, room: Mapping[str, int], since: Mapping[str, datetime] | None = None) -> Columns:
        """Parameters with a row for each lane."""

    def reservations(self, reserved: Sequence[Reserved]) -> Columns:
        ordered = sorted(reserved)
        return {
            "id": [one.id for one in ordered],
            "version": [one.version for one in ordered],
            "until": [self.instant(one.until) for one in ordered],
        }

    def instants(self, values: Sequence[datetime | None]) -> list[Any]:
        return [None if value is None else self.instant(value) for value in values]

    def optional_instant(self, value: datetime | None) -> Any:
        return None if value is None else self.instant(value)

    def maybe_instant(self, value: Any) -> datetime | None:
        return None if value is None else self.read_instant(value)

    def one(self, rows: Sequence[Any]) -> Event | None:
        return self.readers.event.read(rows[0]) if rows else None

    def batch(self, batch: Batch, records: Sequence[Any], **told: list[Any]) -> Columns:
        """Records in the form that a query takes, by columns. Values in *told* replace those of the records."""
        return {
            column.field: told[column.field]
            if column.field in told
            else self.written(column, list(map(attrgetter(column.field), records)))
            for column in batch.given
        }

    def written(self, column: Column, values: list[Any]) -> list[Any]:
        """Values of a column as they are sent to the database."""
        if column.choices is not None:
            return [None if value is None else value.value for value in values]
        match column.kind:
            case ColumnKind.INSTANT:
                return self.instants(values)
            case ColumnKind.SPAN:
                return [None if value is None else self.span(value) for value in values]
            case ColumnKind.DAY | ColumnKind.TIME_OF_DAY:
                return [None if value is None else value.isoformat() for value in values]
        return values


def read_settled(rows: Sequence[Any]) -> SettledIds:
    """The settled events, from rows with the id and whether the event had been asked to stop."""
    return SettledIds((row[0] for row in rows), (row[0] for row in rows if row[1]))


def each(read: Callable[[Any], Read], rows: Sequence[Any]) -> list[Read]:
    """The rows as records; CutShort if the rows are."""
    found = [read(row) for row in rows]
    return CutShort(found) if isinstance(rows, CutShort) else found


def row_bytes(row: Sequence[Any]) -> int:
    """The approximate memory of a row in bytes: the length of its texts; other values are small."""
    return sum(len(value) for value in row if isinstance(value, str | bytes))
