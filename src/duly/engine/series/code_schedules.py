"""Schedules that code declares: stored when a worker starts, and reported as orphaned when no code declares them any
more."""

import sys
from collections.abc import Callable, Collection, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self

from duly.engine.series.put_schedule import ScheduleDraft, put_schedule
from duly.engine.series.replan import replan
from duly.errors import Invalid, Problem
from duly.ports import ScheduleStore
from duly.records.schedule import Schedule
from duly.rules import zones
from duly.rules.policies import read_policies
from duly.signals import Orphaned, Replanned, Signals

BY = "code"


class CodeSchedules:
    """The schedules that code declares, and the programs that its functions belong to."""

    def __init__(self) -> None:
        self.drafts: list[ScheduleDraft] = []
        self.programs: set[str] = set()

    def copy(self) -> Self:
        other = copy(self)
        other.drafts, other.programs = list(self.drafts), set(self.programs)
        return other

    def add_function(self, function: Callable[..., Any]) -> None:
        self.programs.add(_program(origin_of(function)))


def origin_of(function: Callable[..., Any]) -> str:
    """The module and name of a function. For a program that is run as a file, the module is the file's name."""
    module = getattr(function, "__module__", None) or "__main__"
    if module == "__main__":
        module = Path(getattr(sys.modules["__main__"], "__file__", None) or "__main__").stem
    return f"{module}:{getattr(function, '__qualname__', type(function).__name__)}"


async def put_declared(
    store: ScheduleStore, declared: CodeSchedules, channels: Collection[str], signals: Signals
) -> None:
    """Stores the declared schedules, dependencies first; replans heads planned by older zone data; reports orphaned
    schedules."""
    for draft in _in_order(declared.drafts):
        try:
            await put_schedule(store, draft, channels, by=BY)
        except Invalid as error:
            where = f"schedule {draft.name!r} ({draft.origin})"
            raise Invalid([Problem(f"{where}: {path}", message) for path, message in error.problems]) from error
    moved = await replan(store, by=BY)
    if moved:
        signals.emit(Replanned(len(moved), zones.VERSION))
    if orphans := await orphaned(store, declared):
        signals.emit(Orphaned([schedule.name for schedule in orphans]))


async def orphaned(store: ScheduleStore, declared: CodeSchedules) -> list[Schedule]:
    """The schedules that functions of the same program once declared and no function declares any more. They are not
    deleted: that is up to a person."""
    names = {(draft.tenant, draft.name) for draft in declared.drafts}
    return [
        schedule
        for schedule in await store.code_schedules()
        if _program(schedule.origin) in declared.programs and (schedule.tenant, schedule.name) not in names
    ]


def _program(origin: str | None) -> str:
    return (origin or "").partition(":")[0].partition(".")[0]


def _in_order(drafts: Sequence[ScheduleDraft]) -> list[ScheduleDraft]:
    """The drafts in an order in which dependencies come first. Cycles stay in place, and are refused when they are
    put."""
    waiting, ordered, placed = list(drafts), [], set[str]()
    declared = {draft.name for draft in drafts}
    while waiting:
        ready = [draft for draft in waiting if _needs(draft) not in declared - placed] or waiting
        ordered += ready
        placed |= {draft.name for draft in ready}
        waiting = [draft for draft in waiting if draft.name not in placed]
    return ordered


def _needs(draft: ScheduleDraft) -> str | None:
    try:
        depends_on = read_policies({"depends_on": draft.policies.get("depends_on")}, None).depends_on
    except Invalid:
        return None
    return None if depends_on is None else depends_on.schedule
