"""``client.schedules``: list, put, pause, trigger, move, skip and backfill schedules."""

import builtins
from collections.abc import AsyncIterator, Callable, Collection
from datetime import datetime, timedelta
from typing import Any, Literal, NoReturn, Unpack, overload

import msgspec

from duly.client.protocol.answers import log_warnings
from duly.client.protocol.connection import place
from duly.client.protocol.group import said
from duly.client.protocol.paging import all_pages, count_of, up_to, whole_history
from duly.client.protocol.refusals import here_only, refuse_name, refuse_transaction
from duly.client.protocol.writing import instant, instants, listed_tags, moment, pause_body, preview_body
from duly.client.schedules.bulk import ScheduleActs
from duly.decide.checks import name_problems, write_json
from duly.decide.retry import Retry
from duly.decide.series.preview import Preview, never
from duly.decide.series.why_not import WhyNot
from duly.errors import Invalid, NotFound, Problem
from duly.records.event import EVENT_JSON, Event
from duly.records.figures.consequence import Consequence
from duly.records.figures.stats import STATS_JSON, Stats
from duly.records.finding.counts import Count
from duly.records.finding.schedules import EVERY_SCHEDULE, ScheduleFilter
from duly.records.history import Entry
from duly.records.results import Backfilled, Resumed
from duly.records.schedule import SCHEDULE_JSON, SCHEDULE_PAGE, Schedule
from duly.records.wire.answers import RESUMED, DeletedSchedule, Occurrences
from duly.records.wire.schedule_writer import schedule_body
from duly.rules.policies import PolicyOptions
from duly.rules.recurrence import Rule
from duly.verbs.schedules.runs import UNCHANGED

LONGEST_WAIT_S = 60.0
"""Seconds for which a server waits for an event at most."""


RESUMED_SCHEDULE = msgspec.json.Decoder(RESUMED)
DELETED = msgspec.json.Decoder(DeletedSchedule)
BACKFILLED = msgspec.json.Decoder(Backfilled)
OCCURRENCES = msgspec.json.Decoder(Occurrences)
WHY_NOT = msgspec.json.Decoder(WhyNot)


PUT_SCHEDULE = msgspec.json.Decoder(SCHEDULE_JSON.struct)


class PutScheduleReader:
    """Reads the answer to a schedule that was put; logs warnings that do not follow from its fields."""

    def decode(self, written: bytes) -> Schedule:
        told: Any = PUT_SCHEDULE.decode(written)
        schedule = SCHEDULE_JSON.read(told)
        log_warnings(warning for warning in told.warnings if warning not in schedule.warnings)
        return schedule


