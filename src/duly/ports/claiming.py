"""The store as the path of an event needs it: claim, deliver, settle. On an ordinary day nothing else runs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from duly.decide.fair_share import Candidate, Key
from duly.ports.series import Heads, SeriesTransaction
from duly.ports.transactions import Clocked, Creations, Transaction, Waker
from duly.records.event import Claim, Event, NewEvent, Settlement
from duly.records.schedule import Schedule


class Horizon(NamedTuple):
    """How far away the next work is, by the store's clock; None for a kind of work that has none."""

    fresh: timedelta | None
    alone: timedelta | None  # events that a crash interrupted, each of which is delivered alone


class PlantedHead(NamedTuple):
    """A head that a claim has planted. It does not carry its successor yet."""

    id: str
    tenant: str
    type: str
    lane: str


class ClaimedEvents(list[Event]):
    """The events that a claim took, by due time, and what it found beside them."""

    def __init__(
        self,
        events: Iterable[Event] = (),
        careful: Sequence[Event] = (),
        planted: Sequence[PlantedHead] = (),
        horizon: Horizon | None = None,
        took_s: float | None = None,
    ) -> None:
        super().__init__(events)
        self.careful = careful  # heads that are reserved, and not claimed: something has to be decided about them
        self.planted = planted
        self.horizon = horizon  # if it was asked for, and the claim found anything
        self.took_s = took_s  # seconds that the statement took, without the wait for a connection

    @property
    def rows(self) -> list[Event]:
        """The claimed events and the reserved heads."""
        return [*self, *self.careful] if self.careful else self


class KnownFrontier(NamedTuple):
    """The result of the last full scan, from which the next scan continues: the instant at which the fresh work of each
    lane begins, and the instant at which the leases begin. Empty where it is unknown; later than now where every ready
    event is already known."""

    fresh: Mapping[str, datetime] = {}
    leased: datetime | None = None


class ScanRequest(NamedTuple):
    """Where to look for candidates of other tenants and destinations: among the *newest* ready events of each lane, and
    among the oldest *depth* of each lane."""

    depth: Mapping[str, int]
    newest: int
    most: int  # candidates to return for each lane
    since: Mapping[str, datetime] = {}  # where the oldest events of a lane begin, if known


class ScanResult(NamedTuple):
    """The candidates that were found, and how many of the oldest events of each lane were examined."""

    others: list[Candidate]
    examined: Mapping[str, int]


class Reserved(NamedTuple):
    """The reservation of an event that is due in a moment: no other worker can take the event before *until*."""

    id: str
    version: int
    lane: str
    head: bool
    until: datetime

    @classmethod
    def of(cls, head: Event) -> "Reserved":
        """The reservation of a head that a claim has reserved."""
        assert head.ready is not None
        return cls(head.id, head.version, head.lane, head.head, head.ready)


NO_FRONTIER = KnownFrontier()
"""The frontier before the first scan: nothing is known."""

NOT_YET = datetime.max.replace(tzinfo=UTC)
"""An instant after every due time."""


class TakenOver(NamedTuple):
    """An event that a crash interrupted, claimed again. *before*: the same event with the worker and the instant of the
    claim that the crash ended; None if that interruption was recorded earlier."""

    event: Event
    before: Event | None


class ClaimPort(Protocol):
    """Claims ready events, finds out who else has ready events, and when the next event becomes ready."""

    async def claim(
        self,
        worker: str,
        room: Mapping[str, int],
        lease: timedelta,
        seen: KnownFrontier = NO_FRONTIER,
        as_of: datetime | None = None,
        *,
        with_horizon: bool = False,
    ) -> ClaimedEvents:
        """Claims ready events, oldest first, at most ``room[lane]`` of each lane. A claimed head gets its successor in
        the same statement; heads about which something has to be decided are only reserved, until the lease would end.
        Events that became ready before the frontier in *seen* may be missed. Here and below, events that became ready
        after *as_of* are left alone. *with_horizon*: also reads the horizon of the same lanes, which has only events
        that become ready later: those that are ready now are claimed here or by somebody else, or are more than there
        is room for."""

    async def claim_these(
        self,
        worker: str,
        ids: Sequence[str],
        lanes: Sequence[str],
        free: int,
        lease: timedelta,
        as_of: datetime | None = None,
    ) -> ClaimedEvents:
        """Claims the events with these ids that are still ready and in these lanes, in the given order, at most
        *free*."""

    async def claim_interrupted(
        self, worker: str, lanes: Sequence[str], lease: timedelta, as_of: datetime | None = None
    ) -> list[TakenOver]:
        """Claims one event that a crash interrupted, and records the interruption. An event that was interrupted too
        often is returned FAILED, not claimed."""

    async def has_interrupted(self, lanes: Sequence[str]) -> bool:
        """Whether ``claim_interrupted`` would find an event: one that nobody has locked."""

    async def scan_backlog(self, where: ScanRequest, known: Collection[Key]) -> ScanResult:
        """Ready events of tenants and destinations that are not in *known*."""

    async def horizon(self, lanes: Sequence[str], seen: KnownFrontier = NO_FRONTIER) -> tuple[Horizon, KnownFrontier]:
        """When the next event of these lanes becomes ready, and the frontier that this scan has found."""


