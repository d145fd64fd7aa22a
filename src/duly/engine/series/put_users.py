"""Stores users together with the heads of their series, in one transaction for any number of users."""

import contextlib
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from datetime import datetime, time
from typing import Any, NamedTuple, Self

import msgspec

from duly.decide.calendars.calendar import NOTHING_SET, Settings, begun, calendar, concerned, first_after
from duly.decide.calendars.event_types import EventType, EventTypes
from duly.decide.calendars.users import changed_user, changes_of, new_user
from duly.decide.series.due_head import head_of
from duly.decide.series.successor import with_successor
from duly.decide.targets.targets import named
from duly.engine.destinations.target_references import Key, key_of, missing, target_missing, targets_missing
from duly.engine.series.user_heads import WantedHeads, follow
from duly.errors import Conflict, Invalid, Problem
from duly.ids import new_id
from duly.ports import TypeSettingsPort, UserTransaction
from duly.records.event import HANDLER, Event, NewEvent
from duly.records.series import Series
from duly.records.user import User


class Calendars(NamedTuple):
    """The event types and settings that determine a user's series."""

    types: EventTypes
    at: time  # the delivery time of users without one of their own
    channels: Collection[str]
    lanes: Collection[str] = ()  # the lanes of the handlers of this process
    settings: Settings = NOTHING_SET  # what the tenants have set for event types

    def of(self, user: User, types: Iterable[EventType]) -> dict[str, Series]:
        """A user's series by event type; raises Invalid if a type cannot use the user's fields."""
        return calendar(user, types, user.usual_time or self.at, self.channels, self.settings)

    async def as_set(self, tx: TypeSettingsPort, tenants: Iterable[str]) -> Self:
        """The same, with what these tenants have set now. (For users who are there already, to be read after they are
        locked: who makes their events follow a change locks them after it.)"""
        found = await tx.type_settings_of(sorted(set(tenants)))
        return self._replace(settings={(one.tenant, one.type): one for one in found})

    def nowhere(self, heads: Iterable[Event | NewEvent]) -> tuple[str, ...]:
        """The types of events that have nowhere to go: without a target, and without a handler in this process."""
        prefix = f"{HANDLER}:"
        return tuple(
            sorted({head.type for head in heads if head.lane.startswith(prefix) and head.lane not in self.lanes})
        )


class ChangedUser(NamedTuple):
    """A user after a change, and the names of the changed fields."""

    user: User
    fields: frozenset[str]


def first_heads(user: User, how: Calendars, now: datetime) -> list[NewEvent]:
    """The first heads of a new user's series; raises Invalid if a type cannot use the user's fields."""
    heads = []
    for asked in how.of(user, how.types).values():
        series = begun(asked, now)
        first = first_after(series, now)
        if first is not None:
            heads.append(with_successor(head_of(series, first, new_id), series))
    return heads


async def add_user(
    tx: UserTransaction, fields: Mapping[str, Any], tenant: str, how: Calendars, by: str
) -> tuple[str, tuple[str, ...]]:
    """Stores a new user with its first heads; returns the user's id, and the types of events that have nowhere to
    go."""
    now = await tx.now()
    user = new_user(fields, new_id(), tenant, how.channels, now, how.at)
    how = await how.as_set(tx, [tenant])
    heads = first_heads(user, how, now)
    if gone := await missing(tx, map(key_of, heads)):
        raise Invalid(missing_problems(user, heads, gone))
    if not await tx.add_users([user], heads, by):
        raise Conflict(f"there is a user with the key {user.key!r} already: update that one, or choose another key")
    tx.tell_created(heads)
    return user.id, how.nowhere(heads)


def missing_problems(user: User, heads: Sequence[NewEvent], gone: Container[Key | None]) -> list[Problem]:
    """The problems of a new user whose events name a stored target that does not exist: the user's own, or, if the user
    has none, the tenant's default or that of an event type."""
    problems = targets_missing(heads, gone)
    if user.target_json is not None:
        return problems
    types = sorted({head.type for head in heads if key_of(head) in gone})
    advice = (
        f"it is the default target of {' and '.join(types)} in this tenant, not the user's: create it again, set "
        f"another default (`duly event-types update {types[0]}`, PUT /v1/event-types/{types[0]}), or give the user a "
        "target"
    )
    return [problem._replace(message=f"{problem.message.partition(': ')[0]}: {advice}") for problem in problems]


