from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.values.durations import format_duration, parse_duration


@given(st.timedeltas(timedelta()))
def test_a_duration_is_read_as_it_was_written(span: timedelta) -> None:
    assert parse_duration(format_duration(span)) == span


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("30s", timedelta(seconds=30)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("90d", timedelta(days=90)),
        ("250ms", timedelta(milliseconds=250)),
        ("7us", timedelta(microseconds=7)),
        ("2w", timedelta(weeks=2)),
        ("1.5h", timedelta(minutes=90)),
        (" 1h 30m ", timedelta(hours=1, minutes=30)),
        ("0s", timedelta()),
        ("1m1ms", timedelta(minutes=1, milliseconds=1)),
        ("5m5m", timedelta(minutes=10)),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, span: timedelta) -> None:
    assert parse_duration(text) == span


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(minutes=15), "15m"),
        (timedelta(hours=24), "1d"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(microseconds=1_001_001), "1s1ms1us"),
        (timedelta(weeks=1), "7d"),
    ],
)
def test_durations_are_written_short(span: timedelta, text: str) -> None:
    assert format_duration(span) == text


@pytest.mark.parametrize(
    "text", ["", " ", "30", "s", "soon", "-5s", "1h-30m", "1e3s", "30 seconds", "1,5h", "1h30", "∞", "5M", ".", "٣h"]
)
def test_text_that_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="30s, 1h30m"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["999999999999w", "1000000000d", "999999999d" * 2])
def test_a_duration_that_is_too_long_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="too long"):
        parse_duration(text)


@given(st.text())
def test_any_text_is_read_as_a_duration_or_refused_with_a_reason(text: str) -> None:
    with suppress(ValueError):
        assert parse_duration(text) >= timedelta()
