"""Reads files of users: CSV with a header line, or lines of JSON. One line at a time, so that the size of a file does
not matter.

An unreadable line is reported in its place, and the lines after it are read as if it were missing.
"""

import csv
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, BinaryIO

import msgspec

from duly.decide.calendars.users import FIELDS, REQUIRED
from duly.errors import Invalid, Misuse, Problem
from duly.verbs.users.bulk_import import ImportLine

LONGEST_LINE_BYTES = 1_000_000
"""Bytes of a line, so that a file without line ends does not fill the memory."""

BOM = b"\xef\xbb\xbf"  # a byte order mark, with which some editors begin a file
EXTENSIONS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
FORMATS = ("csv", "jsonl")
ATTRIBUTE = "attributes."
JSON_COLUMNS = ("target", "attributes")

_decode = msgspec.json.Decoder().decode


def format_of(file: str, told: str | None) -> str:
    """The format of a file: as *told*, or else by its extension."""
    if told is not None:
        if told not in FORMATS:
            raise Misuse(f"--format must be {' or '.join(FORMATS)}, not {told!r:.50}")
        return told
    found = EXTENSIONS.get(PurePath(file).suffix.lower())
    if found is None:
        raise Misuse(f"{file} has neither the extension .csv nor .jsonl: give --format csv or --format jsonl")
    return found


@dataclass(slots=True)
class LineCount:
    """The number of lines of a file, known when it was read to its end."""

    lines: int | None = None


def read_users(
    stream: BinaryIO, format: str, *, from_line: int = 1, length: LineCount | None = None
) -> Iterator[ImportLine]:
    """The rows that begin on *from_line* or later. Raises Invalid at once if the header of a CSV file cannot be
    used."""
    length = length or LineCount()
    return _read_csv(stream, from_line, length) if format == "csv" else _read_json(stream, from_line, length)


TOO_LONG = Problem("", f"is longer than {LONGEST_LINE_BYTES:,} bytes")


def _beginning(stream: BinaryIO, raw: bytes) -> bytes:
    """The beginning of a line that is too long, just enough to show that it is; the rest is skipped."""
    rest = raw
    while rest and not rest.endswith(b"\n"):
        rest = stream.readline(LONGEST_LINE_BYTES)
    return raw + b"\n"


# -- JSON


def _read_json(stream: BinaryIO, from_line: int, length: LineCount) -> Iterator[ImportLine]:
    number = 0
    while raw := stream.readline(LONGEST_LINE_BYTES + 1):
        number += 1
        if len(raw) > LONGEST_LINE_BYTES:
            raw = _beginning(stream, raw)
        if number >= from_line and not raw.isspace():
            yield ImportLine(number, TOO_LONG if len(raw) > LONGEST_LINE_BYTES else _object(raw))
    length.lines = number


def _object(raw: bytes) -> Mapping[str, Any] | Problem:
    try:
        found = _decode(raw.removeprefix(BOM))
    except UnicodeDecodeError:
        return Problem("", "is not text in UTF-8")
    except (msgspec.MsgspecError, RecursionError) as error:
        return Problem("", f"is not valid JSON: {error}")
    if isinstance(found, dict):
        return found
    return Problem("", f"expected an object with a user's fields, not {type(found).__name__}")


# -- CSV


def _read_csv(stream: BinaryIO, from_line: int, length: LineCount) -> Iterator[ImportLine]:
    rows = _Rows(stream, length).read()
    columns = _columns(next(rows, None))
    return _users(rows, columns, from_line)


class _TooLong(Exception):
    """Ends a record that has a line which is too long."""


