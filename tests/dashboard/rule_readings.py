"""Reads rules in words back: an independent reader of the phrases, against which the words are proved. It knows the
phrases of times and days, and answers which local minutes they mean."""

import calendar
import re
from collections.abc import Callable
from datetime import date, timedelta

WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
NTH = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
DAY_MIN = 1440

Days = Callable[[date], bool]


def read(words: str) -> tuple[Days, list[int]] | None:
    """The days, and the minutes of a day, that a sentence means; None if it is no sentence of this reader."""
    if (
        found := re.fullmatch(r"(.+?),? at (\d\d:\d\d(?:, \d\d:\d\d)*(?: and \d\d:\d\d)?)", words)
    ) and not words.startswith("at "):
        days = read_days(found[1])
        return None if days is None else (days, [minute(one) for one in re.findall(r"\d\d:\d\d", found[2])])
    times, _, rest = words.partition(", ")
    often = read_often(times)
    days = read_days(rest) if rest else lambda _: True
    return None if often is None or days is None else (days, often)


def minute(clock: str) -> int:
    return int(clock[:2]) * 60 + int(clock[3:])


def read_often(words: str) -> list[int] | None:
    if found := re.fullmatch(r"at (\d+) minutes? past every hour", words):
        return list(range(int(found[1]), DAY_MIN, 60))
    found = re.fullmatch(r"every (?:(\d+) )?(minute|hour)s?(?: from (\d\d:\d\d)(?: to (\d\d:\d\d))?)?", words)
    if found is None:
        return None
    step = int(found[1] or 1) * (60 if found[2] == "hour" else 1)
    first = minute(found[3]) if found[3] else 0
    last = minute(found[4]) if found[4] else DAY_MIN - 1
    return list(range(first, last + 1, step))


def read_days(words: str) -> Days | None:
    words = words.removesuffix(",")
    if words == "every day":
        return lambda _: True
    if found := re.fullmatch(r"every day in (.+)", words):
        months = numbers(found[1], MONTHS)
        return None if months is None else lambda day: day.month - 1 in (months or ())
    by_number, between, by_weekday = words.partition(", and every ")
    if not between:
        by_number, between, by_weekday = words.partition(", and ")
    if between and (both := read_days(by_number)) and (other := read_days(_with_every(by_weekday))):
        return lambda day: both(day) or other(day)
    if found := re.fullmatch(r"(?:every )?([A-Z][a-z]+day.*?)(?: in (.+))?", words):
        names, months = numbers(found[1], WEEKDAYS), numbers(found[2] or "January to December", MONTHS)
        return (
            None if names is None or months is None else lambda day: day.weekday() in names and day.month - 1 in months
        )
    return read_days_of_months(words)


def _with_every(words: str) -> str:
    return words if words.startswith("on ") else words.removeprefix("every ")


def read_days_of_months(words: str) -> Days | None:
    words = (
        words.removesuffix(", where there is one")
        .removesuffix(" in leap years")
        .removesuffix(" (29 in leap years only)")
    )
    if found := re.fullmatch(r"on ([\d, and]+) ([A-Z][a-z]+)", words):
        dates, month = [int(one) for one in re.findall(r"\d+", found[1])], MONTHS.index(found[2]) + 1
        return lambda day: day.month == month and day.day in dates
    found = re.fullmatch(r"on the (.+) of (each month|[A-Z].+)", words)
    if found is None:
        return None
    months = set(range(12)) if found[2] == "each month" else numbers(found[2], MONTHS)
    if months is None:
        return None
    what = found[1]
    if re.fullmatch(r"[\d\w, ]*\d(st|nd|rd|th)", what) and "nearest" not in what:
        dates = [int(one) for one in re.findall(r"\d+", what)]
        return lambda day: day.month - 1 in months and day.day in dates
    return _special(what, months)


def _special(what: str, months: set[int]) -> Days | None:
    def last(day: date) -> int:
        return calendar.monthrange(day.year, day.month)[1]

    if what == "last day":
        return lambda day: day.month - 1 in months and day.day == last(day)
    if what == "last weekday (Monday to Friday)":
        return lambda day: day.month - 1 in months and day == max(one for one in _month_of(day) if one.weekday() < 5)
    if found := re.fullmatch(r"(\w+) (\w+day)", what):
        weekday = WEEKDAYS.index(found[2])

        def right(day: date) -> bool:
            all_of_them = [one for one in _month_of(day) if one.weekday() == weekday]
            wanted = -1 if found[1] == "last" else NTH[found[1]] - 1
            return day.month - 1 in months and wanted < len(all_of_them) and all_of_them[wanted] == day

        return right
    return None


def _month_of(day: date) -> list[date]:
    first = day.replace(day=1)
    return [first + timedelta(days=number) for number in range(calendar.monthrange(day.year, day.month)[1])]


def numbers(words: str, names: list[str]) -> set[int] | None:
    """``Monday to Wednesday and Friday`` as numbers."""
    found: set[int] = set()
    for part in re.split(r", | and ", words):
        first, ranged, last = part.partition(" to ")
        if first not in names or (ranged and last not in names):
            return None
        found |= set(range(names.index(first), names.index(last if ranged else first) + 1))
    return found
