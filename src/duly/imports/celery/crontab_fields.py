"""The fields of Celery's crontab, from their text. They are cron's, but ranges may wrap around, as in ``fri-mon``,
names may be written in full, and 7 is no Sunday.

Celery need not be installed: the tables of django-celery-beat have the same text.
"""

import re
from collections.abc import Iterable
from typing import Any

from duly.imports.calendar_fields import LOW_HIGH, CalendarFields, Field
from duly.imports.found import Unfit

NAMES = {
    "minutes": "minute",
    "hours": "hour",
    "days": "day_of_month",
    "months": "month_of_year",
    "weekdays": "day_of_week",
}
"""What Celery calls the fields."""

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

_STEPPED_RANGE = re.compile(r"(\w+?)-(\w+)/(\w+)?")
_RANGE = re.compile(r"(\w+?)-(\w+)")
_STEPPED_STAR = re.compile(r"\*/(\w+)?")


def fields_of(written: dict[str, Any]) -> CalendarFields:
    """The fields of a crontab, each given as text, as a number or as several numbers, by Celery's names."""
    read = {name: _field(name, written[theirs]) for name, theirs in NAMES.items()}
    return CalendarFields(read["minutes"], read["hours"], read["days"], read["months"], read["weekdays"])


def _field(name: str, written: Any) -> Field:
    low, high = LOW_HIGH[name]
    try:
        if isinstance(written, str):
            values = {value for part in written.split(",") for value in _part(part, low, high)}
        elif isinstance(written, Iterable):
            values = {int(each) for each in written}
        else:
            values = {int(written)}
        if not values or not all(low <= value <= high for value in values):
            raise ValueError(f"its values must be {low} to {high}")
    except (ValueError, TypeError, OverflowError) as error:
        raise Unfit(f"its {NAMES[name]} {written!r:.60} cannot be read: {error}") from None
    return Field(frozenset(values), star=isinstance(written, str) and written.strip().startswith("*"))


def _part(part: str, low: int, high: int) -> Iterable[int]:
    """The values of a part between commas. The patterns match beginnings, as Celery's do."""
    if not part:
        raise ValueError("a part between commas is empty")
    if found := _STEPPED_RANGE.match(part):
        return _span(found[1], found[2], low, high)[:: _step(found[3])]
    if found := _RANGE.match(part):
        return _span(found[1], found[2], low, high)
    if found := _STEPPED_STAR.match(part):
        return range(low, high + 1)[:: _step(found[1])]
    if part == "*":
        return range(low, high + 1)
    return _span(part, part, low, high)


def _step(written: str | None) -> int:
    if not written:
        raise ValueError("the number after / is missing")
    return int(written)


def _span(first: str, last: str, low: int, high: int) -> list[int]:
    begin, end = _number(first, low, high), _number(last, low, high)
    if end < begin:
        return [*range(begin, high + 1), *range(low, end + 1)]
    return list(range(begin, end + 1))


def _number(written: str, low: int, high: int) -> int:
    try:
        number = int(written)
    except ValueError:
        short = written[:3].lower()
        if short not in (*MONTHS, *WEEKDAYS):
            raise ValueError(f"{written[:20]!r} is no number and no name") from None
        number = MONTHS.index(short) + 1 if short in MONTHS else WEEKDAYS.index(short)
    if not low <= number <= high:
        raise ValueError(f"{number} is out of range: {low} to {high}")
    return number
