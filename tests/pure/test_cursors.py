"""Cursors lead on in the list that gave them, and in no other."""

import pytest

from duly.records.finding.cursors import read_cursor, write_cursor


@pytest.mark.parametrize("after", ["019a8f2e-6c00-7abc-8def-0123456789ab", "a/b ä ✓", "x" * 200])
def test_a_cursor_is_read_as_it_was_written(after: str) -> None:
    filters = {"type": "x&y", "status": "FAILED"}
    assert read_cursor(dict(reversed(filters.items())), write_cursor(filters, after)) == after


def test_a_cursor_of_another_list_is_refused() -> None:
    with pytest.raises(ValueError, match="other filters"):
        read_cursor({"type": "y"}, write_cursor({"type": "x"}, "a"))


@pytest.mark.parametrize("cursor", ["", "x", "!!", "W10", "é", write_cursor({}, "a\nb")])
def test_a_cursor_that_no_list_has_given_is_refused(cursor: str) -> None:
    with pytest.raises(ValueError, match="send next_cursor unchanged"):
        read_cursor({}, cursor)


@pytest.mark.parametrize("cursor", ["", "a b", "a+b/", "ab==", "é", "a" * 2001])
def test_a_cursor_in_another_spelling_is_refused(cursor: str) -> None:
    with pytest.raises(ValueError, match="is not a cursor of this list"):
        read_cursor({}, cursor)


def test_the_longest_name_fits_into_a_cursor() -> None:
    name = "\U0001f600" * 200
    assert read_cursor({}, write_cursor({}, name)) == name
