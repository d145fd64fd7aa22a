"""Spans of time as people write them: ``30s``, ``1h30m``, ``90d``, ``250ms``."""

import re
from datetime import timedelta
from functools import lru_cache

_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|us|[wdhms])", re.ASCII)

EXAMPLES = "a duration such as 30s, 1h30m, 90d or 250ms"


def parse_duration(text: str) -> timedelta:
    """Reads a sum of numbers with units; raises ValueError, with examples, for anything else."""
    compact = text.strip().replace(" ", "")
    parts = _PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise ValueError(f"{text[:50]!r} is not {EXAMPLES}")
    try:
        return sum((float(number) * _UNITS[unit] for number, unit in parts), timedelta())
    except OverflowError:
        raise ValueError(f"{text[:50]!r} is too long for a duration") from None


@lru_cache(maxsize=1024)
def format_duration(span: timedelta) -> str:
    """The shortest exact notation of a span; ``parse_duration`` reads it back."""
    micros = span // timedelta(microseconds=1)
    if micros == 0:
        return "0s"
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    written = []
    for unit, size in _UNITS.items():
        if unit != "w" and (count := micros // (size // timedelta(microseconds=1))):
            written.append(f"{count}{unit}")
            micros -= count * (size // timedelta(microseconds=1))
    return sign + "".join(written)
