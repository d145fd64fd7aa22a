"""Converts rows to records.

The source code of a reader is generated once from the columns, as dataclasses generate theirs: a worker reads a row for
every event that it claims, and a loop over the columns would take about twice as long.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from inspect import Parameter, signature
from typing import Any, Generic, TypeVar

import msgspec

from duly.records.api_key import ApiKey
from duly.records.calendar.type_settings import TypeSettings
from duly.records.columns import Column, ColumnList, columns_of
from duly.records.event import Event
from duly.records.history import Entry, FiredKey
from duly.records.schedule import Schedule
from duly.records.target import Known, Target
from duly.records.template import Template
from duly.records.user import User
from duly.records.workers.worker import WorkerInfo
from duly.stores.columns.dialects import ColumnSql
from duly.stores.columns.lists import CLAIMED, OF_ALL_CLAIMED, OF_THE_CLAIM

R = TypeVar("R", bound=msgspec.Struct)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RowReader(Generic[R]):
    """Reads a record from the first values of a row."""

    columns: ColumnList
    read: Callable[..., R]

    def rest(self, row: Any) -> Any:
        """The values of a row after those of the record."""
        return row[len(self.columns) :]

    def joined(self, row: Any) -> R | None:
        """The record, or None if an outer join has found no row: then its first column, which is never empty otherwise,
        is empty."""
        return None if row[0] is None else self.read(row)


def row_reader(
    record: type[R],
    sql: ColumnSql,
    columns: ColumnList | None = None,
    *,
    given: Sequence[str] = (),
    constants: Mapping[str, Any] | None = None,
) -> RowReader[R]:
    """A reader of these columns, or of all columns of the record. Fields without a column are *given* to each call, in
    this order, or are *constants*."""
    columns = columns_of(record) if columns is None else columns
    names: dict[str, Any] = {"record": record, "EPOCH": EPOCH, "timedelta": timedelta, "date": date, "time": time}
    told = {column.field: _expression(column, sql, names) for column in columns}
    told |= {field: _local(field) for field in given}
    for field, value in (constants or {}).items():
        told[field], names[f"always_{field}"] = f"always_{field}", value
    source = (
        f"def read({', '.join(['row', *map(_local, given)])}):\n"
        f"    {', '.join(_local(column.field) for column in columns)}, = row[:{len(columns)}]\n"
        f"    return record({', '.join(_arguments(record, told))})\n"
    )
    exec(source, names)
    return RowReader(columns, names["read"])


def _local(field: str) -> str:
    """The variable of a field in the generated code: the underscore avoids clashes with names such as `date` or
    `record`."""
    return f"_{field}"


def _expression(column: Column, sql: ColumnSql, names: dict[str, Any]) -> str:
    value = _local(column.field)
    if column.choices is not None:
        names[f"choices_{column.field}"] = {choice.value: choice for choice in column.choices}
        read = f"choices_{column.field}[{value}]"
    else:
        read = sql.read.get(column.kind, "{}").format(value)
    return f"None if {value} is None else {read}" if column.optional and read != value else read


def _arguments(record: type[msgspec.Struct], told: Mapping[str, str]) -> list[str]:
    """The arguments of the record, by position as far as possible: by keyword, creating an event takes half as long
    again."""
    arguments: list[str] = []
    in_place = True
    for field, parameter in signature(record).parameters.items():
        in_place = in_place and field in told and parameter.kind is not Parameter.KEYWORD_ONLY
        if field in told:
            arguments.append(told[field] if in_place else f"{field}={told[field]}")
    return arguments


class RowReaders:
    """The readers of one dialect."""

    def __init__(self, sql: ColumnSql) -> None:
        self.event = row_reader(Event, sql)
        self.claimed = row_reader(Event, sql, CLAIMED, given=OF_THE_CLAIM, constants=OF_ALL_CLAIMED)
        self.fired_key = row_reader(FiredKey, sql)
        self.entry = row_reader(Entry, sql)
        self.schedule = row_reader(Schedule, sql)
        self.template = row_reader(Template, sql)
        self.user = row_reader(User, sql)
        self.type_settings = row_reader(TypeSettings, sql)
        self.target = row_reader(Target, sql)
        self.known = row_reader(Known, sql)
        self.api_key = row_reader(ApiKey, sql)
        self.worker = row_reader(WorkerInfo, sql)
