"""The store as series need it: schedules, users' calendar events, heads, and held events."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from duly.decide.series.due_head import Hold, Reshaped
from duly.decide.series.why_not import Neighbour
from duly.ports.figures.forecast import ForecastPort
from duly.ports.figures.stats import StatsPort
from duly.ports.targets import DestinationReader
from duly.ports.transactions import Clocked, Creations, Notes
from duly.records.event import Event, HoldKind, NewEvent
from duly.records.figures.runs import Run
from duly.records.finding.acts import ActKind
from duly.records.finding.counts import Count
from duly.records.finding.schedules import EVERY_SCHEDULE, ScheduleFilter
from duly.records.history import Cause, Entry
from duly.records.schedule import Halt, HaltKind, Schedule
from duly.records.specs import Spec
from duly.records.template import Template
from duly.rules.recurrence import Occurrence


class Heads(NamedTuple):
    """Locked heads, their schedules, which are locked too, and the store's clock."""

    heads: list[Event]
    schedules: list[Schedule]
    now: datetime


class Fired(NamedTuple):
    """How a head fires."""

    id: str
    due: datetime
    occurrence: Occurrence
    stands_for: int
    gated: bool


class Moved(NamedTuple):
    """A head by newer zone data: its occurrence, due time and successor. *detail* is None if the head stays where it
    was."""

    head: NewEvent
    detail: str | None


class Dropped(NamedTuple):
    """How an event is skipped: the cause for programs, the reason for people, and which occurrences it stands for."""

    cause: Cause
    reason: str
    act: str = "skipped"
    stands_for: int = 1
    first: datetime | None = None  # of several occurrences
    last: datetime | None = None


class CaughtUp(NamedTuple):
    """A head that fires for several missed occurrences: the reason for people, and which they are."""

    id: str
    reason: str
    first: datetime
    last: datetime


class Freed(NamedTuple):
    """A SKIPPED event of which some or all occurrences become available again: it keeps the name and instant of the
    last occurrence that it still stands for, or gets a name that belongs to no occurrence."""

    id: str
    occurrence: str
    scheduled: datetime
    stands_for: int
    detail: str
    first: datetime | None = None  # the first of several occurrences that it still stands for


class PauseEnd(NamedTuple):
    """A schedule whose pause ends by itself, and how far away that is, by the store's clock."""

    id: str
    ends_in: timedelta


class WalkedSchedule(NamedTuple):
    """A schedule as a walk finds it, and the id of its head, if it has one."""

    id: str
    tenant: str
    name: str
    head_id: str | None


class HeadPort(Creations, Notes, Protocol):
    """Fires, skips or holds heads, and inserts their successors."""

    async def schedules(self, ids: Sequence[str]) -> list[Schedule]:
        """Schedules by id, locked until the transaction ends."""

    async def plant(self, events: Sequence[NewEvent]) -> set[str]:
        """Inserts events of series; returns the inserted ids. For the other events, the identity (series, occurrence)
        was already taken."""

    async def fire(self, heads: Sequence[Fired], worker: str, now: datetime, lease: timedelta) -> None:
        """Claims locked heads: they are no longer heads."""

    async def drop(self, heads: Mapping[str, Dropped], by: str) -> None:
        """Marks heads as SKIPPED, by id, with a history row each."""

    async def note_caught_up(self, heads: Sequence[CaughtUp], by: str) -> None:
        """Records for which missed occurrences heads fire."""

    async def hold(self, heads: Mapping[str, Hold], by: str) -> None: ...

    async def halt(self, halts: Mapping[str, Halt | None]) -> None:
        """Records for each schedule id why no head follows; None clears it."""

    async def note_halted(self, reasons: Mapping[str, str], by: str) -> None:
        """Records in the histories of users why their series have no next head, by series."""

    async def taken(self, identities: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """The pairs (series, occurrence) that already have an event."""

    async def facts(self, between: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, datetime]]:
        """The events of series whose occurrence names lie between two texts: series, occurrence, and its instant."""

    async def under_way(self, series: Sequence[str]) -> dict[str, int]:
        """The number of events of each gated series that were released and have not ended; a series without any is
        missing."""

    async def successes(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], datetime | None]:
        """The last success of schedules, by tenant and name; a schedule that does not exist is missing."""


