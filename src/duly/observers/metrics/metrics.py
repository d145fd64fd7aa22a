"""The metrics of one process, as Prometheus reads them."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from duly.errors import Misuse
from duly.extras import install
from duly.observers.metrics.counts import Counts
from duly.observers.metrics.families import FAMILIES, Family, Kind
from duly.observers.metrics.gauges import ANSWER_WITHIN_S, StoreGauges
from duly.observers.metrics.snapshots import Sample, Snapshot, by_family
from duly.ports import FigurePort
from duly.signals import Signals

if TYPE_CHECKING:
    from prometheus_client import Metric

COLLECT_WITHIN_S = ANSWER_WITHIN_S + 1
"""Seconds for which a scrape in another thread waits for the event loop."""


class Metrics:
    """What ``duly.metrics()`` returns: a collector for a registry of prometheus_client. It counts from the moment that
    it was made."""

    def __init__(
        self,
        signals: Signals,
        store: FigurePort,
        poll_age: Callable[[], timedelta | None],  # since the loop of this process's worker completed a pass
        loop: Callable[[], asyncio.AbstractEventLoop | None],  # the loop in which the store is open
    ) -> None:
        require_prometheus()
        self._counts, self._gauges = Counts(signals), StoreGauges(store)
        self._poll_age, self._loop = poll_age, loop
        self._further: list[Callable[[Snapshot], Iterable[Sample]]] = []
        self._asking: asyncio.Task[Snapshot] | None = None

    def add(self, further: Callable[[Snapshot], Iterable[Sample]]) -> None:
        """Adds metrics that are made from those of this process."""
        self._further.append(further)

    async def text(self) -> bytes:
        """The metrics in Prometheus' text format. For code that runs in the event loop of this Duly."""
        return written(await self.snapshot())

    async def snapshot(self) -> Snapshot:
        """The metrics as plain data."""
        return [*self.own(), *await self.store_snapshot()]

    async def own_snapshot(self) -> Snapshot:
        """The metrics of this process, without those of the store."""
        return self.own()

    async def store_snapshot(self) -> Snapshot:
        """What the store holds, which is the same in every process."""
        return await self._gauges.samples()

    def own(self) -> Snapshot:
        """The metrics of this process, without those of the store."""
        age = self._poll_age()
        samples = list(self._counts.samples())
        if age is not None:
            samples.append(Sample("duly_poll_age_seconds", (), age.total_seconds()))
        return [*samples, *(sample for more in self._further for sample in more(samples))]

    # -- what prometheus_client calls

    def collect(self) -> "Iterator[Metric]":
        """The metrics, for a registry. In another thread than that of the event loop it waits for the store; in the
        event loop's own it cannot, and has what the store answered to the scrape before."""
        return prometheus_metrics([*self.own(), *self._store_samples()])

    def describe(self) -> "Iterator[Metric]":
        return prometheus_metrics([Sample(name, (), 0) for name in FAMILIES], bare=True)

    def _store_samples(self) -> Snapshot:
        loop = self._loop()
        if loop is None or not loop.is_running():
            return ()
        if loop is _running_loop():
            if self._asking is None or self._asking.done():
                self._asking = loop.create_task(self._gauges.samples())
            return self._gauges.latest
        asked = asyncio.run_coroutine_threadsafe(self._gauges.samples(), loop)
        try:
            return asked.result(COLLECT_WITHIN_S)
        except TimeoutError:
            asked.cancel()
            return (Sample("duly_store_up", (), 0),)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def require_prometheus() -> None:
    """Raises Misuse without prometheus_client."""
    try:
        import prometheus_client  # noqa: F401 - whether it is there
    except ModuleNotFoundError as error:
        raise Misuse(f"metrics need prometheus-client, which is not installed: {install('metrics')}") from error


def written(snapshot: Snapshot) -> bytes:
    """Metrics in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Fixed(snapshot))
    return generate_latest(registry)


class Fixed:
    """A collector of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> "Iterator[Metric]":
        return prometheus_metrics(self._snapshot)


def prometheus_metrics(snapshot: Snapshot, *, bare: bool = False) -> "Iterator[Metric]":
    """Samples as prometheus_client has them; *bare*: only the metrics, without any value."""
    for name, (family, samples) in by_family(snapshot).items():
        metric = _metric(name, family)
        for sample in () if bare else samples:
            if family.kind is Kind.HISTOGRAM:
                counts = accumulate(sample.buckets)
                bounds = [*(repr(bound) for bound in family.bounds), "+Inf"]
                metric.add_metric(sample.labels, list(zip(bounds, counts, strict=True)), sample.value)
            else:
                metric.add_metric(sample.labels, sample.value)
        yield metric


def _metric(name: str, family: Family) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    kinds: dict[Kind, Any] = {
        Kind.COUNTER: CounterMetricFamily,
        Kind.GAUGE: GaugeMetricFamily,
        Kind.HISTOGRAM: HistogramMetricFamily,
    }
    return kinds[family.kind](name, family.told, labels=family.labels)
