"""The store as targets, and the destinations that events go to, need it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from duly.ports.transactions import Clocked, Notes
from duly.records.event import Event
from duly.records.history import Entry
from duly.records.target import Known, Target


class RateAllowance(NamedTuple):
    """How many deliveries a rate allows now, and how long after them the next delivery is allowed."""

    tenant: str
    destination: str
    turns: int
    next: timedelta


class DestinationReader(Protocol):
    """Reads the limits and state of destinations."""

    async def destinations(self, keys: Sequence[tuple[str, str]]) -> list[Known]:
        """The limits and state of destinations, by tenant and name or origin; every key gets an answer, even if no row
        is stored."""


class TargetPort(Protocol):
    """Reads, stores and deletes targets, by name."""

    async def put_target(self, target: Target) -> bool:
        """Inserts or replaces a target; returns False if a target with another id has taken the name meanwhile."""

    async def target(self, tenant: str, name: str) -> Target | None:
        """A target, locked until the transaction ends."""

    async def list_targets(
        self, tenant: str | None, *, after: tuple[str, str], limit: int, within: int | None = None
    ) -> list[Target]:
        """The targets of a tenant, or of all tenants, ordered by tenant and name, after the pair *after*. CutShort if
        they do not fit into *within* bytes."""

    async def delete_target(self, tenant: str, name: str) -> None: ...

    async def aimed_at(self, target: Target, examine: int) -> int:
        """The number of future events that go to a stored target, among the next *examine* events that are due."""


class DestinationPort(DestinationReader, Protocol):
    """Limits of destinations, and events that are held for them."""

    async def list_destinations(self, tenant: str | None, *, after: tuple[str, str], limit: int) -> list[Known]:
        """Destinations that have limits or are parked, ordered by tenant and destination, after the pair *after*."""

    async def held_for(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """The number of events that wait for each of these destinations, by tenant and destination."""

    async def limit(self, tenant: str, destination: str, concurrency: int | None, rate: float | None) -> None: ...

    async def allow(self, wanted: Sequence[tuple[str, str, int]]) -> list[RateAllowance]:
        """Takes allowances of destinations that have a rate, at most the given number of each."""


class ParkingPort(Protocol):
    """Destinations that are down. For every event that is held for a destination, the row of that destination exists:
    it is parked, or its events are being released."""

    async def park(self, tenant: str, destination: str, reason: str, wait: timedelta | None) -> bool:
        """Stops deliveries to a destination until a probe after *wait*, or, if that is None, until a person enables it;
        returns False if the destination is already parked."""

    async def unpark(self, tenant: str, destination: str) -> datetime | None:
        """Opens a destination again and starts the release of its events; returns the instant at which it was parked,
        if it was."""

    async def reopen(self, tenant: str, destination: str) -> datetime | None:
        """Opens a destination that answers, like ``unpark``, but not one that only a person may enable."""

    async def probe_now(self, tenant: str, destination: str) -> bool: ...

    async def unparking(self) -> list[tuple[str, str, bool]]:
        """Open destinations for which events may still be held, and, with True, parked destinations that are to be
        probed."""

    async def release_parked(self, tenant: str, parked: str, destination: str, limit: int, by: str) -> int:
        """Releases events of *destination* that wait for *parked*; returns their number."""

    async def released(self, tenant: str, destination: str) -> None:
        """Records that no event waits for the destination any more."""

    async def due_probes(self, first: timedelta, most: timedelta) -> list[tuple[str, str]]:
        """Parked destinations whose probe is due now. Each probe is returned to one caller only."""

    async def claim_probe(
        self, tenant: str, destination: str, lanes: Sequence[str], worker: str, lease: timedelta
    ) -> list[Event]:
        """Claims the oldest due event that waits for a destination."""

    async def is_awaited(self, tenant: str, destination: str) -> bool:
        """Whether a due event is held for a destination."""

    async def is_retried_later(self, tenant: str, destination: str, lane: str, examine: int) -> bool:
        """Whether a due event of a destination waits for its next attempt, among the next *examine* of its lane."""


class TargetTransaction(TargetPort, DestinationPort, ParkingPort, Notes, Clocked, Protocol):
    """One transaction about targets and destinations."""

    async def history(
        self, subject: str, *, skip: int = 0, limit: int | None = None, within: int | None = None
    ) -> list[Entry]: ...


class TargetStore(TargetTransaction, Protocol):
    """A store as the verbs of targets, and the watch over parked destinations, see it."""

    def begin(self) -> AbstractAsyncContextManager[TargetTransaction]: ...
