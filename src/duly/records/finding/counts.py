"""The number of records that match a search: exact while it is small, else an estimate that says so."""

from math import floor, log10
from typing import Annotated

import msgspec

from duly.records.marks import FromZero, told

MOST_COUNTED = 10_000
"""Records that are counted one by one; beyond that, their number is estimated."""

KEPT_DIGITS = 2
"""Digits of an estimate that are kept: more of them would look like knowledge."""

_WORDS = ((10**9, "billion"), (10**6, "million"))


class Count(msgspec.Struct, frozen=True):
    """How many match."""

    value: FromZero
    exact: Annotated[bool, told("False if the value is an estimate")]

    def __str__(self) -> str:
        return f"{self.value:,}" if self.exact else f"about {_in_words(self.value)}"


def counted(found: int, *, whole: bool, estimate: int) -> Count:
    """The count after *found* records were counted; *whole* if these are all that match. An estimate is no less than
    what was counted."""
    if whole and found <= MOST_COUNTED:
        return Count(found, exact=True)
    return Count(max(min(found, MOST_COUNTED), _rounded(estimate)), exact=False)


def _rounded(number: int) -> int:
    if number < 10**KEPT_DIGITS:
        return max(number, 0)
    unit: int = 10 ** (floor(log10(number)) + 1 - KEPT_DIGITS)
    return round(number / unit) * unit


def _in_words(number: int) -> str:
    for unit, word in _WORDS:
        if number >= unit:
            return f"{float(f'{number / unit:.{KEPT_DIGITS}g}'):g} {word}"
    return f"{number:,}"


COUNTED = Annotated[Count | msgspec.UnsetType, told("How many match in all; only with `count=true`")]
"""The field of a page that has the count, if one was asked for."""
