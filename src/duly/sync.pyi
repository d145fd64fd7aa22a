"""What ``sync.py`` offers, for type checkers. Written by ``make stubs`` from the asynchronous verbs."""

import asyncio
import builtins
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, NoReturn, Protocol, Self, TypeVar, Unpack, overload

from duly.decide.calendars.event_types import EventType, Registered
from duly.decide.figures.stats import By
from duly.decide.retry import Retry
from duly.decide.series.preview import Preview
from duly.decide.series.why_not import WhyNot
from duly.decide.why import Why
from duly.ports import Added, Page
from duly.records.api_key import ApiKey, MadeKey, Scope
from duly.records.calendar.type_settings import TypeChanges, TypeSettings
from duly.records.event import Event, Timer, TimerOptions
from duly.records.figures.consequence import Consequence
from duly.records.figures.forecast import Forecast
from duly.records.figures.stats import Stats
from duly.records.filters import EventFilter
from duly.records.finding.acts import ActedOn
from duly.records.finding.counts import Count
from duly.records.finding.schedules import ScheduleFilter
from duly.records.finding.search import SearchResult
from duly.records.finding.users import UserFilters
from duly.records.history import Entry
from duly.records.results import (
    Backfilled,
    CancelResult,
    DeadLetters,
    Discarded,
    Erased,
    Imported,
    Pruned,
    Refreshed,
    ReplannedHead,
    Replayed,
    Resumed,
    TargetTest,
)
from duly.records.schedule import Schedule, ScheduleOptions
from duly.records.specs import Spec
from duly.records.target import Known, Resealed, Target
from duly.records.template import Template, TemplateSettings
from duly.records.user import User, UserChanges, UserFields
from duly.records.wire.answers import KnownType
from duly.records.workers.worker import LaneInfo, WorkerInfo
from duly.rules.policies import PolicyOptions
from duly.rules.recurrence import Rule
from duly.signals import PassEnded
from duly.verbs.schedules.bulk import Progress
from duly.verbs.users.bulk_import import ImportObserver, Lines

T = TypeVar("T")

class Asynchronous(Protocol):
    """The interface of a Duly or Client that ``sync`` needs."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...
    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop in which it is open."""
    @property
    def one_writer(self) -> bool:
        """Whether a second transaction in the same thread would wait forever for the first one."""
    def lend(self) -> AbstractAsyncContextManager[Any]:
        """A transaction of its own."""
    def foreign(self, connection: Any) -> Any:
        """A wrapper of a caller's synchronous connection, in which Duly can run its statements."""

class _Events:
    def cancel_all(
        self,
        which: EventFilter | Spec,
        *,
        reason: str | None = None,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        progress: Callable[[ActedOn], object] | None = None,
    ) -> ActedOn:
        """Cancel the waiting and running events that match, the newest first, like ``cancel``: what runs is asked to
        stop, and schedules go on with their next occurrences."""
    def get(self, id: str, *, tenant: str | None = None) -> Event:
        """The event with this id or key."""
    def by_key(self, key: str, *, tenant: str = "default") -> Event:
        """The timer with this key: the open one, or else the latest."""
    def find(
        self,
        spec: Spec | EventFilter | None = None,
        *,
        tenant: str | None = None,
        limit: int = 100,
        after: str | None = None,
        sort: str = ...,
    ) -> list[Event]:
        """Find events, the newest first."""
    def page(
        self,
        spec: Spec | EventFilter | None = None,
        *,
        tenant: str | None = None,
        limit: int = 100,
        after: str | None = None,
        sort: str = ...,
    ) -> Page:
        """A page of events in the order of ``find``, in a time that does not grow with the number of events."""
    def count(self, spec: Spec | EventFilter | None = None, *, tenant: str | None = None) -> Count:
        """How many events match the spec: exact if they are at most 10,000, and if no more than 100,000 had to be
        examined to find them; otherwise an estimate that says so."""
    def history(self, id: str, *, tenant: str | None = None) -> list[Entry]:
        """Every attempt, interruption and human act, the oldest first."""
    def why(self, id: str, *, tenant: str | None = None) -> Why:
        """Why an event has not fired yet, or did not fire: the one cause."""
    def cancel(
        self, id: str, *, tenant: str | None = None, transaction: Any = None, by: str = "api", reason: str | None = None
    ) -> CancelResult:
        """Cancel an event, by its id or key."""
    def reschedule(
        self, id: str, due: datetime, *, tenant: str | None = None, transaction: Any = None, by: str = "api"
    ) -> Event:
        """Move an event that has not started."""
    def replay(
        self, id: str, *, payload: Any = ..., tenant: str | None = None, transaction: Any = None, by: str = "api"
    ) -> Event:
        """Retry a dead letter, under the same id, with a fresh count of attempts."""
    def discard(
        self, id: str, *, tenant: str | None = None, transaction: Any = None, by: str = "api", reason: str | None = None
    ) -> Event:
        """Discard a dead letter that is not needed any more."""
    def dead_letters(self, spec: Spec | EventFilter | None = None, *, tenant: str | None = None) -> DeadLetters:
        """How many dead letters match the spec, and their most frequent kinds: what ``replay_all`` would replay."""
    def replay_all(
        self,
        spec: Spec | EventFilter | None = None,
        *,
        tenant: str | None = None,
        rate: float | str | None = None,
        limit: int | None = None,
        by: str = "api",
        progress: Callable[[Replayed], object] | None = None,
    ) -> Replayed:
        """Replay the dead letters that match the spec, the oldest first, at most *limit*."""
    def discard_all(
        self,
        spec: Spec | EventFilter | None = None,
        *,
        tenant: str | None = None,
        limit: int | None = None,
        by: str = "api",
        reason: str | None = None,
        progress: Callable[[Discarded], object] | None = None,
    ) -> Discarded:
        """Discard the dead letters that match the spec, the oldest first, at most *limit*."""

