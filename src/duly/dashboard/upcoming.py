"""What follows: the next occurrences of schedules. They are remembered until something changes, because live pages ask
each second, and some rules take long."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from duly.dashboard.visit import Visit
from duly.decide.error_text import describe
from duly.decide.series.preview import Preview
from duly.records.schedule import Schedule

MOST_KEPT = 256
"""Schedules whose next occurrences are remembered."""

BUDGET_S = 0.25
"""Seconds for finding the next occurrences; then fewer are shown."""


class Following(NamedTuple):
    """The next occurrences of a schedule, or why they cannot be told."""

    occurrences: Sequence[Preview]
    problem: str | None = None


class _Key(NamedTuple):
    schedule: str
    tag: str
    updated: datetime | None
    next_at: datetime | None
    many: int


_kept: OrderedDict[_Key, Following] = OrderedDict()


class Budget:
    """A time limit: true once it has passed."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def __call__(self) -> bool:
        return time.monotonic() >= self._ends


async def following(visit: Visit, schedule: Schedule, count: int) -> Following:
    """The next event of a schedule, and the occurrences after it."""
    if schedule.next_at is None:
        return Following([], None)  # it is ended, or halted: nothing fires until somebody changes that
    key = _Key(schedule.id, schedule.tag, schedule.updated, schedule.next_at, count)
    if key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    try:
        found = await visit.own.schedules.preview(
            schedule.name, count=count, tenant=visit.tenant, enough=Budget(BUDGET_S)
        )
        told = Following(found)
    except Exception as error:  # its row was edited by hand: the rest of the page can still be shown
        return Following([], describe(error))
    _kept[key] = told
    while len(_kept) > MOST_KEPT:
        _kept.popitem(last=False)
    return told
