"""What people do to events: look, cancel, move, replay, discard. Every act is checked, audited and atomic."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from duly.decide.checks import MOST_LISTED, check_id, check_page, is_id, name_problems
from duly.decide.error_text import storable
from duly.decide.lifecycle import step
from duly.decide.targets.origin import closed
from duly.decide.targets.rates import read_rate
from duly.engine.series.heads import continued_by, plan_next
from duly.engine.series.holds import let_go_after
from duly.engine.series.passed_over import in_words, move_by_hand
from duly.errors import Conflict, Invalid, Problem
from duly.instants import due_problems, write_instant
from duly.ports import EventStore, EventTransaction, Page
from duly.records.event import Event
from duly.records.history import Entry
from duly.records.results import DeadLetters, Discarded, Replayed
from duly.records.specs import Everything, OfTenant, Spec
from duly.verbs.dead_letters import MOST_KINDS, Extent, discard_all, replay_all
from duly.verbs.found import require_found

MOST = MOST_LISTED
AN_EVENTS = "an event's"


class Events:
    """``duly.events``. With a tenant, only that tenant's events exist."""

    def __init__(self, store: EventStore, channels: Collection[str] = ()) -> None:
        self._store, self._channels = store, channels

    async def get(self, id: str, *, tenant: str | None = None) -> Event:
        return require_found("event", await self._store.get(check_id(id, AN_EVENTS)), id, tenant)

    async def by_key(self, key: str, *, tenant: str = "default") -> Event:
        """The timer with this key. A cancelled one has lost its key, and is found by its id alone."""
        possible = not any((*name_problems("key", key), *name_problems("tenant", tenant)))
        return require_found(
            "event", await self._store.by_key(tenant, key) if possible else None, f"with key {key!r:.60}", tenant
        )

    async def find(
        self,
        spec: Spec | None = None,
        *,
        tenant: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[Event]:
        """The newest first. For the next page, *after* is the last id of this one."""
        check_page(limit)
        before = None if after is None else check_id(after, AN_EVENTS, "after")
        return await self._store.find(_of(tenant, spec), limit=limit, after=before)

    async def page(
        self,
        spec: Spec | None = None,
        *,
        tenant: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page:
        """The newest first, in a time that does not grow with the number of events. A page may be short, or empty, and
        not the last: the next one begins after its ``next``, which is None at the end."""
        check_page(limit)
        before = None if after is None else check_id(after, AN_EVENTS, "after")
        return await self._store.page(_of(tenant, spec), limit=limit, after=before)

    async def schedules_of(self, events: Iterable[Event]) -> dict[str, str]:
        """The names of the schedules that events are of, by the events' ids. An event that is missing is of none, or
        of one that has been deleted."""
        of = {event.id: id for event in events if (id := event.schedule_id) is not None and is_id(id)}
        names = await self._store.schedule_names(set(of.values())) if of else {}
        return {event: names[id] for event, id in of.items() if id in names}

    async def history(self, id: str, *, tenant: str | None = None) -> list[Entry]:
        """Every attempt, interruption and human act, oldest first."""
        event = await self.get(id, tenant=tenant)
        return await self._store.history(event.id)

    async def cancel(self, id: str, *, tenant: str | None = None, by: str = "api", reason: str | None = None) -> Event:
        """It will not fire. Its series, if it has one, goes on with the occurrence after it."""
        async with self._locked(id, tenant) as (tx, event):
            status = step(event.status, "cancel", f"event {id}")
            cancelled = msgspec.structs.replace(event, status=status, head=False)
            changed = await _change(tx, cancelled, "cancelled", by, reason)
            if event.head:
                await plan_next(tx, event)
            await let_go_after(tx, [event])
            return changed

    async def reschedule(self, id: str, due: datetime, *, tenant: str | None = None, by: str = "api") -> Event:
        """Move one that has not started."""
        if problems := list(due_problems(due)):
            raise Invalid(problems)
        if not isinstance(due, datetime):
            raise Invalid([Problem("due", f"expected a datetime, not {type(due).__name__}")])
        due = due.astimezone(UTC)
        async with self._locked(id, tenant) as (tx, event):
            step(event.status, "reschedule", f"event {id}")
            if event.attempts or event.interruptions:
                raise Conflict(f"cannot reschedule event {id}: it was tried {event.attempts} times already; cancel it")
            over = None
            if event.head:
                due, over = await move_by_hand(tx, await continued_by(tx, event), event, due, storable(by))
            detail = f"due {write_instant(event.due)} → {write_instant(due)}{in_words(over)}"
            await _change(tx, msgspec.structs.replace(event, due=due), "rescheduled", by, detail)
            if event.head:
                await let_go_after(tx, [event])
            return require_found("event", await tx.get(event.id), id, tenant)

    async def replay(self, id: str, *, tenant: str | None = None, by: str = "api") -> Event:
        """A dead letter's way back, under the same id, with all its attempts anew."""
        async with self._locked(id, tenant) as (tx, event):
            status = step(event.status, "replay", f"event {id}")
            if problems := closed(event.via, event.target, self._channels):
                raise Invalid(problems)
            again = msgspec.structs.replace(event, status=status, attempts=0, interruptions=0)
            detail = f"after {event.attempts} attempts: {event.last_error or ''}"
            return await _change(tx, again, "replayed", by, detail)

    async def discard(self, id: str, *, tenant: str | None = None, by: str = "api", reason: str | None = None) -> Event:
        """A dead letter that nobody needs any more."""
        async with self._locked(id, tenant) as (tx, event):
            discarded = msgspec.structs.replace(event, status=step(event.status, "discard", f"event {id}"))
            return await _change(tx, discarded, "discarded", by, reason)

    # -- many dead letters at once

    async def dead_letters(self, spec: Spec | None = None, *, tenant: str | None = None) -> DeadLetters:
        """How many satisfy the spec, and the most frequent kinds of them: what ``replay_all`` would replay."""
        return await self._store.count_dead(_of(tenant, spec), most=MOST_KINDS)

    async def replay_all(
        self,
        spec: Spec | None = None,
        *,
        tenant: str | None = None,
        rate: float | str | None = None,
        limit: int | None = None,
        by: str = "api",
        progress: Callable[[Replayed], object] | None = None,
    ) -> Replayed:
        """Replay the dead letters that satisfy the spec, the oldest first, at most *limit*. Nothing else is touched,
        whatever the spec says.

        With a *rate*, such as ``50`` (by the second), ``"50/s"`` or ``"600/m"``, they become ready one after the other
        at that rate. That is stored at once: nobody has to stay for it. *progress* is told after each transaction what
        is done so far. What is done stays done when the call is cancelled or *progress* raises, and another call goes
        on with the rest.
        """
        gap = None if rate is None else read_rate(rate)
        check_limit(limit)
        wanted = Extent(limit)
        return (await replay_all(self._store, _of(tenant, spec), gap, wanted, storable(by), progress or _nobody))[0]

    async def discard_all(
        self,
        spec: Spec | None = None,
        *,
        tenant: str | None = None,
        limit: int | None = None,
        by: str = "api",
        reason: str | None = None,
        progress: Callable[[Discarded], object] | None = None,
    ) -> Discarded:
        """Put away the dead letters that satisfy the spec, the oldest first, at most *limit*."""
        check_limit(limit)
        why = None if reason is None else storable(reason)
        wanted = Extent(limit)
        return (await discard_all(self._store, _of(tenant, spec), wanted, storable(by), why, progress or _nobody))[0]

    @asynccontextmanager
    async def _locked(self, id: str, tenant: str | None) -> AsyncIterator[tuple[EventTransaction, Event]]:
        async with self._store.begin() as tx:
            yield tx, require_found("event", await tx.lock(check_id(id, AN_EVENTS)), id, tenant)


async def _change(tx: EventTransaction, event: Event, act: str, by: str, detail: str | None) -> Event:
    """Write it with its history; as it is stored."""
    await tx.change(event, act, storable(by), None if detail is None else storable(detail))
    return require_found("event", await tx.get(event.id), event.id, None)


def _of(tenant: str | None, spec: Spec | None) -> Spec:
    spec = Everything() if spec is None else spec
    return spec if tenant is None else spec & OfTenant(tenant)


def check_limit(limit: Any) -> None:
    if limit is not None and (type(limit) is not int or limit < 1):
        raise Invalid([Problem("limit", f"must be a whole number from 1 on, not {limit!r:.50}")])


def _nobody(_: object) -> None:
    """Nobody wants to know."""
