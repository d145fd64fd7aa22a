"""The verbs that create, move, skip and delete. Every act on a schedule is atomic and audited."""

import builtins
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Literal, Unpack, overload

import msgspec

from duly.decide.error_text import storable
from duly.decide.retry import DEFAULT, Retry
from duly.decide.series.due_head import occurrence_of
from duly.decide.series.edits import passed_over
from duly.decide.targets.origin import via_of
from duly.engine.series.heads import plan_next
from duly.engine.series.passed_over import in_words, move_by_hand
from duly.engine.series.put_schedule import ScheduleDraft, put_schedule
from duly.engine.series.replan import replan
from duly.engine.series.templates import filled_in
from duly.errors import Conflict, Invalid, Problem
from duly.ports import Dropped
from duly.records.etags import check_tag
from duly.records.event import Event
from duly.records.figures.consequence import Consequence
from duly.records.history import Cause
from duly.records.results import ReplannedHead
from duly.records.schedule import Schedule
from duly.rules.policies import PolicyOptions
from duly.rules.recurrence import Rule
from duly.values.instants import due_problems, write_instant
from duly.verbs.schedules.bulk import ScheduleActs
from duly.verbs.schedules.group import note_act, telling
from duly.verbs.schedules.imports import ScheduleImports
from duly.verbs.schedules.overviews import ScheduleOverviews
from duly.verbs.schedules.rehearsal import DryRun
from duly.verbs.schedules.templates import find_template
from duly.verbs.schedules.why_not import ScheduleWhyNot


