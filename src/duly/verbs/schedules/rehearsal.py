"""Dry runs of the verbs of schedules."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, Generic, NamedTuple, Self, TypeVar

from duly.decide.series.consequence import Scene
from duly.decide.series.consequence_words import Around
from duly.decide.series.pauses import paused_time
from duly.engine.series.heads import is_limited
from duly.engine.series.holds import Overtaken, lock_head
from duly.engine.series.put_schedule import MOST_TRIES
from duly.errors import Conflict, NotFound
from duly.ports import ScheduleStore
from duly.records.event import Event
from duly.records.figures.consequence import Consequence
from duly.records.schedule import Schedule
from duly.records.specs import OfSeries
from duly.rules.recurrence import DEFAULT_ZONE
from duly.verbs.rehearsal import (
    MOST_WAITS,
    Rehearsed,
    consequence,
    is_being_decided,
    let_worker_come_first,
    rehearsed,
    seen,
    waiting,
)
from duly.verbs.schedules.group import ScheduleGroup

T = TypeVar("T")


class DryRun(NamedTuple, Generic[T]):
    """What an act would return, and its consequence."""

    result: T
    consequence: Consequence


class _Acted(NamedTuple, Generic[T]):
    """What the transaction of a dry run has shown."""

    result: T
    found: Rehearsed
    before: Schedule | None
    after: Schedule | None


class RehearsedSchedules(ScheduleGroup):
    """The part of ``duly.schedules`` that carries acts out and undoes them."""

    async def _dry_run(
        self, name: str, tenant: str, transaction: Any, act: Callable[[Self], Awaitable[T]]
    ) -> DryRun[T]:
        """Carries an act out, on the same verbs in a transaction that is rolled back."""
        here = self._within(transaction)
        for tried in range(MOST_WAITS + MOST_TRIES):
            known = await here._known(name, tenant)
            open_ids = [] if known is None else await waiting(here._store, OfSeries(known.series))
            with suppress(Overtaken):
                async with here._store.undone() as tx:
                    verbs = type(self)(tx, self._channels, self._transaction_of, self._presence)
                    locked = await _locked(tx, known, yields=tried < MOST_WAITS)
                    acted = await verbs._acted(name, tenant, locked, open_ids, act)
                break
            await let_worker_come_first()
        else:
            raise Conflict(f"schedule {name!r} is being changed by other requests at the moment: try again")
        told = await consequence(here._store, acted.found, _told(acted, tenant))
        if transaction is None and acted.before is not None and is_limited(acted.before.as_series):
            await here._release(name, tenant)  # last: in a request of the API, its locks last until the request ends
        return DryRun(acted.result, told)

    async def _acted(
        self,
        name: str,
        tenant: str,
        locked: tuple[Schedule | None, Event | None],
        open_ids: Iterable[str],
        act: Callable[[Self], Awaitable[T]],
    ) -> _Acted[T]:
        """Carries the act out, between two looks at the schedule and its events. Both are locked already, so that the
        act alone makes the difference."""
        tx, (before, head) = self._store, locked
        heads = [] if head is None else [head.id]
        events = {} if before is None else await seen(tx, OfSeries(before.series), [*open_ids, *heads])
        then = _scene(before, events, await tx.now())
        result = await act(self)
        after = await self._known(name, tenant)
        series = after or before
        rows = {} if series is None else await seen(tx, OfSeries(series.series), events)
        cancelled = result if isinstance(result, int) else None
        found = await rehearsed(tx, then, _scene(after, rows, await tx.now()), cancelled)
        return _Acted(result, found, before, after)

    async def _release(self, name: str, tenant: str) -> None:
        """Releases the held events of a schedule with a limit. A worker passes over a head that is locked, and the dry
        run had locked it."""
        with suppress(Conflict, NotFound):
            async with self._locked(name, tenant, ends=False):
                pass


async def _locked(tx: ScheduleStore, known: Schedule | None, *, yields: bool) -> tuple[Schedule | None, Event | None]:
    """Locks a schedule and its head in the order in which acts lock them. *yields* to a worker that is deciding about
    the head: raises Overtaken, which ends the transaction."""
    if known is None:
        return None, None
    head = await lock_head(tx, known.series)
    if yields and head is not None and is_being_decided([head], await tx.now()):
        raise Overtaken
    found = await tx.schedules([known.id])
    if not found or await tx.head_id(known.series) != (head and head.id):
        raise Overtaken
    return found[0], head


def _scene(schedule: Schedule | None, events: dict[str, Event], now: datetime) -> Scene:
    if schedule is None:
        return Scene(events, {}, now)
    return Scene(events, {schedule.series: schedule.as_series}, now, paused_time(schedule))


def _told(acted: _Acted[Any], tenant: str) -> Around:
    before, after = acted.before, acted.after
    shown = after or before
    was_enabled = before is None or before.enabled
    switched = None if after is None or after.enabled is was_enabled else after.enabled
    return Around(
        tenant,
        DEFAULT_ZONE if shown is None else shown.timezone,
        switched,
        paused=after is not None and not after.enabled,
        until=None if after is None else after.paused_until,
        deleted=after is None,
        halted=None if after is None else after.halted,
    )
