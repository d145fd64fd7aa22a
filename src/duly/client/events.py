"""``client.events``: find, cancel, move, replay and discard events."""

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import msgspec

from duly.client.protocol.acts import act_on_all
from duly.client.protocol.connection import place
from duly.client.protocol.group import Group, said
from duly.client.protocol.paging import all_pages, count_of, one_page, whole_history
from duly.client.protocol.refusals import refuse_name, refuse_transaction
from duly.client.protocol.writing import instant, rate_text
from duly.decide.checks import check_id, write_json
from duly.decide.why import Why
from duly.errors import Conflict, Invalid, NotFound, Problem
from duly.ports import Page
from duly.records.event import EVENT_JSON, EVENT_PAGE, Event
from duly.records.filters import EventFilter, filter_of
from duly.records.finding.acts import ActedOn
from duly.records.finding.counts import Count
from duly.records.finding.sorting import NEWEST, check_sorted
from duly.records.history import Entry
from duly.records.results import CancelResult, DeadLetters, Discarded, Replayed
from duly.records.specs import Spec
from duly.records.wire.answers import DISCARDED, REPLAYED
from duly.verbs.events.edited_replays import UNCHANGED
from duly.verbs.events.events import AN_EVENTS

REPLAYED_SO_FAR = msgspec.json.Decoder(REPLAYED)
DISCARDED_SO_FAR = msgspec.json.Decoder(DISCARDED)
DEAD_LETTERS = msgspec.json.Decoder(DeadLetters)
WHY = msgspec.json.Decoder(Why)
ACCEPTED = 202
"""The status of an answer that something was asked for, and has not happened yet."""


