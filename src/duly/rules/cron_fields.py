"""Parses the fields of a cron expression."""

import re
from typing import NamedTuple

from duly.errors import Invalid, Problem

MOST_CHARACTERS = 1000

ALIASES = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}
EXAMPLE = "such as 0 9 * * MON-FRI (minute, hour, day of month, month, day of week), or @daily"


class Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # of the values, beginning with *low*


SECONDS = Field("second", 0, 59)
MINUTES = Field("minute", 0, 59)
HOURS = Field("hour", 0, 23)
DAYS = Field("day of month", 1, 31)
MONTHS = Field("month", 1, 12, tuple("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()))
WEEKDAYS = Field("day of week", 0, 7, tuple("SUN MON TUE WED THU FRI SAT".split()))


class Days(NamedTuple):
    """The parsed values of a field. Only the two day fields use more than *plain*."""

    plain: tuple[int, ...]
    every: bool = False  # the field begins with a star or is a question mark
    last: bool = False  # L: the month's last day
    last_workday: bool = False  # LW
    workdays: tuple[int, ...] = ()  # 15W: the workday nearest to the 15th
    nths: tuple[tuple[int, int], ...] = ()  # FRI#2: the second Friday
    lasts: tuple[int, ...] = ()  # 5L: the last Friday


def normal(text: object) -> str:
    """The normal form of an expression: aliases expanded, upper case, single spaces."""
    if not isinstance(text, str):
        raise _bad(f"expected text, not {type(text).__name__}: write one {EXAMPLE}")
    if len(text) > MOST_CHARACTERS:
        raise _bad(f"has {len(text):,} characters; at most {MOST_CHARACTERS:,}")
    upper = " ".join(text.upper().split())
    if upper == "@REBOOT":
        raise _bad("@reboot is not a time: run the command when your program starts")
    if upper.startswith("@EVERY"):
        raise _bad('@every is not cron: use the rule {"every": "15m"}')
    if upper.startswith("@") and upper not in ALIASES:
        raise _bad(f"{text.strip()[:30]!r} is unknown; known: {', '.join(ALIASES).lower()}")
    return ALIASES.get(upper, upper)


def split_fields(text: object) -> tuple[str, ...]:
    """The six fields of an expression; if it has no seconds, the first field is 0."""
    fields = normal(text).split(" ")
    if len(fields) == 5:
        return ("0", *fields)
    if len(fields) == 6:
        return tuple(fields)
    count = len(fields) if fields != [""] else 0
    raise _bad(f"must have five fields, or six with seconds first, but has {count}: write one {EXAMPLE}")


def parse_field(field: Field, text: str, problems: list[Problem]) -> Days:
    """Parses a field; adds its problem, if there is one, to *problems*."""
    try:
        return _parse(field, text)
    except ValueError as error:
        problems.append(Problem("rule.cron", f"{field.name} {text[:60]!r}: {error}"))
        return Days(())


def _parse(field: Field, text: str) -> Days:
    if text == "?":
        if field not in (DAYS, WEEKDAYS):
            raise ValueError("a question mark is only allowed in the two day fields: write *")
        text = "*"
    parts = [_item(field, item) for item in text.split(",")]
    plain = {value for part in parts for value in part.plain}
    return Days(
        tuple(sorted({value % 7 for value in plain} if field is WEEKDAYS else plain)),
        every=text.startswith("*"),
        last=any(part.last for part in parts),
        last_workday=any(part.last_workday for part in parts),
        workdays=tuple(sorted({day for part in parts for day in part.workdays})),
        nths=tuple(sorted({nth for part in parts for nth in part.nths})),
        lasts=tuple(sorted({day for part in parts for day in part.lasts})),
    )


def _item(field: Field, item: str) -> Days:
    if field is DAYS:
        if item == "L":
            return Days((), last=True)
        if item in ("LW", "WL"):
            return Days((), last_workday=True)
        if match := re.fullmatch(r"([0-9]{1,2})W|W([0-9]{1,2})", item):
            return Days((), workdays=(_value(field, match[1] or match[2]),))
    elif field is WEEKDAYS:
        if item == "L":
            raise ValueError("L needs a weekday: write 5L for the last Friday, or SAT for every Saturday")
        if match := re.fullmatch(r"([0-9A-Z]{1,3})#([0-9]{1,2})", item):
            nth = int(match[2])
            if not 1 <= nth <= 5:
                raise ValueError(f"no month has a weekday {nth} times: write #1 to #5")
            return Days((), nths=((_value(field, match[1]) % 7, nth),))
        if match := re.fullmatch(r"([0-9]|SUN|MON|TUE|WED|THU|FRI|SAT)L", item):
            return Days((), lasts=(_value(field, match[1]) % 7,))
    return Days(tuple(_values(field, item)))


def _values(field: Field, item: str) -> set[int]:
    """The values of an item such as ``*``, ``7`` or ``1-5``, each with or without a step."""
    span, stepped, step_text = item.partition("/")
    step = 1
    if stepped:
        if not re.fullmatch(r"[0-9]{1,4}", step_text) or int(step_text) < 1:
            raise ValueError(f"the step {step_text[:20]!r} is not a whole number, at least 1")
        step = int(step_text)
        if step > field.high - field.low + 1:
            raise ValueError(f"the step {step} is longer than the field, {field.low} to {field.high}")
    if span == "*":
        high = 6 if field is WEEKDAYS else field.high
        return set(range(field.low, high + 1, step))
    first, ranged, last = span.partition("-")
    low = _value(field, first)
    high = _value(field, last) if ranged else field.high if stepped else low
    if field is WEEKDAYS and not ranged and stepped:
        high = 6
    if field is WEEKDAYS and ranged and high == 0 < low:
        high = 7  # FRI-SUN
    if low > high:
        raise ValueError(f"{span} begins after its end: write two ranges, {first}-{field.high},{field.low}-{last}")
    return set(range(low, high + 1, step))


def _value(field: Field, text: str) -> int:
    if text in field.names:
        return field.low + field.names.index(text)
    if not re.fullmatch(r"[0-9]{1,4}", text):
        allowed = f"{field.low} to {field.high}" + (f" or {field.names[0]} to {field.names[-1]}" if field.names else "")
        if not text:
            raise ValueError(f"a value is missing: {allowed}")
        raise ValueError(f"{text[:20]!r} is not {allowed}")
    value = int(text)
    if not field.low <= value <= field.high:
        raise ValueError(f"{value} is out of range: {field.low} to {field.high}")
    return value


def _bad(message: str) -> Invalid:
    return Invalid([Problem("rule.cron", message)])
