"""How each dialect writes, selects and reads the columns of records."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from duly.records.columns import ColumnList, Kind


@dataclass(frozen=True, slots=True)
class ColumnSql:
    """One dialect. Its mappings list only the kinds of columns that need special treatment."""

    selected: Mapping[Kind, str]  # SQL that selects a column, if its name alone is not enough
    expressions: Mapping[str, str]  # SQL by field, for fields that are computed from other columns
    rows: Callable[[ColumnList], str]  # SQL of the table `given`, which is made from the parameters of a batch
    read: Mapping[Kind, str]  # Python expression that decodes a value of a row, if it needs decoding

    def select(self, columns: ColumnList, alias: str = "") -> str:
        """The list of columns for SELECT, of the table or row with this alias."""
        table = alias and f"{alias}."
        return ", ".join(
            self.expressions[column.field].format(table)
            if column.field in self.expressions
            else self.selected.get(column.kind, "{}").format(f"{table}{column.name}")
            for column in columns
        )


def _json_rows(columns: ColumnList) -> str:
    # jsonb_each: a row of json_each is text, which each `->>` would have to parse again.
    values = ", ".join(f"value ->> {place} AS {column.name}" for place, column in enumerate(columns))
    return f"(SELECT {values} FROM jsonb_each(:rows)) AS given"


SQLITE = ColumnSql(
    selected={},
    expressions={"interruptions": "{0}unsettled - ({0}status = 'PROCESSING')"},
    rows=_json_rows,
    read={
        Kind.INSTANT: "EPOCH + timedelta(0, 0, {})",
        Kind.SPAN: "timedelta(0, 0, {})",
        Kind.DAY: "date.fromisoformat({})",
        Kind.TIME_OF_DAY: "time.fromisoformat({})",
        Kind.FLAG: "bool({})",
    },
)

_ARRAYS = {
    Kind.ID: "uuid[]",
    Kind.TEXT: "text[]",
    Kind.JSON: "text[]::json[]",
    Kind.INSTANT: "timestamptz[]",
    Kind.SPAN: "bigint[]",
    Kind.DAY: "text[]::date[]",
    Kind.TIME_OF_DAY: "text[]",
    Kind.FLAG: "boolean[]",
    Kind.WHOLE: "bigint[]",
    Kind.NUMBER: "double precision[]",
}
"""The type with which a column of a batch is sent. JSON and dates are sent as text and then cast: a caller's own
connection may have a codec for json, and drivers differ in the types that they accept for a date."""


def _unnested_rows(columns: ColumnList) -> str:
    arrays = ", ".join(f":{column.field}::{_ARRAYS[column.kind]}" for column in columns)
    return f"unnest({arrays}) AS given ({', '.join(column.name for column in columns)})"


POSTGRES = ColumnSql(
    selected={
        Kind.ID: "{}::text",
        Kind.JSON: "{}::text",
        Kind.DAY: "to_char({}::timestamp, 'YYYY-MM-DD')",  # a cast to text would depend on the session's datestyle
    },
    expressions={"interruptions": "{0}unsettled - ({0}status = 'PROCESSING')::int"},
    rows=_unnested_rows,
    read={
        Kind.SPAN: "timedelta(0, 0, {})",
        Kind.DAY: "date.fromisoformat({})",
        Kind.TIME_OF_DAY: "time.fromisoformat({})",
    },
)

DIALECTS = {"sqlite": SQLITE, "postgres": POSTGRES}
