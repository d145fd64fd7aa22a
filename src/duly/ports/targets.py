"""What is asked of a store about targets, and about the destinations that events go to."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from duly.ports.transactions import Clocked, Notes
from duly.records.event import Event
from duly.records.history import Entry
from duly.records.target import Known, Target


class RateAllowance(NamedTuple):
    """How many turns a rate allows now, and how long after that the next one comes."""

    tenant: str
    destination: str
    turns: int
    next: timedelta


class DestinationReader(Protocol):
    """What is known of destinations."""

    async def destinations(self, keys: Sequence[tuple[str, str]]) -> list[Known]:
        """What is known of destinations, by tenant and name or origin; each is answered, whatever is known."""


class TargetPort(Protocol):
    """Targets that are stored under a name."""

    async def put_target(self, target: Target) -> bool:
        """Insert or replace; False when a target with another id took the name meanwhile."""

    async def target(self, tenant: str, name: str) -> Target | None:
        """A target, locked until the transaction ends."""

    async def list_targets(
        self, tenant: str | None, *, after: tuple[str, str], limit: int, within: int | None = None
    ) -> list[Target]:
        """Those of a tenant, or of all, in the order of tenant and name, after these two. CutShort where
        not all of them are *within* so many bytes."""

    async def delete_target(self, tenant: str, name: str) -> None: ...

    async def aimed_at(self, target: Target, examine: int) -> int:
        """How many events that are still to come go to a stored target, of so many that are due next."""


class DestinationPort(DestinationReader, Protocol):
    """Limits of destinations, and what waits for them."""

    async def list_destinations(self, tenant: str | None, *, after: tuple[str, str], limit: int) -> list[Known]:
        """Those with limits and those that are parked, in the order of tenant and destination, after these two."""

    async def held_for(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """How many events wait for these, by tenant and destination."""

    async def limit(self, tenant: str, destination: str, concurrency: int | None, rate: float | None) -> None: ...

    async def allow(self, wanted: Sequence[tuple[str, str, int]]) -> list[RateAllowance]:
        """Take turns of destinations that have a rate, at most so many of each."""


class ParkingPort(Protocol):
    """Destinations that are down. An event that is held for one waits for its row there: parked, or being released."""

    async def park(self, tenant: str, destination: str, reason: str, wait: timedelta | None) -> bool:
        """Send nothing there until a probe so much later, or until a person says so; False if it is parked already."""

    async def unpark(self, tenant: str, destination: str) -> datetime | None:
        """It is open again, and what waits for it is being released; since when it was parked, if it was."""

    async def reopen(self, tenant: str, destination: str) -> datetime | None:
        """The same for one that answers; not where it takes a person."""

    async def probe_now(self, tenant: str, destination: str) -> bool: ...

    async def unparking(self) -> list[tuple[str, str, bool]]:
        """Destinations that are open again, and for which some may still wait; and, with True, those that are to be
        tried."""

    async def release_parked(self, tenant: str, parked: str, destination: str, limit: int, by: str) -> int:
        """Release what waits for *parked*, among the events of a destination; how many."""

    async def released(self, tenant: str, destination: str) -> None:
        """Nothing waits for it any more."""

    async def due_probes(self, first: timedelta, most: timedelta) -> list[tuple[str, str]]:
        """Parked destinations that are to be tried now, by whoever asks first."""

    async def claim_probe(
        self, tenant: str, destination: str, lanes: Sequence[str], worker: str, lease: timedelta
    ) -> list[Event]:
        """Claim the oldest event that is due and waits for a destination."""

    async def is_awaited(self, tenant: str, destination: str) -> bool:
        """Whether any event that is due waits for a destination."""


class TargetTransaction(TargetPort, DestinationPort, ParkingPort, Notes, Clocked, Protocol):
    """One transaction about targets and destinations."""

    async def history(
        self, subject: str, *, skip: int = 0, limit: int | None = None, within: int | None = None
    ) -> list[Entry]: ...


class TargetStore(TargetTransaction, Protocol):
    """A store as the verbs of targets, and whoever looks after parked destinations, see it."""

    def begin(self) -> AbstractAsyncContextManager[TargetTransaction]: ...
