"""Writes rows in the binary form of COPY. The source code of a writer is generated once from the columns, like that of
a row reader.

Values that many rows share are encoded once and cached, which saves a quarter of the time.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import chain, islice, starmap
from struct import Struct
from typing import Any, NamedTuple

from duly.records.columns import Column, ColumnKind, ColumnList
from duly.records.event import TIMER_SPANS

BLOCK_ROWS = 1000
"""Rows that are sent together: while the server reads them, the next block is written."""

SHARED = (
    frozenset("tenant type lane target_json retry_json destination via zone_data head next_state next_data".split())
    | TIMER_SPANS.keys()
)
"""Fields with the same value in many rows of one COPY."""

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # PostgreSQL's epoch: instants are microseconds since then, dates are days
FIRST_DAY = EPOCH.date().toordinal()
MICROSECOND = timedelta(microseconds=1)
SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # then 8 zero bytes: no flags, no header extension
NULL = b"\xff\xff\xff\xff"  # a length of -1
TRUE = b"\0\0\0\1\1"  # a length of 1, then the value
FALSE = b"\0\0\0\1\0"
END = b"\xff\xff"  # a row of -1 columns

_pack_width = Struct(">h").pack
_pack_length = Struct(">i").pack
_pack_instant = Struct(">iq").pack
_pack_id = Struct(">i16s").pack
_pack_whole = Struct(">ii").pack
_pack_number = Struct(">id").pack

Write = Callable[..., tuple[bytes, ...]]


class Table(NamedTuple):
    """The table of a COPY and its columns: values that rows share, values that are the same in all rows, and each row's
    own."""

    name: str
    shared: ColumnList
    always: ColumnList
    instants: tuple[str, ...]  # columns whose microseconds the caller passes
    own: ColumnList

    @property
    def columns(self) -> list[str]:
        return [
            *(column.name for column in (*self.shared, *self.always)),
            "id",
            *self.instants,
            *(column.name for column in self.own),
        ]

    @property
    def copy(self) -> str:
        return f"COPY duly.{self.name} ({', '.join(self.columns)}) FROM STDIN (FORMAT binary)"

    def writer(self, **always: Any) -> Write:
        """A function that writes a row, given the record and the microseconds of its instants."""
        return _writer_of(self)(b"".join(_written(column, always[column.field]) for column in self.always))


@lru_cache
def _writer_of(table: Table) -> Callable[[bytes], Write]:
    """A function that creates a writer, given the bytes that are the same in all rows."""
    fields = "".join(f"one.{column.field}, " for column in table.shared)
    instants = "".join(f", 8, {instant}" for instant in table.instants)
    source = (
        f"def writer(same):\n"
        f"    known = {{}}\n"
        f"    def write({', '.join(['one', *table.instants])}):\n"
        f"        kind = ({fields})\n"
        f"        common = known.get(kind)\n"
        f"        if common is None:\n"
        f"            common = known[kind] = join((width, {_expressions(table.shared)}same))\n"
        f"        return (common, pack(16, raw_id(one.id){instants}), {_expressions(table.own)})\n"
        f"    return write\n"
    )
    names = WRITERS | {
        "NULL": NULL,
        "join": b"".join,
        "width": _pack_width(len(table.columns)),
        "pack": Struct(">i16s" + "iq" * len(table.instants)).pack,
    }
    exec(source, names)
    return names["writer"]  # type: ignore[no-any-return]


def table_of(name: str, columns: ColumnList, *, always: ColumnList, instants: tuple[str, ...] = ()) -> Table:
    """The table of these columns; the columns that are *always* the same and the *instants* are added to them."""
    own = tuple(column for column in columns if column.field not in SHARED and column.kind is not ColumnKind.ID)
    return Table(name, tuple(column for column in columns if column.field in SHARED), always, instants, own)


def in_blocks(rows: Iterable[tuple[Any, ...]], write: Write) -> Iterator[bytes]:
    """The data of a COPY, block by block; each row is the arguments of its writer."""
    yield SIGNATURE
    left = iter(rows)
    while block := b"".join(chain.from_iterable(starmap(write, islice(left, BLOCK_ROWS)))):
        yield block
    yield END


def micros_of(instant: datetime) -> int:
    return (instant - EPOCH) // MICROSECOND


def _raw_id(id: str) -> bytes:
    return bytes.fromhex(id.replace("-", ""))


def _write_text(value: str) -> bytes:
    text = value.encode()
    return _pack_length(len(text)) + text


def _write_id(id: str) -> bytes:
    return _pack_id(16, _raw_id(id))


def _write_instant(instant: datetime) -> bytes:
    return _pack_instant(8, micros_of(instant))


def _write_span(span: timedelta) -> bytes:
    return _pack_instant(8, span // MICROSECOND)


def _write_day(day: date) -> bytes:
    return _pack_whole(4, day.toordinal() - FIRST_DAY)


def _write_time(at: time) -> bytes:
    return _write_text(at.isoformat())


def _write_flag(flag: bool) -> bytes:
    return TRUE if flag else FALSE


def _write_whole(number: int) -> bytes:
    return _pack_whole(4, number)


def _write_number(number: float) -> bytes:
    return _pack_number(8, number)


WRITERS: dict[str, Any] = {
    "raw_id": _raw_id,
    ColumnKind.ID.name: _write_id,
    ColumnKind.TEXT.name: _write_text,
    ColumnKind.JSON.name: _write_text,
    ColumnKind.INSTANT.name: _write_instant,
    ColumnKind.SPAN.name: _write_span,
    ColumnKind.DAY.name: _write_day,
    ColumnKind.TIME_OF_DAY.name: _write_time,
    ColumnKind.FLAG.name: _write_flag,
    ColumnKind.WHOLE.name: _write_whole,
    ColumnKind.NUMBER.name: _write_number,
}


def _expressions(columns: ColumnList) -> str:
    """The expressions for these columns, each followed by a comma."""
    return "".join(
        f"NULL if one.{column.field} is None else {column.kind.name}(one.{column.field}), "
        if column.optional
        else f"{column.kind.name}(one.{column.field}), "
        for column in columns
    )


def _written(column: Column, value: Any) -> bytes:
    return NULL if value is None else WRITERS[column.kind.name](value)
