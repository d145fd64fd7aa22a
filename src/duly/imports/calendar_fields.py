"""Fields of a calendar that must all match, as Celery and APScheduler have them, written as a rule of Duly.

In cron, a restricted day of month and a restricted day of week are alternatives. Where both must match, the rule is a
recurrence rule instead.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from duly.imports.found import Unfit

WEEKDAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
"""The weekdays of recurrence rules, in cron's order."""

LEAST_OF_A_RANGE = 3
"""Consecutive values that are written as a range; fewer are listed."""


class Field(NamedTuple):
    """The values that match, and whether the field was written with a star. A star in the minute or hour keeps its
    interval in elapsed time when clocks change; listed values are times of day."""

    values: frozenset[int]
    star: bool = False


LOW_HIGH: Mapping[str, tuple[int, int]] = {
    "seconds": (0, 59),
    "minutes": (0, 59),
    "hours": (0, 23),
    "days": (1, 31),
    "months": (1, 12),
    "weekdays": (0, 6),
    "weeks": (1, 53),
}


def every(name: str) -> Field:
    low, high = LOW_HIGH[name]
    return Field(frozenset(range(low, high + 1)), star=True)


class CalendarFields(NamedTuple):
    """Fields that must all match. Weekdays count from Sunday, 0; weeks are those of ISO 8601."""

    minutes: Field
    hours: Field
    days: Field = every("days")
    months: Field = every("months")
    weekdays: Field = every("weekdays")
    seconds: Field = Field(frozenset({0}))
    weeks: Field = every("weeks")
    last_day: bool = False  # the last day of the month matches as well
    ordinals: frozenset[tuple[int, int]] = frozenset()  # (1, 2) is the second Monday; -1 counts from the end

    @property
    def spacing(self) -> bool:
        """Whether the rule keeps its interval in elapsed time when clocks change."""
        return self.minutes.star or self.hours.star


def rule_of(fields: CalendarFields, count: int | None = None) -> dict[str, Any]:
    """The rule in JSON; with *count*, a rule that ends after so many occurrences. Raises Unfit if no rule says the
    same."""
    for name in LOW_HIGH:
        if not getattr(fields, name).values and not (name == "days" and (fields.last_day or fields.ordinals)):
            raise Unfit(f"no value of its {name} matches: it never runs")
    if not _all("weekdays", fields) and fields.ordinals:
        fields = _within_weekdays(fields)
    if _all("weeks", fields) and count is None and (cron := _cron(fields)) is not None:
        return {"cron": cron}
    return {"rrule": _rrule(fields, count)}


def _all(name: str, fields: CalendarFields) -> bool:
    return bool(getattr(fields, name).values == every(name).values)


def _within_weekdays(fields: CalendarFields) -> CalendarFields:
    """The fields with the weekdays taken into the ordinals: the second Monday, if Mondays match."""
    if fields.days.values or fields.last_day:
        raise Unfit("its day names weekdays by their place in the month and other days too, and day_of_week is given")
    kept = frozenset((day, place) for day, place in fields.ordinals if day in fields.weekdays.values)
    if not kept:
        raise Unfit("no weekday of its day matches its day_of_week: it never runs")
    return fields._replace(ordinals=kept, weekdays=every("weekdays"))


def _cron(fields: CalendarFields) -> str | None:
    """The cron expression; None if the day of month and the weekday must both match, which cron cannot say."""
    days, weekdays = _written("days", fields.days), _written("weekdays", fields.weekdays)
    if fields.last_day or fields.ordinals:
        if not _all("weekdays", fields):
            return None
        if days != "*":
            days = ",".join(filter(None, (days, "L" if fields.last_day else ""))) or "*"
            weekdays = ",".join(sorted(map(_ordinal, fields.ordinals))) or "*"
    elif not (days.startswith("*") or weekdays.startswith("*")):
        return None
    seconds = "" if fields.seconds.values == {0} else f"{_written('seconds', fields.seconds)} "
    times = " ".join(_written(name, getattr(fields, name)) for name in ("minutes", "hours"))
    return f"{seconds}{times} {days} {_written('months', fields.months)} {weekdays}"


def _ordinal(ordinal: tuple[int, int]) -> str:
    weekday, place = ordinal
    return f"{weekday}L" if place < 0 else f"{weekday}#{place}"


def _written(name: str, field: Field) -> str:
    low, high = LOW_HIGH[name]
    values = sorted(field.values)
    if len(values) == high - low + 1:
        return "*"
    if field.star and len(values) > 1 and values[0] == low:
        step = values[1] - low
        if values == list(range(low, high + 1, step)):
            return f"*/{step}"
    return ",".join(_ranges(values))


def _ranges(values: Iterable[int]) -> Iterable[str]:
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    for run in runs:
        if len(run) >= LEAST_OF_A_RANGE:
            yield f"{run[0]}-{run[-1]}"
        else:
            yield from map(str, run)


def _rrule(fields: CalendarFields, count: int | None) -> str:
    if fields.ordinals:
        raise Unfit("a weekday by its place in the month, together with weeks, has no rule in Duly")
    parts: dict[str, Iterable[Any]] = {}
    if not _all("months", fields):
        parts["BYMONTH"] = sorted(fields.months.values)
    if not _all("weeks", fields):
        if fields.spacing:
            raise Unfit("weeks together with every minute or every hour have no rule in Duly")
        parts["BYWEEKNO"] = sorted(fields.weeks.values)
    if not _all("days", fields):
        parts["BYMONTHDAY"] = [*sorted(fields.days.values), *([-1] if fields.last_day else [])]
    if not _all("weekdays", fields) or "BYWEEKNO" in parts:
        parts["BYDAY"] = [WEEKDAYS[day] for day in sorted(fields.weekdays.values)]
    frequency = "YEARLY" if "BYWEEKNO" in parts else "MINUTELY" if fields.spacing else "DAILY"
    for part, name in (("BYHOUR", "hours"), ("BYMINUTE", "minutes")):
        if frequency != "MINUTELY" or not _all(name, fields):
            parts[part] = sorted(getattr(fields, name).values)
    parts["BYSECOND"] = sorted(fields.seconds.values)
    written = [f"{part}={','.join(map(str, values))}" for part, values in parts.items()]
    return ";".join([f"FREQ={frequency}", *written, *([] if count is None else [f"COUNT={count}"])])
