"""The statements about users, and about the heads of their series."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from datetime import time
from typing import Any

from duly.records.calendar.type_settings import TypeSettings
from duly.records.event import Event, NewEvent, Status, user_of
from duly.records.finding.users import EVERY_USER, UserSearch
from duly.records.results import Erased
from duly.records.user import User
from duly.stores.columns.lists import PUT_TYPE_SETTINGS, USERS
from duly.stores.filters.users import users_where
from duly.stores.queries import Query
from duly.stores.query_base import FIRST_ID, LAST_ID, WITHIN, QueryBase, each


class UserQueries(QueryBase):
    dialect: str

    @abstractmethod
    async def run(self, query: Query, parameters: dict[str, Any]) -> list[Any]: ...

    @abstractmethod
    async def plant(self, events: Sequence[NewEvent]) -> set[str]: ...

    # -- users

    async def user(self, id: str) -> User | None:
        return self._one_user(await self.ask("user", id=id))

    async def user_by_key(self, tenant: str, key: str) -> User | None:
        return self._one_user(await self.ask("user_by_key", tenant=tenant, key=key))

    async def users_by_keys(self, tenant: str, keys: Sequence[str]) -> list[User]:
        return [
            self.readers.user.read(row)
            for row in await self.ask("users_by_keys", tenant=tenant, keys=self.listed(keys))
        ]

    async def list_users(
        self,
        tenant: str | None,
        *,
        before: str | None,
        limit: int,
        within: int | None = None,
        which: UserSearch = EVERY_USER,
    ) -> list[User]:
        bounds: dict[str, Any] = {"before": before or LAST_ID, "limit": limit, WITHIN: within}
        query, parameters = (
            self.statement("list_users", **bounds)
            if tenant is None or which
            else self.statement("list_users_of", tenant=tenant, **bounds)
        )
        where, values = users_where(tenant if which else None, which, self.dialect)
        asked = Query("find_users" if which else query.name, query.sql.replace("{where}", where), query.reads)
        return each(self.readers.user.read, await self.run(asked, parameters | values))

    async def walk_users(self, tenant: str | None, *, after: str | None, limit: int) -> list[str]:
        bounds: dict[str, Any] = {"after": after or FIRST_ID, "limit": limit}
        rows = await (
            self.ask("walk_users", **bounds) if tenant is None else self.ask("walk_users_of", tenant=tenant, **bounds)
        )
        return [row[0] for row in rows]

    async def lock_users(self, ids: Sequence[str]) -> list[User]:
        return [self.readers.user.read(row) for row in await self.ask("lock_users", ids=self.listed(ids))]

    async def add_users(self, users: Sequence[User], heads: Sequence[NewEvent], by: str) -> set[str]:
        rows = await self.ask("add_users", self.batch(USERS, users), by=by)
        added = {row[0] for row in rows}
        if planted := [head for head in heads if user_of(head.series) in added]:
            await self.plant(planted)
        return added

    async def change_users(self, users: Sequence[User]) -> None:
        await self.ask("change_users", self.batch(USERS, users))

    async def set_usual_time(self, ids: Sequence[str], at: time) -> None:
        await self.ask("set_usual_time", ids=self.listed(ids), at=at.isoformat())

    async def delete_users(self, ids: Sequence[str]) -> None:
        await self.ask("delete_users", ids=self.listed(ids))

    # -- erasing

    async def lock_events_of_user(self, user: str, tenant: str) -> list[tuple[str, Status, str | None]]:
        rows = await self.ask("lock_events_of_user", user=user, tenant=tenant)
        return [(id, Status(status), owner) for id, status, owner in rows]

    async def erase_user(
        self, user: str, events: Sequence[str], words: Sequence[str], *, anybody: bool, by: str, reason: str
    ) -> Erased:
        scrubbed = {"user": user, "ids": self.listed(events), "words": self.listed(words), "anybody": anybody}
        rows = await self.ask("erase_user", **scrubbed, by=by, detail=reason)
        done = Counter(row[0] for row in rows)
        return Erased(
            events=done["event"], cancelled=done["cancelled"], discarded=done["discarded"], history=done["history"]
        )

    async def erase_answers(self, user: str, tenant: str, words: Sequence[str]) -> int:
        return len(await self.ask("erase_answers", user=user, tenant=tenant, words=self.listed(words)))

    # -- what tenants set for event types

    async def type_settings_of(self, tenants: Sequence[str]) -> list[TypeSettings]:
        return [
            self.readers.type_settings.read(row)
            for row in await self.ask("type_settings_of", tenants=self.listed(sorted(tenants)))
        ]

    async def lock_type_settings(self, tenant: str, type: str) -> TypeSettings:
        await self.ask("make_type_settings", tenant=tenant, type=type)
        [row] = await self.ask("lock_type_settings", tenant=tenant, type=type)
        return self.readers.type_settings.read(row)

    async def put_type_settings(self, settings: TypeSettings) -> None:
        await self.ask("put_type_settings", self.batch(PUT_TYPE_SETTINGS, [settings]))

    async def lock_following(self, types: Sequence[str], tenant: str | None) -> TypeSettings | None:
        rows = await self.ask("lock_following", types=self.listed(types), tenant=tenant)
        return self.readers.type_settings.read(rows[0]) if rows else None

    async def set_following(self, settings: TypeSettings) -> None:
        await self.ask(
            "set_following",
            tenant=settings.tenant,
            type=settings.type,
            follow_at=self.optional_instant(settings.follow_at),
            follow_after=settings.follow_after,
            recheck=settings.recheck,
        )

    # -- their heads

    async def user_heads(self, ids: Sequence[str]) -> list[Event]:
        return [self.readers.event.read(row) for row in await self.ask("user_heads", ids=self.listed(sorted(ids)))]

    async def user_head_ids(self, ids: Sequence[str]) -> set[str]:
        return {row[0] for row in await self.ask("user_head_ids", ids=self.listed(ids))}

    async def heads_of_users(self, ids: Sequence[str]) -> list[Event]:
        return [self.readers.event.read(row) for row in await self.ask("heads_of_users", ids=self.listed(ids))]

    async def give_up(self, heads: Sequence[str], by: str, reason: str) -> None:
        await self.ask("give_up", ids=self.listed(heads), by=by, detail=reason)

    async def cancel_users(self, ids: Sequence[str], by: str, reason: str) -> int:
        return len(await self.ask("cancel_users", ids=self.listed(ids), by=by, detail=reason))

    # -- reading

    def _one_user(self, rows: Sequence[Any]) -> User | None:
        return self.readers.user.read(rows[0]) if rows else None
