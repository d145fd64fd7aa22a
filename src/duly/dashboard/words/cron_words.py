"""Cron expressions in words."""

from duly.dashboard.words.phrases import (
    ALL_MONTHS,
    ALL_WEEKDAYS,
    ALWAYS_THERE,
    LAST_DAY_OF_ALL,
    WEEKDAYS,
    days_of_month,
    each_weekday,
    joined,
    month_words,
    nth,
    of_months,
    ordinal,
    sentence,
    time_words,
)
from duly.rules.cron import Expression, parse_cron
from duly.rules.cron_fields import Days

MOST_TIMES = 1440
"""Times of a day that are looked at: one for each minute. Expressions with more of them are told by their seconds."""

EVERY_DAY = frozenset(range(1, 32))


def cron_in_words(expression: str) -> str | None:
    """A cron expression as people say it; None if that takes too many words."""
    parsed = parse_cron(expression)
    at = _times(parsed)
    if at is None:
        return None
    days = _days(parsed)
    return None if days is None else sentence(days or None, at)


def _times(parsed: Expression) -> tuple[str, bool] | None:
    if len(parsed.hours) * len(parsed.minutes) * len(parsed.seconds) <= MOST_TIMES:
        at = [3600 * hour + 60 * minute + second for hour in parsed.hours for minute in parsed.minutes
              for second in parsed.seconds]  # fmt: skip
        return time_words(at)
    if len(parsed.hours) == 24 and len(parsed.minutes) == 60:
        seconds = parsed.seconds
        step = 60 // len(seconds)
        if seconds == tuple(range(0, 60, step)) and 60 % len(seconds) == 0:
            return ("every second" if step == 1 else f"every {step} seconds"), True
    return None


def _days(parsed: Expression) -> str | None:
    """The days; empty for every day, None if they take too many words. A cron expression whose two day fields are both
    restricted fires on the days of either; if one begins with a star, only on the days of both."""
    months = frozenset(parsed.months)
    every_day, every_weekday = _is_all(parsed.days, EVERY_DAY), _is_all(parsed.weekdays, frozenset(range(7)))
    either = not parsed.days.every and not parsed.weekdays.every
    if (every_day and every_weekday) or (either and (every_day or every_weekday)):
        return "" if months == ALL_MONTHS else f"every day in {month_words(months)}"
    if every_weekday:
        return _of_the_month(parsed.days, months)
    if every_day:
        return _of_the_week(parsed.weekdays, months)
    if not either:
        return None
    by_number, by_weekday = _of_the_month(parsed.days, months), _of_the_week(parsed.weekdays, months)
    return (
        None
        if by_number is None or by_weekday is None
        else f"{by_number.removesuffix(',')}, and {by_weekday.removesuffix(',')},"
    )


def _is_all(days: Days, all_of_them: frozenset[int]) -> bool:
    return frozenset(days.plain) >= all_of_them


def _of_the_month(days: Days, months: frozenset[int]) -> str | None:
    plain, special = days.plain, list[str]()
    if days.last:
        special.append("last day")
    if days.last_workday:
        special.append("last weekday (Monday to Friday)")
    special += [f"weekday (Monday to Friday) nearest to the {ordinal(day)}" for day in days.workdays]
    if special and plain:
        return None
    if not special:
        return days_of_month(plain, months)
    missing = ", where there is one," if any(day > LAST_DAY_OF_ALL for day in days.workdays) else ""
    return f"on the {joined(special)} {of_months(months)}{missing}"


def _of_the_week(days: Days, months: frozenset[int]) -> str | None:
    plain = frozenset((day - 1) % 7 for day in days.plain)  # cron counts from Sunday, these words from Monday
    special = [f"{nth(number)} {WEEKDAYS[(day - 1) % 7]}" for day, number in days.nths]
    special += [f"last {WEEKDAYS[(day - 1) % 7]}" for day in days.lasts]
    if special and plain:
        return None
    if not special:
        months_told = "" if months == ALL_MONTHS else f" in {month_words(months)}"
        if plain == ALL_WEEKDAYS:
            return f"every day{months_told}"
        return f"{each_weekday(plain)}{months_told}"
    missing = ", where there is one," if any(number > ALWAYS_THERE for _, number in days.nths) else ""
    return f"on the {joined(special)} {of_months(months)}{missing}"
