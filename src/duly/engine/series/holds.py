"""Holds events that must wait (pause, limits), and releases them as soon as the reason is over."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from duly.decide.error_text import storable
from duly.decide.series.due_head import ITS_TURN, PAUSED, continues_after, head_of, kept, occurrence_of
from duly.decide.series.edits import passed_over, together
from duly.decide.series.successor import reshaped
from duly.engine.series.heads import (
    ENDED,
    HALTED_BY_PAUSE,
    SCHEDULE,
    Claimant,
    HeadsDecided,
    is_limited,
    next_after,
    plant_next,
    succeed_heads,
)
from duly.engine.series.passed_over import Why, pass_over
from duly.engine.series.rule_threads import evaluated
from duly.ids import new_id
from duly.ports import Dropped, Heads, HoldStore, SeriesTransaction
from duly.records.event import Event, HoldKind, NewEvent, schedule_of
from duly.records.history import Cause
from duly.records.schedule import Halt, PassedOver, Schedule
from duly.records.series import Series
from duly.rules.recurrence import Occurrence
from duly.rules.timetable import BEFORE
from duly.values.instants import write_instant

RELEASED_AT_ONCE = 1000
"""Events that one statement releases, of schedules without a limit."""

WHILE_PAUSED = Why(Cause.PAUSED, "its schedule was paused when its time came")

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
"""Earlier than any event."""

SKIP = "skip"
FIRE = "fire"
PASSED = (SKIP, FIRE)
"""What a resumption does with occurrences whose time came during the pause."""


async def succeed(tx: SeriesTransaction, found: Heads, by: datetime, claimant: Claimant) -> HeadsDecided:
    """Decides about heads that are due by *by*, and carries it out. A head that was released and is now dropped had
    used up the place of the next held event, so that event is released instead."""
    succeeded = await succeed_heads(tx, found, by, claimant)
    dropped = {event.series for event, _ in succeeded.dropped}
    limited = [one for one in found.schedules if one.series in dropped and is_limited(one.as_series)]
    if limited:
        await let_go(tx, limited)
    return succeeded


async def let_go_after(tx: SeriesTransaction, ended: Iterable[Event]) -> None:
    """Releases the events that waited for events which ended in this transaction, or for heads that do not fire. They
    are ready when it commits."""
    ids = {event.schedule_id for event in ended if event.gated or event.head}
    if schedules := sorted(id for id in ids if id is not None):
        await let_go(tx, await tx.schedules(schedules))


async def let_go(tx: SeriesTransaction, schedules: Sequence[Schedule]) -> None:
    """Releases as many held events as the limits of their schedules allow. The schedules are locked, so that of two
    events that end at the same time the second one sees that the first has ended."""
    under_way = await tx.under_way([schedule.series for schedule in schedules]) if schedules else {}
    room = {}
    for schedule in schedules:
        most = schedule.policies.room
        free = RELEASED_AT_ONCE if most is None else most - under_way.get(schedule.series, 0)
        if free > 0:
            room[schedule.series] = free
    while room and len(await tx.let_go(room, SCHEDULE)) >= RELEASED_AT_ONCE:
        pass


async def pause(tx: SeriesTransaction, schedule: Schedule, by: str) -> int:
    """Holds all unstarted events of a schedule that is locked and stored as not enabled; returns how many. Events that
    are triggered from now on are meant to fire, and are not held."""
    if schedule.halt_kind is None:
        await tx.halt({schedule.id: HALTED_BY_PAUSE})
    return await tx.hold_series(schedule.series, PAUSED, by)


class PausedOver(NamedTuple):
    """The occurrences whose time came during a pause."""

    occurrences: int
    fires: bool  # by the misfire policy; else they are skipped
    over: PassedOver | None = None  # the skipped occurrences


async def resume(
    tx: SeriesTransaction,
    schedule: Schedule,
    head: Event | None,
    since: datetime | None,
    passed: str,
    by: str,
    at: datetime | None = None,
) -> PausedOver:
    """Resumes a schedule that is locked with its head, enabled, and was paused *since*. Occurrences during the pause
    were not missed, so they are skipped, unless *passed* is FIRE: then they fire as if they had been missed. A head
    that was due before the pause is still owed: it fires by the misfire policy. The pause ended *at* an instant, or
    ends now; what was due after that is up to the misfire policy."""
    now, since = at or await tx.now(), since or LONG_AGO
    series, halted = schedule.as_series, None
    count, over = 0, None
    if head is None:
        halted = await plant_next(tx, series, await next_after(series, now))
    elif head.due > now or head.due <= since or passed == FIRE:
        if head.due <= now:
            first = max(since + BEFORE, occurrence_of(head).at)
            count, passed = await evaluated(series.timetable.count, first, now), FIRE
        await reshape(tx, head, kept(head, series), series)
    else:
        halted, over = await skip_head(tx, schedule, head, WHILE_PAUSED, by, now)
        behind = await pass_over(tx, series, continues_after(head, series), now, WHILE_PAUSED, by)
        count = 1
        if behind is not None:
            count += behind.many
            over = together(over, passed_over(schedule, behind.first, behind.many))
    await tx.halt({schedule.id: halted})
    await tx.rehold(schedule.series, HoldKind.PAUSED, ITS_TURN)
    await let_go(tx, [schedule])
    return PausedOver(count, passed == FIRE, over)


async def move_head(tx: SeriesTransaction, series: Series, head: Event, following: Occurrence | None) -> Halt | None:
    """Moves a locked head to another occurrence; if that one has fired before, to the next. Returns the reason if no
    occurrence is left."""
    while (
        following is not None and following.name != head.occurrence and await tx.taken([(series.name, following.name)])
    ):
        following = await next_after(series, following.at)
    if following is None:
        # The head gives its occurrence name back, so that a corrected rule can fire that occurrence.
        given_up = msgspec.structs.replace(kept(head, series), occurrence=f"given up {head.id}")
        await reshape(tx, head, given_up, series)
        await tx.drop({head.id: Dropped(Cause.EDITED, "its rule ended")}, SCHEDULE)
        return ENDED
    await reshape(tx, head, head_of(series, following, new_id), series)
    return None


async def skip_head(
    tx: SeriesTransaction, schedule: Schedule, head: Event, why: Why, by: str, after: datetime | None = None
) -> tuple[Halt | None, PassedOver]:
    """Skips a locked head; the first occurrence *after* an instant, or after now, becomes the head. Returns the reason
    if there is none, and the skipped occurrence."""
    await tx.drop({head.id: Dropped(why.cause, storable(why.reason))}, by)
    series = schedule.as_series
    halted = await plant_next(tx, series, await next_after(series, after or await tx.now()))
    return halted, passed_over(schedule, [occurrence_of(head)], 1)


async def reshape(tx: SeriesTransaction, head: Event, anew: NewEvent, series: Series) -> None:
    await tx.reshape([await evaluated(reshaped, head, anew, SCHEDULE, series)], SCHEDULE)


class Overtaken(Exception):
    """A concurrent transaction came first. Raised inside the transaction, so that its locks are released before the
    next try: kept locks would be in the wrong order then."""


async def lock_head(tx: SeriesTransaction, series: str) -> Event | None:
    """Locks and returns the head of a series; heads are locked before schedules. On PostgreSQL, a transaction that has
    waited for an event which is no longer the head still has that event locked. It must not wait for the schedule then,
    so Overtaken is raised: the transaction that holds the schedule may want to free that event's occurrence name."""
    if await tx.head_id(series) is None:
        return None
    head = await tx.head(series)
    if head is None:
        raise Overtaken
    return head


