"""Instants and spans as JSON and addresses write them; strictly, for a number is no date."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from duly.decide.checks import MAX_DELAY, due_problems
from duly.durations import EXAMPLES, format_duration, parse_duration
from duly.errors import Problem

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)")
EXAMPLE = "2026-12-01T09:00:00Z"


def read_instant(path: str, written: Any) -> datetime | Problem:
    if not isinstance(written, str) or not _INSTANT.fullmatch(written):
        return Problem(path, f"expected an instant with its zone, such as {EXAMPLE}, not {written!r:.50}")
    try:
        instant = datetime.fromisoformat(_in_micros(written.upper()))
        problems = due_problems(instant) or due_problems(instant.astimezone(UTC))  # an offset may lead past the end
        return problems[0]._replace(path=path) if problems else instant.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        return Problem(path, f"{written!r:.50} is no instant: {error}")


def read_span(path: str, written: Any) -> timedelta | Problem:
    if not isinstance(written, str):
        return Problem(path, f"expected {EXAMPLES}, not {written!r:.50}")
    try:
        span = parse_duration(written)
    except ValueError as error:
        return Problem(path, str(error))
    if span > MAX_DELAY:  # far longer ones are more than a database can count
        return Problem(path, f"must be at most {format_duration(MAX_DELAY)}, not {written!r:.50}")
    return span


def _in_micros(written: str) -> str:
    """Without what is finer than a microsecond."""
    return re.sub(r"(\.\d{6})\d+", r"\1", written)
