"""Counts what a process does with events, by type and lane.

A worker settles tens of thousands of events a second, and a counter of prometheus_client takes half as long as the
rest of an event. So events are counted in batches here, in plain dictionaries and lists, which are read when somebody
asks for metrics.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TypeVar

from duly.observers.metrics.families import CLAIM_S, DELIVERY_S, LATENESS_S, PASS_S
from duly.observers.metrics.snapshots import Sample
from duly.records.event import HANDLER, Event, Settlement, Status
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
        self.observe_all([value])

    def observe_all(self, values: Sequence[float]) -> None:
        """Where events are many, most of a batch fall into one bucket, or come in the order of their lateness."""
        if not values:
            return
        buckets, bounds = self.buckets, self.bounds
        least, greatest = bisect_left(bounds, min(values)), bisect_left(bounds, max(values))
        ordered, counted = values if least == greatest else sorted(values), 0
        for place in range(least, greatest):
            until = bisect_right(ordered, bounds[place], counted)
            buckets[place] += until - counted
            counted = until
        buckets[greatest] += len(values) - counted
        self.sum += sum(values)

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

    def settled(self, attempts: Sequence[Settlement]) -> None:
        self.completed += [one.verdict.status for one in attempts].count(Status.COMPLETED)
        late = [
            (event.claimed - event.due).total_seconds()
            for one in attempts
            if (event := one.event).attempts == 0 and event.claimed is not None
        ]
        if late and min(late) < 0:  # reserved events are claimed a little before their instant
            late = [max(0.0, span) for span in late]
        self.lateness.observe_all(late)
        self.delivery.observe_all([one.took_s for one in attempts if one.took_s is not None])

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
        for pair, its in by_pair(signal.events, signal.events):
            self.of(pair).claimed += len(its)

    def _settled(self, signal: Settled) -> None:
        """Runs for every event, and so in comprehensions: a loop with a call for each took twice as long."""
        attempts = [one for one in signal.settlements if one.verdict.counts]
        for pair, its in by_pair([one.event for one in attempts], attempts):
            self.of(pair).settled(its)

    def _retried(self, signal: Retried) -> None:
        self.of(type_and_lane(signal.event)).retried += 1

    def _dead_lettered(self, signal: DeadLettered) -> None:
        self.of(type_and_lane(signal.event)).failed[signal.reason] += 1

    def _skipped(self, signal: Skipped) -> None:
        self.of(type_and_lane(signal.event)).skipped += 1

    def _interrupted(self, signal: Interrupted) -> None:
        self.of(type_and_lane(signal.event)).interrupted += 1


Of = TypeVar("Of")


def by_pair(events: Sequence[Event], whose: Sequence[Of]) -> Iterable[tuple[tuple[str, str], Sequence[Of]]]:
    """What belongs to these events, by their types and lanes. Most batches have one type and lane."""
    if not events:
        return ()
    type, lane = events[0].type, events[0].lane
    mixed = not lane.startswith(f"{HANDLER}:")  # the lane of a handler has one type, and a look at each string costs
    if not [event for event in events if event.lane != lane or (mixed and event.type != type)]:
        return [((type, lane), whose)]
    found: dict[tuple[str, str], list[Of]] = {}
    for event, its in zip(events, whose, strict=True):
        found.setdefault((event.type, event.lane), []).append(its)
    return found.items()


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