class Events(Group):
    """The verbs of ``duly.events``. A spec may contain the conditions that an `EventFilter` can express."""

    async def get(self, id: str, *, tenant: str | None = None) -> Event:
        """The event with this id or key. A key names its open event, or else its latest."""
        self._check(tenant)
        return await self._connection.ask("GET", _place(id), reads=EVENT_JSON)

    async def by_key(self, key: str, *, tenant: str | None = None) -> Event:
        """The timer with this key: the open one, or else the latest."""
        self._check(tenant)
        return await self._connection.ask("GET", place("timers", key), reads=EVENT_JSON)

    async def find(
        self,
        spec: Spec | EventFilter | None = None,
        *,
        tenant: str | None = None,
        limit: int = 100,
        after: str | None = None,
        sort: str = NEWEST,
    ) -> list[Event]:
        """Find events, the newest first. For the next page, *after* is the last id of this one. Where few events match
        the spec, several requests are made.

        With *sort* ``"due"``, find waiting events (PENDING) in the order of their due times, the next one first, or
        with ``"-due"`` the last one first. Then ``page`` tells where the next page begins.
        """
        page = await self.page(spec, tenant=tenant, limit=limit, after=after, sort=sort)
        found = page.events
        while page.next is not None and len(found) < limit:
            page = await self.page(spec, tenant=tenant, limit=limit - len(found), after=page.next, sort=sort)
            found += page.events
        return found

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
        filters = self._filter(spec, tenant).query()
        if sort != NEWEST:
            check_sorted(spec, sort, after)
            begin, filters = after, {**filters, "sort": sort}
        else:
            begin = None if after is None else check_id(after, AN_EVENTS, "after")
        path = place("events")
        page = await one_page(self._connection, path, EVENT_PAGE, limit=limit, after=begin, filters=filters)
        return Page(page.items, page.told.next_after)

    async def count(self, spec: Spec | EventFilter | None = None, *, tenant: str | None = None) -> Count:
        """How many events match the spec: exact if they are at most 10,000, and if no more than 100,000 had to be
        examined to find them; otherwise an estimate that says so."""
        filters = self._filter(spec, tenant).query()
        return await count_of(self._connection, place("events"), EVENT_PAGE, filters)

    async def all(self, spec: Spec | EventFilter | None = None, *, tenant: str | None = None) -> AsyncIterator[Event]:
        """Every event that matches the spec, the newest first: ``async for event in duly.events.all(spec)``. Events
        that are created meanwhile are newer, and are not included."""
        filters = self._filter(spec, tenant).query()
        async for page in all_pages(self._connection, place("events"), EVENT_PAGE, filters):
            for event in page.items:
                yield event

    async def history(self, id: str, *, tenant: str | None = None) -> list[Entry]:
        """Every attempt, interruption and human act, the oldest first."""
        self._check(tenant)
        return await whole_history(self._connection, _place(id, "history"))

    async def why(self, id: str, *, tenant: str | None = None) -> Why:
        """Why an event has not fired yet, or did not fire."""
        self._check(tenant)
        return await self._connection.ask("GET", _place(id, "why"), reads=WHY)

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
        event that runs is asked to stop. Raises nothing for an event that has fired or does not exist."""
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        path, body = _place(id, "cancel"), said(reason=reason)
        try:
            answer, _ = await self._connection.answer("POST", path, body, once=True)
        except NotFound:
            return CancelResult.NOTHING
        except Conflict:
            return CancelResult.FIRED
        return CancelResult.RUNNING if answer.status == ACCEPTED else CancelResult.CANCELLED

    async def reschedule(
        self, id: str, due: datetime, *, tenant: str | None = None, transaction: Any = None, by: str = "api"
    ) -> Event:
        """Move an event that has not started."""
        return await self._act(id, "reschedule", {"due_at": instant("due", due)}, tenant, transaction, by)

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
        body: dict[str, Any] = {}
        if payload is not UNCHANGED:
            written = write_json(payload, "payload")
            if isinstance(written, Problem):
                raise Invalid([written])
            body = {"payload": msgspec.Raw(written.encode())}
        return await self._act(id, "replay", body, tenant, transaction, by)

    async def discard(
        self, id: str, *, tenant: str | None = None, transaction: Any = None, by: str = "api", reason: str | None = None
    ) -> Event:
        """Discard a dead letter that is not needed any more."""
        return await self._act(id, "discard", said(reason=reason), tenant, transaction, by)

    # -- batches of dead letters

    async def dead_letters(self, spec: Spec | EventFilter | None = None, *, tenant: str | None = None) -> DeadLetters:
        """How many dead letters match the spec, and their most frequent kinds: what ``replay_all`` would replay."""
        filters = self._filter(spec, tenant).query()
        return await self._connection.ask("GET", place("dead-letters"), reads=DEAD_LETTERS, query=filters)

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
        """Replay the dead letters that match the spec, the oldest first, at most *limit*. The server replays some
        thousand in each transaction; after each, *progress* is called with the totals so far."""
        refuse_name(by)
        body = said(filter=self._filter(spec, tenant).body(), rate=rate_text(rate), limit=limit)
        done = Replayed()
        async for seen in self._in_pieces("replay", body, REPLAYED_SO_FAR):
            done = Replayed(
                events=done.events + seen.replayed,
                until=max(filter(None, (done.until, seen.last_ready_at)), default=None),
                left_alone=done.left_alone + seen.left_alone,
            )
            if progress is not None:
                progress(done)
        return done

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
        """Discard the dead letters that match the spec, the oldest first, at most *limit*; some thousand at a time,
        like ``replay_all``."""
        refuse_name(by)
        body = said(filter=self._filter(spec, tenant).body(), reason=reason, limit=limit)
        done = Discarded()
        async for seen in self._in_pieces("discard", body, DISCARDED_SO_FAR):
            done = Discarded(events=done.events + seen.discarded, left_alone=done.left_alone + seen.left_alone)
            if progress is not None:
                progress(done)
        return done

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
        *dry_run*, nothing changes: the result has how many it would be, and of which kinds. Some thousand are cancelled
        in each request; after each, *progress* is called with the result so far."""
        refuse_name(by)
        body = said(filter=self._filter(which, tenant).body(), reason=reason, everything=everything)
        return await act_on_all(self._connection, place("events", "cancel"), body, dry_run=dry_run, tell=progress)

    # -- internal

    async def _in_pieces(self, act: str, body: dict[str, Any], reads: msgspec.json.Decoder[Any]) -> AsyncIterator[Any]:
        """Sends the request for each batch in turn and yields the answers, until there is no next cursor."""
        cursor: str | None = None
        while True:
            asked = body | said(cursor=cursor)
            seen = await self._connection.ask("POST", place("events", act), asked, reads=reads, once=True)
            yield seen
            if (cursor := seen.next_cursor) is None:
                return

    async def _act(
        self, id: str, act: str, body: dict[str, Any], tenant: str | None, transaction: Any, by: str
    ) -> Event:
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        return await self._connection.ask("POST", _place(id, act), body, reads=EVENT_JSON, once=True)

    def _filter(self, spec: Spec | EventFilter | None, tenant: str | None) -> EventFilter:
        self._check(tenant)
        if isinstance(spec, EventFilter):
            return spec
        return EventFilter() if spec is None else filter_of(spec, self._connection.tenant)


def _place(id: str, *act: str) -> str:
    return place("events", id, *act)
