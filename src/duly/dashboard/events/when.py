"""Reads instants as people write them in forms: in their own time zone unless another one is given, or as a delay."""

from datetime import datetime, timedelta

from duly.dashboard.times import Times
from duly.errors import Invalid, Problem
from duly.rules.policies import read_policies
from duly.values.durations import parse_duration
from duly.values.instants import YEARS, due_problems, read_moment, write_instant

EXAMPLES = "such as 2026-12-01 09:00, -1h, in 30m, or now"


def read_when(field: str, written: str, times: Times) -> datetime | Problem:
    """The instant: ``2026-12-01 09:00`` on the visitor's clocks, an instant with its offset, a delay, or ``now``."""
    text = written.strip()
    delay = _delay(text.lower())
    try:
        instant = times.now + delay if delay is not None else _instant(text, times.zone)
    except Invalid as error:
        return error.problems[0]._replace(path=field)
    except OverflowError:
        return Problem(field, f"{text[:50]!r} is out of range: the year must be {YEARS}")
    except ValueError:
        told = f"{text[:50]!r} is not a time: write it {EXAMPLES}; without an offset, it is a time in {times.zone}"
        return Problem(field, told)
    problems = due_problems(instant)
    return problems[0]._replace(path=field) if problems else instant


def written_when(instant: datetime, times: Times) -> str:
    """The instant as a form shows it: on the visitor's clocks, or in UTC where these would not tell it exactly."""
    local = times.local(instant).isoformat(" ")
    return local if read_when("", local, times) == instant else write_instant(instant)


def _delay(text: str) -> timedelta | None:
    if text == "now":
        return timedelta()
    sign = -1 if text.startswith("-") else 1
    try:
        return sign * parse_duration(text.removeprefix("in ").removeprefix("-").removeprefix("+"))
    except ValueError:
        return None


def _instant(text: str, zone: str) -> datetime:
    """Raises ValueError if the text is no time, and Invalid for one that cannot be."""
    read_moment(text)
    start = read_policies({"start": text}, zone).start
    if start is None:
        raise ValueError("is empty")
    return start
