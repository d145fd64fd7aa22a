"""What one worker gives to each destination: as much as that can take, and nothing while it is down.

How many deliveries may be under way to one follows what became of the last ones, as a TCP window does: it grows with
each success and shrinks with each failure, so that a dead or drowning destination soon has one place, not all of them.
Enough failures in a row, of different events, and it is parked: that is written down, and holds for every worker.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable

from duly.decide.error_text import first_line, storable
from duly.decide.targets.targets import parked_alone, url_of
from duly.engine.destinations.destination_cache import DestinationCache, Key
from duly.engine.destinations.parking import FIRST, note, open_again
from duly.errors import StoreUnavailable
from duly.ports import TargetStore
from duly.records.event import Delivered, Event, Expired, Failed, Held, Outcome, Rejected, Unreachable
from duly.records.target import DESTINATION_OF_ALL, Known
from duly.signals import DestinationOpened, DestinationParked, Signals

BEGINNING = 10
"""How many may be under way to a destination of which nothing is known yet."""

IN_A_ROW, DIFFERENT = 10, 5
"""So many failures in a row, of so many events, mean that it is down: one event that a receiver chokes on does not."""

JUST_NOW = 0.1
"""Seconds for which it counts that a destination is parked."""

AHEAD = 0.5
"""Seconds of a rate that a worker takes at once; what it has not used after twice that is forfeited."""


class Window:
    """How a destination has been doing here."""

    __slots__ = ("failed", "failing", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.failed = 0  # in a row
        self.failing: set[str] = set()  # of these events

    def shrink(self) -> None:
        self.size = max(1, self.size // 2)

    def has_failed(self, id: str) -> None:
        self.shrink()
        self.failed += 1
        if len(self.failing) < DIFFERENT:
            self.failing.add(id)

    def has_answered(self) -> None:
        if self.failed:
            self.failed = 0
            self.failing.clear()

    @property
    def is_down(self) -> bool:
        return self.failed >= IN_A_ROW and len(self.failing) >= DIFFERENT


class CircuitBreaker:
    """The ``Limits`` of a worker, its circuit breaker, and the probes that it makes."""

    def __init__(
        self, store: TargetStore, destination_cache: DestinationCache, concurrency: int, worker: str, signals: Signals
    ) -> None:
        self._store, self._destination_cache, self._worker, self._signals = store, destination_cache, worker, signals
        self._concurrency = concurrency
        self._most = max(1, concurrency // 2)
        self._windows: dict[Key, Window] = {}
        self._turns: dict[Key, tuple[int, float]] = {}  # how many are left, and until when
        self._wanted: set[Key] = set()  # of whose rate some more is wanted
        self._none_before: dict[Key, float] = {}  # when there will be some, by time.monotonic
        self._unknown: set[Key] = set()
        self._down: dict[Key, tuple[str, bool]] = {}  # to be parked: why, and whether for good
        self._probes: set[str] = set()
        self._asked = asyncio.Event()
        self.changed: Callable[[], None] = lambda: None  # told when more may be started than before

    # -- limits

    def binds(self, tenant: str, destination: str | None) -> bool:
        if destination is not None:
            return True
        known = self._of_all(tenant)
        return known is not None and (known.concurrency is not None or known.rate is not None)

    def places(self, tenant: str, destination: str | None) -> int:
        if destination is None:
            return self._concurrency
        known = self._destination_cache.seen(tenant, destination)
        if known is None:
            return 1  # whose delivery finds out
        if known.concurrency is not None:
            return min(known.concurrency, self._concurrency)
        window = self._windows.get((tenant, destination))
        return min(BEGINNING, self._most) if window is None else window.size

    def places_of(self, tenant: str) -> int:
        known = self._of_all(tenant)
        return self._concurrency if known is None or known.concurrency is None else known.concurrency

    def turns(self, tenant: str, destination: str | None) -> int:
        known = self._of_all(tenant)
        most = self._concurrency if known is None or known.rate is None else self._left((tenant, DESTINATION_OF_ALL))
        if destination is not None:
            known = self._destination_cache.seen(tenant, destination)
            if known is not None and known.rate is not None:
                most = min(most, self._left((tenant, destination)))
        return most

    def started(self, event: Event) -> None:
        if self._turns:
            for destination in {DESTINATION_OF_ALL, event.destination or DESTINATION_OF_ALL}:
                if (turns := self._turns.get((event.tenant, destination))) is not None:
                    self._turns[event.tenant, destination] = (turns[0] - 1, turns[1])

    def ended(self, event: Event, outcome: Outcome | None) -> None:
        self._probes.discard(event.id)
        if event.destination is None or outcome is None or isinstance(outcome, Held | Unreachable | Expired):
            return
        key = (event.tenant, event.destination)
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = Window(min(BEGINNING, self._most))
        if isinstance(outcome, Failed):
            if outcome.outage:
                window.has_failed(event.id)
                if window.is_down:
                    self._give_up(key, f"is parked: {first_line(outcome.error)}", gone=False)
            elif outcome.retry_after is not None:  # it has too much to do, and is there
                window.shrink()
        else:
            window.has_answered()
            if isinstance(outcome, Delivered):
                window.size = min(self._most, window.size + 1)
            elif isinstance(outcome, Rejected) and outcome.gone:
                key = (event.tenant, whose(event))
                self._give_up(key, f"is disabled: {first_line(outcome.error)}", gone=True)

    def _of_all(self, tenant: str) -> Known | None:
        if not self._destination_cache.is_recent(tenant, DESTINATION_OF_ALL):
            self._unknown.add((tenant, DESTINATION_OF_ALL))
            self._asked.set()
        return self._destination_cache.seen(tenant, DESTINATION_OF_ALL)

    def _left(self, key: Key) -> int:
        left, until = self._turns.get(key, (0, 0.0))
        if left > 0 and time.monotonic() < until:
            return left
        self._wanted.add(key)
        if time.monotonic() >= self._none_before.get(key, 0.0):
            self._asked.set()
        return 0

    # -- deliveries

    def is_open(self, event: Event) -> bool:
        """Whether that is known already, as it mostly is."""
        known = self._destination_cache.fresh(event.tenant, event.destination or DESTINATION_OF_ALL)
        return known is not None and known.parked is None and not known.within

    async def closed(self, event: Event) -> Held | None:
        """Why nothing is sent to its destination now, if that is so."""
        if event.destination is None or self.tries(event):
            return None
        known = await self._parked(event.tenant, event.destination)
        if known.parked is None and known.within and (url := url_of(event.target)) is not None:
            known = await self._parked(event.tenant, parked_alone(url))
        return None if known.parked is None else Held(known.destination, known.parked)

    async def _parked(self, tenant: str, destination: str) -> Known:
        """What is known of it; where it is parked, just now. If it has been opened since, the store would give back
        what is to be held, and we would claim that again and again."""
        known = await self._destination_cache.known(tenant, destination)
        return known if known.parked is None else await self._destination_cache.known(tenant, destination, JUST_NOW)

    def trying(self, events: Iterable[Event]) -> None:
        """These are what parked destinations are tried with."""
        self._probes.update(event.id for event in events)

    def tries(self, event: Event) -> bool:
        """Whether it is one of those."""
        return event.id in self._probes

    async def tried(self, event: Event, outcome: Outcome) -> Outcome:
        """What a probe's outcome means: a destination that answers, whatever it says, is open again; for one that does
        not, the event goes on waiting, and no attempt is spent."""
        assert event.destination is not None
        if isinstance(outcome, Failed) and outcome.outage:
            return Held(event.destination, f"is parked: {first_line(outcome.error)}")
        if not isinstance(outcome, Unreachable):
            await self._open(event.tenant, event.destination)
        return outcome

    async def _open(self, tenant: str, destination: str) -> None:
        with contextlib.suppress(StoreUnavailable):  # others tell of that, and the next probe is not far
            async with self._store.begin() as tx:
                now, since = await tx.now(), await tx.reopen(tenant, destination)
                if since is not None:
                    await note(tx, tenant, destination, "opened", None, self._worker)
            self._destination_cache.forget(tenant, destination)
            self._windows.pop((tenant, destination), None)
            if since is not None:
                self._signals.emit(DestinationOpened(tenant, destination, now - since))
                await open_again(self._store, tenant, destination, self._worker)

    # -- beside the worker's loop

    def _give_up(self, key: Key, reason: str, *, gone: bool) -> None:
        self._down[key] = (storable(reason), gone)
        self._asked.set()

    async def run(self) -> None:
        """Write down what is down, ask for turns, and read what is not known yet."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            wait: float | None
            try:
                await self.write_down()
                await self._learn()
                wait = await self._take_turns()
            except StoreUnavailable:  # others tell of that
                wait = 1.0
            self.changed()
            if wait is not None:
                asyncio.get_running_loop().call_later(wait, self._asked.set)

    async def write_down(self) -> None:
        """Park what was found down."""
        while self._down:
            (tenant, destination), (reason, gone) = next(iter(self._down.items()))
            async with self._store.begin() as tx:
                parked = await tx.park(tenant, destination, reason, None if gone else FIRST)
                if parked:
                    await note(tx, tenant, destination, "disabled" if gone else "parked", reason, self._worker)
            if parked:
                self._signals.emit(DestinationParked(tenant, destination, reason, gone))
            self._destination_cache.forget(tenant, destination)
            self._windows.pop((tenant, destination), None)
            if self._down[tenant, destination] == (reason, gone):  # or it has become worse meanwhile
                del self._down[tenant, destination]

    async def learn(self, events: Iterable[Event]) -> None:
        """Before the first event of a destination starts: what limits it has, and its first turns if it has a rate."""
        keys = {(event.tenant, event.destination) for event in events if event.destination is not None}
        unknown = {key for key in keys if self._destination_cache.seen(*key) is None}
        if not unknown:
            return
        with contextlib.suppress(StoreUnavailable):  # others tell of that; then its first delivery finds out
            await self._destination_cache.read({*unknown, *((tenant, DESTINATION_OF_ALL) for tenant, _ in unknown)})
            for key in unknown:
                self.turns(*key)  # asks for some
            await self._take_turns()

    async def _learn(self) -> None:
        if self._unknown:
            unknown, self._unknown = self._unknown, set()
            await self._destination_cache.read(unknown)

    async def _take_turns(self) -> float | None:
        """When to ask again, if any is still wanted."""
        now = time.monotonic()
        wanted = {key for key in self._wanted if now >= self._none_before.get(key, 0.0)}
        self._wanted -= wanted
        rates = {
            key: known.rate
            for key in wanted
            if (known := self._destination_cache.seen(*key)) is not None and known.rate
        }
        if not rates:
            return None
        asked = [(*key, max(1, round(rate * AHEAD))) for key, rate in rates.items()]
        later: list[float] = []
        for allowed in await self._store.allow(asked):
            key = (allowed.tenant, allowed.destination)
            if allowed.turns:
                self._turns[key] = (allowed.turns, now + max(2 * AHEAD, allowed.turns / rates[key]))
            else:
                self._wanted.add(key)
                later.append(max(0.001, allowed.next.total_seconds()))
                self._none_before[key] = now + later[-1]
        return min(later, default=None)


def whose(event: Event) -> str:
    """What is parked for good when an event is told so: a stored target, or the URL alone."""
    url = url_of(event.target)
    return event.destination or "" if url is None else parked_alone(url)
