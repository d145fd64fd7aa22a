"""How each dialect writes, selects and reads the columns of records."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from duly.records.columns import Column, ColumnKind, ColumnList


@dataclass(frozen=True, slots=True)
class ColumnSql:
    """One dialect. Its mappings list only the kinds of columns that need special treatment."""

    selected: Mapping[ColumnKind, str]  # SQL that selects a column, if its name alone is not enough
    expressions: Mapping[str, str]  # SQL by field, for fields that are computed from other columns
    rows: Callable[[ColumnList], str]  # SQL of the table `given`, which is made from the parameters of a batch
    read: Mapping[ColumnKind, str]  # Python expression that decodes a value of a row, if it needs decoding

    def select(self, columns: ColumnList, alias: str = "") -> str:
        """The list of columns for SELECT, of the table or row with this alias."""
        table = alias and f"{alias}."
        return ", ".join(self._selected(column, table) for column in columns)

    def _selected(self, column: Column, table: str) -> str:
        if column.field in self.expressions:
            return self.expressions[column.field].format(table)
        name = f"{table}{column.name}"
        if column.fallback is not None:
            name = f"coalesce({name}, {table}{column.fallback})"
        return self.selected.get(column.kind, "{}").format(name)


def _json_rows(columns: ColumnList) -> str:
    # jsonb_each: a row of json_each is text, which each `->>` would have to parse again.
    values = ", ".join(f"value ->> {place} AS {column.name}" for place, column in enumerate(columns))
    return f"(SELECT {values} FROM jsonb_each(:rows)) AS given"


SQLITE = ColumnSql(
    selected={},
    expressions={
        "interruptions": "{0}unsettled - ({0}status = 'PROCESSING')",
        "head": "{0}head AND {0}unsettled = 0",  # a claim returns a head before it has ceased to be one
    },
    rows=_json_rows,
    read={
        ColumnKind.INSTANT: "EPOCH + timedelta(0, 0, {})",
        ColumnKind.SPAN: "timedelta(0, 0, {})",
        ColumnKind.DAY: "date.fromisoformat({})",
        ColumnKind.TIME_OF_DAY: "time.fromisoformat({})",
        ColumnKind.FLAG: "bool({})",
    },
)

_ARRAYS = {
    ColumnKind.ID: "uuid[]",
    ColumnKind.TEXT: "text[]",
    ColumnKind.JSON: "text[]::json[]",
    ColumnKind.INSTANT: "timestamptz[]",
    ColumnKind.SPAN: "bigint[]",
    ColumnKind.DAY: "text[]::date[]",
    ColumnKind.TIME_OF_DAY: "text[]",
    ColumnKind.FLAG: "boolean[]",
    ColumnKind.WHOLE: "bigint[]",
    ColumnKind.NUMBER: "double precision[]",
}
"""The type with which a column of a batch is sent. JSON and dates are sent as text and then cast: a caller's own
connection may have a codec for json, and drivers differ in the types that they accept for a date."""


def _unnested_rows(columns: ColumnList) -> str:
    arrays = ", ".join(f":{column.field}::{_ARRAYS[column.kind]}" for column in columns)
    return f"unnest({arrays}) AS given ({', '.join(column.name for column in columns)})"


POSTGRES = ColumnSql(
    selected={
        ColumnKind.ID: "{}::text",
        ColumnKind.JSON: "{}::text",
        ColumnKind.DAY: "to_char({}::timestamp, 'YYYY-MM-DD')",  # a cast would depend on the datestyle
    },
    expressions={"interruptions": "{0}unsettled - ({0}status = 'PROCESSING')::int"},
    rows=_unnested_rows,
    read={
        ColumnKind.SPAN: "timedelta(0, 0, {})",
        ColumnKind.DAY: "date.fromisoformat({})",
        ColumnKind.TIME_OF_DAY: "time.fromisoformat({})",
    },
)

DIALECTS = {"sqlite": SQLITE, "postgres": POSTGRES}
