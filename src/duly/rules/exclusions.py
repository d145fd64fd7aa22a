"""Excluded days, on which a schedule does not fire: dates, date ranges, weekdays, and the holidays of a country."""

import re
from collections.abc import Callable
from datetime import date
from functools import lru_cache
from typing import Any

from duly.extras import install

WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
EXAMPLES = "write, for example, 2026-12-24, 2026-12-24/2027-01-02, 12-25, SAT, holidays:BE or holidays:US-CA"
HOLIDAYS = "holidays:"

Rests = Callable[[date], bool]


def normal_exclusion(written: Any) -> str:
    """The normal form of an exclusion. An invalid exclusion is returned for `exclusion_problem` to report."""
    if isinstance(written, date):
        return written.isoformat()[:10]
    if not isinstance(written, str):
        return repr(written)[:50]
    text = written.strip()
    if text.lower().startswith(HOLIDAYS):
        return HOLIDAYS + text[len(HOLIDAYS) :].strip().upper()
    if text[:3].upper() in WEEKDAYS and text.isalpha() and _FULL[text[:3].upper()].startswith(text.upper()):
        return text[:3].upper()
    return text


_FULL = {day[:3]: day for day in "MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY".split()}


def exclusion_problem(written: str) -> str | None:
    """The problem of an exclusion, or None if it is valid."""
    try:
        _rests(written)
    except ValueError as error:
        return str(error)
    return None


@lru_cache(maxsize=1024)
def rests_on(exclusions: tuple[str, ...]) -> Rests:
    """A function that returns whether a date is excluded. Raises ValueError for an invalid exclusion."""
    each = [_rests(written) for written in exclusions]

    @lru_cache(maxsize=4096)
    def rests(day: date) -> bool:
        return any(one(day) for one in each)

    return rests


def excluded_by(exclusions: tuple[str, ...], day: date) -> str | None:
    """The exclusion that covers a date, with the name of the holiday if it is one; None if the date is not excluded."""
    if not rests_on(exclusions)(day):
        return None
    written = next(each for each in exclusions if _cached(each)(day))
    return f"{written} ({_holiday(written, day)})" if written.startswith(HOLIDAYS) else written


def _holiday(written: str, day: date) -> str:
    import holidays  # the exclusion has imported it already

    country, _, part = written[len(HOLIDAYS) :].partition("-")
    return str(holidays.country_holidays(country, subdiv=part or None, years=day.year).get(day))


@lru_cache(maxsize=1024)
def _cached(written: str) -> Rests:
    return _rests(written)


def _rests(written: str) -> Rests:
    if written in WEEKDAYS:
        return _weekday(WEEKDAYS.index(written))
    if written.startswith(HOLIDAYS):
        country, _, part = written[len(HOLIDAYS) :].partition("-")
        return _holidays(country, part or None)
    if re.fullmatch(r"\d\d-\d\d", written):
        _date(f"2000-{written}", written)
        return _yearly(int(written[:2]), int(written[3:]))
    first, ranged, last = written.partition("/")
    start = _date(first, written)
    end = _date(last, written) if ranged else start
    if end < start:
        raise ValueError(f"{written} ends before it begins")
    return _between(start, end)


def _date(text: str, written: str) -> date:
    try:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{written[:50]!r} is not a valid day to exclude: {EXAMPLES}") from None


def _weekday(number: int) -> Rests:
    return lambda day: day.weekday() == number


def _yearly(month: int, number: int) -> Rests:
    return lambda day: (day.month, day.day) == (month, number)


def _between(start: date, end: date) -> Rests:
    return lambda day: start <= day <= end


def _holidays(country: str, part: str | None) -> Rests:
    try:
        import holidays  # takes a third of a second, and most schedules do not need it
    except ImportError as error:
        raise ValueError(f"holidays need an additional package: {install('holidays')}") from error
    try:
        holidays.country_holidays(country, subdiv=part, years=2026)
    except NotImplementedError:
        where = f"{country}-{part}" if part else country
        raise ValueError(
            f"no holidays are known for {where[:20]!r}: write a country's two letters, such as holidays:BE, "
            "or a country and region, such as holidays:US-CA"
        ) from None

    @lru_cache(maxsize=256)
    def of_year(year: int) -> frozenset[date]:
        return frozenset(holidays.country_holidays(country, subdiv=part, years=year))

    return lambda day: day in of_year(day.year)
