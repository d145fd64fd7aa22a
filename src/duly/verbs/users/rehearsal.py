"""Dry runs of the verbs of users."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple

import msgspec

from duly.decide.series.consequence import Scene
from duly.decide.series.consequence_words import Around
from duly.engine.series.user_heads import lock_heads
from duly.ports import UserStore
from duly.records.event import Event
from duly.records.series import carried
from duly.records.specs import OfUser
from duly.records.user import User
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


class _Acted(NamedTuple):
    """What the transaction of a dry run has shown."""

    result: User
    found: Rehearsed
    deleted: bool


async def dry_run(store: UserStore, id: str, act: Callable[[UserStore], Awaitable[User]]) -> User:
    """The user that an act on one user would return, with the consequence. The act is carried out in a transaction that
    is rolled back."""
    open_ids = await waiting(store, OfUser(id))
    for tried in range(MOST_WAITS + 1):
        async with store.undone() as tx:
            locked = await tx.lock_users([id])
            heads = await lock_heads(tx, [id]) if locked else []
            if tried == MOST_WAITS or not is_being_decided(heads, await tx.now()):
                acted = await _acted(tx, id, heads, open_ids, act)
                break
        await let_worker_come_first()
    user = acted.result
    told = Around(user.tenant, user.timezone, deleted=acted.deleted, typed=True)
    return msgspec.structs.replace(user, consequence=await consequence(store, acted.found, told))


async def _acted(
    tx: UserStore, id: str, heads: list[Event], open_ids: list[str], act: Callable[[UserStore], Awaitable[User]]
) -> _Acted:
    """Carries the act out, between two looks at the user's events. User and heads are locked already, so that the act
    alone makes the difference."""
    events = await seen(tx, OfUser(id), {*open_ids, *(head.id for head in heads)})
    before = _scene(events, heads, await tx.now())
    result = await act(tx)
    rows = await seen(tx, OfUser(id), events)
    after = _scene(rows, [event for event in rows.values() if event.head], await tx.now())
    return _Acted(result, await rehearsed(tx, before, after), await tx.user(id) is None)


def _scene(events: dict[str, Event], heads: list[Event], now: datetime) -> Scene:
    series = {one.name: one for one in map(carried, heads) if one is not None}
    return Scene(events, series, now)