class HoldPort(Protocol):
    """Holds, moves and releases the events of a series."""

    async def let_go(self, room: Mapping[str, int], by: str) -> list[str]:
        """Releases events that wait for others of their series to end, at most ``room[series]`` of each; returns their
        ids."""

    async def waiting_series(self) -> list[str]:
        """Series with held events whose reason may no longer apply."""

    async def hold_series(self, series: str, hold: Hold, by: str) -> int:
        """Holds all events of a series that have not begun, including those that wait for other events or for their
        destination; returns their number."""

    async def rehold(self, series: str, kind: HoldKind, anew: Hold) -> None:
        """Replaces a hold of this kind by another for held events of a series, except the head."""

    async def pause_ends(self, *, limit: int) -> list[PauseEnd]:
        """The schedules whose pauses end by themselves, the earliest end first. They are not locked."""

    async def tell_pause(self, lane: str) -> None:
        """Wakes workers of this lane, because a pause of a schedule has got an end."""

    async def gate(self, series: str, gated: bool) -> None:
        """Sets whether the end of an event that has not ended yet lets other events of the series start."""

    async def reshape(self, heads: Sequence[Reshaped], by: str) -> None:
        """Gives new content, occurrences and due times to locked heads that have not started."""

    async def head(self, series: str) -> Event | None:
        """The head of a series, locked until the transaction ends."""

    async def head_id(self, series: str) -> str | None:
        """The id of the head of a series, not locked."""


class PassedOverPort(Protocol):
    """Occurrences that an edit skips, and occurrences that it makes available again."""

    async def passed_ahead(self, series: Sequence[tuple[str, datetime]]) -> list[Event]:
        """SKIPPED events of series whose occurrence, by the rule, is later than the given instant."""

    async def free_names(self, freed: Sequence[Freed], by: str) -> None:
        """Makes the occurrence names of SKIPPED events available again."""


class SeriesTransaction(HeadPort, HoldPort, PassedOverPort, Clocked, Protocol):
    """One transaction about series. It locks events first, then schedules."""


class StoredSchedulePort(Protocol):
    """Reads and stores schedules, one at a time."""

    async def shown_schedule(self, tenant: str, name: str) -> Schedule | None:
        """A schedule by name, with its next and last firing."""

    async def put_schedule(self, schedule: Schedule) -> bool:
        """Inserts or replaces a schedule; returns False if a schedule with another id has taken the name meanwhile."""


class PauseTransaction(StoredSchedulePort, SeriesTransaction, Protocol):
    """One transaction that pauses or resumes a schedule."""


class SchedulePort(StoredSchedulePort, Protocol):
    """Reads, stores and deletes schedules."""

    async def schedule_named(self, tenant: str, name: str) -> Schedule | None:
        """A schedule by name, not locked."""

    async def shown_schedules(
        self,
        tenant: str | None,
        *,
        after: tuple[str, str],
        limit: int,
        within: int | None = None,
        which: ScheduleFilter = EVERY_SCHEDULE,
    ) -> list[Schedule]:
        """The schedules of a tenant, or of all tenants, that match the filter, ordered by tenant and name, after the
        pair *after*. CutShort if they do not fit into *within* bytes."""

    async def recent_runs(self, series: Sequence[str], *, limit: int, before: str = ...) -> list[Run]:
        """The newest events of each series, at most *limit* of each, without its head: by series, the newest first.
        *before* is an id that is greater than all of theirs."""

    async def count_schedules(self, tenant: str | None, which: ScheduleFilter = EVERY_SCHEDULE) -> Count:
        """The number of schedules that match the filter: exact if they are at most MOST_COUNTED."""

    async def schedule_kinds(self, tenant: str | None, which: ScheduleFilter, *, most: int) -> list[ActKind]:
        """The most frequent kinds among the first MOST_COUNTED schedules that match the filter, at most *most*."""

    async def walk_schedules(
        self, tenant: str | None, which: ScheduleFilter, *, after: tuple[str, str], limit: int
    ) -> list[WalkedSchedule]:
        """Schedules that match the filter, ordered by tenant and name, after the pair *after*. They are not locked."""

    async def free_heads(self, series: Sequence[str]) -> list[Event]:
        """The heads of series that nobody else has locked, locked until the transaction ends."""

    async def free_schedules(self, ids: Sequence[str], which: ScheduleFilter) -> list[Schedule]:
        """Those of the schedules that nobody else has locked and that match the filter, locked."""

    async def halted(self, kind: HaltKind, *, limit: int) -> list[Schedule]:
        """Schedules that have no next event for a reason of this kind, in the order of tenant and name."""

    async def code_schedules(self) -> list[Schedule]:
        """The schedules that a function declares or once declared."""

    async def imported(self, tenant: str, source: str) -> list[Schedule]:
        """The schedules that were imported from *source*, in the order of names, without their next and last firing."""

    async def mark_imported(self, source: str, names: Mapping[str, str]) -> None:
        """Writes from where schedules were imported, and what each is called there, by their ids."""

    async def delete_schedule(self, id: str) -> None: ...

    async def dependents(self, tenant: str, name: str) -> list[str]:
        """The names of the schedules that depend on this schedule."""

    async def cancel_series(self, series: str, by: str, reason: str) -> int:
        """Cancels all events of a series that have not begun; returns their number."""

    async def get(self, id: str) -> Event | None: ...

    async def change(self, event: Event, act: str, by: str, detail: str | None = None) -> None:
        """Writes a locked event that a person has changed, with its history row."""


