"""A tenant's own Duly for the duration of a request: the same verbs, on a store that sees no other tenant's rows."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from duly.decide.planning import plan
from duly.decide.targets.command_allow import CommandAllow
from duly.decide.targets.origin import OVER_HTTP, HttpOrigin
from duly.duly import Duly
from duly.engine.destinations.target_references import Key, key_of, missing
from duly.engine.schedule import add_events, put_events
from duly.ids import new_ids
from duly.ports import Added, Store
from duly.records.api_key import Scope
from duly.records.event import NewEvent, Timer
from duly.records.figures.forecast import Forecast
from duly.records.figures.stats import Stats, StepOfRuns
from duly.records.finding.search import SearchResult
from duly.verbs.event_types import SettingVerbs
from duly.verbs.events.events import Events
from duly.verbs.figures.forecast import LIMITS_OVER_HTTP, forecast
from duly.verbs.figures.stats import runs_by_step, stats
from duly.verbs.requests import Requests
from duly.verbs.schedules.schedules import Schedules
from duly.verbs.schedules.templates import Templates
from duly.verbs.search import search
from duly.verbs.targets import Targets
from duly.verbs.transactions import no_transaction
from duly.verbs.users.users import Users
from duly.verbs.workers import Workers

if TYPE_CHECKING:
    from duly.api.protocol.request import Caller

MOST_RELEASED = 10_000
"""Events that a request that enables a target releases itself; workers release the rest."""


class Tenancy:
    """The verbs of one request. Each verb still names the tenant: that is the first lock. The store, which is confined
    to that tenant, is the second."""

    def __init__(self, duly: Duly, store: Store, caller: "Caller") -> None:
        self.duly, self._store, self.tenant = duly, store, caller.tenant
        is_admin = caller.scope is Scope.ADMIN
        commands = CommandAllow(duly.settings.commands or (), is_admin and caller.all_tenants is True, is_admin)
        self.channels = HttpOrigin(duly.channels, duly.settings.broker_allow, caller.tenant, commands)
        self._committed: list[Callable[[], None]] = []

    @cached_property
    def events(self) -> Events:
        return Events(self._store, self.channels, presence=self.duly.store)

    @cached_property
    def schedules(self) -> Schedules:
        return Schedules(self._store, self.channels, no_transaction, self.duly.store)

    @cached_property
    def templates(self) -> Templates:
        return Templates(self._store, self.channels, no_transaction)

    @cached_property
    def users(self) -> Users:
        return Users(self._store, self.duly.calendars._replace(channels=self.channels), no_transaction)

    @cached_property
    def event_types(self) -> SettingVerbs:
        return SettingVerbs(self._store, self.duly.calendars._replace(channels=self.channels))

    @cached_property
    def targets(self) -> Targets:
        secret_key, signals = self.duly.settings.secret_key, self.duly.signals
        return Targets(self._store, self._forget, secret_key, signals, MOST_RELEASED, OVER_HTTP, channels=self.channels)

    @cached_property
    def workers(self) -> Workers:
        """Workers are no tenant's: they are read outside of the tenant's session, and its own events within it."""
        return Workers(self.duly.store, self._store)

    @cached_property
    def requests(self) -> Requests:
        return Requests(self._store)

    async def forecast(self, start: datetime | None, end: datetime | None, step: timedelta | None) -> Forecast:
        """How many of the tenant's events are known to become due."""
        return await forecast(self._store, start, end, step, self.tenant, LIMITS_OVER_HTTP)

    async def stats(self, start: datetime | None, end: datetime | None, *, by: Any) -> Stats:
        """What has become of the tenant's events."""
        return await stats(self._store, start, end, self.tenant, by=by)

    async def search(self, text: str, limit: int) -> list[SearchResult]:
        """What the tenant has with this id, key or name."""
        return await search(self._store, text, self.tenant, limit, "q")

    async def runs_by_step(self, since: datetime, until: datetime, step: timedelta) -> list[StepOfRuns]:
        """The tenant's runs that ended in each step, of some whole hours."""
        return await runs_by_step(self._store, since, until, step, self.tenant, self.duly.settings.late_after)

    async def now(self) -> datetime:
        """The current time by the store's clock, which is the authoritative one."""
        return await self._store.now()

    def plan(self, timers: Sequence[Timer]) -> list[NewEvent]:
        """The events of timers; raises Invalid with every problem of every timer."""
        return plan(timers, self.channels, new_ids)

    async def put(self, events: Sequence[NewEvent]) -> list[Added]:
        """Schedules events that have keys, or moves the events that exist under those keys."""
        return await put_events(self._store, events)

    async def add(self, events: Sequence[NewEvent]) -> list[str]:
        """Schedules events that have no keys; returns their ids."""
        return await add_events(self._store, events)

    async def missing_targets(self, events: Iterable[NewEvent]) -> set[Key]:
        """The stored targets that the events name and that do not exist."""
        return await missing(self._store, map(key_of, events))

    def _forget(self, tenant: str, destination: str) -> None:
        """Drops a destination from the cache after the commit. Before it, a worker in this process would read the old
        row again and cache that."""
        self.after_commit(lambda: self.duly.destination_cache.forget(tenant, destination))

    def after_commit(self, act: Callable[[], None]) -> None:
        self._committed.append(act)

    def committed(self) -> None:
        for act in self._committed:
            act()


@asynccontextmanager
async def tenancy(duly: Duly, caller: "Caller", *, writes: bool, one_statement: bool = False) -> AsyncIterator[Tenancy]:
    async with duly.store.tenant_session(caller.tenant, writes=writes, one_statement=one_statement) as store:
        own = Tenancy(duly, store, caller)
        yield own
    own.committed()
