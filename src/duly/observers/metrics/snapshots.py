"""Snapshots of the metrics of one process: plain data, so that one process can add up those of several."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from duly.observers.metrics.families import FAMILIES, Family, Kind


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """One series: the value of a counter or gauge, or the sum of a histogram."""

    name: str
    labels: tuple[str, ...]
    value: float
    buckets: tuple[int, ...] = ()  # how many observations fell into each bucket; the last one has no bound


Snapshot = Sequence[Sample]


def added(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The snapshots of several processes as one: counters and histograms are added; of a gauge, the greatest counts,
    which is the worst."""
    found: dict[tuple[str, tuple[str, ...]], Sample] = {}
    for snapshot in snapshots:
        for sample in snapshot:
            place = sample.name, sample.labels
            found[place] = _together(found[place], sample) if place in found else sample
    return list(found.values())


def _together(one: Sample, other: Sample) -> Sample:
    if FAMILIES[one.name].kind is Kind.GAUGE:
        return one if one.value >= other.value else other
    buckets = tuple(map(sum, zip(one.buckets, other.buckets, strict=True)))
    return Sample(one.name, one.labels, one.value + other.value, buckets)


def lasting(snapshot: Snapshot) -> Snapshot:
    """The part of a snapshot that still counts when its process has ended: no gauge."""
    return [sample for sample in snapshot if FAMILIES[sample.name].kind is not Kind.GAUGE]


def by_family(snapshot: Snapshot) -> Mapping[str, tuple[Family, list[Sample]]]:
    """The samples of each metric, in the order in which metrics are documented."""
    found: dict[str, list[Sample]] = {name: [] for name in FAMILIES}
    for sample in snapshot:
        found[sample.name].append(sample)
    return {name: (FAMILIES[name], samples) for name, samples in found.items() if samples}
