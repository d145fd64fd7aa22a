"""Instants and spans as JSON and addresses write them; strictly, for a number is no date."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from duly.core.checks import due_problems
from duly.core.durations import EXAMPLES, parse_duration
from duly.errors import Problem

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)")
EXAMPLE = "2026-12-01T09:00:00Z"


def read_instant(path: str, written: Any) -> datetime | Problem:
    if not isinstance(written, str) or not _INSTANT.fullmatch(written):
        return Problem(path, f"expected an instant with its zone, such as {EXAMPLE}, not {written!r:.50}")
    try:
        instant = datetime.fromisoformat(_in_micros(written.upper()))
        problems = due_problems(instant)
        return problems[0]._replace(path=path) if problems else instant.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        return Problem(path, f"{written!r:.50} is no instant: {error}")


def read_span(path: str, written: Any) -> timedelta | Problem:
    try:
        return parse_duration(written) if isinstance(written, str) else _no_span(path, written)
    except ValueError as error:
        return Problem(path, str(error))


def _no_span(path: str, written: Any) -> Problem:
    return Problem(path, f"expected {EXAMPLES}, not {written!r:.50}")


def _in_micros(written: str) -> str:
    """Without what is finer than a microsecond."""
    return re.sub(r"(\.\d{6})\d+", r"\1", written)
