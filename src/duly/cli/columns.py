"""``--columns``: lists with the columns that the user chooses. Columns are the fields of the records, as ``--json``
names them, so a new field of a record is a new column, too."""

from collections.abc import Sequence
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, TypeVar

import msgspec
from cyclopts import Parameter
from rich.table import Table

from duly.cli.events.views import empty_table, fair
from duly.cli.output import readable, utc
from duly.decide.error_text import first_line
from duly.errors import Misuse
from duly.records.wire.forms import JsonForm

Columns = Annotated[
    str | None,
    Parameter(help="Columns to show, named as in --json, such as id,type,due_at", metavar="NAMES"),
]

WHOLE = "id"
"""The column that is never shortened: a part of an id is useless."""

NUMBERS_OF_THINGS = ("pid",)
"""The columns whose numbers name things and count nothing: they have no separators of thousands."""

SPACE = 2
"""Characters between two columns."""

R = TypeVar("R", bound=msgspec.Struct)


def check_columns(form: JsonForm[R], columns: str | None) -> list[str]:
    """The names of the chosen columns, none without ``--columns``; raises Misuse for an unknown one."""
    names = [] if columns is None else [name.strip() for name in columns.split(",")]
    for name in names:
        if name not in form.types:
            raise Misuse(f"--columns {name!r:.50}: there is no such column; known columns: {', '.join(form.types)}")
    return names


def in_chosen_columns(form: JsonForm[R], records: Sequence[R], names: Sequence[str], width: int) -> Table:
    """A table with one line per record; long columns are shortened if the width is too small."""
    rows = [form.write(record) for record in records]
    cells = {name: [_cell(row.get(name), plain=name in NUMBERS_OF_THINGS) for row in rows] for name in names}
    widths = {name: max(len(cell) for cell in (name, *cells[name])) for name in cells}
    whole = widths.get(WHOLE, 0)
    shared = {name: wanted for name, wanted in widths.items() if name != WHOLE}
    widths |= fair(shared, width - SPACE * len(widths) - whole)
    drawn = empty_table()
    for name in cells:
        drawn.add_column(name.upper(), no_wrap=True, width=widths[name], overflow="ellipsis")
    for row in zip(*cells.values(), strict=True):
        drawn.add_row(*row)
    return drawn


def _cell(value: Any, *, plain: bool = False) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return utc(value) if value.tzinfo is not None else f"{value:%Y-%m-%d %H:%M:%S}"
        case date():
            return value.isoformat()
        case Enum():
            return str(value.value)
        case str():
            return readable(first_line(value))
        case int() | float():
            return str(value) if plain else f"{value:,}"
    written = msgspec.json.encode(value).decode()
    return "" if written == "null" else readable(written)