class Schedules(ScheduleActs):
    """The verbs of ``duly.schedules``."""

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
        tenant: str | None = None,
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
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        if problems := name_problems("name", name):
            raise Invalid(problems)
        given = {
            "rule": rule,
            "type": type,
            "payload": payload,
            "template": template,
            "timezone": timezone,
            "target": target,
            "retry": retry,
            "tags": None if tags is None else listed_tags(tags),
            "enabled": enabled,
        }
        body = schedule_body(given, policies, partial=template is not None)
        return await self._connection.ask(
            "PUT",
            rehearsed(place("schedules", name), dry_run),
            body,
            reads=PutScheduleReader(),
            once=True,
            headers=if_match(expected),
        )

    async def get(self, name: str, *, tenant: str | None = None) -> Schedule:
        self._check(tenant)
        return await self._connection.ask("GET", _place(name), reads=SCHEDULE_JSON)

    async def list(
        self,
        which: ScheduleFilter = EVERY_SCHEDULE,
        *,
        tenant: str | None = None,
        limit: int = 100,
        after: Schedule | None = None,
    ) -> builtins.list[Schedule]:
        """The schedules that match the filter, in the order of names. For the next page, *after* is the last schedule
        of this page."""
        self._check(tenant)
        last, filters = None if after is None else after.name, which.checked().query()
        return await up_to(limit, self._connection, place("schedules"), SCHEDULE_PAGE, after=last, filters=filters)

    async def count(self, which: ScheduleFilter = EVERY_SCHEDULE, *, tenant: str | None = None) -> Count:
        """The number of schedules that match the filter: exact up to 10,000, then an estimate that says so."""
        self._check(tenant)
        return await count_of(self._connection, place("schedules"), SCHEDULE_PAGE, which.checked().query())

    async def all(
        self, which: ScheduleFilter = EVERY_SCHEDULE, *, tenant: str | None = None
    ) -> AsyncIterator[Schedule]:
        """Every schedule that matches the filter, in the order of names."""
        self._check(tenant)
        filters = which.checked().query()
        async for page in all_pages(self._connection, place("schedules"), SCHEDULE_PAGE, filters):
            for schedule in page.items:
                yield schedule

    async def history(self, name: str, *, tenant: str | None = None) -> builtins.list[Entry]:
        """Every human act, the oldest first. Deliveries are in the histories of the events."""
        self._check(tenant)
        return await whole_history(self._connection, _place(name, "history"))

    # -- pause and resume

    async def pause(
        self,
        name: str,
        *,
        reason: str | None = None,
        until: datetime | timedelta | float | str | None = None,
        passed: str | None = None,
        tenant: str | None = None,
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
        body = pause_body(reason, until, passed)
        return await self._act(_place(name, "pause"), body, tenant, dry_run, transaction, by)

    async def resume(
        self,
        name: str,
        *,
        tenant: str | None = None,
        passed: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
    ) -> Resumed:
        """Resume a schedule. A pause is not a misfire: the occurrences that it has passed over are left out. With
        ``passed="fire"``, the misfire policy treats them as missed. Without *passed*, the pause itself has said which.
        A pause whose end has passed has ended at that instant, as it had said, even if no worker has noticed it. With
        *dry_run*, nothing is changed: the schedule of the result has the ``consequence``."""
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        seen: Any = await self._connection.ask(
            "POST",
            rehearsed(_place(name, "resume"), dry_run),
            said(passed=passed),
            reads=RESUMED_SCHEDULE,
            once=True,
        )
        return Resumed(SCHEDULE_JSON.read(seen), seen.passed, seen.fires)

    # -- the next event

    async def reschedule(
        self,
        name: str,
        due: datetime,
        *,
        tenant: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
    ) -> Schedule:
        """Move only the next event; the rule continues after it. With *dry_run*, nothing is changed: the result has the
        ``consequence``."""
        body = {"due_at": instant("due", due)}
        return await self._act(_place(name, "reschedule"), body, tenant, dry_run, transaction, by)

    async def skip(
        self,
        name: str,
        *,
        tenant: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
        reason: str | None = None,
    ) -> Schedule:
        """Skip only the next event. With *dry_run*, nothing is changed: the result has the ``consequence``."""
        return await self._act(_place(name, "skip"), said(reason=reason), tenant, dry_run, transaction, by)

    # -- events outside the rule

    async def trigger(
        self,
        name: str,
        *,
        payload: Any = UNCHANGED,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
        correlation_id: str | None = None,
        wait: timedelta | float | None = None,
    ) -> Event:
        """Fire a schedule now, even while it is paused. Its next event stays where it is.

        With *wait*, in seconds or as a timedelta, at most a minute, the call returns when the event has ended, its
        first attempt has failed, or the time is over.
        """
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        body = said(correlation_id=correlation_id)
        if payload is not UNCHANGED:
            written = write_json(payload, "payload")
            if isinstance(written, Problem):
                raise Invalid([written])
            body["payload"] = msgspec.Raw(written.encode())
        seconds = _seconds(wait)
        return await self._connection.ask(
            "POST",
            _place(name, "trigger"),
            body,
            reads=EVENT_JSON,
            once=True,
            headers={"Prefer": f"wait={seconds}"} if seconds else None,
            patience=seconds,
        )

    async def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        limit: int = 100,
        label: str | None = None,
        dry_run: bool = False,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> Backfilled:
        """Fire the occurrences from *start* until *end* (excluded) now, the oldest first; `event.scheduled` is the
        instant of each occurrence. An occurrence that was filled before under the same label is not filled again; the
        label is "default" unless one is given. More than *limit* occurrences are refused. With *dry_run*, nothing
        fires: the result has the occurrences that would.
        """
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        body = said(**{"from": instant("start", start), "to": instant("end", end), "limit": limit, "label": label})
        return await self._connection.ask(
            "POST",
            rehearsed(_place(name, "backfill"), dry_run),
            body,
            reads=BACKFILLED,
            once=True,
            renamed={"from": "start", "to": "end"},
        )

    # -- preview and delete

    async def preview(
        self,
        what: "str | Rule | dict[str, Any]",
        *,
        count: int = 10,
        after: datetime | None = None,
        timezone: str | None = None,
        tenant: str | None = None,
        enough: Callable[[], bool] = never,
        **policies: Unpack[PolicyOptions],
    ) -> builtins.list[Preview]:
        """The next occurrences of a schedule by its name, or of a rule, with a note on each unusual one. Without
        *after*, a schedule's next event comes first, where it may have been moved to. Where occurrences take long to
        find, a server returns only some, and is asked for the rest until *enough* returns true."""
        self._check(tenant)
        found: builtins.list[Preview] = []
        while True:
            when, left = None if after is None else instant("after", after), count - len(found) if found else count
            if isinstance(what, str):
                query = said(count=str(left), after=when)
                seen = await self._connection.ask("GET", _place(what, "preview"), reads=OCCURRENCES, query=query)
            else:
                body = preview_body(what, timezone, policies, count=left, after=when)
                seen = await self._connection.ask("POST", place("schedules", "preview"), body, reads=OCCURRENCES)
            found += seen.occurrences
            if seen.complete or not seen.occurrences or enough():
                return found
            after = found[-1].due

    async def stats(
        self, name: str, from_: datetime | None = None, to: datetime | None = None, *, tenant: str | None = None
    ) -> Stats:
        """What has become of the events of a schedule: how many runs, how they ended, how long they took, and how late
        they began, together and by day (UTC). Without *to*, it ends now; without *from_*, it has 30 days."""
        self._check(tenant)
        query = said(**instants({"from": from_, "to": to}))
        return await self._connection.ask("GET", _place(name, "stats"), reads=STATS_JSON, query=query)

    async def why_not(self, name: str, at: datetime | str, *, tenant: str | None = None) -> WhyNot:
        """Why a schedule did not run at an instant: the one cause; or that it ran, or when it will.

        A datetime without a zone, or such a text, is what the clocks in the schedule's zone showed: also a time that
        they skipped. If they showed it twice, the rule's policy for overlaps chooses which one is meant.
        """
        self._check(tenant)
        query = said(at=moment("at", at))
        return await self._connection.ask("GET", _place(name, "why-not"), reads=WHY_NOT, query=query)

    @overload
    async def delete(
        self,
        name: str,
        *,
        tenant: str | None = None,
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
        tenant: str | None = None,
        expected: str | None = None,
        dry_run: Literal[False] = False,
        transaction: Any = None,
        by: str = "api",
    ) -> int: ...

    async def delete(
        self,
        name: str,
        *,
        tenant: str | None = None,
        expected: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
    ) -> int | Consequence:
        """Delete a schedule; return how many of its events were cancelled. Events under way continue to their end.
        Raises Stale unless the schedule has the *expected* tag. With *dry_run*, nothing is changed: the result is the
        ``Consequence``."""
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        seen: DeletedSchedule = await self._connection.ask(
            "DELETE", rehearsed(_place(name), dry_run), reads=DELETED, once=True, headers=if_match(expected)
        )
        if isinstance(seen.consequence, Consequence):
            return seen.consequence
        return seen.cancelled

    def replan(self, *, dry_run: bool = False, transaction: Any = None, by: str = "api") -> NoReturn:
        """Refused over HTTP: it would affect the schedules of all tenants."""
        raise here_only("schedules.replan", "workers replan automatically when their time zone data is newer")

    async def _act(
        self, act: str, body: dict[str, Any], tenant: str | None, dry_run: bool, transaction: Any, by: str
    ) -> Schedule:
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        return await self._connection.ask("POST", rehearsed(act, dry_run), body, reads=SCHEDULE_JSON, once=True)


def rehearsed(place: str, dry_run: bool) -> str:
    """The address of an act, or of its dry run."""
    return f"{place}?dry_run=true" if dry_run else place


def if_match(tag: str | None) -> dict[str, str] | None:
    if tag is not None and (not isinstance(tag, str) or not tag.isascii() or not tag.isprintable() or '"' in tag):
        raise Invalid([Problem("expected", f"must be an ETag such as schedule.tag, not {tag!r:.50}")])
    return None if tag is None else {"If-Match": f'"{tag}"'}


def _place(name: str, *act: str) -> str:
    """The path of a schedule; raises NotFound without a request if no schedule can have this name."""
    if name_problems("name", name):
        raise NotFound(f"there is no schedule {name!r:.60}")
    return place("schedules", name, *act)


def _seconds(wait: timedelta | float | None) -> int:
    seconds = wait.total_seconds() if isinstance(wait, timedelta) else wait or 0.0
    if not 0 <= seconds <= LONGEST_WAIT_S:
        raise Invalid([Problem("wait", f"must be 0 to {LONGEST_WAIT_S:g} seconds, not {wait!s:.50}")])
    return -int(-seconds // 1)
