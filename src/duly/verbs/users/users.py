"""The verbs of users: add, list, change, delete, import. Each changes the users' events in the same transaction."""

import builtins
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Unpack

import msgspec

from duly.decide.checks import check_id, check_page, name_problems
from duly.decide.error_text import storable
from duly.engine.series.erase_user import delete_user, erase_user
from duly.engine.series.put_users import Calendars, add_user, change_users, refresh_users
from duly.errors import Invalid, Problem
from duly.ports import PAGE_BYTES, ListPage, UserStore, UserTransaction, page_of
from duly.records.etags import check_tag
from duly.records.event import Event
from duly.records.finding.counts import Count
from duly.records.finding.users import UserFilters, user_search
from duly.records.history import Entry
from duly.records.results import Erased, Imported, Refreshed, nowhere_to_go
from duly.records.specs import OfUser
from duly.records.user import Notes, User, UserChanges, UserFields
from duly.verbs.found import require_found
from duly.verbs.histories import history_page
from duly.verbs.marks import for_doors, reads
from duly.verbs.users.bulk_import import ImportObserver, Lines, import_users, rehearse
from duly.verbs.users.rehearsal import dry_run as dry_run_of

USERS_PER_TRANSACTION = 500
"""Users whose events a refresh updates in one transaction."""

QUIET = ImportObserver()
A_USERS = "a user's"


