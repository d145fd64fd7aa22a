"""Resumes a paused schedule: when somebody says so, or when its pause has ended by itself."""

from datetime import datetime

import msgspec

from duly.decide.error_text import storable
from duly.engine.series.heads import SCHEDULE, halted_by
from duly.engine.series.holds import SKIP, Overtaken, PausedOver, lock_head, resume, told
from duly.ports import PauseTransaction
from duly.records.event import Event
from duly.records.schedule import HaltKind, Schedule


async def resume_schedule(
    tx: PauseTransaction, schedule: Schedule, head: Event | None, passed: str, by: str, at: datetime | None = None
) -> PausedOver:
    """Resumes a paused schedule that is locked with its head. *at*: the instant at which the pause ended, if that has
    passed; then the result is the same as if somebody had resumed the schedule at that instant."""
    resumed = schedule.resumed
    await tx.put_schedule(resumed)
    over = await resume(tx, resumed, head, schedule.paused_since, passed, by, at)
    shown = await tx.shown_schedule(schedule.tenant, schedule.name)
    detail = told(over, None if shown is None else shown.next_at, at)
    await tx.note([(schedule.id, "resumed", storable(detail))], by)
    return over


async def end_of_pause(tx: PauseTransaction, schedule: Schedule) -> datetime | None:
    """The instant at which the pause of a locked schedule has ended by itself; None if it is not paused, or its pause
    has no end, or a later one."""
    if schedule.enabled or schedule.paused_until is None or schedule.paused_until > await tx.now():
        return None
    return schedule.paused_until


async def end_pause(tx: PauseTransaction, schedule: Schedule, head: Event | None) -> PausedOver | None:
    """Resumes a schedule that is locked with its head, if its pause has ended by itself. The occurrences of the pause
    are treated as the pause said."""
    if (ended := await end_of_pause(tx, schedule)) is None:
        return None
    return await resume_schedule(tx, schedule, head, schedule.pause_passed or SKIP, SCHEDULE, ended)


async def end_pause_of(tx: PauseTransaction, id: str) -> None:
    """The same for a schedule that is not locked yet; raises Overtaken if its head is claimed meanwhile."""
    series = Schedule(id=id, tenant="", name="", type="", rule_json="").series
    head = await lock_head(tx, series)  # events are locked first, then schedules
    for schedule in await tx.schedules([id]):
        if await tx.head_id(series) != (head and head.id):
            raise Overtaken
        await end_pause(tx, schedule, head)


async def stay_paused(tx: PauseTransaction, id: str, error: Exception) -> None:
    """Keeps a schedule paused whose rule cannot be evaluated at the end of its pause. Its error is shown, and its pause
    has no end any more."""
    for schedule in await tx.schedules([id]):
        if await end_of_pause(tx, schedule) is not None:
            halted = halted_by(error)
            kept = {"paused_until": None, "halted": halted.reason, "halt_kind": HaltKind.ERROR}
            await tx.put_schedule(msgspec.structs.replace(schedule, **kept))
            detail = f"the pause has ended, and the schedule stays paused: {halted.reason}"
            await tx.note([(schedule.id, "halted", storable(detail))], SCHEDULE)
