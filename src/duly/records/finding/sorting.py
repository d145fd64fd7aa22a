"""The orders in which events are listed, and the places in them where pages begin."""

from datetime import datetime
from typing import Any, NamedTuple

from duly.decide.checks import is_id
from duly.errors import Invalid, Problem
from duly.records.event import Status
from duly.records.filters import EventFilter
from duly.values.instants import read_instant, write_instant

NEWEST = "-created"
"""The usual order: the newest first."""

DUE, LATEST_DUE = "due", "-due"
"""Waiting events by their due times: the next one first, or the last one first."""

SORTS = (NEWEST, DUE, LATEST_DUE)

BEYOND_WAITING = ("late_by", "stuck", "failed_from", "failed_to")
"""The fields of a filter that ask for other events than waiting ones."""


class DuePlace(NamedTuple):
    """A place in the order of due times: that of an event."""

    due: datetime
    id: str

    def __str__(self) -> str:
        return f"{write_instant(self.due)}/{self.id}"


def sort_problems(sort: Any, which: Any = None) -> list[Problem]:
    """The problems with an order, and with an order of due times for this filter, if there is one."""
    if sort not in SORTS:
        return [Problem("sort", f"must be one of {', '.join(SORTS)}, not {sort!r:.50}")]
    if sort == NEWEST or not isinstance(which, EventFilter):
        return []
    others = [name for name in BEYOND_WAITING if getattr(which, name) not in (None, False)]
    if which.status not in ((), (Status.PENDING,)):
        others.insert(0, f"status {','.join(which.status)}")
    if not others:
        return []
    return [
        Problem("sort", f"{sort} is the order of waiting events (PENDING): leave out {', '.join(others)}, or the order")
    ]


def check_sorted(which: Any, sort: Any, after: str | None) -> DuePlace | None:
    """The place after which a page in the order of due times begins; raises Invalid with every problem."""
    problems = sort_problems(sort, which)
    place = None if after is None or problems else read_due_place("after", after)
    if isinstance(place, Problem):
        problems.append(place)
    if problems:
        raise Invalid(problems)
    return place if isinstance(place, DuePlace) else None


def read_due_place(path: str, written: Any) -> DuePlace | Problem:
    due, slash, id = written.partition("/") if isinstance(written, str) else ("", "", "")
    instant = read_instant(path, due) if slash and is_id(id.lower()) else None
    if isinstance(instant, datetime):
        return DuePlace(instant, id.lower())
    return Problem(path, f"{written!r:.60} is no place in the order of due times: send next_after unchanged")