class LookaheadPort(Protocol):
    """Reserves events shortly before they are due, so that they can start at the exact millisecond."""

    async def reserve(
        self, worker: str, room: Mapping[str, int], ahead: timedelta, patience: timedelta
    ) -> tuple[list[Reserved], datetime]:
        """Reserves events that become ready within *ahead*, without starting them. They stay PENDING: a
        person may cancel or move them, which ends the reservation. If they are not started, other workers may claim
        them *patience* after their instant. Also returns the store's clock at the time of the answer."""

    async def start(
        self, reserved: Sequence[Reserved], ending_within: timedelta, lease: timedelta, worker: str
    ) -> tuple[ClaimedEvents, datetime]:
        """Claims the events that are still reserved, with their current content, if the reservation ends within
        *ending_within* by the store's clock: if it ends later, the clock was set back and the events are not due yet.
        Heads about which something has to be decided stay reserved. Also returns the store's clock at the time of the
        answer."""

    async def release(self, reserved: Sequence[Reserved], patience: timedelta) -> None:
        """Gives reservations back, so that other workers may claim the events at their instant."""

    async def reserved_heads(self, reserved: Sequence[Reserved], ending_within: timedelta) -> Heads:
        """The heads that are still reserved, with their current content, locked but not claimed."""


class SuccessorPort(Protocol):
    """Completes heads that were planted by a claim: they do not carry their successors yet."""

    async def heads_without_successors(self, ids: Sequence[str]) -> list[tuple[Event, Schedule | None]]:
        """Those of the events with these ids that are heads without a successor, each with its schedule, if it has
        one."""

    async def carry(self, heads: Sequence[NewEvent]) -> None:
        """Writes the successors of heads, except for heads that somebody has changed meanwhile."""


class RenewedIds(set[str]):
    """The ids of the events whose leases were extended. Those in *locked* are still claimed, but could not be
    extended: somebody else's transaction holds their rows."""

    def __init__(self, ids: Iterable[str] = (), locked: Iterable[str] = ()) -> None:
        super().__init__(ids)
        self.locked = set(locked)


class SettledIds(set[str]):
    """The ids of the events that were settled. Those in *cancelled* had been asked to stop: they are CANCELLED,
    whatever the verdict was."""

    def __init__(self, ids: Iterable[str] = (), cancelled: Iterable[str] = ()) -> None:
        super().__init__(ids)
        self.cancelled = set(cancelled)

    def include(self, others: "SettledIds") -> None:
        self |= others
        self.cancelled |= others.cancelled


class SettlePort(Protocol):
    """Renews and ends claims."""

    async def renew(self, claims: Sequence[Claim], lease: timedelta) -> RenewedIds:
        """Extends the leases; returns the ids of the events whose claim is still held."""

    async def stop_requests(self, worker: str) -> list[str]:
        """The ids of the events that this worker runs and that were asked to stop."""

    async def settle(self, settlements: Sequence[Settlement], worker: str, *, patient: bool = False) -> SettledIds:
        """Records verdicts with their history; returns the ids of the settled events. An event that is missing there
        had lost its claim, and its verdict was dropped. Raises RowLocked, and settles nothing, if somebody else's
        transaction keeps one of the rows locked; *patient* waits for it."""

    async def unlocked(self, ids: Sequence[str]) -> set[str]:
        """Locks those of the events that nobody else has locked; returns their ids. From then on, the transaction
        raises RowLocked rather than wait for a locked row."""

    async def get(self, id: str) -> Event | None: ...


class ClaimTransaction(ClaimPort, LookaheadPort, SettlePort, SeriesTransaction, Protocol):
    """One transaction of the claim path. The successor of a claimed head is planned in the same transaction."""


class HandlerTransaction(ClaimTransaction, Transaction, Protocol):
    """A transaction that a handler shares: it holds the handler's own statements and the settlement of its event."""


class ClaimPath(ClaimPort, LookaheadPort, SettlePort, SuccessorPort, Creations, Clocked, Protocol):
    """A store as the claim path sees it."""

    def begin(self) -> AbstractAsyncContextManager[ClaimTransaction]:
        """A short transaction of the engine itself."""

    def lend(self) -> AbstractAsyncContextManager[HandlerTransaction]:
        """A transaction for users' code, which may take long: the engine never has to wait for its connection."""

    def listen(self, lanes: Sequence[str]) -> AbstractAsyncContextManager[Waker]:
        """A waker that ends the sleep of a worker when work arrives in its lanes."""
