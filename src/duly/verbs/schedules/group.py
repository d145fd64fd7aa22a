"""What all verbs of schedules share: the store, the caller's transaction, and a schedule locked with its head."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import msgspec

from duly.decide.checks import name_problems
from duly.decide.error_text import storable
from duly.decide.targets.origin import START, refuse_act
from duly.engine.pauses.resumption import end_pause
from duly.engine.series.heads import is_limited
from duly.engine.series.holds import Overtaken, let_go, lock_head
from duly.engine.series.put_schedule import MOST_TRIES
from duly.errors import Conflict, NotFound
from duly.ports import PresencePort, ScheduleStore, ScheduleTransaction
from duly.records.event import Event
from duly.records.schedule import PassedOver, Schedule


class ScheduleGroup:
    """The base of the classes that ``duly.schedules`` is made of."""

    def __init__(
        self,
        store: ScheduleStore,
        channels: Collection[str],
        transaction_of: Callable[[Any], ScheduleStore | None],
        presence: PresencePort,
    ) -> None:
        """*presence*: where workers are read; the store may be confined to a tenant."""
        self._store, self._channels, self._transaction_of = store, channels, transaction_of
        self._presence = presence

    async def _known(self, name: str, tenant: str) -> Schedule | None:
        """A schedule as it is stored, if there is one."""
        possible = not any((*name_problems("name", name), *name_problems("tenant", tenant)))
        return await self._store.schedule_named(tenant, name) if possible else None

    async def _named(self, name: str, tenant: str) -> Schedule:
        possible = not any((*name_problems("name", name), *name_problems("tenant", tenant)))
        found = await self._store.shown_schedule(tenant, name) if possible else None
        if found is None:
            where = "" if tenant == "default" else f" in tenant {tenant!r:.60}"
            raise NotFound(f"there is no schedule {name!r:.60}{where}; `duly schedules list` shows them")
        return found

    def _refuse_act(self, schedule: Schedule, act: str = START) -> None:
        refuse_act(schedule.target, self._channels, f"schedule {schedule.name!r:.60}", act)

    def _within(self, transaction: Any) -> Self:
        """The same verbs in the caller's transaction, if there is one."""
        tx = self._transaction_of(transaction)
        return self if tx is None else type(self)(tx, self._channels, self._transaction_of, self._presence)

    @asynccontextmanager
    async def _locked(
        self, name: str, tenant: str, *, head: bool = True, ends: bool = True
    ) -> AsyncIterator[tuple[ScheduleTransaction, Schedule, Event | None]]:
        """Locks a schedule and its head. Events are locked first; if the head was claimed before the schedule was
        locked as well, tries again. If its pause has ended by itself, and no worker has noticed that yet, the schedule
        is resumed first, except without *ends*."""
        for _ in range(MOST_TRIES):
            known = await self._named(name, tenant)
            with suppress(Overtaken):
                async with self._store.begin() as tx:
                    own_head = await lock_head(tx, known.series) if head else None
                    found = await tx.schedules([known.id])
                    if not found or (head and await tx.head_id(known.series) != (own_head and own_head.id)):
                        raise Overtaken
                    if head and ends and await end_pause(tx, found[0], own_head) is not None:
                        found, own_head = await tx.schedules([known.id]), await tx.head(known.series)
                    yield tx, found[0], own_head
                    # The head may not fire any more, which frees its place; or the transaction that would have released
                    # the head skipped it, because it was locked here.
                    if own_head is not None and is_limited(found[0].as_series):
                        await let_go(tx, found)
                    return
        raise Conflict(f"schedule {name!r} is being changed by other requests at the moment: try again")


async def note_act(tx: ScheduleTransaction, schedule: Schedule, act: str, by: str, detail: str | None) -> None:
    await tx.note([(schedule.id, act, None if detail is None else storable(detail))], storable(by))


def telling(schedule: Schedule, over: PassedOver | None) -> Schedule:
    """The schedule, with the occurrences that an act has passed over."""
    return schedule if over is None else msgspec.structs.replace(schedule, passed_over=over)
