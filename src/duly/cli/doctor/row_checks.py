"""The check of ``duly doctor`` for rows that contradict each other."""

from collections.abc import AsyncIterator

from duly.cli.doctor.check_result import FAIL, OK, CheckResult
from duly.cli.output import counted
from duly.duly import Duly
from duly.ports import NEWEST_EXAMINED, Examined

MOST_SHOWN = 10
"""Findings of one kind that are listed; the others are counted."""

ADVICE = {
    "holds_have_reasons": (
        "run a worker: within its poll interval, it releases events that are held for no reason. Events "
        "that wait for a target that "
        "is not parked is released by `duly targets disable NAME`, then `enable NAME`"
    ),
    "schedules_go_on": "`duly schedules pause NAME`, then `resume NAME`: this plans its next event again",
    "users_go_on": "call `duly.users.refresh()` in the app: this plans the missing events",
    "parked_are_tried": "`duly targets enable NAME`",
}
BY_HAND = (
    "Duly never writes such a row: if somebody changed the tables by hand, undo the change; otherwise "
    "report a bug, with what "
    "`duly events show` tells of the event"
)


async def rows(duly: Duly, *, every: bool) -> AsyncIterator[CheckResult]:
    """Contradictions in the rows of the newest events, or of *every* event."""
    examined = await duly.store.invariants(None if every else NEWEST_EXAMINED)
    for one in examined.violations[:MOST_SHOWN]:
        yield CheckResult(FAIL, "rows", str(one), ADVICE.get(one.invariant, BY_HAND))
    if more := len(examined.violations[MOST_SHOWN:]):
        yield CheckResult(FAIL, "rows", f"and {more:,} more that contradict each other")
    if not examined.violations:
        yield CheckResult(
            OK, "rows", f"{_which(examined)} agree with each other, with their schedules and their history"
        )


def _which(examined: Examined) -> str:
    if examined.all:
        return counted(examined.events, "event")
    return f"the newest {counted(examined.events, 'event')} (--all reads every one)"
