"""Makes the waiting events of users follow what their tenant has set for an event type: batch by batch, because a
tenant may have a million users. Whoever makes a change begins, and workers do the rest."""

import time
from datetime import timedelta

import msgspec

from duly.engine.series.put_users import Calendars, follow_users
from duly.errors import Conflict
from duly.ids import first_id_of
from duly.ports import UserStore
from duly.records.calendar.type_settings import TypeSettings

USERS_PER_TRANSACTION = 500
"""Users whose events one transaction changes."""

FOLLOW_WITHIN_S = 1.0
"""Seconds after which a call or a tick leaves the other users to workers."""

RECHECK_AFTER = timedelta(minutes=1)
"""How long after a change users are looked at again who were being added while it was made: a transaction that began
before it has not seen it, and may commit after all others were looked at."""

RECHECK_SINCE = timedelta(hours=1)
"""How long before a change users may have got their ids whom that concerns. Ids are made by the clocks of processes,
which may be wrong."""

BY = "event_types.update"
"""The actor in the histories of the changed events."""


async def follow_for_a_while(store: UserStore, how: Calendars, tenant: str | None = None) -> None:
    """Makes events follow until all do, or until the time is over."""
    until = time.monotonic() + FOLLOW_WITHIN_S
    while await follow_settings(store, how, tenant) and time.monotonic() < until:
        pass


async def follow_settings(store: UserStore, how: Calendars, tenant: str | None = None) -> bool:
    """Makes the events of some users follow, in one transaction; returns whether there may be more."""
    try:
        async with store.begin() as tx:
            settings = await tx.lock_following(how.types.names(), tenant)
            if settings is None:
                return False
            after = settings.follow_after
            ids = await tx.walk_users(settings.tenant, after=after, limit=USERS_PER_TRANSACTION)
            if ids:
                await follow_users(tx, ids, how.types.get(settings.type), how, BY)
            await tx.set_following(_moved_on(settings, ids))
    except Conflict:  # workers are claiming these very events: the next attempt finds the ones after them
        return False
    return True


def _moved_on(settings: TypeSettings, ids: list[str]) -> TypeSettings:
    """How far the events follow after those of these users do."""
    if len(ids) == USERS_PER_TRANSACTION or settings.follow_at is None:
        return msgspec.structs.replace(settings, follow_after=ids[-1])
    if settings.recheck:
        return msgspec.structs.replace(settings, follow_at=None, follow_after=None, recheck=False)
    return msgspec.structs.replace(
        settings,
        follow_at=settings.follow_at + RECHECK_AFTER,
        follow_after=first_id_of(settings.follow_at - RECHECK_SINCE),
        recheck=True,
    )
