"""Deletes a user, and scrubs what is stored of the person."""

from collections.abc import Iterator
from typing import Any

import msgspec

from duly.engine.series.user_heads import MOST_TRIES
from duly.errors import Conflict, NotFound
from duly.ports import UserTransaction
from duly.records.event import Status
from duly.records.results import Erased
from duly.records.user import User

ERASED = "its user was erased"
SOMEBODY = "erased"
"""Stands for an actor whose name tells of the erased person."""

SHORTEST_NAME = 2
"""Characters of the shortest name or key that is looked for in the names of actors: one letter is in nearly all."""

SHORTEST_ATTRIBUTE = 5
"""Characters of the shortest attribute that is looked for there: a language or a plan says nothing of an actor."""


async def delete_user(tx: UserTransaction, user: User, by: str, reason: str | None) -> int:
    """Deletes a locked user, and cancels the events that have not started; returns their number."""
    cancelled = 0
    for _ in range(MOST_TRIES):
        cancelled += await tx.cancel_users([user.id], by, reason or "its user was deleted")
        if not await tx.user_head_ids([user.id]):  # otherwise, a claim has stored another head meanwhile
            break
    else:
        raise Conflict("events of this user are being claimed by a worker: try again")
    await tx.note([(user.id, "deleted", reason)], by)
    await tx.delete_users([user.id])
    return cancelled


async def erase_user(tx: UserTransaction, user: str, there: User | None, tenant: str, by: str) -> Erased:
    """Deletes a locked user, unless that was done before, and scrubs what is stored of the person."""
    cancelled = 0 if there is None else await delete_user(tx, there, by, ERASED)
    events = await tx.lock_events_of_user(user, tenant)
    if there is None and not events:
        raise NotFound(f"there is no user {user}, and no event of one: nothing is left to erase")
    if running := sum(status is Status.PROCESSING for _, status, _ in events):
        many = "an event" if running == 1 else f"{running} events"
        being = f"{many} of user {user} {'is' if running == 1 else 'are'} being delivered"
        raise Conflict(f"{being}: erase the user when that has ended, or cancel it first")
    keys = {owner for _, _, owner in events if owner is not None and len(owner) >= SHORTEST_NAME}
    words = sorted(keys.union(() if there is None else words_of(there)))
    by = SOMEBODY if any(word in by for word in words) else by
    done = await tx.erase_user(
        user, [event for event, _, _ in events], words, anybody=there is None, by=by, reason=ERASED
    )
    answers = await tx.erase_answers(user, tenant, words)
    await tx.note([(user, "erased", None)], by)
    cancelled += done.cancelled
    return msgspec.structs.replace(done, id=user, deleted=there is not None, cancelled=cancelled, answers=answers)


def words_of(user: User) -> Iterator[str]:
    """The texts by which a person is known: names, key, and the longer texts among the attributes, such as an
    address."""
    yield from (word for word in (user.first_name, user.last_name, user.key) if word and len(word) >= SHORTEST_NAME)
    yield from (word for word in _texts(user.attributes) if len(word) >= SHORTEST_ATTRIBUTE)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