class _Schedules:
    def get(self, name: str, *, tenant: str = "default") -> Schedule: ...
    def list(
        self, which: ScheduleFilter = ..., *, tenant: str | None = None, limit: int = 100, after: Schedule | None = None
    ) -> builtins.list[Schedule]:
        """The schedules that match the filter, in the order of tenant and name."""
    def count(self, which: ScheduleFilter = ..., *, tenant: str | None = None) -> Count:
        """The number of schedules that match the filter: exact up to 10,000, then an estimate that says so."""
    def history(self, name: str, *, tenant: str = "default") -> builtins.list[Entry]:
        """Every human act, the oldest first."""
    def stats(
        self, name: str, from_: datetime | None = None, to: datetime | None = None, *, tenant: str = "default"
    ) -> Stats:
        """What has become of the events of a schedule: how many runs, how they ended, how long they took, and how late
        they began, together and by day (UTC)."""
    def preview(
        self,
        what: str | Rule | dict[str, Any],
        *,
        count: int = 10,
        after: datetime | None = None,
        timezone: str | None = None,
        tenant: str = "default",
        enough: Callable[[], bool] = ...,
        **policies: Unpack[PolicyOptions],
    ) -> builtins.list[Preview]:
        """The next occurrences of a schedule by its name, or of a rule, with a note on each unusual one."""
    def pause(
        self,
        name: str,
        *,
        reason: str | None = None,
        until: datetime | timedelta | float | str | None = None,
        passed: str | None = None,
        tenant: str = "default",
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
    ) -> Schedule:
        """Pause a schedule: none of its events starts any more."""
    def resume(
        self,
        name: str,
        *,
        tenant: str = "default",
        passed: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
    ) -> Resumed:
        """Resume a schedule."""
    def trigger(
        self,
        name: str,
        *,
        payload: Any = ...,
        tenant: str = "default",
        transaction: Any = None,
        by: str = "api",
        correlation_id: str | None = None,
    ) -> Event:
        """Fire a schedule now, even while it is paused."""
    def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        limit: int = 100,
        label: str | None = None,
        dry_run: bool = False,
        tenant: str = "default",
        transaction: Any = None,
        by: str = "api",
    ) -> Backfilled:
        """Fire the occurrences from *start* until *end* (excluded) now, the oldest first; `event.scheduled` is the
        instant of each occurrence."""
    def pause_all(
        self,
        which: ScheduleFilter,
        *,
        reason: str | None = None,
        until: datetime | timedelta | float | str | None = None,
        passed: str | None = None,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        progress: Progress | None = None,
    ) -> ActedOn:
        """Pause the enabled schedules that match the filter, like ``pause``."""
    def resume_all(
        self,
        which: ScheduleFilter,
        *,
        passed: str | None = None,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        progress: Progress | None = None,
    ) -> ActedOn:
        """Resume the paused schedules that match the filter, like ``resume``; the rest is as with ``pause_all``."""
    def trigger_all(
        self,
        which: ScheduleFilter,
        *,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        progress: Progress | None = None,
    ) -> ActedOn:
        """Fire the schedules that match the filter now, like ``trigger``; the rest is as with ``pause_all``."""
    def why_not(self, name: str, at: datetime | str, *, tenant: str = "default") -> WhyNot:
        """Why a schedule did not run at an instant: the one cause; or that it ran, or when it will."""
    def put(
        self,
        name: str,
        rule: Rule | dict[str, Any] | None = None,
        type: str | None = None,
        payload: Any = None,
        *,
        template: str | None = None,
        timezone: str | None = None,
        tenant: str = "default",
        target: dict[str, Any] | None = None,
        retry: Retry | None = None,
        tags: Collection[str] | None = None,
        enabled: bool | None = None,
        expected: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
        **policies: Unpack[PolicyOptions],
    ) -> Schedule:
        """Create a schedule, or replace the one with this name."""
    def reschedule(
        self,
        name: str,
        due: datetime,
        *,
        tenant: str = "default",
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
    ) -> Schedule:
        """Move only the next event; the rule continues after it."""
    def skip(
        self,
        name: str,
        *,
        tenant: str = "default",
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
        reason: str | None = None,
    ) -> Schedule:
        """Skip only the next event."""
    @overload
    def delete(
        self,
        name: str,
        *,
        tenant: str = "default",
        expected: str | None = None,
        dry_run: Literal[True],
        transaction: Any = None,
        by: str = "api",
    ) -> Consequence: ...
    @overload
    def delete(
        self,
        name: str,
        *,
        tenant: str = "default",
        expected: str | None = None,
        dry_run: Literal[False] = False,
        transaction: Any = None,
        by: str = "api",
    ) -> int: ...
    def replan(
        self, *, dry_run: bool = False, transaction: Any = None, by: str = "api"
    ) -> builtins.list[ReplannedHead]:
        """Move events that have not started to where newer time zone data puts them; return the events that were, or
        with *dry_run* would be, moved."""

