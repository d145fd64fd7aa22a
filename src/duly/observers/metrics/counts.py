"""Counts what a process does with events, by type and lane.

A worker settles tens of thousands of events a second, and a counter of prometheus_client takes half as long as the
rest of an event. So events are counted in batches here, in plain dictionaries and lists, which are read when somebody
asks for metrics.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from duly.observers.metrics.families import CLAIM_S, DELIVERY_S, LATENESS_S, PASS_S
from duly.observers.metrics.snapshots import Sample
from duly.records.event import HANDLER, Event, Status
from duly.signals import (
    ClaimMade,
    Created,
    DeadLettered,
    FailReason,
    Interrupted,
    PassEnded,
    Retried,
    Settled,
    Signals,
    Skipped,
    WorkerStarted,
)

MOST_PAIRS = 100
"""Pairs of type and lane that are counted apart. Callers choose types, and each pair has some sixty series."""

OTHER = "other"
"""The type and the lane of all events of further pairs."""

WORDS = ("created", "claimed", "completed", "retried", "skipped", "interrupted")
"""What is counted of events, without further labels."""

type_and_lane = attrgetter("type", "lane")


class Histogram:
    """How many observations fell into each bucket, and their sum."""

    __slots__ = ("bounds", "buckets", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.buckets, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def sample(self, name: str, labels: tuple[str, ...] = ()) -> Sample:
        return Sample(name, labels, self.sum, tuple(self.buckets))


class EventCounts:
    """The counts of one type and lane."""

    __slots__ = (
        "claimed",
        "completed",
        "created",
        "delivery",
        "failed",
        "interrupted",
        "lateness",
        "retried",
        "skipped",
    )

    def __init__(self) -> None:
        self.created = self.claimed = self.completed = self.retried = self.skipped = self.interrupted = 0
        self.failed = dict.fromkeys(FailReason, 0)
        self.lateness, self.delivery = Histogram(LATENESS_S), Histogram(DELIVERY_S)

    def samples(self, labels: tuple[str, ...]) -> Iterator[Sample]:
        for word in WORDS:
            yield Sample(f"duly_events_{word}", labels, getattr(self, word))
        for reason, many in self.failed.items():
            yield Sample("duly_events_failed", (*labels, reason.value), many)
        yield self.lateness.sample("duly_lateness_seconds", labels)
        yield self.delivery.sample("duly_delivery_seconds", labels)


class Counts:
    """The counts of one process."""

    def __init__(self, signals: Signals) -> None:
        self._of: dict[tuple[str, str], EventCounts] = {}
        self._query, self._transaction = Histogram(CLAIM_S), Histogram(CLAIM_S)
        self._passes = Passes()
        signals.observe(self._worker_started, WorkerStarted)
        signals.observe(self._created, Created)
        signals.observe(self._claim_made, ClaimMade)
        signals.observe(self._settled, Settled)
        signals.observe(self._retried, Retried)
        signals.observe(self._dead_lettered, DeadLettered)
        signals.observe(self._skipped, Skipped)
        signals.observe(self._interrupted, Interrupted)
        signals.observe(self._passes.ended, PassEnded)

    def of(self, pair: tuple[str, str]) -> EventCounts:
        """The counts of a type and lane; those of all others, if there are too many pairs already."""
        found = self._of.get(pair)
        if found is None:
            pair = pair if len(self._of) < MOST_PAIRS else (OTHER, OTHER)
            found = self._of.setdefault(pair, EventCounts())
        return found

    def samples(self) -> Iterator[Sample]:
        for pair, counts in list(self._of.items()):  # a scrape may run in another thread
            yield from counts.samples(pair)
        yield self._query.sample("duly_claim_query_seconds")
        yield self._transaction.sample("duly_claim_transaction_seconds")
        yield from self._passes.samples()

    def _worker_started(self, signal: WorkerStarted) -> None:
        """Begins all counts of handlers at 0: a series that begins at 1 shows no increase."""
        for lane in signal.lanes:
            kind, _, type = lane.partition(":")
            if kind == HANDLER and type:
                self.of((type, lane))

    def _created(self, signal: Created) -> None:
        self.of((signal.type, signal.lane)).created += len(signal.ids)

    def _claim_made(self, signal: ClaimMade) -> None:
        self._transaction.observe(signal.transaction_s)
        if signal.query_s is not None:
            self._query.observe(signal.query_s)
        for pair, many in _by_pair(signal.events):
            self.of(pair).claimed += many

    def _settled(self, signal: Settled) -> None:
        """Runs for every event, so that it repeats no lookup for neighbours of one kind."""
        last, counts = None, None
        for settlement in signal.settlements:
            verdict, event = settlement.verdict, settlement.event
            if not verdict.counts:
                continue
            if counts is None or (event.type, event.lane) != last:
                last = event.type, event.lane
                counts = self.of(last)
            if verdict.status is Status.COMPLETED:
                counts.completed += 1
            if event.attempts == 0:
                late = ((event.claimed or event.due) - event.due).total_seconds()
                counts.lateness.observe(late if late > 0 else 0.0)  # reserved events are claimed a little early
            if settlement.took_s is not None:
                counts.delivery.observe(settlement.took_s)

    def _retried(self, signal: Retried) -> None:
        self.of(type_and_lane(signal.event)).retried += 1

    def _dead_lettered(self, signal: DeadLettered) -> None:
        self.of(type_and_lane(signal.event)).failed[signal.reason] += 1

    def _skipped(self, signal: Skipped) -> None:
        self.of(type_and_lane(signal.event)).skipped += 1

    def _interrupted(self, signal: Interrupted) -> None:
        self.of(type_and_lane(signal.event)).interrupted += 1


class Passes:
    """The figures of the passes of one process."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(("processed", "retried", "failed", "late", "recovery"), 0)
        self._duration = Histogram(PASS_S)
        self._last: PassEnded | None = None

    def ended(self, signal: PassEnded) -> None:
        for word in self._counts:
            self._counts[word] += getattr(signal, word)
        self._duration.observe(signal.duration.total_seconds())
        self._last = signal

    def samples(self) -> Iterator[Sample]:
        for word, many in self._counts.items():
            yield Sample(f"duly_pass_{word}", (), many)
        yield self._duration.sample("duly_pass_duration_seconds")
        for which in ("average", "greatest") if self._last is not None else ():
            lateness = getattr(self._last, f"{which}_lateness").total_seconds()
            yield Sample(f"duly_pass_{which}_lateness_seconds", (), lateness)


def _by_pair(events: Iterable[Event]) -> Iterable[tuple[tuple[str, str], int]]:
    return Counter(map(type_and_lane, events)).items()
