"""What people do to schedules: look, put, pause, trigger, move, skip, backfill. Every act is atomic and audited."""

import builtins
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

import msgspec

from duly.decide.checks import check_page, name_problems, write_json
from duly.decide.due_head import event_of, occurrence_of
from duly.decide.edits import passed_over
from duly.decide.error_text import storable
from duly.decide.preview import Preview, never, preview, preview_of, range_problems, table_of
from duly.decide.retry import DEFAULT, Retry
from duly.decide.targets.origin import closed
from duly.engine.rule_threads import evaluated
from duly.engine.series.heads import is_limited, plan_next
from duly.engine.series.holds import ITS_TURN, PASSED, SKIP, Overtaken, let_go, lock_head, pause, resume, told
from duly.engine.series.passed_over import in_words, move_by_hand
from duly.engine.series.put_schedule import MOST_TRIES, ScheduleDraft, put_schedule
from duly.engine.series.replan import replan
from duly.errors import Conflict, Invalid, NotFound, Problem
from duly.ids import new_id
from duly.instants import due_problems, write_instant
from duly.ports import PAGE_BYTES, ListPage, ScheduleStore, ScheduleTransaction, page_of
from duly.records.etags import check_tag
from duly.records.event import Event, NewEvent
from duly.records.history import Entry
from duly.records.results import Backfilled, ReplannedHead, Resumed
from duly.records.schedule import PassedOver, Schedule
from duly.rules.policies import SHADOW, PolicyOptions
from duly.rules.recurrence import Occurrence, Rule
from duly.rules.timetable import BEFORE, Timetable
from duly.verbs.histories import history_page
from duly.verbs.marks import for_doors, reads

MOST_BACKFILLED = 10_000
MICROSECOND = timedelta(microseconds=1)
UNCHANGED: Any = object()