class _Rows:
    """The cells of each row, with the number of the line on which it begins.

    A missing closing quote would swallow the lines after it. So when a row turns out to be invalid, only its first line
    is reported, and its other lines are parsed again.
    """

    def __init__(self, stream: BinaryIO, length: LineCount) -> None:
        self._stream, self._length = stream, length
        self._record: list[bytes] = []  # the lines of the current row
        first = stream.readline(LONGEST_LINE_BYTES + 1).removeprefix(BOM)
        self._again = deque([first] if first else [])  # lines to read before those of the stream
        self._spoilt = False

    def read(self) -> Iterator[tuple[int, list[str] | Problem]]:
        number, reader, record = 1, csv.reader(self._texts(), strict=True), self._record
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                self._length.lines = number - 1
                return
            except (csv.Error, _TooLong) as error:
                yield number, self._problem(error)
                self._give_back()
                reader = csv.reader(self._texts(), strict=True)
            else:
                if self._spoilt:
                    yield number, Problem("", "is not text in UTF-8")
                elif cells:  # otherwise, an empty line
                    yield number, cells
            number += len(record)
            record.clear()
            self._spoilt = False

    def _give_back(self) -> None:
        """Puts all lines of an invalid row back except the first; unless they are so long together that they would be
        parsed over and over."""
        if sum(map(len, self._record[:-1])) <= csv.field_size_limit() * 4:
            self._again.extendleft(reversed(self._record[1:]))
            del self._record[1:]

    def _texts(self) -> Iterator[str]:
        record, again, readline, size = self._record, self._again, self._stream.readline, 0
        while raw := again.popleft() if again else readline(LONGEST_LINE_BYTES + 1):
            size = size + len(raw) if record else len(raw)
            if size > LONGEST_LINE_BYTES:
                record.append(raw if raw.endswith(b"\n") else _beginning(self._stream, raw))
                raise _TooLong
            record.append(raw)
            try:
                text = raw.decode()
            except UnicodeDecodeError:
                self._spoilt, text = True, raw.decode(errors="replace")
            yield text

    def _problem(self, error: Exception) -> Problem:
        said = str(error)
        if len(self._record) > 1 or "unexpected end" in said:
            return Problem("", "has a quote that is not closed, or text after a closing quote")
        if isinstance(error, _TooLong):
            return TOO_LONG
        if "field larger" in said:
            return Problem("", f"has a value with more than {csv.field_size_limit():,} characters")
        if "new-line" in said:
            return Problem("", "has a carriage return in the middle: lines must end with LF or CRLF")
        return Problem("", f"is not CSV: {said}")


def _columns(header: tuple[int, list[str] | Problem] | None) -> list[str]:
    expected = f"expected a header line such as {','.join(REQUIRED)}"
    if header is None:
        raise Invalid([Problem("header", f"is missing, as the file is empty: {expected}")])
    number, cells = header
    if isinstance(cells, Problem):
        raise Invalid([Problem("header", f"line {number} {cells.message}: {expected}")])
    columns = [cell.strip() for cell in cells]
    if problems := _column_problems(columns):
        raise Invalid(problems)
    return columns


def _column_problems(columns: list[str]) -> list[Problem]:
    known = f"known: {', '.join(FIELDS)}, and {ATTRIBUTE}NAME for an attribute that is text"
    if len(columns) == 1 and any(mark in columns[0] for mark in ";\t|"):
        return [Problem("header", f"has only one column, {columns[0]!r:.80}: separate columns by commas")]
    unknown = [
        f"{column!r:.60}"
        for column in dict.fromkeys(columns)
        if column not in FIELDS and not (column.startswith(ATTRIBUTE) and column != ATTRIBUTE)
    ]
    problems = [Problem("header", f"cannot be imported: {', '.join(unknown)}; {known}")] if unknown else []
    problems += [
        Problem("header", f"{column!r:.60} is given twice")
        for column in dict.fromkeys(columns)
        if columns.count(column) > 1
    ]
    missing = [field for field in REQUIRED if field not in columns]
    if missing and "key" not in columns:
        told = f"has no column {', '.join(missing)}; only rows that update users by key may omit it"
        problems.append(Problem("header", told))
    return problems


def _users(rows: Iterator[tuple[int, list[str] | Problem]], columns: list[str], from_line: int) -> Iterator[ImportLine]:
    width = len(columns)
    rich = any(column in JSON_COLUMNS or column.startswith(ATTRIBUTE) for column in columns)
    for number, cells in rows:
        if number < from_line:
            continue
        if isinstance(cells, Problem):
            yield ImportLine(number, cells)
        elif len(cells) != width:
            yield ImportLine(number, Problem("", f"has {len(cells):,} columns, but the header has {width:,}"))
        else:
            fields: dict[str, Any] = {column: cell for column, cell in zip(columns, cells, strict=True) if cell}
            yield ImportLine(number, _enriched(fields) if rich else fields)


def _enriched(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, with JSON columns parsed. Text that is not valid JSON stays text: the check of the user refuses it
    together with all other problems."""
    for column in JSON_COLUMNS:
        if column in fields:
            fields[column] = _value(fields[column])
    named = {column: fields.pop(column) for column in list(fields) if column.startswith(ATTRIBUTE)}
    if named:
        others = fields.get("attributes") or {}
        if isinstance(others, dict):
            fields["attributes"] = others | {column.removeprefix(ATTRIBUTE): cell for column, cell in named.items()}
    return fields


def _value(cell: str) -> Any:
    try:
        return _decode(cell)
    except (msgspec.MsgspecError, RecursionError):
        return cell
