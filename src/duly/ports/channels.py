"""What events go to, and what commands come from."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple, Protocol, runtime_checkable

from duly.ports.transactions import Transaction
from duly.records.event import Event, Outcome
from duly.records.target import Known


class Channel(Protocol):
    """A means of delivery. It returns what became of the attempt; it raises only on a bug."""

    async def deliver(self, event: Event) -> Outcome: ...


@runtime_checkable
class SlowToStart(Channel, Protocol):
    """A channel that should be ready before its first event is due."""

    async def prepare(self) -> None: ...


@runtime_checkable
class Loadable(Protocol):
    """A channel with a library that takes a while to load. A running worker claims nothing for it before."""

    @property
    def is_loaded(self) -> bool: ...

    async def load(self) -> None:
        """Load it, in a thread: nothing else is to be late for it."""


@runtime_checkable
class Reachable(Protocol):
    """What has a server that may be down. Nothing is claimed for such a channel meanwhile."""

    @property
    def down(self) -> str | None:
        """Why it cannot be used now; None while nobody knows of a reason."""

    @property
    def on_trial(self) -> bool:
        """Whether it is down for having taken nothing, and one event at a time may show that it does again."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call this whenever it goes down, is on trial or is up again."""

    def unwatch(self, changed: Callable[[], None]) -> None: ...


@runtime_checkable
class Threaded(Protocol):
    """A channel that delivers in threads. Nobody can stop one: what is cancelled goes on all the same."""

    @property
    def hung(self) -> int:
        """How many threads still run whose delivery was cancelled, at its deadline or at a stop."""


class TransactionalChannel(Channel, Protocol):
    """A channel whose effect and whose settlement can be one transaction."""

    async def deliver_in(self, event: Event, tx: "Transaction") -> Outcome: ...


class Route(NamedTuple):
    """How the events of one lane are delivered."""

    channel: Channel
    deadline: timedelta
    transactional: bool = False  # the channel has ``deliver_in``, and shares the settlement's transaction


class DestinationLookup(Protocol):
    """What is known of destinations, a moment old at most."""

    async def known(self, tenant: str, destination: str) -> Known: ...


class Command(Protocol):
    """What somebody asks for over a broker, as it came."""

    data: bytes

    @property
    def place(self) -> str:
        """By which the broker knows it."""

    @property
    def order(self) -> int:
        """Larger than that of all that were asked for before, and the same when it comes again."""

    @property
    def deliveries(self) -> int:
        """How often it has come, this time included."""

    async def ack(self) -> None:
        """It is done with. Without this it comes again."""


class Commands(Protocol):
    """Where commands come from. Raises when the broker cannot be reached."""

    async def prepare(self) -> None:
        """Make what it takes to send commands and to hear of them."""

    async def take(self, most: int, within: float) -> Sequence[Command]:
        """What there is, at most so many; none if nothing comes in so many seconds."""

    async def reject(self, command: Command, *rejections: bytes) -> str | None:
        """Keep the first of these that the broker takes where people look for what was refused; or why it takes none
        of them."""

    async def release(self) -> None:
        """Take no more, and give back at once what came and nobody has taken."""

    async def close(self) -> None: ...
