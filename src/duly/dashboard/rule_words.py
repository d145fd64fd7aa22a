"""Rules in words, as pages and lists show them. Where words would be long, the rule is shown as it is written."""

from datetime import datetime, time, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from duly.dashboard.words.cron_words import cron_in_words
from duly.dashboard.words.phrases import MONTHS, clock, joined, times
from duly.dashboard.words.rrule_words import rrule_in_words
from duly.records.schedule import Schedule
from duly.rules.notation import parse_rule
from duly.rules.recurrence import Cron, Every, Once, OnceLocal, RRule, Rule, Yearly
from duly.rules.yearly import FIRST_YEAR
from duly.rules.zones import to_wall

LONGEST = 100
"""Characters of a rule in words, at most: longer ones are harder to read than the rule."""

UNITS = ((timedelta(hours=1), "hour"), (timedelta(minutes=1), "minute"), (timedelta(seconds=1), "second"))

WHOLE_DAY = timedelta(days=1)

OTHER_YEARS = {
    "feb28": " (in other years on 28 February)",
    "mar1": " (in other years on 1 March)",
    "skip": ", in leap years only",
}


def rule_in_words(schedule: Schedule) -> str:
    """A schedule's rule as people say it."""
    return words_of(schedule.rule_json, schedule.timezone)


@lru_cache(maxsize=1024)
def words_of(rule_json: str, timezone: str | None = None) -> str:
    """A stored rule as people say it. One that cannot be read, because somebody has edited the row, is shown as it
    is."""
    try:
        written = msgspec.json.decode(rule_json)
        rule = parse_rule(written, timezone)
    except Exception:  # the page has to be shown; `halted` has the error
        return rule_json
    said = in_words(rule)
    return said if said is not None and len(said) <= LONGEST else as_written(written)


def in_words(rule: Rule) -> str | None:
    """A rule as people say it, without its zone; None if that takes too many words."""
    match rule:
        case Cron():
            return cron_in_words(rule.expression)
        case Every():
            return _every(rule.interval)
        case RRule():
            return rrule_in_words(rule)
        case Yearly():
            return _yearly(rule)
        case Once():
            zone = rule.timezone or "UTC"
            return f"once, on {_moment(to_wall(rule.instant, zone))}"
        case OnceLocal():
            return f"once, on {_moment(rule.wall)}"
    return None


def as_written(written: Any) -> str:
    """A rule as it was written, shortened to what matters."""
    if isinstance(written, dict):
        for kind in ("cron", "rrule", "every", "yearly", "at"):
            if kind in written:
                return f"{kind} {written[kind]}"
    return str(written)


def _every(interval: timedelta) -> str | None:
    """An interval in real time. Days are told as hours: a day with a change of clocks has 23 or 25 of them."""
    left, parts = interval, list[str]()
    for size, unit in UNITS:
        many, left = divmod(left, size)
        if many:
            parts.append(times(many, unit))
    if left or len(parts) > 2 or not parts:
        return None
    [*first, last] = parts
    if interval > WHOLE_DAY and interval % WHOLE_DAY == timedelta():
        return f"every {interval // WHOLE_DAY} days of 24 hours"
    if not first and last.startswith("1 "):
        return f"every {last.removeprefix('1 ')}"
    return f"every {joined(parts)}"


def _yearly(rule: Yearly) -> str:
    leap = OTHER_YEARS[rule.leap] if (rule.month, rule.day) == (2, 29) else ""
    since = f", from {rule.since} on" if rule.since > FIRST_YEAR else ""
    return f"every year on {rule.day} {MONTHS[rule.month - 1]} at {_time(rule.at)}{leap}{since}"


def _time(at: time) -> str:
    return clock(3600 * at.hour + 60 * at.minute + at.second)


def _moment(wall: datetime) -> str:
    seconds = 3600 * wall.hour + 60 * wall.minute + wall.second
    fraction = f".{wall.microsecond:06}" if wall.microsecond else ""
    return f"{wall.day} {MONTHS[wall.month - 1]} {wall.year} at {clock(seconds, exact=bool(fraction))}{fraction}"
