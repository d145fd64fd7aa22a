"""The store as users need it. Locks are taken on users before their heads; a claim locks heads, and never a user."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import time
from typing import Protocol

from duly.ports.events import EventPort
from duly.ports.series import RehearsalPort, SeriesTransaction
from duly.ports.targets import DestinationReader
from duly.records.calendar.type_settings import TypeSettings
from duly.records.event import Event, NewEvent, Status
from duly.records.finding.counts import Count
from duly.records.finding.users import EVERY_USER, UserSearch
from duly.records.results import Erased
from duly.records.user import User


class UserPort(Protocol):
    """Reads, stores and deletes users."""

    async def user(self, id: str) -> User | None: ...

    async def user_by_key(self, tenant: str, key: str) -> User | None: ...

    async def users_by_keys(self, tenant: str, keys: Sequence[str]) -> list[User]: ...

    async def list_users(
        self,
        tenant: str | None,
        *,
        before: str | None,
        limit: int,
        within: int | None = None,
        which: UserSearch = EVERY_USER,
    ) -> list[User]:
        """The users of a tenant, or of all tenants, that match a search, newest first, with ids less than *before*.
        CutShort if they do not fit into *within* bytes."""

    async def count_users(self, tenant: str | None, which: UserSearch) -> Count:
        """How many users match a search: exact if they are at most MOST_COUNTED."""

    async def walk_users(self, tenant: str | None, *, after: str | None, limit: int) -> list[str]:
        """The ids of users, oldest first, greater than *after*."""

    async def lock_users(self, ids: Sequence[str]) -> list[User]:
        """Users by id, locked until the transaction ends."""

    async def add_users(self, users: Sequence[User], heads: Sequence[NewEvent], by: str) -> set[str]:
        """Inserts users, each with the heads of its series; returns the inserted ids. For the other users, the key was
        already taken."""

    async def change_users(self, users: Sequence[User]) -> None:
        """Writes the new content of locked users."""

    async def set_usual_time(self, ids: Sequence[str], at: time) -> None:
        """Sets the time of day at which locked users without a delivery time of their own are planned."""

    async def delete_users(self, ids: Sequence[str]) -> None: ...


class TypeSettingsPort(Protocol):
    """Reads and stores what tenants set for event types. Locks are taken on these before users."""

    async def type_settings_of(self, tenants: Sequence[str]) -> list[TypeSettings]: ...

    async def lock_type_settings(self, tenant: str, type: str) -> TypeSettings:
        """The settings of one type, locked until the transaction ends; empty ones are stored first if there are
        none."""

    async def put_type_settings(self, settings: TypeSettings) -> None: ...

    async def lock_following(self, types: Sequence[str], tenant: str | None) -> TypeSettings | None:
        """Settings of these types that events of users do not follow yet, locked; None if there are none, or others
        have locked them."""

    async def set_following(self, settings: TypeSettings) -> None:
        """Writes how far the events of users follow."""


class UserHeadPort(Protocol):
    """Reads, skips and cancels the heads of users' series."""

    async def user_heads(self, ids: Sequence[str]) -> list[Event]:
        """The heads of users' series, locked until the transaction ends."""

    async def user_head_ids(self, ids: Sequence[str]) -> set[str]:
        """The ids of the heads of users' series, not locked."""

    async def heads_of_users(self, ids: Sequence[str]) -> list[Event]:
        """The heads of users' series, not locked, for display."""

    async def give_up(self, heads: Sequence[str], by: str, reason: str) -> None:
        """Marks locked heads as SKIPPED. Heads in the future make the names of their occurrences available again."""

    async def cancel_users(self, ids: Sequence[str], by: str, reason: str) -> int:
        """Cancels all events of users that have not begun; returns their number."""


class ErasePort(Protocol):
    """Scrubs what is stored of a person."""

    async def lock_events_of_user(self, user: str, tenant: str) -> list[tuple[str, Status, str | None]]:
        """All events of a user of this tenant, locked, also of a deleted one: id, status and owner."""

    async def erase_user(
        self, user: str, events: Sequence[str], words: Sequence[str], *, anybody: bool, by: str, reason: str
    ) -> Erased:
        """Scrubs locked events that are not under way, and the histories of these and of the user; also the actors
        whose names contain one of the *words*, or *anybody* but workers."""

    async def erase_answers(self, user: str, tenant: str, words: Sequence[str]) -> int:
        """Scrubs the stored answers of the API that tell of a user; returns their number."""


class UserTransaction(
    ErasePort, UserPort, TypeSettingsPort, UserHeadPort, SeriesTransaction, DestinationReader, Protocol
):
    """One transaction about users and their events."""


class UserStore(UserTransaction, EventPort, RehearsalPort, Protocol):
    """A store as the verbs of users see it."""

    def begin(self) -> AbstractAsyncContextManager[UserTransaction]: ...
