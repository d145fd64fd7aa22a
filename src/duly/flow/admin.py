"""What people do to events: look, cancel, move, replay, discard. Every act is checked, audited and atomic."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec

from duly.core.checks import MOST_LISTED, check_id, check_page, due_problems, name_problems
from duly.core.failure import storable
from duly.core.lifecycle import step
from duly.core.model import Entry, Event
from duly.core.recurrence import instant_name
from duly.core.specs import Everything, OfTenant, Spec
from duly.errors import Conflict, Invalid, NotFound, Problem
from duly.flow.gates import let_go_after
from duly.flow.heads import plan_next
from duly.ports import Store, Transaction

MOST = MOST_LISTED
AN_EVENTS = "an event's"


class Events:
    """``duly.events``. With a tenant, only that tenant's events exist."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, id: str, *, tenant: str | None = None) -> Event:
        return _known(await self._store.get(check_id(id, AN_EVENTS)), id, tenant)

    async def by_key(self, key: str, *, tenant: str = "default") -> Event:
        """The timer with this key. A cancelled one has lost its key, and is found by its id alone."""
        possible = not any((*name_problems("key", key), *name_problems("tenant", tenant)))
        return _known(await self._store.by_key(tenant, key) if possible else None, f"with key {key!r:.60}", tenant)

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
        spec = Everything() if spec is None else spec
        return await self._store.find(
            spec if tenant is None else spec & OfTenant(tenant),
            limit=limit,
            after=None if after is None else check_id(after, AN_EVENTS, "after"),
        )

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
            detail = f"due {instant_name(event.due)} → {instant_name(due)}"
            return await _change(tx, msgspec.structs.replace(event, due=due), "rescheduled", by, detail)

    async def replay(self, id: str, *, tenant: str | None = None, by: str = "api") -> Event:
        """A dead letter's way back, under the same id, with all its attempts anew."""
        async with self._locked(id, tenant) as (tx, event):
            status = step(event.status, "replay", f"event {id}")
            again = msgspec.structs.replace(event, status=status, attempts=0, interruptions=0)
            return await _change(tx, again, "replayed", by, f"after {event.attempts} attempts: {event.last_error}")

    async def discard(self, id: str, *, tenant: str | None = None, by: str = "api", reason: str | None = None) -> Event:
        """A dead letter that nobody needs any more."""
        async with self._locked(id, tenant) as (tx, event):
            discarded = msgspec.structs.replace(event, status=step(event.status, "discard", f"event {id}"))
            return await _change(tx, discarded, "discarded", by, reason)

    @asynccontextmanager
    async def _locked(self, id: str, tenant: str | None) -> AsyncIterator[tuple[Transaction, Event]]:
        async with self._store.begin() as tx:
            yield tx, _known(await tx.lock(check_id(id, AN_EVENTS)), id, tenant)


async def _change(tx: Transaction, event: Event, act: str, by: str, detail: str | None) -> Event:
    """Write it with its history; as it is stored."""
    await tx.change(event, act, storable(by), None if detail is None else storable(detail))
    return _known(await tx.get(event.id), event.id, None)


def _known(event: Event | None, wanted: str, tenant: str | None) -> Event:
    if event is None or (tenant is not None and event.tenant != tenant):
        raise NotFound(f"there is no event {wanted}" + (f" in tenant {tenant!r}" if tenant else ""))
    return event
