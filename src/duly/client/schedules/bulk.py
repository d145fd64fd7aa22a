"""Acts over HTTP on all schedules that a filter matches."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from duly.client.protocol.acts import act_on_all
from duly.client.protocol.connection import place
from duly.client.protocol.group import Group
from duly.client.protocol.refusals import refuse_name
from duly.client.protocol.writing import pause_body
from duly.records.finding.acts import ActedOn
from duly.records.finding.schedules import ScheduleFilter


class ScheduleActs(Group):
    """The part of ``schedules`` that acts on everything that a filter matches."""

    async def pause_all(
        self,
        which: ScheduleFilter,
        *,
        reason: str | None = None,
        until: datetime | timedelta | float | str | None = None,
        passed: str | None = None,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        progress: Callable[[ActedOn], object] | None = None,
    ) -> ActedOn:
        """Pause the enabled schedules that match the filter, like ``pause``. Those that are paused already stay as they
        are. An empty filter is refused without *everything*. With *dry_run*, nothing changes: the result has how many
        it would be, and of which kinds. Some schedules are paused in each transaction; after each, *progress* is called
        with the result so far."""
        body = pause_body(reason, until, passed)
        return await self._all("pause", which, body, everything, dry_run, tenant, by, progress)

    async def resume_all(
        self,
        which: ScheduleFilter,
        *,
        passed: str | None = None,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        progress: Callable[[ActedOn], object] | None = None,
    ) -> ActedOn:
        """Resume the paused schedules that match the filter, like ``resume``; the rest is as with ``pause_all``."""
        body = {} if passed is None else {"passed": passed}
        return await self._all("resume", which, body, everything, dry_run, tenant, by, progress)

    async def trigger_all(
        self,
        which: ScheduleFilter,
        *,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        progress: Callable[[ActedOn], object] | None = None,
    ) -> ActedOn:
        """Fire the schedules that match the filter now, like ``trigger``; the rest is as with ``pause_all``."""
        return await self._all("trigger", which, {}, everything, dry_run, tenant, by, progress)

    async def _all(
        self,
        act: str,
        which: ScheduleFilter,
        body: dict[str, Any],
        everything: bool,
        dry_run: bool,
        tenant: str | None,
        by: str,
        progress: Callable[[ActedOn], object] | None,
    ) -> ActedOn:
        self._check(tenant)
        refuse_name(by)
        asked = body | {"filter": which.checked().body(), "everything": everything}
        return await act_on_all(self._connection, place("schedules", act), asked, dry_run=dry_run, tell=progress)
