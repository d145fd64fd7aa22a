"""Parses instants and delays as people write them on the command line."""

from datetime import UTC, datetime, timedelta

from duly.decide.checks import no_such_day
from duly.duly import Duly
from duly.errors import Invalid, Problem
from duly.rules.notation import zone_problems
from duly.rules.policies import read_policies
from duly.values.durations import parse_duration
from duly.values.instants import EXAMPLE, YEARS, write_instant

EXAMPLES = f"an instant such as {EXAMPLE}, a delay such as +30s or 'in 5m', or now"


def parse_when(text: str, field: str = "when") -> datetime | timedelta:
    """An instant with its zone, or a delay from now; ``-1h`` is in the past."""
    text = text.strip()
    delay = _delay(text.lower())
    return _instant(text, field) if delay is None else delay


async def resolve(duly: Duly, text: str, field: str = "when") -> datetime:
    """The instant; a delay counts from the store's current time."""
    when = parse_when(text, field)
    if isinstance(when, datetime):
        return when
    try:
        return await duly.now() + when
    except OverflowError:
        raise _problem(field, f"{text[:50]!r} is out of range: its year must be {YEARS}") from None


async def resolve_in(duly: Duly, text: str, timezone: str, field: str = "when") -> datetime:
    """The same as ``resolve``, but text without a zone is a local time, or the start of a day, in *timezone*."""
    if problems := zone_problems(timezone):
        raise Invalid(problems)
    written = await without_delay(duly, text, field)
    try:
        read = read_policies({"start": written}, timezone).start
    except Invalid as error:
        raise Invalid([Problem(field, message) for _, message in error.problems]) from None
    assert read is not None
    return read


async def without_delay(duly: Duly, text: str, field: str) -> str:
    """The text itself, or the instant if it is a delay."""
    is_delay = _delay(text.strip().lower()) is not None
    return write_instant(await resolve(duly, text, field)) if is_delay else text.strip()


def _delay(text: str) -> timedelta | None:
    if text == "now":
        return timedelta()
    sign = -1 if text.startswith("-") else 1
    try:
        return sign * parse_duration(text.removeprefix("in ").removeprefix("-").removeprefix("+"))
    except ValueError:
        return None


def _instant(text: str, field: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        reason = (
            f" ({no_such_day(text, error)})" if text[:4].isdigit() and "Invalid isoformat" not in str(error) else ""
        )
        raise _problem(field, f"{text[:50]!r} is not a valid time{reason}: write {EXAMPLES}") from None
    if instant.tzinfo is None:
        written = instant.isoformat()
        raise _problem(field, f"{text!r} has no zone: write {written}Z for UTC, or an offset as in {written}+02:00")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise _problem(field, f"{text!r} is out of range: the year in UTC must be {YEARS}") from None


def _problem(field: str, message: str) -> Invalid:
    return Invalid([Problem(field, message)])
