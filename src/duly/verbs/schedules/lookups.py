"""The verbs that look at schedules: one or many, their history, and a preview of their next occurrences."""

import builtins
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Unpack

from duly.decide.checks import check_page
from duly.decide.series.pauses import with_next
from duly.decide.series.preview import Preview, never, preview, preview_of, range_problems, table_of
from duly.engine.series.rule_threads import evaluated
from duly.errors import Invalid, Problem
from duly.ports import PAGE_BYTES, ListPage, page_of
from duly.records.figures.stats import Stats
from duly.records.finding.counts import Count
from duly.records.finding.schedules import EVERY_SCHEDULE, ScheduleFilter
from duly.records.history import Entry
from duly.records.schedule import HaltKind, Schedule
from duly.rules.policies import PolicyOptions
from duly.rules.recurrence import Rule
from duly.verbs.figures.stats import stats
from duly.verbs.histories import history_page
from duly.verbs.marks import for_doors, reads
from duly.verbs.schedules.group import ScheduleGroup


class ScheduleLookups(ScheduleGroup):
    """The part of ``duly.schedules`` that changes nothing."""

    @reads
    async def get(self, name: str, *, tenant: str = "default") -> Schedule:
        return (await _with_next([await self._named(name, tenant)]))[0]

    @reads
    async def list(
        self,
        which: ScheduleFilter = EVERY_SCHEDULE,
        *,
        tenant: str | None = None,
        limit: int = 100,
        after: Schedule | None = None,
    ) -> builtins.list[Schedule]:
        """The schedules that match the filter, in the order of tenant and name. For the next page, *after* is the last
        schedule of this page."""
        check_page(limit)
        last = ("", "") if after is None else (after.tenant, after.name)
        which = which.checked()
        return await _with_next(await self._store.shown_schedules(tenant, after=last, limit=limit, which=which))

    @reads
    async def count(self, which: ScheduleFilter = EVERY_SCHEDULE, *, tenant: str | None = None) -> Count:
        """The number of schedules that match the filter: exact up to 10,000, then an estimate that says so."""
        return await self._store.count_schedules(tenant, which.checked())

    @for_doors
    @reads
    async def halted(self, *, limit: int) -> builtins.list[Schedule]:
        """The schedules that an error has halted, in the order of tenant and name."""
        return await self._store.halted(HaltKind.ERROR, limit=limit)

    @for_doors
    @reads
    async def page(
        self,
        which: ScheduleFilter = EVERY_SCHEDULE,
        *,
        tenant: str = "default",
        limit: int = 100,
        after: str | None = None,
    ) -> ListPage[Schedule]:
        """A page of schedules, in the order of names, limited in bytes as well. For the next page, *after* is the last
        name of this one."""
        check_page(limit)
        last = (tenant, after or "")
        found = await self._store.shown_schedules(tenant, after=last, limit=limit + 1, within=PAGE_BYTES, which=which)
        page = page_of(found, limit)
        return page._replace(items=await _with_next(page.items))

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

    @reads
    async def stats(
        self, name: str, from_: datetime | None = None, to: datetime | None = None, *, tenant: str = "default"
    ) -> Stats:
        """What has become of the events of a schedule: how many runs, how they ended, how long they took, and how late
        they began, together and by day (UTC). Without *to*, it ends now; without *from_*, it has 30 days."""
        schedule = await self._named(name, tenant)
        return await stats(self._store, from_, to, tenant, schedule=schedule.id)

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
            return await evaluated(preview_of, schedule, head, start, count, enough)
        except ValueError as error:
            raise Invalid([Problem("rule", str(error))]) from error


async def _with_next(found: builtins.list[Schedule]) -> builtins.list[Schedule]:
    """Schedules, those whose pauses end by themselves with the instants at which they fire next."""
    if all(one.enabled or one.paused_until is None for one in found):
        return found
    return await evaluated(lambda: [with_next(one) for one in found])
