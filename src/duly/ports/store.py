"""The store as a whole: everything that is asked of a database. Only stores and the wiring need all of it."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from duly.ports.claiming import ClaimPath, ClaimTransaction
from duly.ports.dead_letters import DeadLetterPort
from duly.ports.events import EventPort
from duly.ports.invariants import InvariantPort
from duly.ports.requests import KeyPort, RequestPort
from duly.ports.series import HoldPort, ScheduleTransaction
from duly.ports.targets import DestinationPort, ParkingPort, TargetPort, TargetTransaction
from duly.ports.timers import TimerPort
from duly.ports.transactions import Health, Transaction
from duly.ports.users import UserTransaction


class WorkerTransaction(ClaimTransaction, TargetTransaction, Protocol):
    """One transaction of a worker: the claim path, and destinations that are down."""


class WorkerStore(ClaimPath, HoldPort, TargetTransaction, Health, Protocol):
    """A store as a worker sees it."""

    def begin(self) -> AbstractAsyncContextManager[WorkerTransaction]: ...


class EveryPort(
    ClaimTransaction,
    TimerPort,
    EventPort,
    ScheduleTransaction,
    UserTransaction,
    TargetPort,
    DestinationPort,
    ParkingPort,
    DeadLetterPort,
    KeyPort,
    RequestPort,
    InvariantPort,
    Protocol,
):
    """All that can be asked. Each call is atomic; inside ``begin`` they commit together."""


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
        """A store for one request of one tenant: all that is asked of it is one transaction, which commits at the end
        and which ``begin`` divides by savepoints. Where the database can tell tenants apart, the others' rows do not
        exist in it. Only one thing can be asked of it at a time. Without *writes*, or where
        all that it writes is *one_statement*, it may be no transaction at all."""

    async def prepare_rls_role(self) -> None:
        """Make the role for ``tenant_session`` where it is missing, or say what an administrator has to do."""
