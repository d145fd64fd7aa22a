"""The store as a whole: every port of a database. Only stores and the wiring need all of them."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from duly.ports.claiming import ClaimPath, ClaimTransaction
from duly.ports.dead_letters import DeadLetterPort
from duly.ports.events import EventFinder, EventPort, SearchPort
from duly.ports.figures.figures import FigurePort
from duly.ports.figures.stats import StatsPort
from duly.ports.invariants import InvariantPort
from duly.ports.pruning import PrunePort
from duly.ports.requests import KeyPort, RequestPort
from duly.ports.series import HoldPort, PauseTransaction, RehearsalPort, ScheduleTransaction
from duly.ports.targets import DestinationPort, ParkingPort, TargetPort, TargetTransaction
from duly.ports.timers import TimerPort
from duly.ports.transactions import Health, Transaction
from duly.ports.users import UserTransaction
from duly.ports.workers import BeatPort, PresencePort


class WorkerTransaction(ClaimTransaction, TargetTransaction, PauseTransaction, PrunePort, StatsPort, Protocol):
    """One transaction of a worker: the claim path, parked destinations, pauses that end, and roll-ups."""


class WorkerStore(ClaimPath, HoldPort, TargetTransaction, PrunePort, StatsPort, BeatPort, Health, Protocol):
    """A store as a worker sees it."""

    def begin(self) -> AbstractAsyncContextManager[WorkerTransaction]: ...


class EveryPort(
    ClaimTransaction,
    TimerPort,
    PrunePort,
    EventPort,
    EventFinder,
    SearchPort,
    ScheduleTransaction,
    UserTransaction,
    TargetPort,
    DestinationPort,
    ParkingPort,
    DeadLetterPort,
    KeyPort,
    RequestPort,
    InvariantPort,
    BeatPort,
    PresencePort,
    FigurePort,
    StatsPort,
    RehearsalPort,
    Protocol,
):
    """All calls of a store. Each call is atomic; inside ``begin`` they commit together."""


class StoreTransaction(EveryPort, Transaction, Protocol):
    """One database transaction: Duly's own queries, and the user's statements beside them."""


class Store(EveryPort, ClaimPath, Health, Protocol):
    """A database that holds events."""

    async def open(self, *, migrate: bool) -> None: ...

    async def close(self) -> None: ...

    def begin(self) -> AbstractAsyncContextManager[StoreTransaction]: ...

    def lend(self) -> AbstractAsyncContextManager[StoreTransaction]: ...

    def tenant_session(
        self, tenant: str, *, writes: bool, one_statement: bool = False
    ) -> AbstractAsyncContextManager["Store"]:
        """A store for one request of one tenant. All its calls are one transaction, which commits at the end, and in
        which ``begin`` is a savepoint. If the database supports row-level security, rows of other tenants are invisible
        to it. It runs one statement at a time. Without *writes*, or if the request writes only *one_statement*, there
        may be no transaction at all."""

    async def prepare_rls_role(self) -> bool:
        """Prepares the role for ``tenant_session`` as far as that is missing; returns whether anything was. Raises
        ApiNotReady, which tells an administrator what to do."""

    async def require_rls_role(self) -> None:
        """Raises ApiNotReady if the role is not ready, and changes nothing."""

    def rls_role_script(self, login: str) -> str:
        """SQL for an administrator that creates the role, lets the user *login* take it, and grants the privileges of
        both; empty if the database has no roles."""
