"""The statements about users, and about the heads of their series."""

from abc import abstractmethod
from collections.abc import Sequence
from datetime import date, time
from typing import Any

from duly.records.event import Event, NewEvent, user_of
from duly.records.user import User
from duly.stores.query_base import FIRST_ID, LAST_ID, WITHIN, Columns, QueryBase, each

USER_COLUMNS = (
    "id tenant key first_name last_name date_of_birth timezone anniversary delivery_time leap target_json "
    "attributes_json usual_time via"
).split()


class UserQueries(QueryBase):
    @abstractmethod
    async def plant(self, events: Sequence[NewEvent]) -> set[str]: ...

    # -- users

    async def user(self, id: str) -> User | None:
        return self._one_user(await self.ask("user", id=id))

    async def user_by_key(self, tenant: str, key: str) -> User | None:
        return self._one_user(await self.ask("user_by_key", tenant=tenant, key=key))

    async def users_by_keys(self, tenant: str, keys: Sequence[str]) -> list[User]:
        return [self.read_user(row) for row in await self.ask("users_by_keys", tenant=tenant, keys=self.listed(keys))]

    async def list_users(
        self, tenant: str | None, *, before: str | None, limit: int, within: int | None = None
    ) -> list[User]:
        bounds: dict[str, Any] = {"before": before or LAST_ID, "limit": limit, WITHIN: within}
        rows = await (
            self.ask("list_users", **bounds) if tenant is None else self.ask("list_users_of", tenant=tenant, **bounds)
        )
        return each(self.read_user, rows)

    async def walk_users(self, tenant: str | None, *, after: str | None, limit: int) -> list[str]:
        bounds: dict[str, Any] = {"after": after or FIRST_ID, "limit": limit}
        rows = await (
            self.ask("walk_users", **bounds) if tenant is None else self.ask("walk_users_of", tenant=tenant, **bounds)
        )
        return [row[0] for row in rows]

    async def lock_users(self, ids: Sequence[str]) -> list[User]:
        return [self.read_user(row) for row in await self.ask("lock_users", ids=self.listed(ids))]

    async def add_users(self, users: Sequence[User], heads: Sequence[NewEvent], by: str) -> set[str]:
        rows = await self.ask("add_users", self._user_columns(users), by=by)
        added = {row[0] for row in rows}
        if planted := [head for head in heads if user_of(head.series) in added]:
            await self.plant(planted)
        return added

    async def change_users(self, users: Sequence[User]) -> None:
        await self.ask("change_users", self._user_columns(users))

    async def set_usual_time(self, ids: Sequence[str], at: time) -> None:
        await self.ask("set_usual_time", ids=self.listed(ids), at=at.isoformat())

    async def delete_users(self, ids: Sequence[str]) -> None:
        await self.ask("delete_users", ids=self.listed(ids))

    # -- their heads

    async def user_heads(self, ids: Sequence[str]) -> list[Event]:
        return [self.read_event(row) for row in await self.ask("user_heads", ids=self.listed(sorted(ids)))]

    async def user_head_ids(self, ids: Sequence[str]) -> set[str]:
        return {row[0] for row in await self.ask("user_head_ids", ids=self.listed(ids))}

    async def heads_of_users(self, ids: Sequence[str]) -> list[Event]:
        return [self.read_event(row) for row in await self.ask("heads_of_users", ids=self.listed(ids))]

    async def give_up(self, heads: Sequence[str], by: str, reason: str) -> None:
        await self.ask("give_up", ids=self.listed(heads), by=by, detail=reason)

    async def cancel_users(self, ids: Sequence[str], by: str, reason: str) -> int:
        return len(await self.ask("cancel_users", ids=self.listed(ids), by=by, detail=reason))

    # -- writing and reading

    def _user_columns(self, users: Sequence[User]) -> Columns:
        return {name: [_plain(getattr(user, name)) for user in users] for name in USER_COLUMNS}

    def read_user(self, row: Any) -> User:
        (id, tenant, key, first_name, last_name, date_of_birth, timezone, anniversary, delivery_time, leap, target,
         attributes, created, created_by, updated, usual_time, via) = row  # fmt: skip
        return User(
            id=id,
            tenant=tenant,
            key=key,
            first_name=first_name,
            last_name=last_name,
            date_of_birth=date.fromisoformat(date_of_birth),
            timezone=timezone,
            anniversary=None if anniversary is None else date.fromisoformat(anniversary),
            delivery_time=None if delivery_time is None else time.fromisoformat(delivery_time),
            leap=leap,
            target_json=target,
            attributes_json=attributes,
            created=self.read_instant(created),
            created_by=created_by,
            updated=self.read_instant(updated),
            usual_time=None if usual_time is None else time.fromisoformat(usual_time),
            via=via,
        )

    def _one_user(self, rows: Sequence[Any]) -> User | None:
        return self.read_user(rows[0]) if rows else None


def _plain(value: Any) -> Any:
    """Dates and times of day travel as text."""
    return value.isoformat() if isinstance(value, date | time) else value
