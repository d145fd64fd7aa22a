"""The triggers of APScheduler 3 as rules of Duly."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from duly.imports.apscheduler.triggers import (
    FIELDS,
    Combined,
    Cron,
    Date,
    Expression,
    Interval,
    LastDay,
    Steps,
    Trigger,
    WeekdayPlace,
)
from duly.imports.calendar_fields import LOW_HIGH, CalendarFields, Field, rule_of
from duly.imports.found import Unfit
from duly.rules.recurrence import DEFAULT_ZONE, Dst, OnceLocal
from duly.rules.timetable import LONG_AGO
from duly.values.durations import format_duration
from duly.values.instants import write_instant

OURS = {
    "month": "months",
    "day": "days",
    "week": "weeks",
    "day_of_week": "weekdays",
    "hour": "hours",
    "minute": "minutes",
    "second": "seconds",
}
"""The names of APScheduler's fields here."""

FIRST_YEAR, LAST_YEAR = 1970, 9999
"""The years that APScheduler's cron knows."""

MICROSECOND = timedelta(microseconds=1)

CLOCK_NOISE = timedelta(milliseconds=1)
"""APScheduler adds intervals to floating-point seconds, so that its runs drift by microseconds."""


class Times(NamedTuple):
    """The part of a schedule that says when it fires, and notes on what does not carry over."""

    fields: dict[str, Any]
    notes: tuple[str, ...] = ()


def times_of(trigger: Trigger, next_run: datetime | None) -> Times:
    """The times of a trigger; raises Unfit if no rule of Duly has the same. *next_run* is the job's own next run."""
    match trigger:
        case Date(at):
            return Times({"rule": {"at": write_instant(next_run or at)}})
        case Interval():
            return _interval(trigger, next_run)
        case Cron():
            return _cron(trigger)
        case Combined(triggers=[single]):
            times = times_of(single, next_run)
            return times._replace(fields={**times.fields, **_jitter(trigger.jitter)})
        case Combined():
            return _cron(_joined(trigger))


def _interval(trigger: Interval, next_run: datetime | None) -> Times:
    """The interval, counted from its start; from the next run if that was moved, because all later ones follow it."""
    start = trigger.start
    if next_run is not None:
        off = (next_run - start) % trigger.every
        if CLOCK_NOISE < off < trigger.every - CLOCK_NOISE:
            start = next_run
    rule = {"every": format_duration(trigger.every), "start": write_instant(start)}
    return Times({"rule": rule, **_ends(None, trigger.end), **_jitter(trigger.jitter)})


def _cron(trigger: Cron) -> Times:
    values = {theirs: _values(theirs, trigger.fields[theirs]) for theirs in FIELDS[1:]}
    days = trigger.fields["day"]
    ordinals = {
        ((each.weekday + 1) % 7, -1 if each.place == 5 else each.place + 1)
        for each in days
        if isinstance(each, WeekdayPlace)
    }
    fields = CalendarFields(
        **{OURS[theirs]: field for theirs, field in values.items()},
        last_day=any(isinstance(each, LastDay) for each in days),
        ordinals=frozenset(ordinals),
    )
    rule = rule_of(fields)
    first, last = _years(trigger)
    starts = [moment for moment in (trigger.start, first) if moment is not None]
    ends = [moment for moment in (trigger.end, last) if moment is not None]
    bounds = _ends(max(starts, default=None), min(ends, default=None))
    local = trigger.timezone != DEFAULT_ZONE and "cron" in rule and not fields.spacing
    dst = {"dst": {"gap": "shift"}} if local else {}
    return Times({"rule": rule, "timezone": trigger.timezone, **dst, **bounds, **_jitter(trigger.jitter)})


def _values(name: str, expressions: Iterable[Expression]) -> Field:
    low, high = LOW_HIGH[OURS[name]]
    if name == "day_of_week":
        low, high = 0, 6
    values: set[int] = set()
    star = False
    for each in expressions:
        if isinstance(each, Steps):
            values |= set(_span(each, low, high))
            star |= each.first is None
    if name == "day_of_week":  # theirs count from Monday, ours from Sunday
        values = {(value + 1) % 7 for value in values}
    return Field(frozenset(values), star)


def _span(steps: Steps, low: int, high: int) -> range:
    first = low if steps.first is None else max(steps.first, low)
    last = high if steps.last is None else min(steps.last, high)
    return range(first, last + 1, steps.step or 1)


def _years(trigger: Cron) -> tuple[datetime | None, datetime | None]:
    """The first instant and the last one of the years in which a trigger fires."""
    values = {
        value
        for each in trigger.fields["year"]
        if isinstance(each, Steps)
        for value in _span(each, FIRST_YEAR, LAST_YEAR)
    }
    if len(values) == LAST_YEAR - FIRST_YEAR + 1:
        return None, None
    if not values:
        raise Unfit("no year matches: it never runs")
    if len(values) <= max(values) - min(values):
        raise Unfit(
            f"its year {','.join(map(str, trigger.fields['year']))} leaves years out, which no rule in Duly does"
        )
    begin, end = _new_year(min(values), trigger.timezone), _new_year(max(values) + 1, trigger.timezone)
    return begin, None if end is None else end - MICROSECOND


def _new_year(year: int, timezone: str) -> datetime | None:
    if not FIRST_YEAR < year < LAST_YEAR:
        return None
    found = OnceLocal(datetime(year, 1, 1), timezone=timezone, dst=Dst("after", "first")).after(LONG_AGO)  # noqa: DTZ001
    return None if found is None else found.at


def _ends(start: datetime | None, end: datetime | None) -> dict[str, str]:
    return {
        **({} if start is None else {"start": write_instant(start)}),
        **({} if end is None else {"end": write_instant(end)}),
    }


def _jitter(jitter: float | None) -> dict[str, str]:
    return {"jitter": format_duration(timedelta(seconds=jitter))} if jitter else {}


# -- combined triggers


def _joined(trigger: Combined) -> Cron:
    """Several cron triggers as one: joined by ``or``, if they differ in one field alone; joined by ``and``, if each
    field is restricted by one of them at most."""
    crons = [each for each in trigger.triggers if isinstance(each, Cron)]
    if len(crons) < len(trigger.triggers):
        raise Unfit(f"its trigger combines others than cron by {trigger.by!r}: make a job of each of them")
    first, *others = crons
    shared = {(each.timezone, each.start, each.end, each.jitter) for each in crons}
    if len(shared) > 1:
        raise Unfit(
            f"its triggers, combined by {trigger.by!r}, differ in zone, dates or jitter: make a job of each of them"
        )
    fields = dict(first.fields)
    differing = [name for name in FIELDS if any(each.fields[name] != first.fields[name] for each in others)]
    if trigger.by == "or" and len(differing) == 1:
        [name] = differing
        fields[name] = tuple(dict.fromkeys(one for each in crons for one in each.fields[name]))
    elif trigger.by == "and" and all(_restricted(crons, name) <= 1 for name in differing):
        for name in differing:
            fields[name] = next(each.fields[name] for each in crons if each.fields[name] != ANY)
    elif differing:
        raise Unfit(
            f"its triggers, combined by {trigger.by!r}, differ in {', '.join(differing)}: make a job of each of them"
        )
    return Cron(fields, first.timezone, first.start, first.end, trigger.jitter or first.jitter)


ANY = (Steps(),)


def _restricted(crons: Iterable[Cron], name: str) -> int:
    return len({each.fields[name] for each in crons if each.fields[name] != ANY})
