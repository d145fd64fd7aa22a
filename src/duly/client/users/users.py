"""``client.users``: the people whom calendar events are for."""

import builtins
from collections.abc import AsyncIterator, Mapping
from typing import Any, NoReturn, Unpack

import msgspec

from duly.client.protocol.connection import place
from duly.client.protocol.group import Group
from duly.client.protocol.paging import all_pages, count_of, up_to, whole_history
from duly.client.protocol.refusals import here_only, refuse_name, refuse_transaction
from duly.client.schedules.schedules import if_match, rehearsed
from duly.client.users.bulk_import import import_users
from duly.decide.calendars.attribute_filters import PREFIX, write_attribute
from duly.decide.checks import check_id, name_problems, write_json
from duly.errors import Invalid, NotFound, Problem
from duly.records.event import EVENT_PAGE, Event
from duly.records.finding.counts import Count
from duly.records.finding.users import UserFilters, user_search
from duly.records.history import Entry
from duly.records.results import Imported
from duly.records.user import USER_JSON, USER_PAGE, User, UserChanges, UserFields
from duly.verbs.users.bulk_import import ImportObserver, Lines
from duly.verbs.users.users import A_USERS, QUIET, user_id

FROM_HTTP = "import"


class Users(Group):
    """The verbs of ``duly.users``."""

    async def add(
        self, *, tenant: str | None = None, transaction: Any = None, by: str = "api", **fields: Unpack[UserFields]
    ) -> User:
        """Add a user; their events are planned when this returns."""
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        return await self._connection.ask("POST", place("users"), _body(fields), reads=USER_JSON, once=True)

    async def get(self, id: str, *, tenant: str | None = None) -> User:
        self._check(tenant)
        return await self._connection.ask("GET", _place(id), reads=USER_JSON)

    async def by_key(self, key: str, *, tenant: str | None = None) -> User:
        """The user with this key, which is their id in the caller's own system."""
        self._check(tenant)
        if not name_problems("key", key):
            page = await self._connection.ask("GET", place("users"), reads=USER_PAGE, query={"key": key})
            if page.items:
                return page.items[0]
        raise NotFound(f"there is no user with the key {key!r:.60}")

    async def list(
        self, *, tenant: str | None = None, limit: int = 100, after: str | None = None, **which: Unpack[UserFilters]
    ) -> builtins.list[User]:
        """The users, the newest first: all of them, or those with this *key*, in this *timezone*, with *attributes*
        such as ``{"plan": "pro"}``, or whose *name* begins with this: the first, the last, or both in either order. For
        the next page, *after* is the last id of this one."""
        self._check(tenant)
        before = None if after is None else check_id(after, A_USERS, "after")
        return await up_to(limit, self._connection, place("users"), USER_PAGE, after=before, filters=_query(which))

    async def count(self, *, tenant: str | None = None, **which: Unpack[UserFilters]) -> Count:
        """How many users ``list`` would list: exact up to 10,000, then an estimate that says so."""
        self._check(tenant)
        return await count_of(self._connection, place("users"), USER_PAGE, _query(which))

    async def all(self, *, tenant: str | None = None) -> AsyncIterator[User]:
        """Every user, the newest first."""
        self._check(tenant)
        async for page in all_pages(self._connection, place("users"), USER_PAGE):
            for user in page.items:
                yield user

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
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        return await self._connection.ask(
            "PUT",
            rehearsed(_place(id), dry_run),
            _body(changes),
            reads=USER_JSON,
            once=True,
            headers=if_match(expected),
        )

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
        result has the ``consequence``. A *reason* cannot be sent over HTTP."""
        self._check(tenant)
        refuse_transaction(transaction)
        refuse_name(by)
        if reason is not None:
            raise here_only("reason= of users.delete", "leave it out")
        return await self._connection.ask(
            "DELETE", rehearsed(_place(id), dry_run), reads=USER_JSON, once=True, headers=if_match(expected)
        )

    async def events(self, id: str, *, tenant: str | None = None, limit: int = 100) -> builtins.list[Event]:
        """The events of a user, the newest first. For other filters, use ``events.find(OfUser(id) & …)``."""
        self._check(tenant)
        return await up_to(limit, self._connection, _place(id, "events"), EVENT_PAGE)

    async def ahead(self, id: str, *, tenant: str | None = None) -> builtins.list[Event]:
        """The planned events of a user: the next one of each type, the soonest first."""
        self._check(tenant)
        await self.get(id)
        filters = {"user_id": user_id(id), "status": "PENDING"}
        heads = [
            event
            async for page in all_pages(self._connection, place("events"), EVENT_PAGE, filters)
            for event in page.items
            if event.head
        ]
        return sorted(heads, key=lambda head: head.due)

    async def history(self, id: str, *, tenant: str | None = None) -> builtins.list[Entry]:
        """Every act on a user, the oldest first. Deliveries are in the histories of the events."""
        self._check(tenant)
        return await whole_history(self._connection, _place(id, "history"))

    async def import_(
        self, rows: Lines, *, tenant: str | None = None, by: str = FROM_HTTP, telling: ImportObserver = QUIET
    ) -> Imported:
        """Add many users, some thousand in each request. A row whose ``key`` is known changes that user. A bad row is
        reported, and the good rows are kept."""
        self._check(tenant)
        refuse_name(by, FROM_HTTP)
        return await import_users(self._connection, rows, telling)

    def erase(self, id: str, *, tenant: str | None = None, transaction: Any = None, by: str = "api") -> NoReturn:
        """Refused over HTTP: it changes histories, which no request may do."""
        raise here_only("users.erase", "call it where the database is, or run `duly users erase`")

    def refresh(self, *, tenant: str | None = None, transaction: Any = None, by: str = "refresh") -> NoReturn:
        """Refused over HTTP: event types are defined where Duly runs."""
        raise here_only("users.refresh", "call it where the event types are registered")


def _body(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a user. None is sent as null: in a change, it removes a value."""
    written = {name: write_json(value, name) for name, value in fields.items()}
    if problems := [one for one in written.values() if isinstance(one, Problem)]:
        raise Invalid(problems)
    return {name: msgspec.Raw(str(one).encode()) for name, one in written.items()}


def _query(which: UserFilters) -> dict[str, str]:
    """The filters as parameters of a query string."""
    asked = user_search(which)
    written = {"name": asked.name, "key": asked.key, "timezone": asked.timezone}
    attributes = {f"{PREFIX}{'.'.join(one.path)}": write_attribute(one.value) for one in asked.attributes}
    return {name: value for name, value in written.items() if value is not None} | attributes


def _place(id: str, *act: str) -> str:
    return place("users", user_id(id), *act)
