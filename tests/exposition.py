"""Metrics as Prometheus reads them, by prometheus_client's own parser."""

import math
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

Series = tuple[str, frozenset[tuple[str, str]]]


class Exposition:
    """One answer of /metrics."""

    def __init__(self, text: str) -> None:
        families = list(text_string_to_metric_families(text))
        names = [family.name for family in families]
        assert len(names) == len(set(names)), "each metric comes once"
        self.families = {family.name: family for family in families}
        self.values: dict[Series, float] = {}
        for family in families:
            assert family.type != "unknown"
            assert family.documentation
            for sample in family.samples:
                series = sample.name, frozenset(sample.labels.items())
                assert series not in self.values, "each series comes once"
                self.values[series] = sample.value
        for series, value in self.values.items():
            assert math.isfinite(value), series

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of the series with these labels, and perhaps others; they must exist."""
        found = list(self._found(name, labels))
        assert found, f"there is no {name} with {labels}: {sorted({name for name, _ in self.values})}"
        return sum(found)

    def has(self, name: str, **labels: str) -> bool:
        return any(True for _ in self._found(name, labels))

    def _found(self, name: str, labels: dict[str, str]) -> Iterator[float]:
        for (one, own), value in self.values.items():
            if one == name and labels.items() <= dict(own).items():
                yield value

    def labels(self, name: str) -> set[str]:
        """The names of the labels of all series of a metric, without the bound of a bucket."""
        return {label for sample in self.families[name].samples for label in sample.labels} - {"le"}