async def change_users(
    tx: UserTransaction, changes: Mapping[str, Mapping[str, Any]], how: Calendars, by: str
) -> dict[str, ChangedUser | Invalid]:
    """Changes users by id, and updates their unstarted heads. For a user that cannot be changed this way the result is
    Invalid, and the others are changed; unknown ids are left out."""
    told: dict[str, ChangedUser | Invalid] = {}
    follows: list[WantedHeads] = []
    users = await tx.lock_users(list(changes))
    how = await how.as_set(tx, [user.tenant for user in users])
    now = await tx.now()
    for old in users:
        try:
            new = changed_user(old, changes[old.id], how.channels, now)
            fields = changes_of(old, new)
            if fields:
                follows.append(
                    _wanted(new, concerned(how.types, fields), how, moved=not fields.isdisjoint({"timezone", "key"}))
                )
            told[old.id] = ChangedUser(new, fields)
        except Invalid as error:
            told[old.id] = error
    told = await _without_missing_targets(tx, told)
    changed = [one for one in told.values() if isinstance(one, ChangedUser) and one.fields]
    follows = [one for one in follows if isinstance(told[one.user.id], ChangedUser)]
    if changed:
        await _refuse_taken_keys(tx, changed)
        await tx.change_users([one.user for one in changed])
        await tx.note([(one.user.id, "changed", _named(one.fields)) for one in changed], by)
        await follow(tx, follows, now, by)
    return told


async def _without_missing_targets(
    tx: UserTransaction, told: Mapping[str, ChangedUser | Invalid]
) -> dict[str, ChangedUser | Invalid]:
    """The results, with Invalid for users whose new stored target does not exist."""
    aimed = {
        id: (one.user.tenant, name[1])
        for id, one in told.items()
        if isinstance(one, ChangedUser) and "target" in one.fields and (name := named(one.user.target)) is not None
    }
    gone = await missing(tx, aimed.values())
    return {
        id: Invalid([target_missing(one.user.target, one.user.tenant)])
        if isinstance(one, ChangedUser) and aimed.get(id) in gone
        else one
        for id, one in told.items()
    }


async def refresh_users(
    tx: UserTransaction, ids: Sequence[str], how: Calendars, by: str
) -> tuple[int, dict[str, Invalid]]:
    """Updates the heads of users to the current event types. Returns how many heads changed, and the users that a type
    can no longer use, with the problems."""
    refused: dict[str, Invalid] = {}
    follows: list[WantedHeads] = []
    stale: list[str] = []
    users = await tx.lock_users(ids)
    how = await how.as_set(tx, [user.tenant for user in users])
    for user in users:
        try:
            current = msgspec.structs.replace(user, usual_time=how.at)
            follows.append(_wanted(current, how.types, how, moved=False))
            if current != user:
                stale.append(user.id)
        except Invalid as error:
            refused[user.id] = error
    if stale:
        await tx.set_usual_time(stale, how.at)
    return await follow(tx, follows, await tx.now(), by), refused


async def follow_users(tx: UserTransaction, ids: Sequence[str], type: EventType, how: Calendars, by: str) -> None:
    """Updates the heads of one event type to what the tenants of these users have set for it. A user whom the type can
    no longer use is left as is."""
    follows: list[WantedHeads] = []
    users = await tx.lock_users(ids)
    how = await how.as_set(tx, [user.tenant for user in users])
    for user in users:
        with contextlib.suppress(Invalid):
            follows.append(_wanted(user, [type], how, moved=False))
    await follow(tx, follows, await tx.now(), by)


def _wanted(user: User, types: Iterable[EventType], how: Calendars, *, moved: bool) -> WantedHeads:
    asked = list(types)
    series: dict[str, Series | None] = dict.fromkeys((*how.types.removed(), *(type.name for type in asked)))
    return WantedHeads(user, series | how.of(user, asked), how.types.removed().union(how.types.names()), moved)


async def _refuse_taken_keys(tx: UserTransaction, changed: Sequence[ChangedUser]) -> None:
    rekeyed = {(one.user.tenant, one.user.key): one.user for one in changed if "key" in one.fields and one.user.key}
    for (tenant, key), user in rekeyed.items():
        if key is not None and (other := await tx.user_by_key(tenant, key)) is not None and other.id != user.id:
            raise Conflict(f"user {other.id} has the key {key!r} already: choose another key")


def _named(fields: frozenset[str]) -> str:
    """The names of changed fields for the history; not their values, because a user can be deleted and a history
    cannot."""
    return ", ".join(sorted(field for field in fields if not field.startswith("attributes.")))
