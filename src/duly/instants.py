"""Instants and spans of time as text: the one reader and writer of both, strict, because a number is no date."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, overload

from duly.durations import EXAMPLES, format_duration, parse_duration
from duly.errors import Problem

EXAMPLE = "2026-12-01T09:00:00Z"
MAX_DELAY = timedelta(days=365_000)
FIRST_YEAR = 2  # of an instant: it is still one in every zone, and with a delay before it
LAST_YEAR = 9998
YEARS = f"{FIRST_YEAR} to {LAST_YEAR}"

PATTERN = r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)"
"""The instants that are read, for regular expressions of Python and of JSON Schema alike."""

_INSTANT = re.compile(PATTERN)


@overload
def write_instant(instant: datetime) -> str: ...
@overload
def write_instant(instant: None) -> None: ...
@overload
def write_instant(instant: datetime | None) -> str | None: ...
def write_instant(instant: datetime | None) -> str | None:
    """The one writing of an instant: UTC, to the microsecond where it has any, ending in Z. Occurrences that are named
    by their instant are stored under it, so it never changes."""
    return None if instant is None else instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read_instant(path: str, written: Any) -> datetime | Problem:
    """An instant with its zone, in UTC; the problem at *path* if it is none."""
    if not isinstance(written, str) or not _INSTANT.fullmatch(written):
        return Problem(path, f"expected an instant with its zone, such as {EXAMPLE}, not {written!r:.50}")
    try:
        instant = datetime.fromisoformat(_in_micros(written.upper()))
        problems = due_problems(instant) or due_problems(instant.astimezone(UTC))  # an offset may lead past the end
        return problems[0]._replace(path=path) if problems else instant.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        return Problem(path, f"{written!r:.50} is no instant: {error}")


def read_span(path: str, written: Any) -> timedelta | Problem:
    """A duration such as ``1h30m``; the problem at *path* if it is none."""
    if not isinstance(written, str):
        return Problem(path, f"expected {EXAMPLES}, not {written!r:.50}")
    try:
        span = parse_duration(written)
    except ValueError as error:
        return Problem(path, str(error))
    if span > MAX_DELAY:  # far longer ones are more than a database can count
        return Problem(path, f"must be at most {format_duration(MAX_DELAY)}, not {written!r:.50}")
    return span


def due_problems(due: Any) -> tuple[Problem, ...]:
    """What is wrong with a due time, or with a delay in its place."""
    if isinstance(due, datetime):
        if due.utcoffset() is None:
            message = f"{due.isoformat()} has no time zone: use an aware datetime, such as datetime.now(UTC)"
        elif not FIRST_YEAR <= due.year <= LAST_YEAR:
            message = f"{due.isoformat()} is out of range: the year must be {YEARS}"
        else:
            return ()
    elif isinstance(due, timedelta):
        if abs(due) <= MAX_DELAY:
            return ()
        message = f"a delay of {due.days:,} days is out of range: at most {MAX_DELAY.days:,} days"
    else:
        message = f"expected a datetime or a timedelta, not {type(due).__name__}"
    return (Problem("due", message),)


def _in_micros(written: str) -> str:
    """Without what is finer than a microsecond."""
    return re.sub(r"(\.\d{6})\d+", r"\1", written)
