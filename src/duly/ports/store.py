"""The store: where everything is, whose clock counts, and who wakes workers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from duly.decide.fair_share import Candidate, Key
from duly.ports.dead_letters import DeadLetterStatements
from duly.ports.invariants import InvariantStatements
from duly.ports.requests import KeyStatements, RequestStatements
from duly.ports.schedules import Reserved, ScheduleStatements
from duly.ports.targets import TargetStatements
from duly.ports.users import UserStatements
from duly.records.event import Claim, Event, NewEvent, Settlement
from duly.records.history import Entry
from duly.records.specs import Spec


class Clock(Protocol):
    """Stands in for the store's own clock; tests move it."""

    def now(self) -> datetime: ...


class Added(NamedTuple):
    """What became of a new event: created, moved (an earlier one with its key), or unchanged."""

    event: Event
    change: str


class Page(NamedTuple):
    """Some events, and the id after which the next page begins; None at the end. Where few events satisfy a spec, a
    page may hold less than it has room for, or nothing, and still not be the last."""

    events: list[Event]
    next: str | None


class Horizon(NamedTuple):
    """How far away the next work is, by the store's clock; None where there is none."""

    fresh: timedelta | None
    heads: timedelta | None  # of schedules, whose successors are planned as they are claimed
    alone: timedelta | None  # work that a crash interrupted, to be delivered alone


class KnownFrontier(NamedTuple):
    """What the last whole look has shown, so that the next one need not start from the beginning: where the fresh work
    of each lane begins, and where the leases do. Empty where that is not known; later than now where all that is ready
    is known."""

    fresh: Mapping[str, datetime] = {}
    leased: datetime | None = None


class ScanRequest(NamedTuple):
    """Where to look for others: among the newest of some lanes, and among so many of the oldest of each."""

    depth: Mapping[str, int]
    newest: int
    most: int  # to be told of in each lane
    since: Mapping[str, datetime] = {}  # where the oldest begin, as far as that is known


class ScanResult(NamedTuple):
    """Who is there, and how many of the oldest of each lane were looked at."""

    others: list[Candidate]
    examined: Mapping[str, int]


EXAMINED = 5_000
"""How many events one page looks at: some 5 ms of work."""

NO_FRONTIER = KnownFrontier()
NOT_YET = datetime.max.replace(tzinfo=UTC)


