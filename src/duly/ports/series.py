"""What series ask of a store: schedules, users' calendar events, their heads, and what is held."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from duly.decide.due_head import Reshaped
from duly.ports.targets import DestinationReader
from duly.ports.transactions import Clocked, Creations, Notes
from duly.records.event import Event, NewEvent
from duly.records.history import Entry
from duly.records.schedule import Schedule
from duly.rules.recurrence import Occurrence


class Heads(NamedTuple):
    """Heads that are locked, their schedules, which are locked as well, and the store's clock."""

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
    """Where newer zone data puts a head; without a detail, where it was."""

    id: str
    due: datetime
    occurrence: Occurrence
    detail: str | None


class Freed(NamedTuple):
    """A SKIPPED event whose occurrence, or some of them, are open again: the name and instant of the last one for which
    it still stands, or a name that is nobody's."""

    id: str
    occurrence: str
    scheduled: datetime
    stands_for: int
    detail: str


class HeadPort(Creations, Notes, Protocol):
    """What becomes of a head, and what follows it."""

    async def schedules(self, ids: Sequence[str]) -> list[Schedule]:
        """Schedules by id, locked until the transaction ends."""

    async def plant(self, events: Sequence[NewEvent]) -> set[str]:
        """Insert events of series; the ids that went in. The others' identity (series, occurrence) was taken."""

    async def fire(self, heads: Sequence[Fired], worker: str, now: datetime, lease: timedelta) -> None:
        """Claim locked heads: they are heads no longer."""

    async def drop(self, heads: Mapping[str, tuple[int, str, str]], by: str) -> None:
        """Heads are SKIPPED: for each id, how many occurrences it stands for, the act, and the reason."""

    async def hold(self, heads: Mapping[str, str], by: str) -> None:
        """Heads wait for a reason."""

    async def halt(self, reasons: Mapping[str, str | None]) -> None:
        """Record for each schedule id why no head follows; None clears it."""

    async def taken(self, identities: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Which of these (series, occurrence) have an event already."""

    async def facts(self, between: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, datetime]]:
        """The events of series whose names are from one text to another: series, occurrence, and its instant."""

    async def under_way(self, series: Sequence[str]) -> dict[str, int]:
        """How many events of each gated series have been let go and have not ended; none where it is missing."""

    async def successes(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], datetime | None]:
        """When schedules, by tenant and name, last succeeded; one that is missing does not exist."""


class HoldPort(Protocol):
    """What is held, moved or let go."""

    async def let_go(self, room: Mapping[str, int], by: str) -> list[str]:
        """Release what waits for others of its series to end, at most so many of each; their ids."""

    async def waiting_series(self) -> list[str]:
        """Series with something held whose reason may be over."""

    async def hold_series(self, series: str, reason: str, by: str) -> int:
        """Hold all of a series that has not begun, also what waits for others or for its destination; how many."""

    async def rehold(self, series: str, reason: str, anew: str) -> None:
        """What is held for one reason is held for another, but for the head."""

    async def gate(self, series: str, gated: bool) -> None:
        """Whether the end of those that are not ended yet lets others start."""

    async def reshape(self, heads: Sequence[Reshaped], by: str) -> None:
        """Give locked heads that have not started new content, occurrences and due times."""

    async def head(self, series: str) -> Event | None:
        """The head of a series, locked until the transaction ends."""

    async def head_id(self, series: str) -> str | None:
        """Which event is the head of a series, not locked."""

    async def history(
        self, subject: str, *, skip: int = 0, limit: int | None = None, within: int | None = None
    ) -> list[Entry]:
        """Oldest first, without the first *skip*; CutShort where not all of them are *within* so many bytes."""


class PassedOverPort(Protocol):
    """What an edit passes over, and what it names again."""

    async def passed_ahead(self, series: Sequence[tuple[str, datetime]]) -> list[Event]:
        """What is SKIPPED and would have come, by its rule, later than an instant."""

    async def free_names(self, freed: Sequence[Freed], by: str) -> None:
        """SKIPPED events give names back."""


class SeriesTransaction(HeadPort, HoldPort, PassedOverPort, Clocked, Protocol):
    """One transaction about series. Locks are taken events first, then schedules."""


class SchedulePort(Protocol):
    """Schedules themselves."""

    async def schedule_named(self, tenant: str, name: str) -> Schedule | None:
        """A schedule by name, not locked."""

    async def shown_schedule(self, tenant: str, name: str) -> Schedule | None:
        """A schedule by name, with its next and last firing."""

    async def shown_schedules(
        self, tenant: str | None, *, after: tuple[str, str], limit: int, within: int | None = None
    ) -> list[Schedule]:
        """Those of a tenant, or of all, in the order of tenant and name, after these two. CutShort where
        not all of them are *within* so many bytes."""

    async def code_schedules(self) -> list[Schedule]:
        """Those that a function declares, or once has."""

    async def put_schedule(self, schedule: Schedule) -> bool:
        """Insert or replace; False when a schedule with another id took the name meanwhile."""

    async def delete_schedule(self, id: str) -> None: ...

    async def dependents(self, tenant: str, name: str) -> list[str]:
        """The names of those that depend on this one."""

    async def cancel_series(self, series: str, by: str, reason: str) -> int:
        """Cancel all of a series that has not begun; how many."""

    async def get(self, id: str) -> Event | None: ...

    async def change(self, event: Event, act: str, by: str, detail: str | None = None) -> None:
        """Write a locked event that a person changed, with its history row."""


class ReplanPort(Protocol):
    """Heads whose zone data is older than this process has."""

    async def stale_heads(self, zone_data: str, *, after: tuple[str, str] = ..., limit: int) -> list[Event]:
        """Heads whose instants an older edition of the zone data gave, locked; after this edition and id."""

    async def replan(self, moved: Sequence[Moved], zone_data: str, by: str) -> None:
        """Write where heads are by this edition of the zone data."""


class ScheduleTransaction(SchedulePort, ReplanPort, SeriesTransaction, DestinationReader, Protocol):
    """One transaction about a schedule and its events."""


class ScheduleStore(ScheduleTransaction, Protocol):
    """A store as the verbs of schedules see it."""

    def begin(self) -> AbstractAsyncContextManager[ScheduleTransaction]: ...


class HoldStore(HoldPort, Protocol):
    """A store as whoever looks after held events sees it."""

    def begin(self) -> AbstractAsyncContextManager[SeriesTransaction]: ...
