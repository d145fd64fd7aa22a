"""The verbs of events: find, cancel, move, replay, discard. Every act is checked, audited and atomic."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from duly.decide.checks import MOST_LISTED, check_id, check_page, is_id, name_problems
from duly.decide.error_text import storable
from duly.decide.lifecycle import step
from duly.decide.targets.origin import closed, refuse_act
from duly.decide.targets.rates import read_rate
from duly.decide.why import Why, could_begin, why
from duly.engine.series.heads import continued_by, plan_next
from duly.engine.series.holds import let_go_after
from duly.engine.series.passed_over import in_words, move_by_hand
from duly.errors import Conflict, Invalid, Problem
from duly.ports import EventPort, EventStore, EventTransaction, ListPage, Page, PresencePort
from duly.records.event import TERMINAL, Event, HoldKind, Status
from duly.records.filters import EventFilter, no_schedule
from duly.records.finding.counts import Count
from duly.records.finding.sorting import LATEST_DUE, NEWEST, check_sorted
from duly.records.history import Entry
from duly.records.results import CancelResult, DeadLetters, Discarded, Replayed
from duly.records.specs import Everything, OfTenant, Spec
from duly.values.instants import due_problems, write_instant
from duly.verbs.events.cancel_many import CancelMany
from duly.verbs.events.dead_letters import MOST_KINDS, Extent, Place, discard_all, replay_all
from duly.verbs.events.edited_replays import UNCHANGED, replay_edited
from duly.verbs.found import require_found
from duly.verbs.histories import history_page
from duly.verbs.marks import for_doors, reads
from duly.verbs.transactions import no_transaction
from duly.verbs.workers import surroundings

MOST = MOST_LISTED
AN_EVENTS = "an event's"
DEFAULT_TENANT = "default"


class Events(CancelMany):
    """``duly.events``. With a tenant, only that tenant's events exist."""

    def __init__(
        self,
        store: EventStore,
        channels: Collection[str] = (),
        transaction_of: Callable[[Any], EventStore | None] = no_transaction,
        presence: PresencePort | None = None,
    ) -> None:
        """*presence*: where workers are read, if the store is confined to a tenant."""
        self._store, self._channels, self._transaction_of = store, channels, transaction_of
        self._presence: PresencePort = presence or store

    @reads
    async def get(self, id: str, *, tenant: str | None = None) -> Event:
        """The event with this id or key. A key names its open event, or else its latest."""
        return _required(await self._find(self._store, id, tenant), id, tenant)

    @reads
    async def by_key(self, key: str, *, tenant: str = "default") -> Event:
        """The timer with this key: the open one, or else the latest."""
        found = await self._with_key(self._store, key, tenant)
        return require_found("event", found, f"with key {key!r:.60}", tenant)

    @reads
    async def find(
        self,
        spec: Spec | EventFilter | None = None,
        *,
        tenant: str | None = None,
        limit: int = 100,
        after: str | None = None,
        sort: str = NEWEST,
    ) -> list[Event]:
        """Find events, the newest first. For the next page, *after* is the last id of this one.

        With *sort* ``"due"``, find waiting events (PENDING) in the order of their due times, the next one first, or
        with ``"-due"`` the last one first. Then ``page`` tells where the next page begins.
        """
        if sort != NEWEST:
            return await self._find_by_due(spec, tenant, limit, after, sort)
        check_page(limit)
        before = None if after is None else check_id(after, AN_EVENTS, "after")
        found = await self._store.find(await self._spec(spec, tenant), limit=limit, after=before)
        return found

    @reads
    async def page(
        self,
        spec: Spec | EventFilter | None = None,
        *,
        tenant: str | None = None,
        limit: int = 100,
        after: str | None = None,
        sort: str = NEWEST,
    ) -> Page:
        """A page of events in the order of ``find``, in a time that does not grow with the number of events. A page may
        be short or empty without being the last: the next one begins after its ``next``, which is None at the end."""
        check_page(limit)
        if sort != NEWEST:
            place = check_sorted(spec, sort, after)
            which = await self._spec(spec, tenant)
            found = await self._store.page_by_due(which, limit=limit, latest_first=sort == LATEST_DUE, after=place)
            return Page(found.events, None if found.next is None else str(found.next))
        before = None if after is None else check_id(after, AN_EVENTS, "after")
        page = await self._store.page(await self._spec(spec, tenant), limit=limit, after=before)
        return page

    @reads
    async def count(self, spec: Spec | EventFilter | None = None, *, tenant: str | None = None) -> Count:
        """How many events match the spec: exact if they are at most 10,000, and if no more than 100,000 had to be
        examined to find them; otherwise an estimate that says so."""
        return await self._store.count_events(await self._spec(spec, tenant))

    @reads
    async def history(self, id: str, *, tenant: str | None = None) -> list[Entry]:
        """Every attempt, interruption and human act, the oldest first."""
        event = await self.get(id, tenant=tenant)
        return await self._store.history(event.id)

    @for_doors
    @reads
    async def get_with_history(
        self, id: str, *, tenant: str | None = None, skip: int = 0, limit: int = MOST
    ) -> tuple[Event, ListPage[Entry]]:
        """An event, and a page of its history."""
        event = await self.get(id, tenant=tenant)
        return event, await history_page(self._store, event.id, skip=skip, limit=limit)

    @reads
    async def why(self, id: str, *, tenant: str | None = None) -> Why:
        """Why an event has not fired yet, or did not fire: the one cause."""
        return await self.why_told(id, tenant=tenant, discreet=False)

    @for_doors
    @reads
    async def why_told(self, id: str, *, tenant: str | None, discreet: bool) -> Why:
        """The same; *discreet* is for those who may learn of no worker, no host and no other tenant's numbers."""
        event = await self.get(id, tenant=tenant)
        now = await self._store.now()
        asks_around = could_begin(event, now) or event.hold_kind is HoldKind.TARGET
        around = await surroundings(self._presence, event, now) if asks_around else None
        by_pause = event.hold_kind is HoldKind.PAUSED and event.schedule_id is not None and event.owner is not None
        paused = await self._store.schedule_named(event.tenant, event.owner or "") if by_pause else None
        history = await self._store.history(event.id)
        return why(event, history, around, now, paused=paused, discreet=discreet)

    async def cancel(
        self,
        id: str,
        *,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
        reason: str | None = None,
    ) -> CancelResult:
        """Cancel an event, by its id or key. Its series, if it has one, continues with the occurrence after it. An
        event that runs is asked to stop: then it ends CANCELLED, without a retry, unless it completes first. Raises
        nothing for an event that has fired or does not exist."""
        async with self._within(transaction)._store.begin() as tx:
            event = await self._lock(tx, id, tenant)
            result = await self._result(tx, event)
            if event is not None and result is CancelResult.RUNNING:
                await tx.request_stop(event.id, storable(by), None if reason is None else storable(reason))
            elif event is not None and result is CancelResult.CANCELLED:
                vanished = event.status is Status.PROCESSING  # its worker, within this claim
                cancelled = msgspec.structs.replace(
                    event, status=Status.CANCELLED, head=False, interruptions=event.interruptions + vanished
                )
                await _change(tx, cancelled, "cancelled", by, reason)
                if event.head:
                    await plan_next(tx, event)
                await let_go_after(tx, [event])
        return result

    async def _result(self, tx: EventTransaction, event: Event | None) -> CancelResult:
        """What cancelling a locked event leads to. If its worker has vanished, it does not run any more."""
        if event is None or event.status is Status.CANCELLED:
            return CancelResult.NOTHING
        if event.status is Status.PROCESSING and (event.ready is None or event.ready > await tx.now()):
            return CancelResult.RUNNING
        return CancelResult.FIRED if event.status in TERMINAL else CancelResult.CANCELLED

    async def reschedule(
        self, id: str, due: datetime, *, tenant: str | None = None, transaction: Any = None, by: str = "api"
    ) -> Event:
        """Move an event that has not started."""
        if problems := list(due_problems(due)):
            raise Invalid(problems)
        if not isinstance(due, datetime):
            raise Invalid([Problem("due", f"expected a datetime, not {type(due).__name__}")])
        due, here = due.astimezone(UTC), self._within(transaction)
        async with here._locked(id, tenant) as (tx, event):
            step(event.status, "reschedule", f"event {id}")
            refuse_act(event.target, self._channels, f"event {id}")
            if event.attempts or event.interruptions:
                raise Conflict(
                    f"cannot reschedule event {id}: it was already tried {event.attempts} times; cancel it instead"
                )
            over = None
            if event.head:
                due, over = await move_by_hand(tx, await continued_by(tx, event), event, due, storable(by))
            detail = f"due {write_instant(event.due)} → {write_instant(due)}{in_words(over)}"
            await _change(tx, msgspec.structs.replace(event, due=due), "rescheduled", by, detail)
            if event.head:
                await let_go_after(tx, [event])
            moved = require_found("event", await tx.get(event.id), id, tenant)
        return moved

    async def replay(
        self,
        id: str,
        *,
        payload: Any = UNCHANGED,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> Event:
        """Retry a dead letter, under the same id, with a fresh count of attempts.

        With a *payload*, replay an event that has ended as a new event with this payload, due now, and return that one:
        its ``replay_of`` names the old event, whose ``replayed_as`` names the new one. A dead letter ends CANCELLED
        then."""
        here = self._within(transaction)
        async with here._locked(id, tenant) as (tx, event):
            if payload is not UNCHANGED:
                return await replay_edited(tx, event, payload, here._channels, storable(by))
            status = step(event.status, "replay", f"event {id}")
            refuse_act(event.target, self._channels, f"event {id}")
            if problems := closed(event.via, event.target, self._channels):
                raise Invalid(problems)
            if event.expires_at is not None and await tx.now() > event.expires_at:
                ended = write_instant(event.expires_at)
                raise Conflict(
                    f"cannot replay event {id}: it expired at {ended} and would be skipped; replay it with "
                    "a payload, as a new event"
                )
            if holder := (await tx.take_keys([event.id])).get(event.id):
                taken = require_found("event", await tx.get(holder), holder, None)
                raise Conflict(
                    f"cannot replay event {id}: its key {event.key!r:.60} is taken by event {holder}, which is "
                    f"{taken.status}; replay it when that one has ended, or cancel that one"
                )
            again = msgspec.structs.replace(event, status=status, attempts=0, interruptions=0)
            detail = f"after {event.attempts} attempts: {event.last_error or ''}"
            replayed = await _change(tx, again, "replayed", by, detail)
        return replayed

    async def discard(
        self,
        id: str,
        *,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
        reason: str | None = None,
    ) -> Event:
        """Discard a dead letter that is not needed any more."""
        here = self._within(transaction)
        async with here._locked(id, tenant) as (tx, event):
            discarded = msgspec.structs.replace(event, status=step(event.status, "discard", f"event {id}"))
            changed = await _change(tx, discarded, "discarded", by, reason)
        return changed

    # -- batches of dead letters

    @reads
    async def dead_letters(self, spec: Spec | EventFilter | None = None, *, tenant: str | None = None) -> DeadLetters:
        """How many dead letters match the spec, and their most frequent kinds: what ``replay_all`` would replay."""
        return await self._store.count_dead(await self._spec(spec, tenant), most=MOST_KINDS)

    async def replay_all(
        self,
        spec: Spec | EventFilter | None = None,
        *,
        tenant: str | None = None,
        rate: float | str | None = None,
        limit: int | None = None,
        by: str = "api",
        progress: Callable[[Replayed], object] | None = None,
    ) -> Replayed:
        """Replay the dead letters that match the spec, the oldest first, at most *limit*. Events in other states are
        never touched, whatever the spec says.

        With a *rate*, such as ``50`` (per second), ``"50/s"`` or ``"600/m"``, they become ready one after the other at
        that rate. The times are stored at once: the caller need not wait for them. After each transaction, *progress*
        is called with the totals so far. Committed transactions stay when the call is cancelled or *progress* raises,
        and another call continues with the rest.
        """
        done, _ = await self.replay_batch(spec, Extent(limit), tenant=tenant, rate=rate, by=by, progress=progress)
        return done

    @for_doors
    async def replay_batch(
        self,
        spec: Spec | EventFilter | None,
        extent: Extent,
        *,
        tenant: str | None = None,
        rate: float | str | None = None,
        by: str = "api",
        progress: Callable[[Replayed], object] | None = None,
    ) -> tuple[Replayed, Place | None]:
        """Do the same as ``replay_all`` within *extent*; also return the place where another call continues, None at
        the end."""
        gap = None if rate is None else read_rate(rate)
        check_limit(extent.limit)
        which = await self._spec(spec, tenant)
        return await replay_all(self._store, which, gap, extent, storable(by), progress or _nobody, self._channels)

    async def discard_all(
        self,
        spec: Spec | EventFilter | None = None,
        *,
        tenant: str | None = None,
        limit: int | None = None,
        by: str = "api",
        reason: str | None = None,
        progress: Callable[[Discarded], object] | None = None,
    ) -> Discarded:
        """Discard the dead letters that match the spec, the oldest first, at most *limit*."""
        done, _ = await self.discard_batch(spec, Extent(limit), tenant=tenant, by=by, reason=reason, progress=progress)
        return done

    @for_doors
    async def discard_batch(
        self,
        spec: Spec | EventFilter | None,
        extent: Extent,
        *,
        tenant: str | None = None,
        by: str = "api",
        reason: str | None = None,
        progress: Callable[[Discarded], object] | None = None,
    ) -> tuple[Discarded, Place | None]:
        """Do the same as ``discard_all`` within *extent*; also return the place where another call continues, None at
        the end."""
        check_limit(extent.limit)
        which, why = await self._spec(spec, tenant), None if reason is None else storable(reason)
        return await discard_all(self._store, which, extent, storable(by), why, progress or _nobody)

    # -- internal

    async def _find_by_due(
        self, spec: Spec | EventFilter | None, tenant: str | None, limit: int, after: str | None, sort: str
    ) -> list[Event]:
        page = await self.page(spec, tenant=tenant, limit=limit, after=after, sort=sort)
        found = page.events
        while page.next is not None and len(found) < limit:
            page = await self.page(spec, tenant=tenant, limit=limit - len(found), after=page.next, sort=sort)
            found += page.events
        return found

    async def _spec(self, spec: Spec | EventFilter | None, tenant: str | None) -> Spec:
        """The spec for the store: of the filter, and of the tenant."""
        if isinstance(spec, EventFilter):
            spec = (await self._with_schedule_id(spec, tenant or DEFAULT_TENANT)).spec()
        spec = Everything() if spec is None else spec
        return spec if tenant is None else spec & OfTenant(tenant)

    async def _with_schedule_id(self, which: EventFilter, tenant: str) -> EventFilter:
        """The filter with the schedule's id instead of its name. Text that has the form of an id and is no schedule's
        name counts as an id, also of a deleted schedule: its events still exist."""
        name = which.schedule
        if name is None:
            return which
        possible = not any((*name_problems("name", name), *name_problems("tenant", tenant)))
        found = await self._store.schedule_named(tenant, name) if possible else None
        if found is not None:
            return msgspec.structs.replace(which, schedule=found.id)
        if not is_id(name):
            raise Invalid([no_schedule(name)])
        return which

    def _within(self, transaction: Any) -> "Events":
        """The same verbs in the caller's transaction, if there is one."""
        tx = self._transaction_of(transaction)
        return self if tx is None else Events(tx, self._channels, self._transaction_of)

    async def _find(self, store: EventPort, name: str, tenant: str | None) -> Event | None:
        """The event with this id; without one, that with this key, of the default tenant if none is given."""
        id = _as_id(name)
        event = None if id is None else await store.get(id)
        if event is not None and (tenant is None or event.tenant == tenant):
            return event
        return await self._with_key(store, name, tenant or DEFAULT_TENANT)

    async def _with_key(self, store: EventPort, key: str, tenant: str) -> Event | None:
        possible = not any((*name_problems("key", key), *name_problems("tenant", tenant)))
        return await store.by_key(tenant, key) if possible else None

    async def _lock(self, tx: EventTransaction, name: str, tenant: str | None) -> Event | None:
        """The event with this id or key, locked. Looks again if it was cancelled before it was locked: the key may name
        another event now."""
        found = await self._find(tx, name, tenant)
        while found is not None:
            locked = await tx.lock(found.id)
            if locked is None and found.status in TERMINAL:
                return found  # it was deleted, and its key is remembered
            if locked is None or locked.status is not Status.CANCELLED or found.status is Status.CANCELLED:
                return locked
            found = await self._find(tx, name, tenant)
        return None

    @asynccontextmanager
    async def _locked(self, id: str, tenant: str | None) -> AsyncIterator[tuple[EventTransaction, Event]]:
        async with self._store.begin() as tx:
            yield tx, _required(await self._lock(tx, id, tenant), id, tenant)


def _required(event: Event | None, name: str, tenant: str | None) -> Event:
    id = _as_id(name)
    if event is None and id is None:  # a key is looked for in one tenant
        tenant = tenant or DEFAULT_TENANT
    return require_found("event", event, id or f"with id or key {name!r:.60}", tenant)


def _as_id(name: str) -> str | None:
    """The id, if the text has the form of one; raises Invalid for what is no text."""
    if not isinstance(name, str):
        raise Invalid([Problem("id", f"expected an event's id or key, as text, not {type(name).__name__}")])
    try:
        return check_id(name, AN_EVENTS)
    except Invalid:
        return None


async def _change(tx: EventTransaction, event: Event, act: str, by: str, detail: str | None) -> Event:
    """Stores a changed event with its history entry; returns the stored event."""
    await tx.change(event, act, storable(by), None if detail is None else storable(detail))
    return require_found("event", await tx.get(event.id), event.id, None)


def check_limit(limit: Any) -> None:
    if limit is not None and (type(limit) is not int or limit < 1):
        raise Invalid([Problem("limit", f"must be a whole number, at least 1, not {limit!r:.50}")])


def _nobody(_: object) -> None:
    """Ignores progress reports."""
