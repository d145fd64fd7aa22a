"""The verbs of schedules: list, put, pause, trigger, move, skip, backfill. Every act is atomic and audited."""

import builtins
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

import msgspec

from duly.decide.checks import check_page, name_problems, write_json
from duly.decide.error_text import storable
from duly.decide.retry import DEFAULT, Retry
from duly.decide.series.due_head import ITS_TURN, event_of, occurrence_of
from duly.decide.series.edits import passed_over
from duly.decide.series.preview import Preview, never, preview, preview_of, range_problems, table_of
from duly.decide.targets.origin import START, closed, refuse_act, refuse_edit, via_of
from duly.engine.series.heads import is_limited, plan_next
from duly.engine.series.holds import PASSED, SKIP, Overtaken, let_go, lock_head, pause, resume, told
from duly.engine.series.passed_over import in_words, move_by_hand
from duly.engine.series.put_schedule import MOST_TRIES, ScheduleDraft, put_schedule
from duly.engine.series.replan import replan
from duly.engine.series.rule_threads import evaluated
from duly.engine.series.templates import filled_in
from duly.errors import Conflict, Invalid, NotFound, Problem
from duly.ids import new_id
from duly.ports import PAGE_BYTES, ListPage, ScheduleStore, ScheduleTransaction, page_of
from duly.records.etags import check_tag
from duly.records.event import Event, NewEvent
from duly.records.finding.counts import Count
from duly.records.history import Entry
from duly.records.results import Backfilled, ReplannedHead, Resumed
from duly.records.schedule import HaltKind, PassedOver, Schedule
from duly.rules.policies import SHADOW, PolicyOptions
from duly.rules.recurrence import Occurrence, Rule
from duly.rules.timetable import BEFORE, Timetable
from duly.values.instants import due_problems, write_instant
from duly.verbs.histories import history_page
from duly.verbs.marks import for_doors, reads
from duly.verbs.schedules.imports import ScheduleImports
from duly.verbs.schedules.templates import find_template

MOST_BACKFILLED = 10_000
"""Events that one backfill may create, in one transaction."""

DEFAULT_LABEL = "default"
"""The label of backfills for which none is given, whatever their range: they fire each occurrence once."""

MICROSECOND = timedelta(microseconds=1)
UNCHANGED: Any = object()


