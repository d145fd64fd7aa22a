"""Acts on all schedules that a filter matches: pause, resume and trigger, some schedules in each transaction."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from duly.decide.checks import name_problems
from duly.decide.series.pauses import paused_until, read_pause
from duly.engine.pauses.resumption import end_pause
from duly.engine.series.heads import is_limited
from duly.engine.series.holds import PASSED, let_go
from duly.errors import Invalid, Misuse, Problem, StoreError
from duly.ports import ScheduleTransaction, WalkedSchedule
from duly.records.event import SCHEDULE, Event
from duly.records.finding.acts import ActedOn, Portion
from duly.records.finding.schedules import ScheduleFilter
from duly.records.schedule import Schedule
from duly.verbs.marks import for_doors
from duly.verbs.schedules.pauses import SchedulePauses
from duly.verbs.schedules.runs import ScheduleRuns

SCHEDULES_PER_TRANSACTION = 50
"""Schedules that one transaction changes: others wait for it some 0.2 s at most."""

MOST_KINDS = 100
"""Kinds that a dry run counts apart."""

TRIES = 3
"""Tries to lock a schedule that somebody else is changing, before it is left alone. Most changes take milliseconds."""

RETRY_S = 0.05
"""Seconds between them."""

Act = Callable[[ScheduleTransaction, Schedule, Event | None], Awaitable[bool]]
"""Acts on a schedule that is locked with its head; returns whether it has changed anything."""

Progress = Callable[[ActedOn], object]


class ScheduleActs(SchedulePauses, ScheduleRuns):
    """The part of ``duly.schedules`` that acts on everything that a filter matches."""

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
        progress: Progress | None = None,
    ) -> ActedOn:
        """Pause the enabled schedules that match the filter, like ``pause``. Those that are paused already stay as they
        are. An empty filter is refused without *everything*. With *dry_run*, nothing changes: the result has how many
        it would be, and of which kinds. Some schedules are paused in each transaction; after each, *progress* is called
        with the result so far."""
        portion = Portion()
        said = {"reason": reason, "until": until, "passed": passed}
        done, _ = await self.act_on(
            "pause", which, portion, said, everything=everything, dry_run=dry_run, tenant=tenant, by=by, tell=progress
        )
        return done

    async def resume_all(
        self,
        which: ScheduleFilter,
        *,
        passed: str | None = None,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        progress: Progress | None = None,
    ) -> ActedOn:
        """Resume the paused schedules that match the filter, like ``resume``; the rest is as with ``pause_all``."""
        done, _ = await self.act_on(
            "resume",
            which,
            Portion(),
            {"passed": passed},
            everything=everything,
            dry_run=dry_run,
            tenant=tenant,
            by=by,
            tell=progress,
        )
        return done

    async def trigger_all(
        self,
        which: ScheduleFilter,
        *,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        progress: Progress | None = None,
    ) -> ActedOn:
        """Fire the schedules that match the filter now, like ``trigger``; the rest is as with ``pause_all``."""
        done, _ = await self.act_on(
            "trigger",
            which,
            Portion(),
            {},
            everything=everything,
            dry_run=dry_run,
            tenant=tenant,
            by=by,
            tell=progress,
        )
        return done

    @for_doors
    async def act_on(
        self,
        act: str,
        which: ScheduleFilter,
        portion: Portion,
        said: Mapping[str, object],
        *,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        tell: Progress | None = None,
    ) -> tuple[ActedOn, str | None]:
        """A portion of such an act, and the place after which the next one begins; None at the end."""
        check_everything(which, everything=everything)
        if tenant is not None and (problems := name_problems("tenant", tenant)):
            raise Invalid(problems)
        todo = await self._act(act, said, by)
        asked = _affected(act, which.checked())
        if asked is None:
            return ActedOn(dry_run=dry_run), None
        if dry_run:
            would = await self._store.count_schedules(tenant, asked)
            kinds = await self._store.schedule_kinds(tenant, asked, most=MOST_KINDS)
            return ActedOn(dry_run=True, would=would, kinds=tuple(kinds)), None
        return await self._walk(asked, todo, portion, tenant, tell)

    async def _act(self, act: str, said: Mapping[str, object], by: str) -> Act:
        if act == "trigger":

            async def trigger(tx: ScheduleTransaction, schedule: Schedule, _: Event | None) -> bool:
                await self._trigger(tx, schedule, by)
                return True

            return trigger
        if act == "resume":
            passed = said["passed"]
            if passed is not None and passed not in PASSED:
                raise Invalid([Problem("passed", f"must be one of {', '.join(PASSED)}, not {passed!r:.50}")])

            async def resume(tx: ScheduleTransaction, schedule: Schedule, head: Event | None) -> bool:
                return await self._resume(tx, schedule, head, None if passed is None else str(passed), by) is not None

            return resume
        asked = read_pause(said["reason"], said["until"], said["passed"])
        asked = asked._replace(until=paused_until(asked.until, await self._store.now(), None))  # the same for all

        async def pause(tx: ScheduleTransaction, schedule: Schedule, head: Event | None) -> bool:
            if await end_pause(tx, schedule, head) is not None:
                [schedule] = await tx.schedules([schedule.id])
            return await self._pause(tx, schedule, asked, by)

        return pause

    async def _walk(
        self, which: ScheduleFilter, act: Act, portion: Portion, tenant: str | None, tell: Progress | None
    ) -> tuple[ActedOn, str | None]:
        done, left = ActedOn(), portion.most
        place = (tenant or "", portion.after or "")
        while left is None or left > 0:
            limit = SCHEDULES_PER_TRANSACTION if left is None else min(left, SCHEDULES_PER_TRANSACTION)
            found = await self._store.walk_schedules(tenant, which, after=place, limit=limit)
            if found:
                place = found[-1].tenant, found[-1].name
                acted = await self._batch(found, which, act)
                done = done.plus(acted, len(found) - acted)
                if tell is not None:
                    tell(done)
            if len(found) < limit:
                return done, None
            left = None if left is None else left - len(found)
        return done, place[1]

    async def _batch(self, found: Sequence[WalkedSchedule], which: ScheduleFilter, act: Act) -> int:
        """Acts on these schedules; returns how many have changed. If one of them refuses, each is tried apart."""
        try:
            acted, locked = await self._together(found, which, act)
        except StoreError:
            raise
        except Exception:  # it is not allowed for one of them, or the rule of one cannot be evaluated
            if len(found) == 1:
                return 0
            return sum([await self._batch([one], which, act) for one in found])
        others = [one for one in found if one.id not in locked]
        for _ in range(TRIES - 1):
            if not others:
                break
            await asyncio.sleep(RETRY_S)
            found_again = await self._found_again(others)
            more, locked = await self._together(found_again, which, act)
            acted += more
            others = [one for one in found_again if one.id not in locked]
        return acted

    async def _found_again(self, found: Sequence[WalkedSchedule]) -> list[WalkedSchedule]:
        """The schedules with the heads that they have now."""
        heads = [await self._store.head_id(f"{SCHEDULE}{one.id}") for one in found]
        return [one._replace(head_id=head) for one, head in zip(found, heads, strict=True)]

    async def _together(self, found: Sequence[WalkedSchedule], which: ScheduleFilter, act: Act) -> tuple[int, set[str]]:
        """Acts in one transaction on those that nobody else is changing; returns how many have changed, and the ids of
        those that were locked. Events are locked first, then schedules."""
        async with self._store.begin() as tx:
            heads = {head.series: head for head in await tx.free_heads([f"{SCHEDULE}{one.id}" for one in found])}
            free = [one.id for one in found if _head_id(heads.get(f"{SCHEDULE}{one.id}")) == one.head_id]
            schedules = await tx.free_schedules(free, which) if free else []
            acted = 0
            for schedule in schedules:
                head = heads.get(schedule.series)
                acted += await act(tx, schedule, head)
                if head is not None and is_limited(schedule.as_series):
                    await let_go(tx, [schedule])
            return acted, {schedule.id for schedule in schedules}


def check_everything(which: object, *, everything: bool) -> None:
    """Refuses an empty filter, unless everything is meant."""
    if not isinstance(which, msgspec.Struct) or not hasattr(which, "given"):
        raise Misuse(f"give a filter, such as ScheduleFilter(tag='nightly'), not {type(which).__name__}")
    empty = not any(True for _ in which.given())
    if empty and not everything:
        raise Invalid([Problem("filter", "is empty, so it matches everything: say so with everything=True")])


def _affected(act: str, which: ScheduleFilter) -> ScheduleFilter | None:
    """The filter of those that an act changes; None if it changes none."""
    if act == "trigger":
        return which
    enabled = act == "pause"
    return None if which.enabled is (not enabled) else msgspec.structs.replace(which, enabled=enabled)


def _head_id(head: Event | None) -> str | None:
    return None if head is None else head.id
