"""The only reader and writer of instants, local times and spans as text. It is strict: a number is not a date.

Exactly one notation is accepted. Python's own parser accepts a dozen others, such as 2026W491T0900, which the OpenAPI
description could not express.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, overload

from duly.errors import Problem
from duly.values.durations import EXAMPLES, format_duration, parse_duration

EXAMPLE = "2026-12-01T09:00:00Z"
MAX_DELAY = timedelta(days=365_000)
"""The longest delay, about 1,000 years: far below the limits of the databases."""

FIRST_YEAR = 2
"""The first year of an instant. Year 1 is a margin: the calendar must not end within a time zone's offset
or a delay before it."""

LAST_YEAR = 9998
"""The last year of an instant. Year 9999 is a margin, for the same reason."""

YEARS = f"{FIRST_YEAR} to {LAST_YEAR}"

DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
HOURS_AND_MINUTES = r"([01][0-9]|2[0-3]):[0-5][0-9]"
TIME_OF_DAY = rf"{HOURS_AND_MINUTES}(:[0-5][0-9])?"
FRACTION = r"\.[0-9]{1,9}"
OFFSET = rf"([Zz]|[+-]{HOURS_AND_MINUTES})"

LOCAL = rf"{DATE}([Tt ]{HOURS_AND_MINUTES}(:[0-5][0-9]({FRACTION})?)?)?"
"""A date, or a date and a time of day, on the clocks of some time zone."""

INSTANT = rf"{DATE}[Tt ]{HOURS_AND_MINUTES}(:[0-5][0-9]({FRACTION})?)?{OFFSET}"

_MOMENT = re.compile(f"{INSTANT}|{LOCAL}")
_BEYOND_MICROSECONDS = re.compile(r"(\.[0-9]{6})[0-9]+")

_INSTANT = re.compile(INSTANT)


@overload
def write_instant(instant: datetime) -> str: ...
@overload
def write_instant(instant: None) -> None: ...
@overload
def write_instant(instant: datetime | None) -> str | None: ...
def write_instant(instant: datetime | None) -> str | None:
    """The one text form of an instant: UTC, ending in Z, with microseconds only if they are not zero. It must never
    change: occurrences that are named by their instant are stored under this text."""
    return None if instant is None else instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read_instant(path: str, written: Any) -> datetime | Problem:
    """Reads an instant with its offset, and returns it in UTC; returns a Problem at *path* if the text is not an
    instant."""
    if not isinstance(written, str) or not _INSTANT.fullmatch(written):
        return Problem(path, f"expected an instant with a time zone, such as {EXAMPLE}, not {written!r:.50}")
    try:
        instant = read_moment(written)
        problems = due_problems(instant) or due_problems(instant.astimezone(UTC))  # the offset may move it out of range
        return problems[0]._replace(path=path) if problems else instant.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        return Problem(path, f"{written!r:.50} is not a valid instant: {error}")


def read_span(path: str, written: Any) -> timedelta | Problem:
    """Reads a duration such as ``1h30m``; returns a Problem at *path* if the text is not a duration."""
    if not isinstance(written, str):
        return Problem(path, f"expected {EXAMPLES}, not {written!r:.50}")
    try:
        span = parse_duration(written)
    except ValueError as error:
        return Problem(path, str(error))
    if span > MAX_DELAY:  # much longer spans overflow in the databases
        return Problem(path, f"must be at most {format_duration(MAX_DELAY)}, not {written!r:.50}")
    return span


def read_delay(given: Any) -> timedelta | Problem:
    """Reads a delay in Python: a timedelta, a number of seconds, or text such as ``1h``. The checks of a timer take a
    Problem in the place of its due time, and tell it together with all others."""
    if isinstance(given, timedelta):
        return given
    try:
        if isinstance(given, str):
            return parse_duration(given)
        if isinstance(given, int | float) and not isinstance(given, bool):
            return timedelta(seconds=given)
    except (ValueError, OverflowError):  # also a number that is not finite, or no text that can be read
        pass
    return Problem("delay", f"expected a timedelta, a number of seconds or {EXAMPLES}, not {given!r:.50}")


def read_due(given: Any) -> Any:
    """Reads a due time in Python, which may be a delay. What is neither is left for the checks of a timer."""
    if not isinstance(given, str | int | float) or isinstance(given, bool):
        return given
    delay = read_delay(given)
    return Problem("due", f"{delay.message}; or a datetime") if isinstance(delay, Problem) else delay


def read_json_delay(path: str, written: Any) -> timedelta | Problem:
    """Reads a delay in JSON: text such as ``1h``, or a number of seconds that is not negative."""
    if isinstance(written, str):
        return read_span(path, written)
    most = MAX_DELAY.total_seconds()
    if isinstance(written, int | float) and not isinstance(written, bool) and 0 <= written <= most:
        return timedelta(seconds=written)
    return Problem(path, f"expected {EXAMPLES}, or a number of seconds from 0 to {most:.0f}, not {written!r:.50}")


def due_problems(due: Any) -> tuple[Problem, ...]:
    """The problems of a due time, or of a delay given instead of one."""
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
    elif isinstance(due, Problem):  # of a delay that could not be read
        return (due,)
    else:
        message = f"expected a datetime or a timedelta, not {type(due).__name__}"
    return (Problem("due", message),)


def instant_problems(field: str, given: Any) -> list[Problem]:
    """The problems of an instant that may be missing."""
    if given is None:
        return []
    if not isinstance(given, datetime):
        return [Problem(field, f"expected a datetime, not {type(given).__name__}")]
    return [problem._replace(path=field) for problem in due_problems(given)]


def read_moment(written: str) -> datetime:
    """Reads an instant or a local time: aware if the text has an offset, midnight if it has no time of day. Digits
    beyond microseconds are dropped. Raises ValueError for other notations and for days that do not exist."""
    if not _MOMENT.fullmatch(written):
        raise ValueError(f"{written[:50]!r} is neither an instant nor a local time")
    return datetime.fromisoformat(_BEYOND_MICROSECONDS.sub(r"\1", written.upper()))