class Statements(
    ScheduleStatements,
    UserStatements,
    TargetStatements,
    DeadLetterStatements,
    KeyStatements,
    RequestStatements,
    InvariantStatements,
    Protocol,
):
    """What can be asked of a store. Each call is atomic; inside ``begin`` they commit together."""

    async def now(self) -> datetime:
        """The store's clock, which decides what is due and which lease has expired."""

    async def add(self, events: Sequence[NewEvent]) -> list[str]:
        """Insert events without keys; their ids, in order."""

    async def put(self, events: Sequence[NewEvent]) -> list[Added]:
        """Insert or move events by (tenant, key): one that has started or ended is left alone."""

    async def claim(
        self,
        worker: str,
        room: Mapping[str, int],
        lease: timedelta,
        seen: KnownFrontier = NO_FRONTIER,
        as_of: datetime | None = None,
    ) -> list[Event]:
        """Take ready events that are no heads, oldest first, at most so many of each lane. What has become ready before
        what was *seen* may be overlooked. Here and below, what has become ready after *as_of* is left."""

    async def claim_these(
        self,
        worker: str,
        ids: Sequence[str],
        lanes: Sequence[str],
        free: int,
        lease: timedelta,
        as_of: datetime | None = None,
    ) -> list[Event]:
        """Take those of these events that are still ready and in these lanes, at most so many, the first ones first."""

    async def look(self, where: ScanRequest, known: Collection[Key]) -> ScanResult:
        """What is ready, and no head, of others than those who are known."""

    async def look_at_heads(self, where: ScanRequest, known: Collection[Key]) -> ScanResult:
        """Heads that are ready, of others than those who are known."""

    async def claim_alone(
        self, worker: str, lanes: Sequence[str], lease: timedelta, as_of: datetime | None = None
    ) -> list[Event]:
        """Take one event that a crash interrupted, recording the interruption. One that was interrupted
        too often comes back FAILED instead of claimed."""

    async def horizon(self, lanes: Sequence[str], seen: KnownFrontier = NO_FRONTIER) -> tuple[Horizon, KnownFrontier]:
        """When the next event of these lanes becomes ready, and what that look has shown."""

    async def reserve(
        self, worker: str, room: Mapping[str, int], ahead: timedelta, patience: timedelta
    ) -> tuple[list[Reserved], datetime]:
        """Take events and heads that become ready within *ahead*, without starting them. They stay PENDING: a person
        may cancel or move them, and then they are no longer reserved. If they are not started, others may have them
        *patience* after their instant. With the store's clock as it answered."""

    async def start(
        self, reserved: Sequence[Reserved], ending_within: timedelta, lease: timedelta, worker: str
    ) -> tuple[list[Event], datetime]:
        """Claim those that are still reserved, as they now are, if the reservation ends within that time by the store's
        clock: otherwise that was set back, and they are not due in a moment. With the store's clock as it answered."""

    async def release(self, reserved: Sequence[Reserved], patience: timedelta) -> None:
        """Give up reservations, so that others may have the events at their instant."""

    async def renew(self, claims: Sequence[Claim], lease: timedelta) -> set[str]:
        """Push the leases on; the ids that are still held."""

    async def settle(self, settlements: Sequence[Settlement], worker: str) -> set[str]:
        """Record verdicts with their history; the ids that were settled. One that is missing had lost its claim,
        and its verdict was dropped."""

    async def get(self, id: str) -> Event | None: ...

    async def lock(self, id: str) -> Event | None:
        """An event, which nobody else can change until the transaction ends."""

    async def by_key(self, tenant: str, key: str) -> Event | None: ...

    async def find(self, spec: Spec, *, limit: int, after: str | None = None) -> list[Event]:
        """Events that satisfy the spec, newest id first, at most *limit*, older than the id *after*."""

    async def page(self, spec: Spec, *, limit: int, after: str | None = None, examine: int = EXAMINED) -> Page:
        """The same, but no more than so many events are looked at that may not satisfy the spec, and no more are read
        than PAGE_BYTES have room for."""

    async def history(
        self, subject: str, *, skip: int = 0, limit: int | None = None, within: int | None = None
    ) -> list[Entry]:
        """Oldest first, without the first *skip*; CutShort where not all of them are *within* so many bytes."""

    async def change(self, event: Event, act: str, by: str, detail: str | None = None) -> None:
        """Write a locked event that a person changed, with its history row."""

    def tell_created(self, events: Iterable[Event | NewEvent]) -> None:
        """These were created: whoever listens is told as soon as that is committed."""

    async def overview(self) -> list[tuple[str, str, int, datetime]]:
        """For each lane and status: how many events, and the oldest due time."""


class Transaction(Statements, Protocol):
    """One database transaction: Duly's own statements, and the user's beside them."""

    @property
    def connection(self) -> Any:
        """The driver's own connection."""

    @property
    def outage(self) -> str | None:
        """Why it cannot go on, where that is the database's doing and passes: its connection is lost, or the database
        has rolled it back. None else."""

    def abandon(self) -> None:
        """Roll back now, whatever its user still wants to do with it."""

    async def execute(self, sql: str, *args: Any) -> Any: ...

    async def fetch(self, sql: str, *args: Any) -> list[Any]: ...

    async def fetchrow(self, sql: str, *args: Any) -> Any: ...

    async def fetchval(self, sql: str, *args: Any) -> Any: ...


class Store(Statements, Protocol):
    """A database that holds events."""

    async def open(self, *, migrate: bool) -> None: ...

    async def close(self) -> None: ...

    def system_time(self) -> float | None:
        """Seconds since 1970 by the clock of this machine, where that is the store's clock; None where the store has
        another one."""

    async def try_writing(self) -> None:
        """Write something that leaves nothing behind, for those who must know whether that works again."""

    def begin(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction of the engine's own, which is over in a moment."""

    def lend(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction for users' code, however long that takes: it never keeps the engine waiting for a
        connection."""

    def confined(self, tenant: str, *, writes: bool) -> AbstractAsyncContextManager["Store"]:
        """A store for one request of one tenant: all that is asked of it is one transaction, which commits at the end
        and which ``begin`` divides by savepoints. Where the database can tell tenants apart, the others' rows do not
        exist in it. Only one thing can be asked of it at a time. Without *writes*, it may be no transaction at all."""

    async def prepare_confinement(self) -> None:
        """Make what ``confined`` takes, as far as it is missing; or say what an administrator has to do."""

    def listen(self, lanes: Sequence[str]) -> AbstractAsyncContextManager["Waker"]: ...


class Waker(Protocol):
    """Ends a wait early when work arrives from elsewhere."""

    async def wait(self, timeout: float) -> None:
        """Return after *timeout* seconds, or sooner when an event may have become ready sooner."""

    def wake(self) -> None: ...
