"""The verbs that pause schedules and resume them."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from duly.decide.error_text import storable
from duly.decide.series.pauses import NOTHING_SAID, Pause, pause_told, paused_until, read_pause
from duly.engine.pauses.resumption import end_pause, resume_schedule
from duly.engine.series.holds import PASSED, PausedOver, pause
from duly.errors import Invalid, Problem
from duly.ports import ScheduleTransaction
from duly.records.event import Event
from duly.records.results import Resumed
from duly.records.schedule import Passed, Schedule
from duly.verbs.schedules.group import note_act, telling
from duly.verbs.schedules.lookups import ScheduleLookups
from duly.verbs.schedules.rehearsal import RehearsedSchedules


class SchedulePauses(ScheduleLookups, RehearsedSchedules):
    """The part of ``duly.schedules`` that pauses and resumes."""

    async def pause(
        self,
        name: str,
        *,
        reason: str | None = None,
        until: datetime | timedelta | float | str | None = None,
        passed: str | None = None,
        tenant: str = "default",
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
    ) -> Schedule:
        """Pause a schedule: none of its events starts any more. Events that have started continue to their end, with
        their retries. The next event stays where it is, held.

        The pause ends by itself at *until*, an instant or a span from now; without it, somebody has to resume the
        schedule. Either way, *passed* says what becomes of the occurrences whose time comes meanwhile: "skip", the
        default, or "fire", by the misfire policy. A second pause that says any of these replaces all three. With
        *dry_run*, nothing is changed: the result has the ``consequence``.
        """
        asked = read_pause(reason, until, passed)
        if dry_run:
            told = await self._dry_run(
                name,
                tenant,
                transaction,
                lambda here: here.pause(name, reason=reason, until=until, passed=passed, tenant=tenant, by=by),
            )
            return msgspec.structs.replace(told.result, consequence=told.consequence)
        here = self._within(transaction)
        async with here._locked(name, tenant) as (tx, schedule, _head):
            await here._pause(tx, schedule, asked, by)
        return await here.get(name, tenant=tenant)

    async def _pause(self, tx: ScheduleTransaction, schedule: Schedule, asked: Pause, by: str) -> bool:
        """Pauses a locked schedule, or changes its pause; returns whether anything changed."""
        if not schedule.enabled and asked == NOTHING_SAID:
            return False
        now = await tx.now()
        if asked.passed is Passed.FIRE:
            self._refuse_act(schedule, "fire what a pause has passed over")
        paused = msgspec.structs.replace(
            schedule,
            enabled=False,
            paused_since=now if schedule.enabled else schedule.paused_since,
            paused_until=paused_until(asked.until, now, schedule.paused_until),
            pause_reason=None if asked.reason is None else storable(asked.reason),
            pause_passed=asked.passed or Passed.SKIP,
        )
        if paused == schedule:
            return False
        await tx.put_schedule(paused)
        if schedule.enabled:
            await pause(tx, paused, storable(by))
        await note_act(tx, schedule, "paused", by, pause_told(paused))
        if paused.paused_until is not None:
            await tx.tell_pause(paused.as_series.lane)
        return True

    async def resume(
        self,
        name: str,
        *,
        tenant: str = "default",
        passed: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
    ) -> Resumed:
        """Resume a schedule. A pause is not a misfire: the occurrences that it has passed over are left out. With
        ``passed="fire"``, the misfire policy treats them as missed. Without *passed*, the pause itself has said which.
        A pause whose end has passed has ended at that instant, as it had said, even if no worker has noticed it. With
        *dry_run*, nothing is changed: the schedule of the result has the ``consequence``."""
        if passed is not None and passed not in PASSED:
            raise Invalid([Problem("passed", f"must be one of {', '.join(PASSED)}, not {passed!r:.50}")])
        if dry_run:
            told = await self._dry_run(
                name, tenant, transaction, lambda here: here.resume(name, tenant=tenant, passed=passed, by=by)
            )
            would_be = msgspec.structs.replace(told.result.schedule, consequence=told.consequence)
            return msgspec.structs.replace(told.result, schedule=would_be)
        here = self._within(transaction)
        async with here._locked(name, tenant, ends=False) as (tx, schedule, head):
            over = await here._resume(tx, schedule, head, passed, by)
        resumed = await here.get(name, tenant=tenant)
        if over is None:
            return Resumed(resumed, 0, False)
        return Resumed(telling(resumed, over.over), over.occurrences, over.fires)

    async def _resume(
        self, tx: ScheduleTransaction, schedule: Schedule, head: Event | None, passed: str | None, by: str
    ) -> PausedOver | None:
        """Resumes a schedule that is locked with its head; None if it was not paused."""
        if passed == Passed.FIRE:
            self._refuse_act(schedule, "fire what a pause has passed over")
        if schedule.enabled:
            return None
        ended = await end_pause(tx, schedule, head)
        if ended is not None:
            return ended
        return await resume_schedule(tx, schedule, head, passed or schedule.pause_passed or Passed.SKIP, storable(by))