class Schedules(ScheduleImports):
    """``duly.schedules``."""

    def __init__(
        self,
        store: ScheduleStore,
        channels: Collection[str],
        transaction_of: Callable[[Any], ScheduleStore | None],
    ) -> None:
        self._store, self._channels, self._transaction_of = store, channels, transaction_of

    # -- create and read

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
        enabled: bool | None = None,
        expected: str | None = None,
        transaction: Any = None,
        by: str = "api",
        **policies: Unpack[PolicyOptions],
    ) -> Schedule:
        """Create a schedule, or replace the one with this name.

        An unchanged rule and zone leave the next event where it is. Without *enabled*, a paused schedule stays paused.
        With *expected*, raises Stale unless the schedule still has that tag. What is not given, or None, is copied from
        the *template*; later changes of the template change no schedule.
        """
        given = {
            "rule": rule,
            "type": type,
            "payload": payload,
            "target": target,
            "retry": retry,
            "timezone": timezone,
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
        return await put_schedule(self._store, draft, self._channels, within, storable(by))

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
        """The schedules, in the order of tenant and name. For the next page, *after* is the last schedule of this
        page."""
        check_page(limit)
        last = ("", "") if after is None else (after.tenant, after.name)
        return await self._store.shown_schedules(tenant, after=last, limit=limit)

    @reads
    async def count(self, *, tenant: str | None = None) -> Count:
        """The number of schedules: exact up to 10,000, then an estimate that says so."""
        return await self._store.count_schedules(tenant)

    @for_doors
    @reads
    async def halted(self, *, limit: int) -> builtins.list[Schedule]:
        """The schedules that an error has halted, in the order of tenant and name."""
        return await self._store.halted(HaltKind.ERROR, limit=limit)

    @for_doors
    @reads
    async def page(self, *, tenant: str = "default", limit: int = 100, after: str | None = None) -> ListPage[Schedule]:
        """A page of schedules, in the order of names, limited in bytes as well. For the next page, *after* is the last
        name of this one."""
        check_page(limit)
        last = (tenant, after or "")
        return page_of(await self._store.shown_schedules(tenant, after=last, limit=limit + 1, within=PAGE_BYTES), limit)

    @for_doors
    @reads
    async def history_page(
        self, name: str, *, tenant: str = "default", skip: int = 0, limit: int = 100
    ) -> ListPage[Entry]:
        """A page of human acts, the oldest first."""
        schedule = await self.get(name, tenant=tenant)
        return await history_page(self._store, schedule.id, skip=skip, limit=limit)

    @reads
    async def history(self, name: str, *, tenant: str = "default") -> builtins.list[Entry]:
        """Every human act, the oldest first. Deliveries are in the histories of the events."""
        return await self._store.history((await self.get(name, tenant=tenant)).id)

    # -- pause and resume

    async def pause(
        self,
        name: str,
        *,
        tenant: str = "default",
        transaction: Any = None,
        by: str = "api",
        reason: str | None = None,
    ) -> Schedule:
        """Pause a schedule: none of its events starts any more. Events that have started continue to their end, with
        their retries. The next event stays where it is, held."""
        here = self._within(transaction)
        async with here._locked(name, tenant) as (tx, schedule, _head):
            if schedule.enabled:
                paused = msgspec.structs.replace(schedule, enabled=False, paused_since=await tx.now())
                await tx.put_schedule(paused)
                await pause(tx, paused, storable(by))
                await _note(tx, schedule, "paused", by, reason)
        return await here.get(name, tenant=tenant)

    async def resume(
        self,
        name: str,
        *,
        tenant: str = "default",
        passed: str = SKIP,
        transaction: Any = None,
        by: str = "api",
    ) -> Resumed:
        """Resume a schedule. A pause is not a misfire: the occurrences that it has passed over are left out. With
        ``passed="fire"``, the misfire policy treats them as missed."""
        if passed not in PASSED:
            raise Invalid([Problem("passed", f"must be one of {', '.join(PASSED)}, not {passed!r:.50}")])
        here = self._within(transaction)
        async with here._locked(name, tenant) as (tx, schedule, head):
            over = None
            if passed != SKIP:
                self._refuse_act(schedule, "fire what a pause has passed over")
            if not schedule.enabled:
                enabled = msgspec.structs.replace(
                    schedule, enabled=True, halted=None, halt_kind=None, paused_since=None
                )
                await tx.put_schedule(enabled)
                over = await resume(tx, enabled, head, schedule.paused_since, passed, storable(by))
                shown = await tx.shown_schedule(tenant, name)
                await _note(tx, schedule, "resumed", by, told(over, None if shown is None else shown.next_at))
        resumed = await here.get(name, tenant=tenant)
        if over is None:
            return Resumed(resumed, 0, False)
        return Resumed(_telling(resumed, over.over), over.occurrences, over.fires)

    # -- the next event

    async def reschedule(
        self, name: str, due: datetime, *, tenant: str = "default", transaction: Any = None, by: str = "api"
    ) -> Schedule:
        """Move only the next event; the rule continues after it. Occurrences that it is moved past are passed over; if
        it is moved back, they can fire again."""
        if problems := list(due_problems(due)):
            raise Invalid(problems)
        if not isinstance(due, datetime):
            raise Invalid([Problem("due", f"expected a datetime, not {type(due).__name__}")])
        due, here = due.astimezone(UTC), self._within(transaction)
        async with here._locked(name, tenant) as (tx, schedule, head):
            head = _required(head, schedule)
            self._refuse_act(schedule)
            due, behind = await move_by_hand(tx, schedule.as_series, head, due, storable(by))
            detail = f"due {write_instant(head.due)} → {write_instant(due)}{in_words(behind)}"
            await tx.change(msgspec.structs.replace(head, due=due), "rescheduled", storable(by), detail)
            await _note(tx, schedule, "rescheduled", by, detail)
            over = None if behind is None else passed_over(schedule, behind.first, behind.many)
        return _telling(await here.get(name, tenant=tenant), over)

    async def skip(
        self,
        name: str,
        *,
        tenant: str = "default",
        transaction: Any = None,
        by: str = "api",
        reason: str | None = None,
    ) -> Schedule:
        """Skip only the next event."""
        here = self._within(transaction)
        async with here._locked(name, tenant) as (tx, schedule, head):
            head = _required(head, schedule)
            why = f"skipped by {by}" + (f": {reason}" if reason else "")
            await tx.drop({head.id: (1, "skipped", storable(why))}, storable(by))
            await plan_next(tx, head)
            await _note(tx, schedule, "skipped", by, f"due {write_instant(head.due)}")
            over = passed_over(schedule, [occurrence_of(head)], 1)
        return _telling(await here.get(name, tenant=tenant), over)

    # -- events outside the rule

    async def trigger(
        self,
        name: str,
        *,
        payload: Any = UNCHANGED,
        tenant: str = "default",
        transaction: Any = None,
        by: str = "api",
        correlation_id: str | None = None,
    ) -> Event:
        """Fire a schedule now, even while it is paused. Its next event stays where it is. If the schedule limits how
        many of its events are under way, this event waits its turn."""
        written = None if payload is UNCHANGED else write_json(payload, "payload")
        problems = [*name_problems("correlation_id", correlation_id)] if correlation_id is not None else []
        if isinstance(written, Problem):
            problems.append(written)
        if problems:
            raise Invalid(problems)
        async with self._within(transaction)._locked(name, tenant, head=False) as (tx, schedule, _):
            self._refuse_closed(schedule)
            if isinstance(written, str) and written != schedule.payload_json:
                refuse_edit(schedule.via, schedule.target, via_of(self._channels), f"schedule {name!r:.60}")
            id = new_id()
            event = _beside(schedule, id, f"trigger:{id}", correlation_id=correlation_id)
            if isinstance(written, str):
                event = msgspec.structs.replace(event, payload_json=written)
            await self._plant(tx, schedule, [event], f"triggered by {by}")
            await _note(tx, schedule, "triggered", by, f"event {id}")
            found = await tx.get(id)
        assert found is not None
        return found

    async def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        limit: int = 100,
        label: str | None = None,
        dry_run: bool = False,
        tenant: str = "default",
        transaction: Any = None,
        by: str = "api",
    ) -> Backfilled:
        """Fire the occurrences from *start* until *end* (excluded) now, the oldest first; `event.scheduled` is the
        instant of each occurrence. An occurrence that was filled before under the same label is not filled again; the
        label is "default" unless one is given. More than *limit* occurrences are refused. With *dry_run*, nothing
        fires: the result has the occurrences that would. They are computed in a thread, because some rules take long.
        """
        self._check_range(start, end, limit, label)
        start, end = start.astimezone(UTC), end.astimezone(UTC)
        label = DEFAULT_LABEL if label is None else label
        async with self._within(transaction)._locked(name, tenant, head=False) as (tx, schedule, _):
            self._refuse_closed(schedule)
            now = await tx.now()
            if end > now:
                raise Invalid(
                    [
                        Problem(
                            "end", f"{write_instant(end)} is in the future: future occurrences fire without a backfill"
                        )
                    ]
                )
            occurrences = await evaluated(_between, schedule.timetable, start, end, limit)
            events = _to_fill(schedule, occurrences, label, now)
            if dry_run:
                known = await tx.taken([(schedule.series, str(event.occurrence)) for event in events])
                missing = [event for event in events if (schedule.series, event.occurrence) not in known]
                return Backfilled(label, [], len(known), _instants(missing))
            made = await self._plant(tx, schedule, events, f"backfilled by {by}: {label}")
            await _note(tx, schedule, "backfilled", by, f"{label}: {len(made)} of {len(events)}")
        done = set(made)
        return Backfilled(label, made, len(events) - len(made), _instants(one for one in events if one.id in done))

    def _refuse_closed(self, schedule: Schedule) -> None:
        """Refuses to fire outside the rule if requests may not send to the schedule's target any more, or this one may
        not start its command."""
        self._refuse_act(schedule)
        if problems := closed(schedule.via, schedule.target, self._channels):
            raise Invalid(problems)

    def _refuse_act(self, schedule: Schedule, act: str = START) -> None:
        refuse_act(schedule.target, self._channels, f"schedule {schedule.name!r:.60}", act)

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

    # -- preview and delete

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
        """The next occurrences of a schedule by its name, or of a rule, with a note on each unusual one. Without
        *after*, a schedule's next event comes first, where it may have been moved to. They are computed in a thread,
        because some rules take long; after each, *enough* is called there, and ends the preview if it returns true."""
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
            schedule = await self._store.schedule_named(tenant, what) or shown  # with its previous rule
            head_id = await self._store.head_id(schedule.series) if after is None else None
            head = await self._store.get(head_id) if head_id is not None else None
            return await evaluated(preview_of, schedule.as_series, head, start, count, enough)
        except ValueError as error:
            raise Invalid([Problem("rule", str(error))]) from error

    async def delete(
        self,
        name: str,
        *,
        tenant: str = "default",
        expected: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> int:
        """Delete a schedule; return how many of its events were cancelled. Events under way continue to their end.
        Raises Stale unless the schedule has the *expected* tag."""
        async with self._within(transaction)._locked(name, tenant) as (tx, schedule, _head):
            check_tag(f"schedule {name!r}", schedule.tag, expected)
            self._refuse_act(schedule, "delete it")
            if dependents := await tx.dependents(tenant, name):
                depend = "depends" if len(dependents) == 1 else "depend"
                raise Conflict(f"cannot delete schedule {name!r}: {', '.join(dependents[:5])} {depend} on it")
            cancelled = await tx.cancel_series(schedule.series, storable(by), "its schedule was deleted")
            await _note(tx, schedule, "deleted", by, name)
            await tx.delete_schedule(schedule.id)
        return cancelled

    async def replan(
        self, *, dry_run: bool = False, transaction: Any = None, by: str = "api"
    ) -> builtins.list[ReplannedHead]:
        """Move events that have not started to where newer time zone data puts them; return the events that were, or
        with *dry_run* would be, moved."""
        return await replan(self._within(transaction)._store, dry_run=dry_run, by=storable(by))

    def _within(self, transaction: Any) -> "Schedules":
        """The same verbs in the caller's transaction, if there is one."""
        tx = self._transaction_of(transaction)
        return self if tx is None else Schedules(tx, self._channels, self._transaction_of)

    @asynccontextmanager
    async def _locked(
        self, name: str, tenant: str, *, head: bool = True
    ) -> AsyncIterator[tuple[ScheduleTransaction, Schedule, Event | None]]:
        """Locks a schedule and its head. Events are locked first; if the head was claimed before the schedule was
        locked as well, tries again."""
        for _ in range(MOST_TRIES):
            known = await self.get(name, tenant=tenant)
            with suppress(Overtaken):
                async with self._store.begin() as tx:
                    own_head = await lock_head(tx, known.series) if head else None
                    found = await tx.schedules([known.id])
                    if not found or (head and await tx.head_id(known.series) != (own_head and own_head.id)):
                        raise Overtaken
                    yield tx, found[0], own_head
                    # The head may not fire any more, which frees its place; or the transaction that would have released
                    # the head skipped it, because it was locked here.
                    if own_head is not None and is_limited(found[0].as_series):
                        await let_go(tx, found)
                    return
        raise Conflict(f"schedule {name!r} is being changed by other requests at the moment: try again")


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


def _to_fill(
    schedule: Schedule, occurrences: Sequence[Occurrence], label: str, now: datetime
) -> builtins.list[NewEvent]:
    """The events of a backfill."""
    return [
        _beside(
            schedule,
            new_id(),
            f"backfill:{label}:{each.name}",
            due=now - (len(occurrences) - number) * MICROSECOND,  # claimed in this order
            scheduled=each.at,
            correlation_id=f"backfill:{label}",
        )
        for number, each in enumerate(occurrences)
    ]


def _instants(events: Iterable[NewEvent]) -> builtins.list[datetime]:
    return [event.scheduled for event in events if event.scheduled is not None]


def _how_many(table: Timetable, start: datetime, end: datetime) -> str:
    """The number of occurrences for an error message. It is left out with excluded days, because those are counted one
    by one: a thousand years of them take half a minute."""
    return "there are" if table.policies.exclude else f"{table.count(start, end - BEFORE):,} occurrences are"


def _beside(schedule: Schedule, id: str, occurrence: str, **fields: Any) -> NewEvent:
    """An event of a schedule outside its sequence of occurrences, which therefore never is its head."""
    gated = schedule.policies.room is not None
    return event_of(schedule.as_series, id, occurrence, gated=gated, hold=ITS_TURN if gated else None, **fields)


def _telling(schedule: Schedule, over: PassedOver | None) -> Schedule:
    return schedule if over is None else msgspec.structs.replace(schedule, passed_over=over)


async def _note(tx: ScheduleTransaction, schedule: Schedule, act: str, by: str, detail: str | None) -> None:
    await tx.note([(schedule.id, act, None if detail is None else storable(detail))], storable(by))


def _required(head: Event | None, schedule: Schedule) -> Event:
    if head is None:
        reason = schedule.halted or "it has none at the moment"
        raise Conflict(f"schedule {schedule.name!r} has no next event: {reason}")
    return head


def _in(tenant: str) -> str:
    return "" if tenant == "default" else f" in tenant {tenant!r:.60}"
