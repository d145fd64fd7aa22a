"""The verbs that fire a schedule outside its rule: trigger, and backfill."""

import builtins
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from duly.decide.checks import name_problems, write_json
from duly.decide.error_text import storable
from duly.decide.series.due_head import ITS_TURN, event_of
from duly.decide.targets.origin import closed, refuse_edit, via_of
from duly.engine.series.holds import let_go
from duly.engine.series.rule_threads import evaluated
from duly.errors import Invalid, Problem
from duly.ids import new_id
from duly.ports import Dropped, ScheduleTransaction
from duly.records.event import Event, NewEvent
from duly.records.history import Cause
from duly.records.results import Backfilled
from duly.records.schedule import Schedule
from duly.rules.policies import SHADOW
from duly.rules.recurrence import Occurrence
from duly.rules.timetable import BEFORE, Timetable
from duly.values.instants import due_problems, write_instant
from duly.verbs.schedules.group import ScheduleGroup, note_act

MOST_BACKFILLED = 10_000
"""Events that one backfill may create, in one transaction."""

DEFAULT_LABEL = "default"
"""The label of backfills for which none is given, whatever their range: they fire each occurrence once."""

MICROSECOND = timedelta(microseconds=1)
UNCHANGED: Any = object()


class ScheduleRuns(ScheduleGroup):
    """The part of ``duly.schedules`` that fires events outside the rule."""

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
            id = await self._trigger(tx, schedule, by, written if isinstance(written, str) else None, correlation_id)
            found = await tx.get(id)
        assert found is not None
        return found

    async def _trigger(
        self,
        tx: ScheduleTransaction,
        schedule: Schedule,
        by: str,
        payload_json: str | None = None,
        correlation_id: str | None = None,
    ) -> str:
        """Fires a locked schedule now; returns the id of the event."""
        self._refuse_closed(schedule)
        if payload_json is not None and payload_json != schedule.payload_json:
            refuse_edit(schedule.via, schedule.target, via_of(self._channels), f"schedule {schedule.name!r:.60}")
        id = new_id()
        event = _beside(schedule, id, f"trigger:{id}", correlation_id=correlation_id)
        if payload_json is not None:
            event = msgspec.structs.replace(event, payload_json=payload_json)
        await self._plant(tx, schedule, [event], f"triggered by {by}")
        await note_act(tx, schedule, "triggered", by, f"event {id}")
        return id

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
            await note_act(tx, schedule, "backfilled", by, f"{label}: {len(made)} of {len(events)}")
        done = set(made)
        return Backfilled(label, made, len(events) - len(made), _instants(one for one in events if one.id in done))

    def _refuse_closed(self, schedule: Schedule) -> None:
        """Refuses to fire outside the rule if requests may not send to the schedule's target any more, or this one may
        not start its command."""
        self._refuse_act(schedule)
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
            shadowed = Dropped(Cause.SHADOW, "shadow: it would have fired", "shadowed")
            await tx.drop(dict.fromkeys(ids, shadowed), storable(why))
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