class Users:
    """``duly.users``. With a tenant, only that tenant's users exist."""

    def __init__(self, store: UserStore, how: Calendars, transaction_of: Callable[[Any], UserStore | None]) -> None:
        self._store, self._how, self._transaction_of = store, how, transaction_of

    async def add(
        self, *, tenant: str = "default", transaction: Any = None, by: str = "api", **fields: Unpack[UserFields]
    ) -> User:
        """Add a user; their events are planned when this returns."""
        async with self._within(transaction) as tx:
            id, nowhere = await add_user(tx, fields, tenant, self._how, storable(by))
            return with_warning(require_found("user", await tx.user(id), id, None), nowhere)

    @reads
    async def get(self, id: str, *, tenant: str | None = None) -> User:
        return require_found("user", await self._store.user(user_id(id)), id, tenant)

    @reads
    async def by_key(self, key: str, *, tenant: str = "default") -> User:
        """The user with this key, which is their id in the caller's own system."""
        possible = not any((*name_problems("key", key), *name_problems("tenant", tenant)))
        found = await self._store.user_by_key(tenant, key) if possible else None
        return require_found("user", found, f"with the key {key!r:.60}", tenant)

    @reads
    async def list(
        self, *, tenant: str | None = None, limit: int = 100, after: str | None = None, **which: Unpack[UserFilters]
    ) -> builtins.list[User]:
        """The users, the newest first: all of them, or those with this *key*, in this *timezone*, with *attributes*
        such as ``{"plan": "pro"}``, or whose *name* begins with this: the first, the last, or both in either order. For
        the next page, *after* is the last id of this one."""
        check_page(limit)
        before, search = None if after is None else check_id(after, A_USERS, "after"), user_search(which)
        return await self._store.list_users(tenant, before=before, limit=limit, which=search)

    @reads
    async def count(self, *, tenant: str | None = None, **which: Unpack[UserFilters]) -> Count:
        """How many users ``list`` would list: exact up to 10,000, then an estimate that says so."""
        return await self._store.count_users(tenant, user_search(which))

    @for_doors
    @reads
    async def page(
        self, *, tenant: str | None = None, limit: int = 100, after: str | None = None, **which: Unpack[UserFilters]
    ) -> ListPage[User]:
        """A page of users, the newest first, limited in bytes as well. For the next page, *after* is the last id of
        this one."""
        check_page(limit)
        before, search = None if after is None else check_id(after, A_USERS, "after"), user_search(which)
        found = await self._store.list_users(tenant, before=before, limit=limit + 1, within=PAGE_BYTES, which=search)
        return page_of(found, limit)

    async def update(
        self,
        id: str,
        *,
        tenant: str | None = None,
        expected: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
        **changes: Unpack[UserChanges],
    ) -> User:
        """Change the given fields of a user. Events that have not started follow: their time, payload and zone. Events
        under way or being retried are delivered unchanged. Raises Stale unless the user has the *expected* tag. With
        *dry_run*, nothing is changed: the result is the user as they would be, with the ``consequence``."""
        id = user_id(id)
        if dry_run:
            return await self._dry_run(
                id, transaction, lambda here: here.update(id, tenant=tenant, expected=expected, by=by, **changes)
            )
        async with self._within(transaction) as tx:
            require_found("user", await tx.user(id), id, tenant)
            if expected is not None:
                await _locked(tx, id, tenant, expected)
            told = (await change_users(tx, {id: changes}, self._how, storable(by))).get(id)
            if isinstance(told, Invalid):
                raise told
            nowhere = self._how.nowhere(await tx.heads_of_users([id]))
            return with_warning(require_found("user", await tx.user(id), id, tenant), nowhere)

    async def delete(
        self,
        id: str,
        *,
        tenant: str | None = None,
        expected: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
        reason: str | None = None,
    ) -> User:
        """Delete a user, and cancel the events that have not started. Events under way continue to their end, and none
        follows them. Raises Stale unless the user has the *expected* tag. With *dry_run*, nothing is changed: the
        result has the ``consequence``."""
        id = user_id(id)
        if dry_run:
            return await self._dry_run(
                id, transaction, lambda here: here.delete(id, tenant=tenant, expected=expected, by=by, reason=reason)
            )
        async with self._within(transaction) as tx:
            require_found("user", await tx.user(id), id, tenant)
            user = await _locked(tx, id, tenant, expected)
            await delete_user(tx, user, storable(by), None if reason is None else storable(reason))
            return user

    async def erase(self, id: str, *, tenant: str | None = None, transaction: Any = None, by: str = "api") -> Erased:
        """Delete a user, and scrub names and content from all their events, histories and stored answers; also of a
        user who was deleted before, by the id. What is left tells when what was done, and not for whom. Events that
        would still be delivered, and dead letters, are cancelled. Raises Conflict while an event is being delivered."""
        id = check_id(id, A_USERS)
        async with self._within(transaction) as tx:
            locked = await tx.lock_users([id])
            user = require_found("user", locked[0], id, tenant) if locked else None
            return await erase_user(tx, id, user, user.tenant if user else tenant or "default", storable(by))

    @reads
    async def events(self, id: str, *, tenant: str | None = None, limit: int = 100) -> builtins.list[Event]:
        """The events of a user, the newest first. For other filters, use ``events.find(OfUser(id) & …)``."""
        check_page(limit)
        user = await self.get(id, tenant=tenant)
        return await self._store.find(OfUser(user.id), limit=limit)

    @reads
    async def ahead(self, id: str, *, tenant: str | None = None) -> builtins.list[Event]:
        """The planned events of a user: the next one of each type, the soonest first."""
        user = await self.get(id, tenant=tenant)
        return sorted(await self._store.heads_of_users([user.id]), key=lambda head: head.due)

    @for_doors
    @reads
    async def next_events(self, ids: Sequence[str]) -> dict[str, Event]:
        """The soonest event of each of these users, by user id."""
        heads = await self._store.heads_of_users(ids) if ids else []
        return {str(head.user_id): head for head in sorted(heads, key=lambda head: head.due, reverse=True)}

    @for_doors
    @reads
    async def history_page(
        self, id: str, *, tenant: str | None = None, skip: int = 0, limit: int = 100
    ) -> ListPage[Entry]:
        """A page of the acts on a user, the oldest first."""
        user = await self.get(id, tenant=tenant)
        return await history_page(self._store, user.id, skip=skip, limit=limit, before=created_entry(user))

    @reads
    async def history(self, id: str, *, tenant: str | None = None) -> builtins.list[Entry]:
        """Every act on a user, the oldest first. Deliveries are in the histories of the events."""
        user = await self.get(id, tenant=tenant)
        return created_entry(user) + await self._store.history(user.id)

    async def import_(
        self, rows: Lines, *, tenant: str = "default", by: str = "import", telling: ImportObserver = QUIET
    ) -> Imported:
        """Add many users, some thousand in each transaction. A row whose ``key`` is known changes that user. A bad row
        is reported, and the good rows are kept."""
        if problems := name_problems("tenant", tenant):
            raise Invalid(problems)
        return await import_users(self._store, rows, tenant, self._how, storable(by), telling)

    @for_doors
    async def rehearse_import(
        self, rows: Lines, *, tenant: str = "default", telling: ImportObserver = QUIET, how: Calendars | None = None
    ) -> Imported:
        """The result that an import would have, without storing anything; with *how*, by the event types of another
        Duly."""
        return await rehearse(self._store, rows, tenant, how or self._how, telling)

    async def refresh(self, *, tenant: str | None = None, transaction: Any = None, by: str = "refresh") -> Refreshed:
        """Update the events of all users to the current event types and delivery time: after a type was added, removed
        or changed."""
        store = self._transaction_of(transaction) or self._store
        users, events, refused = 0, 0, dict[str, Invalid]()
        after: str | None = None
        while ids := await store.walk_users(tenant, after=after, limit=USERS_PER_TRANSACTION):
            async with store.begin() as tx:
                changed, bad = await refresh_users(tx, ids, self._how, storable(by))
            users, events, after = users + len(ids), events + changed, ids[-1]
            refused |= bad
        return Refreshed(users, events, refused)

    async def _dry_run(self, id: str, transaction: Any, act: Callable[["Users"], Awaitable[User]]) -> User:
        store = self._transaction_of(transaction) or self._store
        return await dry_run_of(store, id, lambda tx: act(Users(tx, self._how, self._transaction_of)))

    @asynccontextmanager
    async def _within(self, transaction: Any) -> AsyncIterator[UserTransaction]:
        async with (self._transaction_of(transaction) or self._store).begin() as tx:
            yield tx


def user_id(id: Any) -> str:
    """A user's id in the form that stores use; raises Invalid if it is none."""
    try:
        return check_id(id, A_USERS)
    except Invalid as error:
        [problem] = error.problems
        raise Invalid([Problem(problem.path, f"{problem.message}; by_key finds a user by key")]) from None


async def _locked(tx: UserTransaction, id: str, tenant: str | None, expected: str | None) -> User:
    locked = await tx.lock_users([id])
    user = require_found("user", locked[0] if locked else None, id, tenant)  # None: it has just been deleted
    check_tag(f"user {id}", user.tag, expected)
    return user


def with_warning(user: User, nowhere: Sequence[str]) -> User:
    """The user, with a warning if events of these types have nowhere to go."""
    if not nowhere:
        return user
    told = nowhere_to_go(f"the user has no target, tenant {user.tenant!r} has no default target for them", nowhere)
    return msgspec.structs.replace(user, noted=Notes((told,)))


def created_entry(user: User) -> list[Entry]:
    """The history entry of a user's creation, which the user's row holds; the history has all others."""
    return [] if user.created is None else [Entry(user.created, "created", user.created_by)]