class ReplanPort(Protocol):
    """Finds and moves heads that were planned with older zone data than this process has."""

    async def stale_heads(self, zone_data: str, *, after: tuple[str, str] = ..., limit: int) -> list[Event]:
        """Heads whose instants come from an older edition of the zone data, locked, after the pair *after* of edition
        and id."""

    async def replan(self, moved: Sequence[Moved], zone_data: str, by: str) -> None:
        """Writes the due times of heads by this edition of the zone data."""


class SlotPort(Protocol):
    """What is known of one occurrence of a schedule."""

    async def near_occurrence(self, series: str, occurrence: str) -> list[Neighbour]:
        """The events of a series next to an occurrence name, and the one that a backfill has made of it."""

    async def acts_on_schedule(self, id: str) -> list[Entry]:
        """The latest acts that have changed whether a schedule fires, and its errors, the oldest first."""


class TemplatePort(Protocol):
    """Reads, stores and deletes a tenant's own templates of schedules."""

    async def template(self, tenant: str, name: str) -> Template | None:
        """A template by name, not locked."""

    async def lock_template(self, tenant: str, name: str) -> Template | None:
        """A template by name, locked until the transaction ends."""

    async def list_templates(self, tenant: str, *, after: str, limit: int, within: int | None = None) -> list[Template]:
        """The templates of a tenant, ordered by name, after the name *after*. CutShort if they do not fit into *within*
        bytes."""

    async def put_template(self, template: Template) -> None:
        """Inserts or replaces a template."""

    async def delete_template(self, tenant: str, name: str) -> None: ...


class ScheduleTransaction(
    SchedulePort, TemplatePort, ReplanPort, SlotPort, PauseTransaction, DestinationReader, Protocol
):
    """One transaction about a schedule and its events."""


class RehearsalPort(ForecastPort, Protocol):
    """Reads the events that an act concerns, before the act and after it."""

    def undone(self) -> AbstractAsyncContextManager[Any]:
        """A transaction like that of ``begin``, but rolled back at its end: inside a caller's transaction a savepoint.
        Nothing is announced, nobody is woken, and no lock outlives it."""

    async def find(self, spec: Spec, *, limit: int, after: str | None = None) -> list[Event]:
        """Events that satisfy the spec, newest id first, at most *limit*, older than the id *after*."""

    async def history(
        self, subject: str, *, skip: int = 0, limit: int | None = None, within: int | None = None
    ) -> list[Entry]:
        """History entries, oldest first, without the first *skip*; CutShort if the entries do not fit into *within*
        bytes."""


class ScheduleStore(ScheduleTransaction, StatsPort, RehearsalPort, Protocol):
    """A store as the verbs of schedules see it."""

    def begin(self) -> AbstractAsyncContextManager[ScheduleTransaction]: ...


class PauseStore(HoldPort, Protocol):
    """A store as the ends of pauses see it."""

    def begin(self) -> AbstractAsyncContextManager[PauseTransaction]: ...


class HoldStore(HoldPort, Protocol):
    """A store as the release of held events sees it."""

    def begin(self) -> AbstractAsyncContextManager[SeriesTransaction]: ...
