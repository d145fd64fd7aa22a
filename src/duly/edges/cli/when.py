"""Instants and delays as people write them on the command line."""

from datetime import UTC, datetime, timedelta

from duly.core.durations import parse_duration
from duly.errors import Invalid, Problem
from duly.wiring import Duly

EXAMPLES = "an instant such as 2026-12-01T09:00:00Z, a delay such as +30s or 'in 5m', or now"


def parse_when(text: str, field: str = "when") -> datetime | timedelta:
    """An instant with its zone, or a delay from now; ``-1h`` lies in the past."""
    text = text.strip()
    delay = _delay(text.lower())
    return _instant(text, field) if delay is None else delay


async def resolve(duly: Duly, text: str, field: str = "when") -> datetime:
    """The instant, a delay being counted from the store's now."""
    when = parse_when(text, field)
    if isinstance(when, datetime):
        return when
    try:
        return await duly.store.now() + when
    except OverflowError:
        raise _problem(field, f"{text[:50]!r} is out of range") from None


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
        reason = f" ({error})" if text[:4].isdigit() and "Invalid isoformat" not in str(error) else ""
        raise _problem(field, f"{text[:50]!r} cannot be read{reason}: write {EXAMPLES}") from None
    if instant.tzinfo is None:
        written = instant.isoformat()
        raise _problem(field, f"{text!r} has no zone: write {written}Z for UTC, or an offset as in {written}+02:00")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise _problem(field, f"{text!r} is out of range") from None


def _problem(field: str, message: str) -> Invalid:
    return Invalid([Problem(field, message)])
