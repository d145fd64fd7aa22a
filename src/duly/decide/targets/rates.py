"""Rates as people write them: ``50/s``, ``600/m``, ``1000/h``; a plain number is per second."""

import math
import re
from datetime import timedelta
from fractions import Fraction
from typing import Any

from duly.errors import Invalid, Problem

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}  # in seconds
_WRITTEN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(?:\s*/\s*([smhd]))?", re.ASCII)
_MICROSECOND = 1_000_000  # in a second

EXAMPLES = "a rate such as 50/s, 600/m or 1000/h"


def read_rate(rate: Any) -> timedelta:
    """The interval between two deliveries, in whole microseconds and rounded up, so that the rate is never exceeded."""
    by_the_second = _by_the_second(rate)
    if not Fraction(1, _UNITS["d"]) <= by_the_second <= _MICROSECOND:
        raise _problem(f"must be from 1/d to {_MICROSECOND:,}/s, not {rate!r:.50}")
    return timedelta(microseconds=math.ceil(_MICROSECOND / by_the_second))


def _by_the_second(rate: Any) -> Fraction:
    if type(rate) is int:
        return Fraction(rate)
    if type(rate) is float and math.isfinite(rate):
        return Fraction(str(rate))
    written = _WRITTEN.fullmatch(rate.strip()) if isinstance(rate, str) else None
    if written is None:
        raise _problem(f"{rate!r:.50} is not {EXAMPLES}")
    return Fraction(written[1]) / _UNITS[written[2] or "s"]


def _problem(message: str) -> Invalid:
    return Invalid([Problem("rate", message)])


def show_rate(rate: float) -> str:
    """A rate per second as text, in the first unit in which it is a whole number, if there is one.

    >>> show_rate(0.5)
    '30/m'
    """
    for unit, seconds in _UNITS.items():
        if (many := round(rate * seconds, 3)) >= 1 and many == int(many):
            return f"{int(many)}/{unit}"
    return f"{rate:g}/s"
