"""What is asked of a store about users. Users are locked before their heads; a claim locks heads, and never a user."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import time
from typing import Protocol

from duly.ports.events import EventPort
from duly.ports.series import SeriesTransaction
from duly.ports.targets import DestinationReader
from duly.records.event import Event, NewEvent
from duly.records.user import User


class UserPort(Protocol):
    """Users themselves."""

    async def user(self, id: str) -> User | None: ...

    async def user_by_key(self, tenant: str, key: str) -> User | None: ...

    async def users_by_keys(self, tenant: str, keys: Sequence[str]) -> list[User]: ...

    async def list_users(
        self, tenant: str | None, *, before: str | None, limit: int, within: int | None = None
    ) -> list[User]:
        """Those of a tenant, or of all, the newest first, older than the id *before*. CutShort where
        not all of them are *within* so many bytes."""

    async def walk_users(self, tenant: str | None, *, after: str | None, limit: int) -> list[str]:
        """Their ids, the oldest first, newer than the id *after*."""

    async def lock_users(self, ids: Sequence[str]) -> list[User]:
        """Users by id, locked until the transaction ends."""

    async def add_users(self, users: Sequence[User], heads: Sequence[NewEvent], by: str) -> set[str]:
        """Insert users, each with the heads of its series; the ids that went in. The others' keys were taken."""

    async def change_users(self, users: Sequence[User]) -> None:
        """Write locked users as they now are."""

    async def set_usual_time(self, ids: Sequence[str], at: time) -> None:
        """By which locked users are planned who have no time of their own."""

    async def delete_users(self, ids: Sequence[str]) -> None: ...


class UserHeadPort(Protocol):
    """The heads of users' series."""

    async def user_heads(self, ids: Sequence[str]) -> list[Event]:
        """The heads of users' series, locked until the transaction ends."""

    async def user_head_ids(self, ids: Sequence[str]) -> set[str]:
        """Which events are the heads of users' series, not locked."""

    async def heads_of_users(self, ids: Sequence[str]) -> list[Event]:
        """The heads of users' series, to be looked at."""

    async def give_up(self, heads: Sequence[str], by: str, reason: str) -> None:
        """Locked heads, by their ids, are SKIPPED. Those whose time is still to come free the names of their
        occurrences."""

    async def cancel_users(self, ids: Sequence[str], by: str, reason: str) -> int:
        """Cancel all of users' events that have not begun; how many."""


class UserTransaction(UserPort, UserHeadPort, SeriesTransaction, DestinationReader, Protocol):
    """One transaction about users and their events."""


class UserStore(UserTransaction, EventPort, Protocol):
    """A store as the verbs of users see it."""

    def begin(self) -> AbstractAsyncContextManager[UserTransaction]: ...
