"""The circuit breaker of one worker: each destination gets as many deliveries as it can take, and none while it is
down.

The number of concurrent deliveries to a destination follows the outcomes of the last ones, like a TCP window: it grows
with each success and shrinks with each failure, so that a dead or overloaded destination soon has one place instead of
all of them. After enough failures in a row, of different events, the destination is parked: the store records that, and
it holds for every worker.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable

from duly.decide.error_text import first_line, storable
from duly.decide.targets.targets import parked_alone, url_of
from duly.engine.destinations.destination_cache import DestinationCache, Key
from duly.engine.destinations.parking import FIRST_PROBE, note, open_again
from duly.errors import StoreUnavailable
from duly.ports import TargetStore
from duly.records.event import Delivered, Event, Expired, Failed, Held, Outcome, Rejected, Unreachable
from duly.records.target import DESTINATION_OF_ALL, Known
from duly.signals import DestinationOpened, DestinationParked, Signals

FIRST_WINDOW = 10
"""Concurrent deliveries to a destination without outcomes yet."""

FAILURES_IN_A_ROW = 10
"""Failures in a row, of FAILED_EVENTS different events, after which a destination counts as down."""

FAILED_EVENTS = 5
"""Different events that must have failed: a single event that the receiver cannot handle does not mean that the
destination is down."""

PARKED_FRESH_S = 0.1
"""Seconds for which a cached entry that says a destination is parked is trusted."""

RATE_AHEAD_S = 0.5
"""Seconds of a rate limit that a worker takes from the store at once. Unused starts expire after twice this time."""


class Window:
    """The concurrency window of a destination, and its failures in a row."""

    __slots__ = ("failed", "failing", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.failed = 0  # failures in a row
        self.failing: set[str] = set()  # ids of the events that failed in this row, at most FAILED_EVENTS

    def shrink(self) -> None:
        self.size = max(1, self.size // 2)

    def has_failed(self, id: str) -> None:
        self.shrink()
        self.failed += 1
        if len(self.failing) < FAILED_EVENTS:
            self.failing.add(id)

    def has_answered(self) -> None:
        if self.failed:
            self.failed = 0
            self.failing.clear()

    @property
    def is_down(self) -> bool:
        return self.failed >= FAILURES_IN_A_ROW and len(self.failing) >= FAILED_EVENTS


class CircuitBreaker:
    """The ``Limits`` of a worker's destinations, its circuit breaker, and its probes of parked destinations."""

    def __init__(
        self, store: TargetStore, destination_cache: DestinationCache, concurrency: int, worker: str, signals: Signals
    ) -> None:
        self._store, self._destination_cache, self._worker, self._signals = store, destination_cache, worker, signals
        self._concurrency = concurrency
        self._most = max(1, concurrency // 2)
        self._windows: dict[Key, Window] = {}
        self._turns: dict[Key, tuple[int, float]] = {}  # starts left under a rate, and their expiry by time.monotonic
        self._wanted: set[Key] = set()  # destinations that need more starts under their rate
        self._none_before: dict[Key, float] = {}  # when their rates allow the next start, by time.monotonic
        self._unknown: set[Key] = set()
        self._down: dict[Key, tuple[str, bool]] = {}  # to be parked: the reason, and whether until a person enables it
        self._probes: set[str] = set()
        self._asked = asyncio.Event()
        self.changed: Callable[[], None] = lambda: None  # called when more events may start than before

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
            return 1  # the first delivery reads the destination's limits
        if known.concurrency is not None:
            return min(known.concurrency, self._concurrency)
        window = self._windows.get((tenant, destination))
        return min(FIRST_WINDOW, self._most) if window is None else window.size

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
            window = self._windows[key] = Window(min(FIRST_WINDOW, self._most))
        if isinstance(outcome, Failed):
            if outcome.outage:
                window.has_failed(event.id)
                if window.is_down:
                    self._give_up(key, f"is parked: {first_line(outcome.error)}", gone=False)
            elif outcome.retry_after is not None:  # overloaded, but not down
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
        """Whether the cache says that the destination is open. Mostly it does, and no query is needed."""
        known = self._destination_cache.fresh(event.tenant, event.destination or DESTINATION_OF_ALL)
        return known is not None and known.parked is None and not known.within

    async def closed(self, event: Event) -> Held | None:
        """Why the event's destination is parked; None if it is open, or if the event is its probe."""
        if event.destination is None:
            return None
        known, probes = await self._parked(event.tenant, event.destination), self.tries(event)
        if (known.parked is None or probes) and known.within and (url := url_of(event.target)) is not None:
            known = await self._parked(event.tenant, parked_alone(url))
            if known.parked is not None and probes:  # this URL is disabled: another event has to probe its origin
                await self._probe_again(event.tenant, event.destination)
        elif probes:
            return None
        return None if known.parked is None else Held(known.destination, known.parked)

    async def _probe_again(self, tenant: str, destination: str) -> None:
        async with self._store.begin() as tx:
            await tx.probe_now(tenant, destination)

    async def _parked(self, tenant: str, destination: str) -> Known:
        """The state of a destination, at most PARKED_FRESH_S old if parked. If it was opened since, the store would
        release the event that is to be held, and the worker would claim it again and again."""
        known = await self._destination_cache.known(tenant, destination)
        return (
            known if known.parked is None else await self._destination_cache.known(tenant, destination, PARKED_FRESH_S)
        )

    def trying(self, events: Iterable[Event]) -> None:
        """Marks events as probes of parked destinations."""
        self._probes.update(event.id for event in events)

    def tries(self, event: Event) -> bool:
        """Whether the event is a probe."""
        return event.id in self._probes

    async def tried(self, event: Event, outcome: Outcome) -> Outcome:
        """The outcome of a probe. A destination that takes the event, or rejects it for good, is open again, unless it
        says that it is gone. If the event would have to be retried, it keeps waiting, and no attempt is used up."""
        assert event.destination is not None
        if isinstance(outcome, Failed):
            return Held(event.destination, f"is parked: {first_line(outcome.error)}")
        if isinstance(outcome, Delivered) or (isinstance(outcome, Rejected) and not outcome.gone):
            await self._open(event.tenant, event.destination)
        return outcome

    async def _open(self, tenant: str, destination: str) -> None:
        with contextlib.suppress(StoreUnavailable):  # the loop reports that, and the next probe comes soon
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
        """Parks destinations that are down, takes starts under rate limits, and reads unknown limits."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            wait: float | None
            try:
                await self.write_down()
                await self._learn()
                wait = await self._take_turns()
            except StoreUnavailable:  # the loop reports that
                wait = 1.0
            self.changed()
            if wait is not None:
                asyncio.get_running_loop().call_later(wait, self._asked.set)

    async def write_down(self) -> None:
        """Parks the destinations that were found down."""
        while self._down:
            (tenant, destination), (reason, gone) = next(iter(self._down.items()))
            async with self._store.begin() as tx:
                parked = await tx.park(tenant, destination, reason, None if gone else FIRST_PROBE)
                if parked:
                    await note(tx, tenant, destination, "disabled" if gone else "parked", reason, self._worker)
            if parked:
                self._signals.emit(DestinationParked(tenant, destination, reason, gone))
            self._destination_cache.forget(tenant, destination)
            self._windows.pop((tenant, destination), None)
            if self._down[tenant, destination] == (reason, gone):  # unless a newer failure has replaced it meanwhile
                del self._down[tenant, destination]

    async def learn(self, events: Iterable[Event]) -> None:
        """Reads the limits of destinations before their first events start, and takes the first starts under their
        rates."""
        keys = {(event.tenant, event.destination) for event in events if event.destination is not None}
        unknown = {key for key in keys if self._destination_cache.seen(*key) is None}
        if not unknown:
            return
        with contextlib.suppress(StoreUnavailable):  # the loop reports that; the first delivery reads the limits then
            await self._destination_cache.read({*unknown, *((tenant, DESTINATION_OF_ALL) for tenant, _ in unknown)})
            for key in unknown:
                self.turns(*key)  # marks destinations with a rate as wanted
            await self._take_turns()

    async def _learn(self) -> None:
        if self._unknown:
            unknown, self._unknown = self._unknown, set()
            await self._destination_cache.read(unknown)

    async def _take_turns(self) -> float | None:
        """Takes starts under rate limits from the store. Returns the seconds until the next try, if some are still
        wanted."""
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
        asked = [(*key, max(1, round(rate * RATE_AHEAD_S))) for key, rate in rates.items()]
        later: list[float] = []
        for allowed in await self._store.allow(asked):
            key = (allowed.tenant, allowed.destination)
            if allowed.turns:
                self._turns[key] = (allowed.turns, now + max(2 * RATE_AHEAD_S, allowed.turns / rates[key]))
            else:
                self._wanted.add(key)
                later.append(max(0.001, allowed.next.total_seconds()))
                self._none_before[key] = now + later[-1]
        return min(later, default=None)


def whose(event: Event) -> str:
    """The destination that is disabled when its receiver says it is gone: a stored target, or a single URL."""
    url = url_of(event.target)
    return event.destination or "" if url is None else parked_alone(url)
