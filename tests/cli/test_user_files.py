"""Files of users: what is read from them, and what becomes of lines that cannot be."""

import io
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest

from duly import Invalid, Misuse
from duly.cli.users.files import LONGEST_LINE_BYTES, format_of, read_users
from duly.errors import Problem

HEADER = "first_name,last_name,date_of_birth,timezone"
ADA = "Ada,Lovelace,1815-12-10,Europe/London"
AS_READ = {"first_name": "Ada", "last_name": "Lovelace", "date_of_birth": "1815-12-10", "timezone": "Europe/London"}


def read(text: str | bytes, format: str = "csv", **options: Any) -> dict[int, Any]:
    """What stands on which line; of a line that cannot be read, why."""
    raw = text if isinstance(text, bytes) else text.encode()
    found = {}
    for line in read_users(io.BytesIO(raw), format, **options):
        found[line.number] = line.fields.message if isinstance(line.fields, Problem) else line.fields
    return found


def refused(header: str) -> str:
    with pytest.raises(Invalid) as caught:
        read_users(io.BytesIO(header.encode()), "csv")
    return str(caught.value)


# -- which format


@pytest.mark.parametrize(
    ("file", "format"), [("a.csv", "csv"), ("A.CSV", "csv"), ("a.jsonl", "jsonl"), ("b/a.ndjson", "jsonl")]
)
def test_the_name_of_a_file_tells_its_format(file: str, format: str) -> None:
    assert format_of(file, None) == format


def test_an_explicit_format_counts_more_than_the_name_of_the_file() -> None:
    assert format_of("a.csv", "jsonl") == "jsonl"


@pytest.mark.parametrize(("file", "told"), [("-", None), ("people.txt", None), ("people.csv", "xml")])
def test_an_unknown_format_is_misuse_that_names_the_known_ones(file: str, told: str | None) -> None:
    with pytest.raises(Misuse, match="csv"):
        format_of(file, told)


# -- CSV


def test_rows_have_the_numbers_of_their_lines() -> None:
    assert read(f"{HEADER}\n{ADA}\n{ADA}\n") == {2: AS_READ, 3: AS_READ}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_may_end_in_either_way_and_the_last_one_without_an_end(end: str) -> None:
    assert read(f"{HEADER}{end}{ADA}{end}{ADA}") == {2: AS_READ, 3: AS_READ}


@pytest.mark.parametrize("header", [HEADER, '"first_name",last_name,date_of_birth,timezone'])
def test_a_byte_order_mark_is_no_part_of_the_first_column(header: str) -> None:
    assert read(f"\ufeff{header}\n{ADA}\n") == {2: AS_READ}


def test_an_empty_cell_is_not_given() -> None:
    assert read(f"{HEADER},anniversary,leap\n{ADA},,skip\n") == {2: AS_READ | {"leap": "skip"}}


def test_empty_lines_are_no_rows() -> None:
    assert list(read(f"{HEADER}\n\n{ADA}\n\r\n{ADA}\n\n")) == [3, 5]


def test_a_quoted_cell_may_hold_commas_quotes_and_lines_and_the_count_goes_on() -> None:
    found = read(f'{HEADER}\n"Ada, ""Countess""\nof\nLovelace",B,1815-12-10,UTC\n{ADA}\n')
    assert found[2]["first_name"] == 'Ada, "Countess"\nof\nLovelace'
    assert found[5] == AS_READ


@pytest.mark.parametrize(("row", "cells"), [("Ada,Lovelace", 2), (f"{ADA},", 5), (f"{ADA},x,y", 6)])
def test_a_row_with_too_few_or_too_many_cells_is_bad(row: str, cells: int) -> None:
    assert read(f"{HEADER}\n{row}\n{ADA}\n") == {2: f"has {cells} columns, but the header has 4", 3: AS_READ}


def test_objects_and_single_attributes_have_columns() -> None:
    header = f"{HEADER},target,attributes,attributes.cat,attributes.dog"
    row = f'{ADA},"{{""webhook"": ""https://x.example""}}","{{""cat"": ""Tom"", ""n"": 1}}",Felix,'
    [fields] = read(f"{header}\n{row}\n").values()
    assert fields["target"] == {"webhook": "https://x.example"}
    assert fields["attributes"] == {"cat": "Felix", "n": 1}


def test_columns_of_attributes_make_an_object_and_empty_ones_make_none() -> None:
    found = read(f"{HEADER},attributes.cat\n{ADA},Felix\n{ADA},\n")
    assert found == {2: AS_READ | {"attributes": {"cat": "Felix"}}, 3: AS_READ}


@pytest.mark.parametrize("cell", ["{cat: 1}", "Felix", "[1]"])
def test_a_cell_that_is_no_object_is_left_to_the_check_of_the_user(cell: str) -> None:
    [fields] = read(f"{HEADER},attributes,attributes.cat\n{ADA},{cell},Tom\n").values()
    assert fields["attributes"] in (cell, [1])


# -- headers


def test_an_unknown_column_is_refused_at_once_and_the_known_ones_are_named() -> None:
    said = refused(f"{HEADER},shoe_size,attributes.\n")
    assert "'shoe_size', 'attributes.'" in said
    assert "known: first_name, last_name" in said


def test_a_missing_column_is_refused_unless_rows_have_keys() -> None:
    assert "has no column date_of_birth, timezone" in refused("first_name,last_name\n")
    assert read("key,timezone\nada,Asia/Tokyo\n") == {2: {"key": "ada", "timezone": "Asia/Tokyo"}}


def test_a_column_that_is_there_twice_is_refused() -> None:
    assert "'timezone' is given twice" in refused(f"{HEADER},timezone\n")


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_another_separator_is_recognised(mark: str) -> None:
    assert "separate columns by commas" in refused(HEADER.replace(",", mark))