class _Templates:
    def put(
        self,
        name: str,
        *,
        tenant: str = "default",
        expected: str | None = None,
        transaction: Any = None,
        **settings: Unpack[TemplateSettings],
    ) -> Template:
        """Create a template, or replace the one with this name: any part of what ``schedules.put`` takes."""
    def get(self, name: str, *, tenant: str = "default") -> Template:
        """A template of the tenant, or a built-in one."""
    def list(self, *, tenant: str = "default", limit: int = 100, after: str | None = None) -> builtins.list[Template]:
        """The templates that are built in and those of the tenant, in the order of names."""
    def delete(
        self, name: str, *, tenant: str = "default", expected: str | None = None, transaction: Any = None
    ) -> Template:
        """Delete a template of the tenant; return what it was."""

class _Users:
    def add(
        self, *, tenant: str = "default", transaction: Any = None, by: str = "api", **fields: Unpack[UserFields]
    ) -> User:
        """Add a user; their events are planned when this returns."""
    def get(self, id: str, *, tenant: str | None = None) -> User: ...
    def by_key(self, key: str, *, tenant: str = "default") -> User:
        """The user with this key, which is their id in the caller's own system."""
    def list(
        self, *, tenant: str | None = None, limit: int = 100, after: str | None = None, **which: Unpack[UserFilters]
    ) -> builtins.list[User]:
        """The users, the newest first: all of them, or those with this *key*, in this *timezone*, with *attributes*
        such as ``{"plan": "pro"}``, or whose *name* begins with this: the first, the last, or both in either order."""
    def count(self, *, tenant: str | None = None, **which: Unpack[UserFilters]) -> Count:
        """How many users ``list`` would list: exact up to 10,000, then an estimate that says so."""
    def update(
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
        """Change the given fields of a user."""
    def delete(
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
        """Delete a user, and cancel the events that have not started."""
    def erase(self, id: str, *, tenant: str | None = None, transaction: Any = None, by: str = "api") -> Erased:
        """Delete a user, and scrub names and content from all their events, histories and stored answers; also of a
        user who was deleted before, by the id."""
    def events(self, id: str, *, tenant: str | None = None, limit: int = 100) -> builtins.list[Event]:
        """The events of a user, the newest first."""
    def ahead(self, id: str, *, tenant: str | None = None) -> builtins.list[Event]:
        """The planned events of a user: the next one of each type, the soonest first."""
    def history(self, id: str, *, tenant: str | None = None) -> builtins.list[Entry]:
        """Every act on a user, the oldest first."""
    def import_(
        self, rows: Lines, *, tenant: str = "default", by: str = "import", telling: ImportObserver = ...
    ) -> Imported:
        """Add many users, some thousand in each transaction."""
    def refresh(self, *, tenant: str | None = None, transaction: Any = None, by: str = "refresh") -> Refreshed:
        """Update the events of all users to the current event types and delivery time: after a type was added, removed
        or changed."""

class _EventTypes:
    def register(self, type: Registered) -> Registered:
        """Adds an event type; also as a decorator of a class that needs no arguments."""
    def remove(self, name: str) -> None:
        """Removes an event type."""
    def removed(self) -> frozenset[str]:
        """The names of removed types, whose events users lose."""
    def get(self, name: str) -> EventType: ...
    def names(self) -> list[str]: ...
    def settings(self, type: str, *, tenant: str = "default") -> TypeSettings:
        """What a tenant has set for an event type."""
    def update(
        self, type: str, *, tenant: str = "default", transaction: Any = None, **changes: Unpack[TypeChanges]
    ) -> TypeSettings:
        """Change a tenant's texts for an event type, by language, and the target of its users without one."""

class _Targets:
    def test(self, target: str | dict[str, Any], *, tenant: str = "default", by: str = "api") -> TargetTest:
        """Send a test to a stored target, by its name, or to a *target* as an event would have it, and tell what came
        back."""
    def put(
        self,
        name: str,
        url: str,
        *,
        channel: str = ...,
        method: str | None = None,
        headers: Mapping[str, str] | None = None,
        format: str | None = None,
        timeout: timedelta | str | None = None,
        retry_statuses: Collection[int] | None = None,
        secret: str | None = None,
        tenant: str = "default",
        transaction: Any = None,
        by: str = "api",
    ) -> Target:
        """Store a target, or replace it."""
    def rotate(
        self,
        name: str,
        *,
        secret: str | None = None,
        keep: timedelta | str = ...,
        tenant: str = "default",
        transaction: Any = None,
        by: str = "api",
    ) -> Target:
        """Give a webhook's target a new secret."""
    def reseal(self, *, tenant: str | None = None, transaction: Any = None, by: str = "api") -> Resealed:
        """Encrypt the secrets of targets with the first key of DULY_SECRET_KEY where an older key encrypted them, so
        that the older key can be removed."""
    def get(self, name: str, *, tenant: str = "default") -> Target: ...
    def list(
        self, *, tenant: str | None = None, after: tuple[str, str] = ("", ""), limit: int = ...
    ) -> builtins.list[Target]:
        """The targets, in the order of tenant and name."""
    def delete(
        self, name: str, *, force: bool = False, tenant: str = "default", transaction: Any = None, by: str = "api"
    ) -> Target:
        """Delete a target."""
    def history(self, name: str, *, tenant: str = "default") -> builtins.list[Entry]: ...
    def disable(
        self,
        destination: str,
        *,
        tenant: str = "default",
        reason: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> None:
        """Send nothing to a destination until it is enabled: its events are held."""
    def enable(self, destination: str, *, tenant: str = "default", transaction: Any = None, by: str = "api") -> int:
        """Send to a destination again, whatever it was parked for; return how many events were waiting for it."""
    def probe(self, destination: str, *, tenant: str = "default", transaction: Any = None, by: str = "api") -> None:
        """Let a worker try a parked destination at its next poll, instead of when its back-off ends."""
    def limit(
        self,
        destination: str | None = None,
        *,
        concurrency: int | None = None,
        rate: float | str | None = None,
        tenant: str = "default",
        transaction: Any = None,
        by: str = "api",
    ) -> Known:
        """Limit how many events go to a destination at once, from each worker, and how many a second, from all
        workers."""
    def known(self, destination: str, *, tenant: str = "default") -> Known:
        """The limits of a destination, and whether it is parked."""
    def destinations(
        self, *, tenant: str | None = None, after: tuple[str, str] = ("", ""), limit: int = ...
    ) -> builtins.list[Known]:
        """The destinations that have limits or are parked."""
    def waiting(self, destination: str, *, tenant: str = "default") -> int:
        """How many events are held until a destination is open again."""
    def signing_secret(self, url: str, *, tenant: str = "default") -> str:
        """The secret that signs webhooks to a URL that is no stored target's; their receiver needs it."""

class _Keys:
    def create(
        self,
        name: str,
        *,
        tenant: str = "default",
        scope: Scope | str = ...,
        expires: datetime | timedelta | None = None,
        rate: float | str | None = None,
        all_tenants: bool = False,
        by: str = "api",
    ) -> MadeKey:
        """Create a key."""
    def get(self, id: str, *, tenant: str | None = None) -> ApiKey: ...
    def list(self, *, tenant: str | None = None, limit: int = 100, after: str | None = None) -> builtins.list[ApiKey]:
        """The keys, the newest first, with revoked ones."""
    def named(self, name: str, *, tenant: str | None = None) -> ApiKey:
        """The valid key with this name, if there is exactly one: names need not be unique."""
    def revoke(self, id: str, *, tenant: str | None = None, by: str = "api") -> ApiKey:
        """Revoke a key."""
    def recognise(self, secret: str) -> ApiKey:
        """The key with this secret; raises Unauthenticated."""
    def known(self, secrets: Collection[str]) -> set[str]:
        """The secrets that belong to keys, also to revoked or expired ones."""
    def used(self, ids: Sequence[str]) -> None:
        """Record that these keys were used just now."""
    def made_any(self) -> bool:
        """Whether a key was ever created."""

class _Workers:
    def list(self) -> builtins.list[WorkerInfo]:
        """The workers that are at work, and those that vanished within a day."""
    def lanes(self, *, tenant: str | None = None) -> builtins.list[LaneInfo]:
        """The lanes in which events wait or which a worker serves; with a tenant, the lanes of its own open events,
        among its newest 10,000 events."""

class _ClientEvents(_Events):
    def by_key(self, key: str, *, tenant: str | None = None) -> Event:
        """The timer with this key: the open one, or else the latest."""
    def all(self, spec: Spec | EventFilter | None = None, *, tenant: str | None = None) -> Iterator[Event]:
        """Every event that matches the spec, the newest first: ``async for event in duly.events.all(spec)``."""
    def why(self, id: str, *, tenant: str | None = None) -> Why:
        """Why an event has not fired yet, or did not fire."""
    def discard_all(
        self,
        spec: Spec | EventFilter | None = None,
        *,
        tenant: str | None = None,
        limit: int | None = None,
        by: str = "api",
        reason: str | None = None,
        progress: Callable[[Discarded], object] | None = None,
    ) -> Discarded:
        """Discard the dead letters that match the spec, the oldest first, at most *limit*; some thousand at a time,
        like ``replay_all``."""

class _ClientSchedules(_Schedules):
    def pause_all(
        self,
        which: ScheduleFilter,
        *,
        reason: str | None = None,
        until: datetime | timedelta | float | str | None = None,
        passed: str | None = None,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        progress: Callable[[ActedOn], object] | None = None,
    ) -> ActedOn:
        """Pause the enabled schedules that match the filter, like ``pause``."""
    def resume_all(
        self,
        which: ScheduleFilter,
        *,
        passed: str | None = None,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        progress: Callable[[ActedOn], object] | None = None,
    ) -> ActedOn:
        """Resume the paused schedules that match the filter, like ``resume``; the rest is as with ``pause_all``."""
    def trigger_all(
        self,
        which: ScheduleFilter,
        *,
        everything: bool = False,
        dry_run: bool = False,
        tenant: str | None = None,
        by: str = "api",
        progress: Callable[[ActedOn], object] | None = None,
    ) -> ActedOn:
        """Fire the schedules that match the filter now, like ``trigger``; the rest is as with ``pause_all``."""
    def put(
        self,
        name: str,
        rule: Rule | dict[str, Any] | None = None,
        type: str | None = None,
        payload: Any = None,
        *,
        template: str | None = None,
        timezone: str | None = None,
        tenant: str | None = None,
        target: dict[str, Any] | None = None,
        retry: Retry | None = None,
        tags: Collection[str] | None = None,
        enabled: bool | None = None,
        expected: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
        **policies: Unpack[PolicyOptions],
    ) -> Schedule:
        """Create a schedule, or replace the one with this name."""
    def get(self, name: str, *, tenant: str | None = None) -> Schedule: ...
    def list(
        self, which: ScheduleFilter = ..., *, tenant: str | None = None, limit: int = 100, after: Schedule | None = None
    ) -> builtins.list[Schedule]:
        """The schedules that match the filter, in the order of names."""
    def all(self, which: ScheduleFilter = ..., *, tenant: str | None = None) -> Iterator[Schedule]:
        """Every schedule that matches the filter, in the order of names."""
    def history(self, name: str, *, tenant: str | None = None) -> builtins.list[Entry]:
        """Every human act, the oldest first."""
    def pause(
        self,
        name: str,
        *,
        reason: str | None = None,
        until: datetime | timedelta | float | str | None = None,
        passed: str | None = None,
        tenant: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
    ) -> Schedule:
        """Pause a schedule: none of its events starts any more."""
    def resume(
        self,
        name: str,
        *,
        tenant: str | None = None,
        passed: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
    ) -> Resumed:
        """Resume a schedule."""
    def reschedule(
        self,
        name: str,
        due: datetime,
        *,
        tenant: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
    ) -> Schedule:
        """Move only the next event; the rule continues after it."""
    def skip(
        self,
        name: str,
        *,
        tenant: str | None = None,
        dry_run: bool = False,
        transaction: Any = None,
        by: str = "api",
        reason: str | None = None,
    ) -> Schedule:
        """Skip only the next event."""
    def trigger(
        self,
        name: str,
        *,
        payload: Any = ...,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
        correlation_id: str | None = None,
        wait: timedelta | float | None = None,
    ) -> Event:
        """Fire a schedule now, even while it is paused."""
    def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        limit: int = 100,
        label: str | None = None,
        dry_run: bool = False,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> Backfilled:
        """Fire the occurrences from *start* until *end* (excluded) now, the oldest first; `event.scheduled` is the
        instant of each occurrence."""
    def preview(
        self,
        what: str | Rule | dict[str, Any],
        *,
        count: int = 10,
        after: datetime | None = None,
        timezone: str | None = None,
        tenant: str | None = None,
        enough: Callable[[], bool] = ...,
        **policies: Unpack[PolicyOptions],
    ) -> builtins.list[Preview]:
        """The next occurrences of a schedule by its name, or of a rule, with a note on each unusual one."""
    def stats(
        self, name: str, from_: datetime | None = None, to: datetime | None = None, *, tenant: str | None = None
    ) -> Stats:
        """What has become of the events of a schedule: how many runs, how they ended, how long they took, and how late
        they began, together and by day (UTC)."""
    def why_not(self, name: str, at: datetime | str, *, tenant: str | None = None) -> WhyNot:
        """Why a schedule did not run at an instant: the one cause; or that it ran, or when it will."""
    @overload
    def delete(
        self,
        name: str,
        *,
        tenant: str | None = None,
        expected: str | None = None,
        dry_run: Literal[True],
        transaction: Any = None,
        by: str = "api",
    ) -> Consequence: ...
    @overload
    def delete(
        self,
        name: str,
        *,
        tenant: str | None = None,
        expected: str | None = None,
        dry_run: Literal[False] = False,
        transaction: Any = None,
        by: str = "api",
    ) -> int: ...
    def replan(self, *, dry_run: bool = False, transaction: Any = None, by: str = "api") -> NoReturn:
        """Refused over HTTP: it would affect the schedules of all tenants."""

class _ClientTemplates(_Templates):
    def put(
        self,
        name: str,
        *,
        tenant: str | None = None,
        expected: str | None = None,
        transaction: Any = None,
        **settings: Unpack[TemplateSettings],
    ) -> Template:
        """Create a template, or replace the one with this name: any part of what ``schedules.put`` takes."""
    def get(self, name: str, *, tenant: str | None = None) -> Template:
        """A template of the tenant, or a built-in one."""
    def list(self, *, tenant: str | None = None, limit: int = 100, after: str | None = None) -> builtins.list[Template]:
        """The templates that are built in and those of the tenant, in the order of names."""
    def all(self, *, tenant: str | None = None) -> Iterator[Template]:
        """Every template, in the order of names."""
    def delete(
        self, name: str, *, tenant: str | None = None, expected: str | None = None, transaction: Any = None
    ) -> Template:
        """Delete a template of the tenant; return what it was."""

class _ClientUsers(_Users):
    def add(
        self, *, tenant: str | None = None, transaction: Any = None, by: str = "api", **fields: Unpack[UserFields]
    ) -> User:
        """Add a user; their events are planned when this returns."""
    def by_key(self, key: str, *, tenant: str | None = None) -> User:
        """The user with this key, which is their id in the caller's own system."""
    def all(self, *, tenant: str | None = None) -> Iterator[User]:
        """Every user, the newest first."""
    def import_(
        self, rows: Lines, *, tenant: str | None = None, by: str = ..., telling: ImportObserver = ...
    ) -> Imported:
        """Add many users, some thousand in each request."""
    def erase(self, id: str, *, tenant: str | None = None, transaction: Any = None, by: str = "api") -> NoReturn:
        """Refused over HTTP: it changes histories, which no request may do."""
    def refresh(self, *, tenant: str | None = None, transaction: Any = None, by: str = "refresh") -> NoReturn:
        """Refused over HTTP: event types are defined where Duly runs."""

class _ClientEventTypes(_EventTypes):
    def list(self) -> builtins.list[KnownType]:
        """The known event types, in the order of names."""
    def settings(self, type: str, *, tenant: str | None = None) -> TypeSettings:
        """What a tenant has set for an event type."""
    def update(
        self, type: str, *, tenant: str | None = None, transaction: Any = None, **changes: Unpack[TypeChanges]
    ) -> TypeSettings:
        """Change a tenant's texts for an event type, by language, and the target of its users without one."""
    def register(self, type: Any) -> NoReturn:
        """Refused over HTTP: an event type is code."""
    def remove(self, name: str) -> NoReturn:
        """Refused over HTTP: an event type is code."""
    def removed(self) -> NoReturn:
        """Refused over HTTP: types are removed where Duly runs."""
    def get(self, name: str) -> NoReturn:
        """Refused over HTTP: an event type is code."""
    def names(self) -> NoReturn:
        """Refused over HTTP: call ``list``, which waits for the answer."""

class _ClientTargets(_Targets):
    def put(
        self,
        name: str,
        url: str,
        *,
        channel: str = ...,
        method: str | None = None,
        headers: Mapping[str, str] | None = None,
        format: str | None = None,
        timeout: timedelta | str | None = None,
        retry_statuses: Collection[int] | None = None,
        secret: str | None = None,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> Target:
        """Store a target, or replace it."""
    def rotate(
        self,
        name: str,
        *,
        secret: str | None = None,
        keep: timedelta | str = ...,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> Target:
        """Give a webhook's target a new secret."""
    def get(self, name: str, *, tenant: str | None = None) -> Target: ...
    def list(
        self, *, tenant: str | None = None, after: tuple[str, str] = ("", ""), limit: int = ...
    ) -> builtins.list[Target]:
        """The targets, in the order of names."""
    def all(self, *, tenant: str | None = None) -> Iterator[Target]:
        """Every target, in the order of names."""
    def delete(
        self, name: str, *, force: bool = False, tenant: str | None = None, transaction: Any = None, by: str = "api"
    ) -> Target:
        """Delete a target."""
    def test(self, target: str | dict[str, Any], *, tenant: str | None = None, by: str = "api") -> TargetTest:
        """Send a test to a stored target, by its name, or to a *target* as an event would have it, and tell what came
        back."""
    def disable(
        self,
        destination: str,
        *,
        tenant: str | None = None,
        reason: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> None:
        """Send nothing to a destination until it is enabled: its events are held."""
    def enable(self, destination: str, *, tenant: str | None = None, transaction: Any = None, by: str = "api") -> int:
        """Send to a destination again, whatever it was parked for; return how many events were waiting for it."""
    def probe(self, destination: str, *, tenant: str | None = None, transaction: Any = None, by: str = "api") -> None:
        """Let a worker try a parked destination at its next poll, instead of when its back-off ends."""
    def limit(
        self,
        destination: str | None = None,
        *,
        concurrency: int | None = None,
        rate: float | str | None = None,
        tenant: str | None = None,
        transaction: Any = None,
        by: str = "api",
    ) -> Known:
        """Limit how many events go to a destination at once, from each worker, and how many a second, from all
        workers."""
    def known(self, destination: str, *, tenant: str | None = None) -> Known:
        """The limits of a destination, and whether it is parked."""
    def reseal(self, *, tenant: str | None = None, transaction: Any = None, by: str = "api") -> NoReturn: ...
    def history(self, name: str, *, tenant: str | None = None) -> NoReturn: ...
    def destinations(
        self, *, tenant: str | None = None, after: tuple[str, str] = ("", ""), limit: int = ...
    ) -> NoReturn: ...
    def waiting(self, destination: str, *, tenant: str | None = None) -> NoReturn: ...
    def signing_secret(self, url: str, *, tenant: str | None = None) -> NoReturn: ...

class _ClientWorkers(_Workers):
    def lanes(self, *, tenant: str | None = None) -> builtins.list[LaneInfo]:
        """The lanes of the tenant's open events."""

class Sync:
    """Synchronous verbs. Open it with ``with duly.sync:`` once for the life of the program, or around a few calls. In a
    plain ``def`` handler it is open already, because the worker's Duly is."""

    VERBS: ClassVar[tuple[str, ...]]
    GROUPS: ClassVar[tuple[str, ...]]
    def __init__(self, duly: Asynchronous) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    @contextmanager
    def transaction(self) -> Iterator[SyncTransaction]:
        """A database transaction: ``tx.execute(…)`` for your own writes, ``transaction=tx`` for Duly's."""
    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the loop in which the asynchronous object is open; returns its result."""
    @property
    def events(self) -> _Events: ...
    @property
    def schedules(self) -> _Schedules: ...
    @property
    def templates(self) -> _Templates: ...
    @property
    def users(self) -> _Users: ...
    @property
    def event_types(self) -> _EventTypes: ...
    @property
    def targets(self) -> _Targets: ...
    @property
    def keys(self) -> _Keys: ...
    @property
    def workers(self) -> _Workers: ...
    def at(
        self, due: datetime, type: str, payload: Any = None, *, transaction: Any = None, **options: Unpack[TimerOptions]
    ) -> Event:
        """Fire once at an instant."""
    def after(
        self,
        delay: timedelta | float | str,
        type: str,
        payload: Any = None,
        *,
        transaction: Any = None,
        **options: Unpack[TimerOptions],
    ) -> Event:
        """Fire once, after a delay from the store's current time: a timedelta, a number of seconds, or text such as
        ``1h``."""
    def put(
        self,
        due: datetime | timedelta | float | str | None = None,
        type: str = "",
        payload: Any = None,
        *,
        transaction: Any = None,
        **options: Unpack[TimerOptions],
    ) -> Added:
        """Do the same as ``at``, given an instant, or as ``after``, given a delay; also return whether the event was
        created, moved or left unchanged, or whether its *key* had already fired."""
    def add_many(self, timers: Iterable[Timer], *, transaction: Any = None) -> list[str]:
        """Schedule many timers: all of them or, if one is invalid, none."""
    def every(
        self, name: str, rule: Rule, type: str, payload: Any = None, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Fire repeatedly by a rule."""
    def cancel(
        self, id: str, *, tenant: str | None = None, transaction: Any = None, by: str = "api", reason: str | None = None
    ) -> CancelResult:
        """Cancel an event, by its id or key: ``cancelled``, ``running`` (it was asked to stop), ``fired`` or
        ``nothing``."""
    def forecast(
        self,
        from_: datetime | None = None,
        to: datetime | None = None,
        step: timedelta | float | str | None = None,
        *,
        tenant: str | None = None,
    ) -> Forecast:
        """Tell how many events are known to become due in each step: those that wait, and those that follow by the
        rules of schedules and users, with pauses, exclusions, ends, jitter and changes of clocks."""
    def stats(
        self,
        from_: datetime | None = None,
        to: datetime | None = None,
        *,
        by: By | None = None,
        tenant: str | None = None,
    ) -> Stats:
        """Tell what has become of events: how many runs, how they ended, how long they took, and how late they began,
        together and by day (UTC); with *by* ``"type"`` or ``"lane"``, also of each type or lane."""
    def search(self, text: str, *, tenant: str = "default", limit: int = ...) -> list[SearchResult]:
        """Find what has this id, key or name, or a name that begins so, the best match first: events by their id
        (which is the webhook-id) or key, users by id, key or name, schedules and targets by name."""
    def prune(self, *, dry_run: bool = False, on_progress: Callable[[Pruned], object] | None = None) -> Pruned:
        """Delete finished events that are older than the setting ``retention``, with their history, in small batches;
        or, with *dry_run*, tell what would be deleted."""
    def tick(self, *, within: timedelta | str | None = None, signals: bool = False) -> PassEnded:
        """Run everything that is due now, once; return the figures of the pass."""

class SyncClient(Sync):
    """``Client(…).sync``: adds the refusals of a Client."""
    @property
    def events(self) -> _ClientEvents: ...
    @property
    def schedules(self) -> _ClientSchedules: ...
    @property
    def templates(self) -> _ClientTemplates: ...
    @property
    def users(self) -> _ClientUsers: ...
    @property
    def event_types(self) -> _ClientEventTypes: ...
    @property
    def targets(self) -> _ClientTargets: ...
    @property
    def workers(self) -> _ClientWorkers: ...
    @property
    def keys(self) -> NoReturn: ...
    def at(
        self, due: datetime, type: str, payload: Any = None, *, transaction: Any = None, **options: Unpack[TimerOptions]
    ) -> Event:
        """Fire once at an instant."""
    def after(
        self,
        delay: timedelta | float | str,
        type: str,
        payload: Any = None,
        *,
        transaction: Any = None,
        **options: Unpack[TimerOptions],
    ) -> Event:
        """Fire once, after a delay from the server's current time: a timedelta, a number of seconds, or text such as
        ``1h``."""
    def put(
        self,
        due: datetime | timedelta | float | str | None = None,
        type: str = "",
        payload: Any = None,
        *,
        transaction: Any = None,
        **options: Unpack[TimerOptions],
    ) -> Added:
        """Do the same as ``at``, given an instant, or as ``after``, given a delay; also return whether the event was
        created, moved or left unchanged, or whether its *key* had already fired."""
    def add_many(self, timers: Iterable[Timer], *, transaction: Any = None) -> list[str]:
        """Schedule many timers; return their ids, in order."""
    def every(
        self, name: str, rule: Rule, type: str, payload: Any = None, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """Fire repeatedly by a rule."""
    def cancel(
        self, id: str, *, tenant: str | None = None, transaction: Any = None, by: str = "api", reason: str | None = None
    ) -> CancelResult:
        """Cancel an event, by its id or key: ``cancelled``, ``running`` (it was asked to stop), ``fired`` or
        ``nothing``."""
    def forecast(
        self,
        from_: datetime | None = None,
        to: datetime | None = None,
        step: timedelta | float | str | None = None,
        *,
        tenant: str | None = None,
    ) -> Forecast:
        """Tell how many events are known to become due in each step: those that wait, and those that follow by the
        rules of schedules and users."""
    def stats(
        self,
        from_: datetime | None = None,
        to: datetime | None = None,
        *,
        by: By | None = None,
        tenant: str | None = None,
    ) -> Stats:
        """Tell what has become of events: how many runs, how they ended, how long they took, and how late they began,
        together and by day (UTC); with *by* ``"type"`` or ``"lane"``, also of each type or lane."""
    def search(self, text: str, *, tenant: str | None = None, limit: int = ...) -> list[SearchResult]:
        """Find what has this id, key or name, or a name that begins so, the best match first: events by their id
        (which is the webhook-id) or key, users by id, key or name, schedules and targets by name."""
    def prune(self, *_: Any, **__: Any) -> NoReturn: ...
    def tick(self, *_: Any, **__: Any) -> NoReturn: ...
    def on(self, *_: Any, **__: Any) -> NoReturn: ...
    def schedule(self, *_: Any, **__: Any) -> NoReturn: ...
    def observe(self, *_: Any, **__: Any) -> NoReturn: ...
    def run(self, *_: Any, **__: Any) -> NoReturn: ...
    def stop(self) -> NoReturn: ...

class SyncTransaction:
    """An open transaction; pass it as ``transaction=`` to the calls of ``duly.sync``."""
    def __init__(self, sync: Sync, inner: Any) -> None: ...
    def execute(self, sql: str, *args: Any) -> None: ...
    def fetch(self, sql: str, *args: Any) -> list[Any]: ...
    def fetchrow(self, sql: str, *args: Any) -> Any: ...
    def fetchval(self, sql: str, *args: Any) -> Any: ...
