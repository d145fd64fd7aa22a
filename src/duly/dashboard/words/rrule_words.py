"""Recurrence rules of RFC 5545 in words."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime

from duly.dashboard.words.phrases import (
    ALL_MONTHS,
    ALWAYS_THERE,
    MONTHS,
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
    times,
    weekday_words,
)
from duly.rules.recurrence import RRule
from duly.rules.rrule_text import Parts

UNITS = {"HOURLY": "hour", "MINUTELY": "minute", "SECONDLY": "second"}
WORKDAYS = frozenset(range(5))
NAMED = (-2, -1, 1, 2, 3, 4, 5)
"""The ordinals of weekdays that have words."""


def rrule_in_words(rule: RRule) -> str | None:
    """A recurrence rule as people say it; None if that takes too many words."""
    parts = rule.text.parts
    limits = _limits(parts, len(rule.text.exdates))
    if parts.frequency in UNITS:
        plain = replace(Parts(parts.frequency), interval=parts.interval, count=parts.count, until=parts.until)
        if parts != replace(plain, week_start=parts.week_start):
            return None
        unit = UNITS[parts.frequency]
        return (f"every {unit}" if parts.interval == 1 else f"every {times(parts.interval, unit)}") + limits
    at = _times(parts, rule.start)
    if at is None and _given_times(parts):
        return None
    days = _days(parts, rule.start)
    return None if days is None else sentence(days, at, limits)


def _given_times(parts: Parts) -> bool:
    return bool(parts.by_hour or parts.by_minute or parts.by_second)


def _times(parts: Parts, start: datetime | None) -> tuple[str, bool] | None:
    """What a part leaves out, the start says."""
    if start is None and not (parts.by_hour and parts.by_minute and parts.by_second):
        return None
    hours = parts.by_hour or (start.hour if start else 0,)
    minutes = parts.by_minute or (start.minute if start else 0,)
    seconds = parts.by_second or (start.second if start else 0,)
    at = sorted(3600 * hour + 60 * minute + second for hour in hours for minute in minutes for second in seconds)
    return time_words(at)


def _days(parts: Parts, start: datetime | None) -> str | None:
    if parts.by_year_day or parts.by_week_number:
        return None
    if parts.by_position:
        return _by_position(parts)
    match parts.frequency:
        case "DAILY":
            return _daily(parts)
        case "WEEKLY":
            return _weekly(parts, start)
        case "MONTHLY":
            return _monthly(parts, start)
    return _each_year(parts, start)


def _daily(parts: Parts) -> str | None:
    if parts.by_day or parts.by_month_day:
        return None
    return _interval("day", parts.interval) + _in_months(parts)


def _weekly(parts: Parts, start: datetime | None) -> str | None:
    days = frozenset(day.weekday for day in parts.by_day)
    if not days:
        if start is None:
            return _interval("week", parts.interval) + _in_months(parts)
        days = frozenset({start.weekday()})
    if parts.interval == 1:
        return ("every day" if len(days) == 7 else each_weekday(days)) + _in_months(parts)
    return f"every {parts.interval} weeks on {weekday_words(days)}" + _in_months(parts)


def _monthly(parts: Parts, start: datetime | None) -> str | None:
    months = frozenset(parts.by_month) or ALL_MONTHS
    if parts.interval > 1 and months != ALL_MONTHS:
        return None
    if parts.by_day and parts.by_month_day:
        return None
    if parts.by_day:
        said = _weekdays_of_month(parts, months)
    elif parts.by_month_day:
        said = _month_days(parts.by_month_day, months)
    else:
        said = None if start is None else days_of_month((start.day,), months)
    if said is None or parts.interval == 1:
        return said
    return f"every {parts.interval} months {said.replace(' of each month', ' of the month')}"


def _weekdays_of_month(parts: Parts, months: frozenset[int]) -> str | None:
    if all(day.ordinal == 0 for day in parts.by_day):
        if parts.interval > 1:
            return None
        return f"{each_weekday(frozenset(day.weekday for day in parts.by_day))}{_in_months(parts)}"
    if any(day.ordinal not in NAMED for day in parts.by_day):
        return None
    named = [f"{nth(day.ordinal)} {WEEKDAYS[day.weekday]}" for day in parts.by_day]
    missing = ", where there is one," if any(day.ordinal > ALWAYS_THERE for day in parts.by_day) else ""
    return f"on the {joined(named)} {of_months(months)}{missing}"


def _month_days(days: Sequence[int], months: frozenset[int]) -> str | None:
    if all(day > 0 for day in days):
        return days_of_month(sorted(days), months)
    if tuple(days) == (-1,):
        return f"on the last day {of_months(months)}"
    if len(days) == 1 and months == ALL_MONTHS and days[0] >= -3:
        return f"on the {ordinal(-days[0])} to last day of each month"
    return None


def _each_year(parts: Parts, start: datetime | None) -> str | None:
    yearly = "every year" if parts.interval == 1 else f"every {parts.interval} years"
    if parts.by_day:
        if not parts.by_month or parts.by_month_day:
            return None
        said = _weekdays_of_month(replace(parts, interval=1), frozenset(parts.by_month))
        return f"{yearly} {said}" if said is not None and said.startswith("on ") else None
    months = parts.by_month or ((start.month,) if start is not None and not parts.by_month_day else ())
    days = parts.by_month_day or ((start.day,) if start is not None else ())
    if len(months) != 1 or not days or any(day < 1 for day in days):
        return None
    said = days_of_month(sorted(days), frozenset(months))
    return None if said is None else f"{yearly} {said}"


def _by_position(parts: Parts) -> str | None:
    """The only use of positions that has short words: the first or last weekday of a month."""
    plain = Parts("MONTHLY", by_day=parts.by_day, by_position=parts.by_position)
    whole = replace(plain, count=parts.count, until=parts.until, by_month=parts.by_month, week_start=parts.week_start)
    times_only = replace(whole, by_hour=parts.by_hour, by_minute=parts.by_minute, by_second=parts.by_second)
    if (
        parts != times_only
        or len(parts.by_position) != 1
        or parts.by_position[0] not in (1, -1)
        or any(day.ordinal for day in parts.by_day)
    ):
        return None
    if len(parts.by_hour) > 1 or len(parts.by_minute) > 1 or len(parts.by_second) > 1:
        return None  # the position would choose among the times as well
    days = frozenset(day.weekday for day in parts.by_day)
    if days != WORKDAYS:
        return None
    months = frozenset(parts.by_month) or ALL_MONTHS
    return f"on the {nth(parts.by_position[0])} weekday (Monday to Friday) {of_months(months)}"


def _interval(unit: str, many: int) -> str:
    return f"every {unit}" if many == 1 else f"every {times(many, unit)}"


def _in_months(parts: Parts) -> str:
    return f" in {month_words(frozenset(parts.by_month))}" if parts.by_month else ""


def _limits(parts: Parts, left_out: int) -> str:
    said = ""
    if parts.count is not None:
        said += f", {times(parts.count, 'time')}"
    if parts.until is not None:
        said += f", until {_date(parts.until)}"
    if left_out:
        said += f", except {times(left_out, 'date')}"
    return said


def _date(until: datetime | date) -> str:
    day = f"{until.day} {MONTHS[until.month - 1]} {until.year}"
    if not isinstance(until, datetime):
        return day
    return f"{day} {until:%H:%M}" + (" UTC" if until.tzinfo else "")