async def look_after_held(store: HoldStore) -> None:
    """Releases events that are still held although the reason is over, for instance after somebody has edited the
    tables by hand. A safety net."""
    for series in await store.waiting_series():
        with suppress(Overtaken):
            await _look_after(store, series)


async def _look_after(store: HoldStore, series: str) -> None:
    if (id := schedule_of(series)) is None:
        return
    async with store.begin() as tx:
        head = await lock_head(tx, series)
        for schedule in await tx.schedules([id]):
            if schedule.enabled and head is not None and head.hold_kind is HoldKind.PAUSED:
                await resume(tx, schedule, head, schedule.paused_since, SKIP, SCHEDULE)
            else:
                await let_go(tx, [schedule])


def told(passed: PausedOver, next_at: datetime | None, ended: datetime | None = None) -> str:
    """The result of a resumption, in words. *ended*: the instant for which the pause had announced its end."""
    if not passed.occurrences:
        what = "no occurrence was missed"
    else:
        many = "1 occurrence was" if passed.occurrences == 1 else f"{passed.occurrences:,} occurrences were"
        what = f"{many} missed during the pause, and {'fire by the misfire policy' if passed.fires else 'were skipped'}"
    told = what if next_at is None else f"{what}; the next is due {write_instant(next_at)}"
    return told if ended is None else f"the pause ended at {write_instant(ended)}: {told}"