@pytest.mark.parametrize("text", ["", "\ufeff", "\n\n"])
def test_an_empty_file_lacks_its_header(text: str) -> None:
    assert "is missing, as the file is empty: expected a header line such as first_name," in refused(text)


def test_a_header_in_another_encoding_is_refused() -> None:
    with pytest.raises(Invalid, match="line 1 is not text in UTF-8"):
        read(HEADER.encode("utf-16"))


# -- lines that cannot be read


def test_a_line_that_is_not_utf8_is_bad_and_the_others_are_kept() -> None:
    latin = "Zoë,Lovelace,1815-12-10,UTC".encode("latin-1")
    found = read(f"{HEADER}\n{ADA}\n".encode() + latin + f"\n{ADA}\n".encode())
    assert found == {2: AS_READ, 3: "is not text in UTF-8", 4: AS_READ}


@pytest.mark.parametrize("after", [[ADA] * 3, [ADA, '"Ada, C.",Lovelace,1815-12-10,UTC', ADA], [ADA] * 5000])
def test_a_quote_that_is_not_closed_spoils_its_own_line_alone(after: list[str]) -> None:
    found = read("\n".join([HEADER, ADA, '"Ada,Lovelace,1815-12-10,UTC', *after]) + "\n")
    assert found.pop(3) == "has a quote that is not closed, or text after a closing quote"
    assert list(found) == [2, *range(4, 4 + len(after))]
    assert all(isinstance(fields, dict) for fields in found.values())


def test_text_after_a_closing_quote_is_bad() -> None:
    assert "',' expected" in read(f'{HEADER}\n"Ada"x,Lovelace,1815-12-10,UTC\n{ADA}\n')[2]


def test_a_carriage_return_in_the_middle_is_bad() -> None:
    assert "must end with LF or CRLF" in read(f"{HEADER}\n{ADA}\r{ADA}\n{ADA}\n")[2]


@pytest.mark.parametrize("format", ["csv", "jsonl"])
@pytest.mark.parametrize("size", [LONGEST_LINE_BYTES + 1, LONGEST_LINE_BYTES + 2, 3 * LONGEST_LINE_BYTES])
def test_a_line_of_more_than_a_megabyte_is_bad_and_the_next_one_is_not(format: str, size: int) -> None:
    before, good = (f"{HEADER}\n", f"{ADA}\n") if format == "csv" else ("\n", "{}\n")
    found = read(f"{before}{'x' * (size - 1)}\n{good}", format)
    assert found[2] == "is longer than 1,000,000 bytes"
    assert isinstance(found[3], dict)


def test_a_huge_line_within_quotes_that_nobody_closed_takes_no_other_line_with_it() -> None:
    found = read(f'{HEADER}\n"Ada\n{"x" * 3 * LONGEST_LINE_BYTES}\n{ADA}\n')
    assert list(found) == [2, 3, 4]
    assert found[3] == "is longer than 1,000,000 bytes"
    assert found[4] == AS_READ


def test_a_row_of_endless_lines_ends() -> None:
    found = read(HEADER + '\n"' + '\n","' * 300_000 + f'"\n{ADA}\n')
    assert "quote that is not closed" in found[2]
    assert found[300_003] == AS_READ


def test_a_cell_has_a_limit() -> None:
    assert "more than 131,072 characters" in read(f"{HEADER}\n{'x' * 200_000},B,C,D\n")[2]


# -- lines of JSON


def test_each_line_is_an_object() -> None:
    found = read('\ufeff{"first_name": "Ada"}\n\n{"leap": null}\r\n{"attributes": {"cat": 1}}', "jsonl")
    assert found == {1: {"first_name": "Ada"}, 3: {"leap": None}, 4: {"attributes": {"cat": 1}}}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"[1]", "expected an object with a user's fields, not list"),
        (b'"Ada"', "not str"),
        (b"{", "is not valid JSON"),
        (b"{} {}", "is not valid JSON"),
        (b'{"a": NaN}', "is not valid JSON"),
        (b"[" * 5000, "is not valid JSON"),
        (b'{"first_name": "Zo\xeb"}', "is not text in UTF-8"),
    ],
)
def test_a_line_that_is_no_object_is_bad_and_the_others_are_kept(line: bytes, said: str) -> None:
    found = read(b"{}\n" + line + b"\n{}\n", "jsonl")
    assert said in found[2]
    assert found[1] == found[3] == {}


# -- from a line on


def test_rows_before_a_given_line_are_left_out_and_bad_ones_with_them() -> None:
    text = f'{HEADER}\nbad\n"Ada\n",Lovelace,1815-12-10,UTC\n{ADA}\n'
    assert list(read(text, from_line=4)) == [5]
    assert list(read(text, from_line=3)) == [3, 5]
    assert list(read("no\n{}\n{}\n", "jsonl", from_line=2)) == [2, 3]


# -- many


class Endless(io.RawIOBase):
    """So many rows, none of which exists before it is read."""

    def __init__(self, rows: int) -> None:
        self._rows = self._lines(rows)
        self._left = b""

    def _lines(self, rows: int) -> Iterable[bytes]:
        yield f"{HEADER}\n".encode()
        for _ in range(rows // 100):
            yield f"{ADA}\n".encode() * 100

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._left = self._left or next(iter(self._rows), b"")
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def test_memory_does_not_grow_with_the_size_of_the_file() -> None:
    tracemalloc.start()
    try:
        rows = read_users(io.BufferedReader(Endless(100_000)), "csv")
        count = sum(1 for _ in rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 100_000
    assert peak < 1_000_000
