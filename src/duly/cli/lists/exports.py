"""``--format``: the whole list as CSV or as lines of JSON, a page at a time, so that its length does not matter."""

import csv
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime
from enum import Enum
from io import TextIOWrapper
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from cyclopts import Parameter

from duly.decide.checks import MOST_LISTED
from duly.errors import Misuse
from duly.records.wire.forms import JsonForm
from duly.values.instants import write_instant

R = TypeVar("R", bound=msgspec.Struct)

Format = Annotated[
    Literal["csv", "jsonl"] | None,
    Parameter(help="All that match as CSV, or as JSON, one per line; --limit and --after apply if given"),
]

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""How text begins that a spreadsheet would run as a formula. It gets an apostrophe, which spreadsheets do not show;
lines of JSON have the text unchanged."""

_encode = msgspec.json.Encoder().encode


class Wanted(NamedTuple):
    """What a list command was asked for, besides its filters."""

    limit: int | None
    after: str | None
    columns: list[str]
    format: Literal["csv", "jsonl"] | None = None
    counts: bool = False

    def check(self, *, json: bool) -> None:
        """Raises Misuse for options that exclude each other."""
        given = [
            option
            for option, value in (("--json", json), ("--format", self.format), ("--count", self.counts))
            if value and option != "--json"
        ]
        if json and self.format:
            raise Misuse("--json and --format exclude each other: --format jsonl writes JSON, one line for each")
        if len(given) > 1:
            raise Misuse(f"{' and '.join(given)} exclude each other: give one of them")
        if self.counts and (self.limit is not None or self.after is not None or self.columns):
            raise Misuse("--count counts all that match: leave out --limit, --after and --columns")

    def at_once(self, usual: int) -> int:
        """The size of a page: of the table, or of an export."""
        return self.limit or (MOST_LISTED if self.format else usual)


DRY_RUN_ONLY = "consequence"
"""A field that only the results of dry runs have."""


async def export(form: JsonForm[R], pages: AsyncIterator[Sequence[R]], wanted: Wanted) -> None:
    """Writes the records of all pages, at most as many as the limit."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # the data of a file, whatever the terminal can show
    columns, left = wanted.columns or [name for name in form.types if name != DRY_RUN_ONLY], wanted.limit
    table = csv.writer(sys.stdout, lineterminator="\n") if wanted.format == "csv" else None
    if table:
        table.writerow(columns)
    async for page in pages:
        for record in page if left is None else page[:left]:
            row = form.write(record)
            if table:
                table.writerow([_cell(row.get(name)) for name in columns])
            else:
                print(_encode({name: row.get(name) for name in columns}).decode())
        if left is not None and (left := left - len(page)) <= 0:
            break
    sys.stdout.flush()


def _cell(value: Any) -> Any:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return value
        case datetime():
            return write_instant(value) if value.tzinfo is not None else value.isoformat()
        case date():
            return value.isoformat()
        case Enum():
            return str(value.value)
        case str():
            return f"'{value}" if value.startswith(FORMULAS) else value
    written = _encode(value).decode()
    if written.startswith('"'):  # a JSON text is written as the text
        return _cell(msgspec.json.decode(written))
    return "" if written == "null" else written
