"""What has become of occurrences before their turn: one was moved forward and has fired, another one was cancelled.
Such ones count neither as missed nor as passed over."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from duly.instants import write_instant
from duly.rules.recurrence import Occurrence
from duly.rules.timetable import BEFORE, LONG_AGO, Timetable

SECOND = timedelta(seconds=1)
NAME_MARGIN = timedelta(days=2)
"""How far the date in a name is from the date of its instant in UTC, at most: a zone and a leap day."""


class OccurrenceFact(NamedTuple):
    """An event that an occurrence has already: its name, and the instant by the rule that named it."""

    name: str
    at: datetime


def names_between(table: Timetable, after: datetime, until: datetime) -> tuple[str, str]:
    """Between which two texts the names are that a timetable gives between two instants: they are instants, to the
    microsecond or without, or begin with a date."""
    margin = SECOND if table.by_instant else NAME_MARGIN
    low = max(after, LONG_AGO + margin) - margin
    high = until + margin if until.year < 9999 else until
    if table.by_instant:
        return write_instant(low), f"{write_instant(high)}~"
    return low.date().isoformat(), f"{high.date().isoformat()}~"


def facts_among(table: Timetable, after: datetime, until: datetime, facts: Collection[OccurrenceFact]) -> int:
    """How many of the occurrences between two instants have a fact already."""
    return len(named_among(table, after, until, facts)) if facts else 0


def named_among(
    table: Timetable, after: datetime, until: datetime, facts: Collection[OccurrenceFact]
) -> list[Occurrence]:
    """Those of them that have one."""
    found = (_where(table, fact) for fact in facts)
    return [one for one in found if one is not None and after < one.at <= until]


def _where(table: Timetable, fact: OccurrenceFact) -> Occurrence | None:
    """Where a timetable has an occurrence of this name: at the same instant, at the one that is its name, or where its
    rule has it now."""
    for at in (fact.at, datetime.fromisoformat(fact.name)) if fact.name.endswith("Z") else (fact.at,):
        there = table.after(at - BEFORE)
        if there is not None and there.name == fact.name:
            return there
    try:
        anew = table.rule.anew(Occurrence(*fact))
    except (ValueError, TypeError):  # another kind of rule, whose occurrences have other names
        return None
    if anew is None or anew.name != fact.name or table.after(anew.at - BEFORE) != anew:
        return None
    return anew
