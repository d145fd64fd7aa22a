"""The columns of a record's row. The record is the only list of them: all of its fields, except those marked as looked
up."""

import types
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from duly.records.marks import Fallback, Mark

JSON_FIELD = "_json"
"""The suffix of a field that holds JSON as text. Its column has the name without the suffix."""


class ColumnKind(Enum):
    """The kind of value in a column."""

    ID = "id"
    TEXT = "text"
    JSON = "json"
    INSTANT = "instant"
    SPAN = "span"
    DAY = "day"
    TIME_OF_DAY = "time of day"
    FLAG = "flag"
    WHOLE = "whole number"
    NUMBER = "number"


KINDS: dict[type, ColumnKind] = {
    str: ColumnKind.TEXT,
    datetime: ColumnKind.INSTANT,
    timedelta: ColumnKind.SPAN,
    date: ColumnKind.DAY,
    time: ColumnKind.TIME_OF_DAY,
    bool: ColumnKind.FLAG,
    int: ColumnKind.WHOLE,
    float: ColumnKind.NUMBER,
}


@dataclass(frozen=True, slots=True)
class Column:
    field: str  # its name in the record
    name: str  # its name in the table
    kind: ColumnKind
    optional: bool = False
    choices: type[StrEnum] | None = None  # the enum whose values are allowed; None: any value
    fallback: str | None = None  # the column that has the value where this one is empty


ColumnList = tuple[Column, ...]


@lru_cache
def columns_of(record: type[msgspec.Struct]) -> ColumnList:
    """The columns of a record, in the order of its fields."""
    found = (_column(record, field.name, field.type) for field in msgspec.structs.fields(record))
    return tuple(column for column in found if column is not None)


def only(columns: ColumnList, *fields: str) -> ColumnList:
    """The columns of these fields."""
    return tuple(column for column in columns if column.field in fields)


def without(columns: ColumnList, *fields: str) -> ColumnList:
    """The columns, except those of these fields; raises KeyError for an unknown field."""
    if unknown := set(fields) - {column.field for column in columns}:
        raise KeyError(f"there is no {', '.join(sorted(unknown))} to leave out")
    return tuple(column for column in columns if column.field not in fields)


def _column(record: type[msgspec.Struct], field: str, type_: Any) -> Column | None:
    if get_origin(type_) is Annotated:
        type_, *marks = get_args(type_)
        if Mark.NOT_STORED in marks:
            return None
        if fallback := next((mark for mark in marks if isinstance(mark, Fallback)), None):
            column = _column(record, field, type_)
            return column and replace(column, fallback=fallback.column)
    optional = False
    if get_origin(type_) in (Union, types.UnionType):
        optional = types.NoneType in get_args(type_)
        type_, *others = (one for one in get_args(type_) if one is not types.NoneType)
        if others:
            raise TypeError(f"{record.__name__}.{field} has several types: a column has one, which may be empty")
    if get_origin(type_) is Annotated:  # annotations for the JSON Schema of an optional value
        type_ = get_args(type_)[0]
    if isinstance(type_, type) and issubclass(type_, StrEnum):
        return Column(field, field, ColumnKind.TEXT, optional, type_)
    kind = KINDS.get(type_)
    if kind is None:
        known = ", ".join(one.__name__ for one in KINDS)
        raise TypeError(f"{record.__name__}.{field}: no column holds {type_}. Known are {known}, enums of text.")
    if kind is ColumnKind.TEXT and field.endswith(JSON_FIELD):
        return Column(field, field.removesuffix(JSON_FIELD), ColumnKind.JSON, optional)
    return Column(field, field, ColumnKind.ID if field == "id" else kind, optional)
