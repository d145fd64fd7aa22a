"""What the path of an event asks of a store: claim, deliver, settle. This is all that an ordinary day needs."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from duly.decide.fair_share import Candidate, Key
from duly.ports.series import Heads, SeriesTransaction
from duly.ports.transactions import Clocked, Transaction, Waker
from duly.records.event import Claim, Event, Settlement
from duly.records.history import Entry


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


class Reserved(NamedTuple):
    """An event that is due in a moment. Nobody else takes it before *until*."""

    id: str
    version: int
    lane: str
    head: bool
    until: datetime


NO_FRONTIER = KnownFrontier()
NOT_YET = datetime.max.replace(tzinfo=UTC)


class ClaimPort(Protocol):
    """What a claim asks: take what is ready, see who else has something ready, and when more will be."""

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

    async def claim_interrupted(
        self, worker: str, lanes: Sequence[str], lease: timedelta, as_of: datetime | None = None
    ) -> list[Event]:
        """Take one event that a crash interrupted, recording the interruption. One that was interrupted
        too often comes back FAILED instead of claimed."""

    async def scan_backlog(self, where: ScanRequest, known: Collection[Key]) -> ScanResult:
        """What is ready, and no head, of others than those who are known."""

    async def scan_heads(self, where: ScanRequest, known: Collection[Key]) -> ScanResult:
        """Heads that are ready, of others than those who are known."""

    async def due_heads(self, room: Mapping[str, int], as_of: datetime | None = None) -> Heads:
        """Ready heads, oldest first, at most so many of each lane, locked but not claimed. Here and below, what has
        become ready after *as_of* is left."""

    async def these_heads(
        self, ids: Sequence[str], lanes: Sequence[str], free: int, as_of: datetime | None = None
    ) -> Heads:
        """Those of these heads that are still ready and in these lanes, at most so many, the first ones first."""

    async def horizon(self, lanes: Sequence[str], seen: KnownFrontier = NO_FRONTIER) -> tuple[Horizon, KnownFrontier]:
        """When the next event of these lanes becomes ready, and what that look has shown."""


class LookaheadPort(Protocol):
    """What starting events at their very millisecond asks."""

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

    async def reserved_heads(self, reserved: Sequence[Reserved], ending_within: timedelta) -> Heads:
        """Those that ``start`` would claim, as they now are, locked but not claimed."""


class SettlePort(Protocol):
    """What keeping and ending claims asks."""

    async def renew(self, claims: Sequence[Claim], lease: timedelta) -> set[str]:
        """Push the leases on; the ids that are still held."""

    async def settle(self, settlements: Sequence[Settlement], worker: str) -> set[str]:
        """Record verdicts with their history; the ids that were settled. One that is missing had lost its claim,
        and its verdict was dropped."""

    async def get(self, id: str) -> Event | None: ...

    async def history(
        self, subject: str, *, skip: int = 0, limit: int | None = None, within: int | None = None
    ) -> list[Entry]:
        """Oldest first, without the first *skip*; CutShort where not all of them are *within* so many bytes."""


class ClaimTransaction(ClaimPort, LookaheadPort, SettlePort, SeriesTransaction, Protocol):
    """One transaction of the claim path. A claimed head gets its successor in it."""


class HandlerTransaction(ClaimTransaction, Transaction, Protocol):
    """A transaction that a handler shares: its own statements, and the settlement of its event."""


class ClaimPath(ClaimPort, LookaheadPort, SettlePort, Clocked, Protocol):
    """A store as the claim path sees it."""

    def begin(self) -> AbstractAsyncContextManager[ClaimTransaction]:
        """A transaction of the engine's own, which is over in a moment."""

    def lend(self) -> AbstractAsyncContextManager[HandlerTransaction]:
        """A transaction for users' code, however long that takes: it never keeps the engine waiting for a
        connection."""

    def listen(self, lanes: Sequence[str]) -> AbstractAsyncContextManager[Waker]:
        """What ends the sleep of a worker when work arrives in its lanes."""
