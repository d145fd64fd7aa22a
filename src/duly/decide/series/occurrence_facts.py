"""Occurrences that have an event before their turn: for instance, one was moved forward and has fired, another one was
cancelled. They count neither as missed nor as skipped."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from duly.rules.recurrence import Occurrence
from duly.rules.timetable import BEFORE, LONG_AGO, Timetable
from duly.values.instants import write_instant

SECOND = timedelta(seconds=1)
NAME_MARGIN = timedelta(days=2)
"""The largest difference between the date in an occurrence name and its date in UTC: a time zone and a leap day."""


class OccurrenceFact(NamedTuple):
    """An occurrence that has an event already: its name, and its instant by the rule that named it."""

    name: str
    at: datetime


def names_between(table: Timetable, after: datetime, until: datetime) -> tuple[str, str]:
    """The lower and upper bound, as text, of a timetable's occurrence names between two instants. Names are instants,
    with or without microseconds, or begin with a date."""
    margin = SECOND if table.by_instant else NAME_MARGIN
    low = max(after, LONG_AGO + margin) - margin
    high = until + margin if until.year < 9999 else until
    if table.by_instant:
        return write_instant(low), f"{write_instant(high)}~"
    return low.date().isoformat(), f"{high.date().isoformat()}~"


def facts_among(table: Timetable, after: datetime, until: datetime, facts: Collection[OccurrenceFact]) -> int:
    """How many of the occurrences between two instants have an event already."""
    return len(named_among(table, after, until, facts)) if facts else 0


def named_among(
    table: Timetable, after: datetime, until: datetime, facts: Collection[OccurrenceFact]
) -> list[Occurrence]:
    """The occurrences between two instants that have an event already."""
    found = (_where(table, fact) for fact in facts)
    return [one for one in found if one is not None and after < one.at <= until]


def _where(table: Timetable, fact: OccurrenceFact) -> Occurrence | None:
    """The occurrence of this name in a timetable: at the same instant, at the instant in its name, or where the current
    rule has it."""
    for at in (fact.at, datetime.fromisoformat(fact.name)) if fact.name.endswith("Z") else (fact.at,):
        there = table.after(at - BEFORE)
        if there is not None and there.name == fact.name:
            return there
    try:
        anew = table.rule.anew(Occurrence(*fact))
    except (ValueError, TypeError):  # another kind of rule, with other occurrence names
        return None
    if anew is None or anew.name != fact.name or table.after(anew.at - BEFORE) != anew:
        return None
    return anew
