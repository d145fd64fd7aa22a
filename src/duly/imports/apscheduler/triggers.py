"""The triggers of APScheduler 3, from the tree of a pickle."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from duly.imports.apscheduler.values import call_of, moment, span, timezone, told
from duly.imports.found import Unfit

FIELDS = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
"""The fields of a cron trigger, in APScheduler's order."""

MOST_TRIGGERS = 100
"""Triggers that one trigger may combine."""

PLACES = ("1st", "2nd", "3rd", "4th", "5th", "last")
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Steps(NamedTuple):
    """The expressions ``*``, ``*/5``, ``7``, ``1-5`` and ``1-5/2``; without a first value, any."""

    first: int | None = None
    last: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        values = (
            "*" if self.first is None else str(self.first) if self.last == self.first else f"{self.first}-{self.last}"
        )
        if self.first is not None and self.last is None:
            values = str(self.first)
        return values if self.step is None else f"{values}/{self.step}"


class WeekdayPlace(NamedTuple):
    """The expressions ``2nd fri`` and ``last sun``; Monday is 0."""

    place: int
    weekday: int

    def __str__(self) -> str:
        return f"{PLACES[self.place]} {WEEKDAYS[self.weekday]}"


class LastDay(NamedTuple):
    """The expression ``last``: the last day of the month."""

    def __str__(self) -> str:
        return "last"


Expression = Steps | WeekdayPlace | LastDay


@dataclass(frozen=True)
class Cron:
    fields: Mapping[str, tuple[Expression, ...]]
    timezone: str
    start: datetime | None
    end: datetime | None
    jitter: float | None


@dataclass(frozen=True)
class Interval:
    every: timedelta
    timezone: str
    start: datetime
    end: datetime | None
    jitter: float | None


@dataclass(frozen=True)
class Date:
    at: datetime


@dataclass(frozen=True)
class Combined:
    """Several triggers, joined by ``and`` or ``or``."""

    by: str
    triggers: tuple["Trigger", ...]
    jitter: float | None


Trigger = Cron | Interval | Date | Combined

TRIGGERS = {
    "apscheduler.triggers.cron": "CronTrigger",
    "apscheduler.triggers.interval": "IntervalTrigger",
    "apscheduler.triggers.date": "DateTrigger",
    "apscheduler.triggers.combining": "AndTrigger OrTrigger",
}
NAMES = {f"{module}.{name}": name for module, names in TRIGGERS.items() for name in names.split()}
"""The triggers that are read, by their full names."""


def read_trigger(node: Any) -> Trigger:
    """The trigger that a node of the tree describes; raises Unfit for any other object, by its name."""
    call = call_of(node, "its trigger")
    if call.args:
        raise Unfit(f"its trigger {call.name:.100} is made with arguments")
    return _trigger(call.name, call.state, MOST_TRIGGERS)


def _trigger(name: str, state: Any, most: int) -> Trigger:
    if name not in NAMES:
        raise Unfit(f"its trigger is a {name:.100}, which is not read: only cron, interval, date, and, or are")
    if isinstance(state, tuple) and len(state) == 2:  # as APScheduler 3.0 wrote it: the values of slots
        state = state[1]
    if not isinstance(state, dict):
        raise Unfit(f"its trigger {NAMES[name]} has no state")
    match NAMES[name]:
        case "CronTrigger":
            return _cron(state)
        case "IntervalTrigger":
            return _interval(state)
        case "DateTrigger":
            if (at := moment(state.get("run_date"), "its run_date")) is None:
                raise Unfit("its trigger has no run_date")
            return Date(at)
        case kind:
            return _combined(kind.removesuffix("Trigger").lower(), state, most)


def _cron(state: Mapping[str, Any]) -> Cron:
    fields = state.get("fields")
    if not isinstance(fields, list):
        raise Unfit("its cron trigger has no fields")
    read = dict(_field(node) for node in fields[: len(FIELDS) + 1])
    if tuple(read) != FIELDS:
        raise Unfit("its cron trigger does not have the fields of APScheduler 3")
    start, end = moment(state.get("start_date"), "its start_date"), moment(state.get("end_date"), "its end_date")
    return Cron(read, timezone(state.get("timezone"), "its trigger"), start, end, _jitter(state))


def _field(node: Any) -> tuple[str, tuple[Expression, ...]]:
    call = call_of(node, "a field of its cron trigger")
    module, _, _ = call.name.rpartition(".")
    name = call.state.get("name") if isinstance(call.state, dict) else None
    if module != "apscheduler.triggers.cron.fields" or call.args or name not in FIELDS:
        raise Unfit(f"a field of its cron trigger is a {call.name:.100}")
    expressions = call.state.get("expressions")
    if not isinstance(expressions, list) or not 1 <= len(expressions) <= MOST_TRIGGERS:
        raise Unfit(f"the {name} of its cron trigger has no list of expressions")
    return name, tuple(_expression(each, name) for each in expressions)


def _expression(node: Any, field: str) -> Expression:
    call = call_of(node, f"the {field} of its cron trigger")
    module, _, kind = call.name.rpartition(".")
    state = call.state if isinstance(call.state, dict) else {}
    if module != "apscheduler.triggers.cron.expressions" or call.args:
        raise Unfit(f"the {field} of its cron trigger is a {call.name:.100}")
    first, last, step = (_number(state.get(name), field) for name in ("first", "last", "step"))
    match kind:
        case "AllExpression":
            return Steps(None, None, step)
        case "RangeExpression" | "MonthRangeExpression" | "WeekdayRangeExpression" if first is not None:
            return Steps(first, last, step)
        case "WeekdayPositionExpression":
            place, weekday = _number(state.get("option_num"), field), _number(state.get("weekday"), field)
            if place is not None and weekday is not None and place < len(PLACES) and weekday < len(WEEKDAYS):
                return WeekdayPlace(place, weekday)
        case "LastDayOfMonthExpression":
            return LastDay()
    raise Unfit(f"the {field} of its cron trigger cannot be read: {kind:.60}")


def _number(value: Any, field: str) -> int | None:
    if value is None or (type(value) is int and 0 <= value <= 9999):
        return value
    raise Unfit(f"the {field} of its cron trigger has {told(value)} where a number should be")


def _interval(state: Mapping[str, Any]) -> Interval:
    start, end = moment(state.get("start_date"), "its start_date"), moment(state.get("end_date"), "its end_date")
    if start is None:
        raise Unfit("its interval has no start_date")
    zone = timezone(state.get("timezone"), "its trigger")
    return Interval(span(state.get("interval"), "its interval"), zone, start, end, _jitter(state))


def _combined(by: str, state: Mapping[str, Any], most: int) -> Combined:
    triggers = state.get("triggers")
    if not isinstance(triggers, list) or not 1 <= len(triggers) <= most:
        raise Unfit(f"its trigger {by!r} has no list of 1 to {most} triggers")
    read = []
    for each in triggers:
        if not (isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str)):
            raise Unfit(f"a trigger in its trigger {by!r} cannot be read")
        read.append(_trigger(each[0].replace(":", ".", 1), each[1], (most - 1) // len(triggers)))
    return Combined(by, tuple(read), _jitter(state))


def _jitter(state: Mapping[str, Any]) -> float | None:
    jitter = state.get("jitter")
    if jitter is None or (type(jitter) in (int, float) and 0 <= jitter <= 86400):
        return jitter or None
    raise Unfit(
        f"its jitter {jitter if type(jitter) in (int, float) else told(jitter)} is no number of seconds up to a day"
    )
