"""Replans heads after an upgrade of the time zone data: heads by local time move to their new instants. Heads by
instant never move."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

import msgspec

from duly.decide.series.due_head import due_of, head_of, occurrence_of
from duly.decide.series.successor import with_successor
from duly.engine.series.heads import halt, halted_by
from duly.ports import Moved, ScheduleStore, ScheduleTransaction
from duly.records.event import Event
from duly.records.results import ReplannedHead
from duly.records.schedule import Halt
from duly.records.series import Series, carried
from duly.rules import zones
from duly.rules.recurrence import Occurrence
from duly.values.instants import write_instant

HEADS_PER_TRANSACTION = 500
"""Heads that one transaction locks and replans, so that claims do not wait long."""


async def replan(store: ScheduleStore, *, dry_run: bool = False, by: str = "replan") -> list[ReplannedHead]:
    """Replans the heads that older zone data has planned; returns those that move. Only heads are planned ahead, and
    only heads by local time are read. Zone data older than that of a head changes nothing."""
    found: list[ReplannedHead] = []
    after: tuple[str, str] | None = None
    while True:
        async with store.begin() as tx:
            bound = {} if after is None else {"after": after}
            heads = await tx.stale_heads(zones.VERSION, limit=HEADS_PER_TRANSACTION, **bound)
            if heads:
                after = max((head.zone_data or "", head.id) for head in heads)
                found += await _replan(tx, heads, by, dry_run)
        if not heads:
            return found


async def _replan(tx: ScheduleTransaction, heads: Sequence[Event], by: str, dry_run: bool) -> list[ReplannedHead]:
    ids = sorted({head.schedule_id for head in heads if head.schedule_id is not None})
    schedules = await tx.schedules(ids) if ids else []
    known = {one.name: one for one in (*map(carried, heads), *(each.as_series for each in schedules)) if one}
    names = {schedule.series: schedule.name for schedule in schedules}
    now = await tx.now()
    moved: list[Moved] = []
    told: list[ReplannedHead] = []
    halted: dict[str, Halt] = {}
    for head in heads:
        series = known.get(head.series or "")
        if series is None:
            continue
        try:
            occurrence, due = await _anew(tx, series, head, now)
        except Exception as error:  # one bad rule is one series with an error; its neighbours are replanned
            halted[series.name] = halted_by(error)
            continue
        detail = None
        if due != head.due:
            editions = f"zone data {head.zone_data} → {zones.VERSION}"
            detail = f"due {write_instant(head.due)} → {write_instant(due)} ({editions})"
            told.append(_told(series, names.get(series.name, series.name), head, due))
        anew = msgspec.structs.replace(head_of(series, occurrence, partial(str, head.id)), due=due)
        moved.append(Moved(with_successor(anew, series), detail))
    if not dry_run:
        if moved:
            await tx.replan(moved, zones.VERSION, by)
        if halted:
            await halt(tx, halted, noted=False)  # its head fires
    return told


async def _anew(tx: ScheduleTransaction, series: Series, head: Event, now: datetime) -> tuple[Occurrence, datetime]:
    """The occurrence and due time of a head under the new zone data. A head that is already due keeps both; a head that
    somebody has moved keeps its due time."""
    itself = occurrence_of(head)
    if head.due <= now:
        return itself, head.due
    occurrence = series.timetable.rule.anew(itself)
    while (
        occurrence is not None and occurrence.name != itself.name and await tx.taken([(series.name, occurrence.name)])
    ):
        occurrence = series.timetable.after(occurrence.at)
    if occurrence is None:
        return itself, head.due
    by_hand = head.due != due_of(series, itself)
    return occurrence, head.due if by_hand else due_of(series, occurrence)


def _told(series: Series, name: str, head: Event, due: datetime) -> ReplannedHead:
    return ReplannedHead(series.tenant, name, series.timezone, head.id, head.due, due, head.zone_data or "")
