"""Channels, which deliver events, and brokers, from which commands come."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import NamedTuple, Protocol, runtime_checkable

from duly.ports.transactions import Transaction
from duly.records.event import Event, Outcome
from duly.records.target import Known


class HttpAnswer(NamedTuple):
    """What a receiver has answered, whatever follows from it."""

    status: int
    headers: Mapping[str, str]
    body: bytes  # the beginning of it


answer_listener: ContextVar[Callable[[HttpAnswer], None] | None] = ContextVar("answer_listener", default=None)
"""Is called with the answer to each HTTP request of this context: an outcome does not have all of the answer."""


class Channel(Protocol):
    """A means of delivery. It returns the outcome of an attempt, and raises only on a bug."""

    async def deliver(self, event: Event) -> Outcome: ...


@runtime_checkable
class SlowToStart(Channel, Protocol):
    """A channel that should be ready before its first event is due."""

    async def prepare(self) -> None: ...


@runtime_checkable
class Loadable(Protocol):
    """A channel whose library takes a while to load. A running worker claims no events for it until it is loaded."""

    @property
    def is_loaded(self) -> bool: ...

    async def load(self) -> None:
        """Loads the library in a thread, so that no other delivery is late because of it."""


@runtime_checkable
class Reachable(Protocol):
    """A channel or a command source whose server may be down. While a channel is down, no events are claimed for it."""

    @property
    def down(self) -> str | None:
        """The reason why it cannot be used now; None if no reason is known."""

    @property
    def on_trial(self) -> bool:
        """Whether it is down because it accepted no deliveries, and may be tried with one event at a time."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Calls *changed* whenever it goes down, goes on trial or is up again."""

    def unwatch(self, changed: Callable[[], None]) -> None: ...


@runtime_checkable
class Threaded(Protocol):
    """A channel that delivers in threads. A thread cannot be stopped: a cancelled delivery runs on."""

    @property
    def hung(self) -> int:
        """The number of running threads whose delivery was cancelled, at its deadline or at a stop."""

    def ask_to_stop(self, event: Event) -> None:
        """Lets the handler of a running event see that it should stop."""


class TransactionalChannel(Channel, Protocol):
    """A channel whose effect can be in the same transaction as the settlement."""

    async def deliver_in(self, event: Event, tx: "Transaction") -> Outcome: ...


class Route(NamedTuple):
    """How the events of one lane are delivered."""

    channel: Channel
    deadline: timedelta
    transactional: bool = False  # whether the channel has ``deliver_in`` and shares the settlement's transaction
    ends_with_lease: bool = (
        False  # whether a delivery is ended when its lease is lost, and has ended before it is given back
    )


class DestinationLookup(Protocol):
    """The known limits and state of destinations, cached for a moment."""

    async def known(self, tenant: str, destination: str) -> Known: ...


class Command(Protocol):
    """A request that came over a broker, with its data undecoded."""

    data: bytes

    @property
    def place(self) -> str:
        """The name by which the broker identifies the command."""

    @property
    def order(self) -> int:
        """The position of the command: larger than that of every earlier command, and unchanged when it is
        redelivered."""

    @property
    def deliveries(self) -> int:
        """How often the command was delivered, this time included."""

    async def ack(self) -> None:
        """Acknowledges the command. Without this, the broker delivers it again."""


class Commands(Protocol):
    """A source of commands. Its methods raise when the broker cannot be reached."""

    async def prepare(self) -> None:
        """Creates the queue, stream or topic that sending and receiving commands needs."""

    async def take(self, most: int, within: float) -> Sequence[Command]:
        """Returns at most *most* commands; none if no command arrives in *within* seconds."""

    async def reject(self, command: Command, *rejections: bytes) -> str | None:
        """Stores the first of these *rejections* that the broker accepts, in the place where people look for refused
        commands; returns the reason if the broker accepts none."""

    async def release(self) -> None:
        """Stops receiving, and gives prefetched commands back at once."""

    async def close(self) -> None: ...