class Schedules:
    """``duly.schedules``."""

    def __init__(
        self,
        store: ScheduleStore,
        channels: Collection[str],
        transaction_of: Callable[[Any], ScheduleTransaction | None],
    ) -> None:
        self._store, self._channels, self._transaction_of = store, channels, transaction_of

    # -- putting and looking

    async def put(
        self,
        name: str,
        rule: Rule | dict[str, Any],
        type: str,
        payload: Any = None,
        *,
        timezone: str | None = None,
        tenant: str = "default",
        target: dict[str, Any] | None = None,
        retry: Retry = DEFAULT,
        enabled: bool | None = None,
        expected: str | None = None,
        transaction: Any = None,
        by: str = "api",
        **policies: Unpack[PolicyOptions],
    ) -> Schedule:
        """Create a schedule, or replace the one with this name.

        An unchanged rule and zone keep the next event where it is. Without *enabled*, a paused schedule stays paused.
        With the tag that is *expected*, Stale unless the schedule still has it.
        """
        draft = ScheduleDraft(
            name=name,
            rule=rule,
            type=type,
            payload=payload,
            tenant=tenant,
            target=target,
            retry=retry,
            timezone=timezone,
            policies=policies,
            enabled=enabled,
            expected=expected,
        )
        return await put_schedule(self._store, draft, self._channels, self._transaction_of(transaction), storable(by))

    @reads
    async def get(self, name: str, *, tenant: str = "default") -> Schedule:
        possible = not any((*name_problems("name", name), *name_problems("tenant", tenant)))
        found = await self._store.shown_schedule(tenant, name) if possible else None
        if found is None:
            raise NotFound(f"there is no schedule {name!r:.60}{_in(tenant)}; `duly schedules list` shows them")
        return found

    @reads
    async def list(
        self, *, tenant: str | None = None, limit: int = 100, after: Schedule | None = None
    ) -> builtins.list[Schedule]:
        """In the order of tenant and name. For the next page, *after* is the last one of this page."""
        check_page(limit)
        last = ("", "") if after is None else (after.tenant, after.name)
        return await self._store.shown_schedules(tenant, after=last, limit=limit)

    @for_doors
    @reads
    async def page(self, *, tenant: str = "default", limit: int = 100, after: str | None = None) -> ListPage[Schedule]:
        """In the order of names, as far as there is room for their bytes. For the next page, *after* is the last name
        of this one."""
        check_page(limit)
        last = (tenant, after or "")
        return page_of(await self._store.shown_schedules(tenant, after=last, limit=limit + 1, within=PAGE_BYTES), limit)

    @for_doors
    @reads
    async def history_page(
        self, name: str, *, tenant: str = "default", skip: int = 0, limit: int = 100
    ) -> ListPage[Entry]:
        """Of every human act, oldest first."""
        schedule = await self.get(name, tenant=tenant)
        return await history_page(self._store, schedule.id, skip=skip, limit=limit)

    @reads
    async def history(self, name: str, *, tenant: str = "default") -> builtins.list[Entry]:
        """Every human act, oldest first. What became of its events is in theirs."""
        return await self._store.history((await self.get(name, tenant=tenant)).id)

    # -- holding

    async def pause(
        self, name: str, *, tenant: str = "default", by: str = "api", reason: str | None = None
    ) -> Schedule:
        """Nothing of it starts any more; what has begun goes on to its end, with its retries. Its next event stays
        where it is, held."""
        async with self._locked(name, tenant) as (tx, schedule, _head):
            if schedule.enabled:
                paused = msgspec.structs.replace(schedule, enabled=False)
                await tx.put_schedule(paused)
                await pause(tx, paused, storable(by))
                await _note(tx, schedule, "paused", by, reason)
        return await self.get(name, tenant=tenant)

    async def resume(self, name: str, *, tenant: str = "default", passed: str = SKIP, by: str = "api") -> Resumed:
        """Go on. A pause is not a misfire: what it has passed over is left out. With ``passed="fire"`` it is treated by
        the misfire policy, as if it had been missed."""
        if passed not in PASSED:
            raise Invalid([Problem("passed", f"must be one of {', '.join(PASSED)}, not {passed!r:.50}")])
        async with self._locked(name, tenant) as (tx, schedule, head):
            over = None
            if not schedule.enabled:
                enabled = msgspec.structs.replace(schedule, enabled=True, halted=None)
                await tx.put_schedule(enabled)
                over = await resume(tx, enabled, head, passed, storable(by))
                shown = await tx.shown_schedule(tenant, name)
                await _note(tx, schedule, "resumed", by, told(over, None if shown is None else shown.next_at))
        resumed = await self.get(name, tenant=tenant)
        if over is None:
            return Resumed(resumed, 0, False)
        return Resumed(_telling(resumed, over.over), over.occurrences, over.fires)

    # -- the next one

    async def reschedule(self, name: str, due: datetime, *, tenant: str = "default", by: str = "api") -> Schedule:
        """Move the next event, that one alone: the rule goes on after it, and what it is moved past is passed over.
        Moved back, that is open again."""
        if problems := list(due_problems(due)):
            raise Invalid(problems)
        if not isinstance(due, datetime):
            raise Invalid([Problem("due", f"expected a datetime, not {type(due).__name__}")])
        due = due.astimezone(UTC)
        async with self._locked(name, tenant) as (tx, schedule, head):
            head = _required(head, schedule)
            due, behind = await move_by_hand(tx, schedule.as_series, head, due, storable(by))
            detail = f"due {write_instant(head.due)} → {write_instant(due)}{in_words(behind)}"
            await tx.change(msgspec.structs.replace(head, due=due), "rescheduled", storable(by), detail)
            await _note(tx, schedule, "rescheduled", by, detail)
            over = None if behind is None else passed_over(schedule, behind.first, behind.many)
        return _telling(await self.get(name, tenant=tenant), over)

    async def skip(self, name: str, *, tenant: str = "default", by: str = "api", reason: str | None = None) -> Schedule:
        """Leave the next event out, that one alone."""
        async with self._locked(name, tenant) as (tx, schedule, head):
            head = _required(head, schedule)
            why = f"left out by {by}" + (f": {reason}" if reason else "")
            await tx.drop({head.id: (1, "skipped", storable(why))}, storable(by))
            await plan_next(tx, head)
            await _note(tx, schedule, "skipped", by, f"due {write_instant(head.due)}")
            over = passed_over(schedule, [occurrence_of(head)], 1)
        return _telling(await self.get(name, tenant=tenant), over)

    # -- beside the rule

    async def trigger(
        self,
        name: str,
        *,
        payload: Any = UNCHANGED,
        tenant: str = "default",
        by: str = "api",
        correlation_id: str | None = None,
    ) -> Event:
        """Fire now, also while it is paused. The next event stays where it is. Where the schedule limits how many are
        under way, it waits its turn."""
        written = None if payload is UNCHANGED else write_json(payload, "payload")
        problems = [*name_problems("correlation_id", correlation_id)] if correlation_id is not None else []
        if isinstance(written, Problem):
            problems.append(written)
        if problems:
            raise Invalid(problems)
        async with self._locked(name, tenant, head=False) as (tx, schedule, _):
            self._refuse_closed(schedule)
            id = new_id()
            event = _beside(schedule, id, f"trigger:{id}", correlation_id=correlation_id)
            if isinstance(written, str):
                event = msgspec.structs.replace(event, payload_json=written)
            await self._plant(tx, schedule, [event], f"triggered by {by}")
            await _note(tx, schedule, "triggered", by, f"event {id}")
            found = await tx.get(id)
        assert found is not None
        return msgspec.structs.replace(found, schedule=name)

    async def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        limit: int = 100,
        label: str | None = None,
        tenant: str = "default",
        by: str = "api",
    ) -> Backfilled:
        """Fire the occurrences from *start* until *end*, that one excluded, now, oldest first; `event.scheduled` tells
        which each one is. One that the same label has filled before is not filled again. More than *limit* are
        refused. They are found in a thread, for some rules take long."""
        self._check_range(start, end, limit, label)
        start, end = start.astimezone(UTC), end.astimezone(UTC)
        label = label or f"{write_instant(start)}/{write_instant(end)}"
        async with self._locked(name, tenant, head=False) as (tx, schedule, _):
            self._refuse_closed(schedule)
            now = await tx.now()
            if end > now:
                raise Invalid(
                    [Problem("end", f"{write_instant(end)} lies ahead: what is still to come fires by itself")]
                )
            occurrences = await evaluated(_between, schedule.timetable, start, end, limit)
            events = [
                _beside(
                    schedule,
                    new_id(),
                    f"backfill:{label}:{each.name}",
                    due=now - (len(occurrences) - number) * MICROSECOND,  # in this order
                    scheduled=each.at,
                    correlation_id=f"backfill:{label}",
                )
                for number, each in enumerate(occurrences)
            ]
            made = await self._plant(tx, schedule, events, f"backfilled by {by}: {label}")
            await _note(tx, schedule, "backfilled", by, f"{label}: {len(made)} of {len(events)}")
        return Backfilled(label, made, len(events) - len(made))

    def _refuse_closed(self, schedule: Schedule) -> None:
        """Nothing is sent beside the rule to where requests may not send any more."""
        if problems := closed(schedule.via, schedule.target, self._channels):
            raise Invalid(problems)

    async def _plant(
        self, tx: ScheduleTransaction, schedule: Schedule, events: builtins.list[NewEvent], why: str
    ) -> builtins.list[str]:
        planted = await tx.plant(events) if events else set()
        made = [event for event in events if event.id in planted]
        ids = [event.id for event in made]
        tx.tell_created(made)
        if ids and schedule.policies.mode == SHADOW:
            await tx.drop(dict.fromkeys(ids, (1, "shadowed", "shadow: it would have fired")), storable(why))
        elif ids:
            await tx.note([(id, "created", storable(why)) for id in ids], "schedule")
            await let_go(tx, [schedule])
        return ids

    def _check_range(self, start: Any, end: Any, limit: Any, label: Any) -> None:
        problems = []
        for field, value in (("start", start), ("end", end)):
            if not isinstance(value, datetime):
                problems.append(Problem(field, f"expected a datetime, not {type(value).__name__}"))
            else:
                problems += [Problem(field, message) for _, message in due_problems(value)]
        if not problems and end <= start:
            problems.append(Problem("end", "is not after the start"))
        if type(limit) is not int or not 1 <= limit <= MOST_BACKFILLED:
            allowed = f"a whole number from 1 to {MOST_BACKFILLED:,}"
            problems.append(Problem("limit", f"must be {allowed}, not {limit!r:.50}"))
        if label is not None:
            problems += [Problem("label", message) for _, message in name_problems("name", label)]
        if problems:
            raise Invalid(problems)

    # -- looking ahead, and ending

    @reads
    async def preview(
        self,
        what: "str | Rule | dict[str, Any]",
        *,
        count: int = 10,
        after: datetime | None = None,
        timezone: str | None = None,
        tenant: str = "default",
        enough: Callable[[], bool] = never,
        **policies: Unpack[PolicyOptions],
    ) -> builtins.list[Preview]:
        """The next occurrences of a schedule by its name, or of a rule, with what is odd about them in a note. Without
        *after*, a schedule's next event comes first, where somebody may have moved it. They are found in a thread, for
        some rules take long; after each, *enough* is asked there whether to stop."""
        problems = range_problems(count, after)
        now = await self._store.now()
        start = now if after is None or problems else after.astimezone(UTC)
        try:
            if not isinstance(what, str):
                table = await evaluated(table_of, what, timezone, policies, now, problems)
                return await evaluated(preview, table, start, count, None, enough)
            if problems:
                raise Invalid(problems)
            shown = await self.get(what, tenant=tenant)
            schedule = await self._store.schedule_named(tenant, what) or shown  # with what it went by before
            head_id = await self._store.head_id(schedule.series) if after is None else None
            head = await self._store.get(head_id) if head_id is not None else None
            return await evaluated(preview_of, schedule.as_series, head, start, count, enough)
        except ValueError as error:
            raise Invalid([Problem("rule", str(error))]) from error

    async def delete(self, name: str, *, tenant: str = "default", expected: str | None = None, by: str = "api") -> int:
        """What is under way ends; all else of it is cancelled. How many that were. Stale unless the schedule has the
        tag that is *expected*."""
        async with self._locked(name, tenant) as (tx, schedule, _head):
            check_tag(f"schedule {name!r}", schedule.tag, expected)
            if dependents := await tx.dependents(tenant, name):
                depend = "depends" if len(dependents) == 1 else "depend"
                raise Conflict(f"cannot delete schedule {name!r}: {', '.join(dependents[:5])} {depend} on it")
            cancelled = await tx.cancel_series(schedule.series, storable(by), "its schedule was deleted")
            await _note(tx, schedule, "deleted", by, name)
            await tx.delete_schedule(schedule.id)
        return cancelled

    async def replan(self, *, dry_run: bool = False, by: str = "api") -> builtins.list[ReplannedHead]:
        """Move what has not started to where newer zone data puts it; what was or would be moved."""
        return await replan(self._store, dry_run=dry_run, by=storable(by))

    @asynccontextmanager
    async def _locked(
        self, name: str, tenant: str, *, head: bool = True
    ) -> AsyncIterator[tuple[ScheduleTransaction, Schedule, Event | None]]:
        """A schedule and its head, which nobody else can change meanwhile. Events are locked first; when the head has
        been claimed before the schedule was locked too, it is tried again."""
        for _ in range(MOST_TRIES):
            known = await self.get(name, tenant=tenant)
            with suppress(Overtaken):
                async with self._store.begin() as tx:
                    own_head = await lock_head(tx, known.series) if head else None
                    found = await tx.schedules([known.id])
                    if not found or (head and await tx.head_id(known.series) != (own_head and own_head.id)):
                        raise Overtaken
                    yield tx, found[0], own_head
                    # The head may not fire now; or it was locked here while whoever would have let it go passed by.
                    if own_head is not None and is_limited(found[0].as_series):
                        await let_go(tx, found)
                    return
        raise Conflict(f"schedule {name!r} is being changed by others just now: try again")