class Schedules(ScheduleActs, ScheduleOverviews, ScheduleWhyNot, ScheduleImports):
    """``duly.schedules``."""

    # -- create

    async def put(
        self,
        name: str,
        rule: Rule | dict[str, Any] | None = None,
        type: str | None = None,
        payload: Any = None,
        *,
        template: str | None = None,
        timezone: str | None = None,
        tenant: str = "default",
        target: dict[str, Any] | None = None,
        retry: Retry | None = None,
        tags: Collection[str] | None = None,
        enabled: bool | None = None,
        expected: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
        **policies: Unpack[PolicyOptions],
    ) -> Schedule:
        """Create a schedule, or replace the one with this name.

        An unchanged rule and zone leave the next event where it is. Without *enabled*, a paused schedule stays paused;
        without *tags*, it keeps those that it has.
        With *expected*, raises Stale unless the schedule still has that tag. What is not given, or None, is copied from
        the *template*; later changes of the template change no schedule. With *dry_run*, nothing is changed: the result
        is the schedule as it would be, with the ``consequence``.
        """
        given = {
            "rule": rule,
            "type": type,
            "payload": payload,
            "target": target,
            "retry": retry,
            "timezone": timezone,
            "tags": tags,
            "enabled": enabled,
        }
        within = self._transaction_of(transaction)
        fields: dict[str, Any] = {**given, "policies": policies}
        if template is not None:
            found = await find_template(within or self._store, template, tenant)
            over_http = via_of(self._channels) is not None
            fields = filled_in(given, policies, found, over_http=over_http)
        if fields.get("retry") is None:
            fields["retry"] = DEFAULT
        draft = ScheduleDraft(name=name, tenant=tenant, expected=expected, **fields)
        if dry_run:
            told = await self._dry_run(
                name,
                tenant,
                transaction,
                lambda here: put_schedule(here._store, draft, self._channels, by=storable(by)),
            )
            return _with(told)
        return await put_schedule(self._store, draft, self._channels, within, storable(by))

    # -- the next event

    async def reschedule(
        self,
        name: str,
        due: datetime,
        *,
        tenant: str = "default",
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
    ) -> Schedule:
        """Move only the next event; the rule continues after it. Occurrences that it is moved past are passed over; if
        it is moved back, they can fire again. With *dry_run*, nothing is changed: the result has the
        ``consequence``."""
        if problems := list(due_problems(due)):
            raise Invalid(problems)
        if not isinstance(due, datetime):
            raise Invalid([Problem("due", f"expected a datetime, not {type(due).__name__}")])
        if dry_run:
            return _with(
                await self._dry_run(
                    name, tenant, transaction, lambda here: here.reschedule(name, due, tenant=tenant, by=by)
                )
            )
        due, here = due.astimezone(UTC), self._within(transaction)
        async with here._locked(name, tenant) as (tx, schedule, head):
            head = _required(head, schedule)
            self._refuse_act(schedule)
            due, behind = await move_by_hand(tx, schedule.as_series, head, due, storable(by))
            detail = f"due {write_instant(head.due)} → {write_instant(due)}{in_words(behind)}"
            await tx.change(msgspec.structs.replace(head, due=due), "rescheduled", storable(by), detail)
            await note_act(tx, schedule, "rescheduled", by, detail)
            over = None if behind is None else passed_over(schedule, behind.first, behind.many)
        return telling(await here.get(name, tenant=tenant), over)

    async def skip(
        self,
        name: str,
        *,
        tenant: str = "default",
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
        reason: str | None = None,
    ) -> Schedule:
        """Skip only the next event. With *dry_run*, nothing is changed: the result has the ``consequence``."""
        if dry_run:
            return _with(
                await self._dry_run(
                    name, tenant, transaction, lambda here: here.skip(name, tenant=tenant, by=by, reason=reason)
                )
            )
        here = self._within(transaction)
        async with here._locked(name, tenant) as (tx, schedule, head):
            head = _required(head, schedule)
            why = f"skipped by {by}" + (f": {reason}" if reason else "")
            await tx.drop({head.id: Dropped(Cause.BY_HAND, storable(why))}, storable(by))
            await plan_next(tx, head)
            await note_act(tx, schedule, "skipped", by, f"due {write_instant(head.due)}")
            over = passed_over(schedule, [occurrence_of(head)], 1)
        return telling(await here.get(name, tenant=tenant), over)

    @overload
    async def delete(
        self,
        name: str,
        *,
        tenant: str = "default",
        expected: str | None = None,
        dry_run: Literal[True],
        transaction: Any = None,
        by: str = "api",
    ) -> Consequence: ...

    @overload
    async def delete(
        self,
        name: str,
        *,
        tenant: str = "default",
        expected: str | None = None,
        dry_run: Literal[False] = False,
        transaction: Any = None,
        by: str = "api",
    ) -> int: ...

    async def delete(
        self,
        name: str,
        *,
        tenant: str = "default",
        expected: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
    ) -> int | Consequence:
        """Delete a schedule; return how many of its events were cancelled. Events under way continue to their end.
        Raises Stale unless the schedule has the *expected* tag. With *dry_run*, nothing is changed: the result is the
        ``Consequence``."""
        if dry_run:
            told_of = await self._dry_run(
                name, tenant, transaction, lambda here: here.delete(name, tenant=tenant, expected=expected, by=by)
            )
            return told_of.consequence
        async with self._within(transaction)._locked(name, tenant) as (tx, schedule, _head):
            check_tag(f"schedule {name!r}", schedule.tag, expected)
            self._refuse_act(schedule, "delete it")
            if dependents := await tx.dependents(tenant, name):
                depend = "depends" if len(dependents) == 1 else "depend"
                raise Conflict(f"cannot delete schedule {name!r}: {', '.join(dependents[:5])} {depend} on it")
            cancelled = await tx.cancel_series(schedule.series, storable(by), "its schedule was deleted")
            await note_act(tx, schedule, "deleted", by, name)
            await tx.delete_schedule(schedule.id)
        return cancelled

    async def replan(
        self, *, dry_run: bool = False, transaction: Any = None, by: str = "api"
    ) -> builtins.list[ReplannedHead]:
        """Move events that have not started to where newer time zone data puts them; return the events that were, or
        with *dry_run* would be, moved."""
        return await replan(self._within(transaction)._store, dry_run=dry_run, by=storable(by))


def _with(told: DryRun[Schedule]) -> Schedule:
    return msgspec.structs.replace(told.result, consequence=told.consequence)


def _required(head: Event | None, schedule: Schedule) -> Event:
    if head is None:
        reason = schedule.halted or "it has none at the moment"
        raise Conflict(f"schedule {schedule.name!r} has no next event: {reason}")
    return head
