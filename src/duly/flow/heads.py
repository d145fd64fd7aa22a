"""What follows a head. Whatever ends being one gets its successor in the same transaction, or a reason why not."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from duly.core.failure import describe, storable
from duly.core.model import Event, Schedule
from duly.core.planning import Succession, head_of, rule_of, succeed
from duly.core.rules import Occurrence, Rule
from duly.flow.ids import new_id
from duly.ports import Statements

ENDED, PAUSED, ERROR = "ended", "paused", "error: "
MOST_TAKEN = 100
"""How many taken occurrences in a row are stepped over before a series is halted."""


class Next(NamedTuple):
    """An occurrence that a schedule wants planted."""

    schedule: Schedule
    rule: Rule
    occurrence: Occurrence


class Succeeded(NamedTuple):
    """The heads as they now fire, and the series that go no further, with the reason."""

    fired: list[Event]
    halted: dict[str, str]


async def succeed_heads(tx: Statements, heads: Sequence[Event], now: datetime) -> Succeeded:
    """Plan what follows these heads, which are locked."""
    found = await tx.schedules(sorted({schedule_id(head) for head in heads}))
    schedules = {schedule.series: schedule for schedule in found}
    fires: dict[str, Succession] = {}
    wanted: list[Next] = []
    halted: dict[str, str] = {}
    for head in heads:
        fires[head.id] = itself = Succession(Occurrence(head.occurrence or "", head.due), head.stands_for, None)
        schedule = schedules.get(head.series or "")
        if schedule is None:  # deleted: it completes without a successor
            continue
        if not schedule.enabled:
            halted[schedule.id] = PAUSED
            continue
        try:
            rule = rule_of(schedule)
            fires[head.id] = succession = succeed(head, rule, now)
        except Exception as error:  # one bad rule is one halted schedule; its neighbours fire
            fires[head.id] = itself
            halted[schedule.id] = storable(f"{ERROR}{describe(error)}")
            continue
        if succession.next is None:
            halted[schedule.id] = ENDED
        else:
            wanted.append(Next(schedule, rule, succession.next))
    fired = await _retire(tx, heads, fires)
    halted |= await plant(tx, wanted)
    if halted:
        await tx.halt(halted)
    return Succeeded(fired, halted)


async def plant(tx: Statements, wanted: Sequence[Next]) -> dict[str, str]:
    """Insert heads; where an occurrence was fired before, the following one. What could not be planted, and why."""
    halted: dict[str, str] = {}
    remaining = list(wanted)
    for _ in range(MOST_TAKEN):
        if not remaining:
            return halted
        heads = [head_of(want.schedule, want.occurrence, new_id) for want in remaining]
        planted = await tx.plant(heads)
        again: list[Next] = []
        for want, head in zip(remaining, heads, strict=True):
            if head.id not in planted:
                following = want.rule.after(want.occurrence.due)
                if following is None:
                    halted[want.schedule.id] = ENDED
                else:
                    again.append(want._replace(occurrence=following))
        remaining = again
    for want in remaining:
        halted[want.schedule.id] = f"{ERROR}{MOST_TAKEN} occurrences from {want.occurrence.name} on were fired before"
    return halted


async def _retire(tx: Statements, heads: Sequence[Event], fires: dict[str, Succession]) -> list[Event]:
    moved = {head.id: (head.series or "", fires[head.id].fires.name) for head in heads if _moves(head, fires)}
    taken = await tx.taken(list(moved.values())) if moved else set()
    settled = {}
    fired = []
    for head in heads:
        occurrence, stands_for, _ = fires[head.id]
        if moved.get(head.id) in taken:  # the latest was fired by hand: this one fires as itself
            occurrence = Occurrence(head.occurrence or "", head.due)
        settled[head.id] = occurrence, stands_for
        fired.append(
            msgspec.structs.replace(
                head, head=False, due=occurrence.due, occurrence=occurrence.name, stands_for=stands_for
            )
        )
    await tx.retire(settled)
    return fired


def _moves(head: Event, fires: dict[str, Succession]) -> bool:
    return fires[head.id].fires.name != head.occurrence


def schedule_id(head: Event) -> str:
    return (head.series or "").partition(":")[2]
