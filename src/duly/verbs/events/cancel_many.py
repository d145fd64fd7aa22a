"""Cancels all events that a filter matches, some hundred in each transaction, the newest first."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from duly.decide.error_text import storable
from duly.engine.series.heads import plan_next
from duly.engine.series.holds import let_go_after
from duly.errors import Invalid, Problem
from duly.ports import EventStore, EventTransaction
from duly.records.event import Event, Status
from duly.records.filters import EventFilter
from duly.records.finding.acts import ActedOn, Portion
from duly.records.specs import Everything, OneOf, Spec
from duly.verbs.events.dead_letters import MOST_KINDS
from duly.verbs.marks import for_doors

EVENTS_PER_TRANSACTION = 200
"""Events that one transaction cancels: heads take some statements each, and others wait for it."""

OPEN = (Status.PENDING, Status.PROCESSING)


class CancelMany:
    """The part of ``duly.events`` that cancels everything that a filter matches."""

    _store: EventStore

    @abstractmethod
    async def _spec(self, spec: Spec | EventFilter | None, tenant: str | None) -> Spec:
        """The spec for the store: of the filter, and of the tenant."""

    async def cancel_all(
        self,
        which: EventFilter | Spec,
        *,
        reason: str | None = None,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        progress: Callable[[ActedOn], object] | None = None,
    ) -> ActedOn:
        """Cancel the waiting and running events that match, the newest first, like ``cancel``: what runs is asked to
        stop, and schedules go on with their next occurrences. An empty filter is refused without *everything*. With
        *dry_run*, nothing changes: the result has how many it would be, and of which kinds. Some hundred are cancelled
        in each transaction; after each, *progress* is called with the result so far."""
        done, _ = await self.cancel_batch(
            which, Portion(), reason=reason, everything=everything, dry_run=dry_run, tenant=tenant, by=by, tell=progress
        )
        return done

    @for_doors
    async def cancel_batch(
        self,
        which: EventFilter | Spec,
        portion: Portion,
        *,
        reason: str | None = None,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        tell: Callable[[ActedOn], object] | None = None,
    ) -> tuple[ActedOn, str | None]:
        """A portion of ``cancel_all``, and the id after which the next one begins; None at the end."""
        spec = _open(which, await self._spec(which, tenant), everything=everything)
        if dry_run:
            kinds = await self._store.event_kinds(spec, most=MOST_KINDS)
            return ActedOn(dry_run=True, would=await self._store.count_events(spec), kinds=tuple(kinds)), None
        detail = None if reason is None else storable(reason)
        return await _cancel_all(self._store, spec, portion, storable(by), detail, tell)


def _open(which: Any, spec: Spec, *, everything: bool) -> Spec:
    """The spec of the open events that match; raises Invalid for an empty filter, unless everything is meant."""
    if not everything and (which is None or isinstance(which, Everything) or which == EventFilter()):
        raise Invalid([Problem("filter", "is empty, so it matches everything: say so with everything=True")])
    return spec & OneOf("status", OPEN)


async def _cancel_all(
    store: EventStore,
    spec: Spec,
    portion: Portion,
    by: str,
    detail: str | None,
    tell: Callable[[ActedOn], object] | None,
) -> tuple[ActedOn, str | None]:
    """Cancels a portion of the events; returns the id after which the next portion begins. Because the newest come
    first, successors that it plants are not visited."""
    done, left, after = ActedOn(), portion.most, portion.after
    while left is None or left > 0:
        limit = EVENTS_PER_TRANSACTION if left is None else min(left, EVENTS_PER_TRANSACTION)
        page = await store.page(spec, limit=limit, after=after)
        if page.events:
            cancelled = await _cancel(store, page.events, by, detail)
            done = done.plus(cancelled, len(page.events) - cancelled)
            left = None if left is None else left - len(page.events)
            if tell is not None:
                tell(done)
        if (after := page.next) is None:
            return done, None
    return done, after


async def _cancel(store: EventStore, events: Sequence[Event], by: str, detail: str | None) -> int:
    """Cancels those that nobody else is changing, in one transaction; returns how many. Events are locked first, then
    schedules."""
    async with store.begin() as tx:
        free = await tx.unlocked([event.id for event in events])
        cancelled = await tx.cancel_found([event for event in events if event.id in free], by, detail)
        others = sorted(
            (event for event in events if event.id in free - cancelled),
            key=lambda event: (event.series or "", event.id),
        )
        many = len(cancelled)
        for event in others:
            locked = await tx.lock(event.id)
            if locked is not None and locked.status in OPEN:
                await _cancel_one(tx, locked, by, detail)
                many += 1
    return many


async def _cancel_one(tx: EventTransaction, event: Event, by: str, detail: str | None) -> None:
    """Cancels a locked event that has a successor, lets others start, or runs: that one is asked to stop."""
    running = event.status is Status.PROCESSING
    if running and (event.ready is None or event.ready > await tx.now()):
        await tx.request_stop(event.id, by, detail)
        return
    cancelled = msgspec.structs.replace(
        event, status=Status.CANCELLED, head=False, interruptions=event.interruptions + running
    )
    await tx.change(cancelled, "cancelled", by, detail)
    if event.head:
        await plan_next(tx, event)
    await let_go_after(tx, [event])