def _between(table: Timetable, start: datetime, end: datetime, limit: int) -> list[Occurrence]:
    found: list[Occurrence] = []
    following = table.after(start - BEFORE)
    while following is not None and following.at < end:
        if len(found) == limit:
            told = f"{_how_many(table, start, end)} more than {limit:,}: raise the limit or narrow the range"
            raise Invalid([Problem("limit", told)])
        found.append(following)
        following = table.after(following.at)
    return found


def _how_many(table: Timetable, start: datetime, end: datetime) -> str:
    """Not where there are days of rest, for these are counted one by one: a thousand years of them take half a
    minute."""
    return "there are" if table.policies.exclude else f"{table.count(start, end - BEFORE):,} occurrences are"


def _beside(schedule: Schedule, id: str, occurrence: str, **fields: Any) -> NewEvent:
    """An event of a schedule that is none of its occurrences in turn, and so never its head."""
    gated = schedule.policies.room is not None
    return event_of(schedule.as_series, id, occurrence, gated=gated, held=ITS_TURN if gated else None, **fields)


def _telling(schedule: Schedule, over: PassedOver | None) -> Schedule:
    return schedule if over is None else msgspec.structs.replace(schedule, passed_over=over)


async def _note(tx: ScheduleTransaction, schedule: Schedule, act: str, by: str, detail: str | None) -> None:
    await tx.note([(schedule.id, act, None if detail is None else storable(detail))], storable(by))


def _required(head: Event | None, schedule: Schedule) -> Event:
    if head is None:
        reason = schedule.halted or "it has none just now"
        raise Conflict(f"schedule {schedule.name!r} has no next event: {reason}")
    return head


def _in(tenant: str) -> str:
    return "" if tenant == "default" else f" in tenant {tenant!r:.60}"
