"""The results of a benchmark run, as they are stored in JSON."""

import json
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """All repetitions of one workload of one peer, or the reason why there are none."""

    workload: str
    peer: str
    title: str
    label: str = ""
    numbers: tuple[int, ...] = ()
    runs: tuple[dict[str, Any], ...] = ()
    reason: str | None = None
    apart: str | None = None  # the time of measurement, if it was not in the same run as the other rows

    def values(self, figure: str) -> list[float]:
        return [run[figure] for run in self.runs]

    def median(self, figure: str) -> float:
        return statistics.median(self.values(figure))

    def medians(self, figure: str) -> list[float]:
        """The medians, place by place, of a figure that is a list."""
        return [statistics.median(values) for values in zip(*self.values(figure), strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One run: its time, the machine, the peers and the rows."""

    made: str
    quick: bool
    machine: dict[str, Any]
    peers: dict[str, dict[str, str]]
    rows: tuple[Row, ...] = field(default_factory=tuple)

    def of(self, workload: str, label: str | None = None) -> Iterator[Row]:
        for row in self.rows:
            if row.workload == workload and label in (None, row.label):
                yield row

    def find(self, workload: str, peer: str, label: str = "") -> Row | None:
        """The row of a workload, peer and label; None if it has no figures."""
        return next((row for row in self.of(workload, label) if row.peer == peer and row.runs), None)

    def with_part(self, part: "Results") -> "Results":
        """These results with the rows of a partial run, which replace older rows of the same workloads."""
        measured = {row.workload for row in part.rows}
        dated = tuple(replace(row, apart=_when(part)) for row in part.rows)
        return replace(self, rows=(*(row for row in self.rows if row.workload not in measured), *dated))

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_rounded(asdict(self)), indent=1) + "\n")


def _when(part: Results) -> str:
    times = "once" if part.machine["repetitions"] == 1 else f"{part.machine['repetitions']} times"
    return (
        f"{part.made}, {times}, with at most {part.machine['most_other_load_percent']:g} % of other load between cases"
    )


def read(path: Path) -> Results:
    found = json.loads(path.read_text())
    rows = tuple(Row(**row | {"numbers": tuple(row["numbers"]), "runs": tuple(row["runs"])}) for row in found["rows"])
    return Results(**found | {"rows": rows})


def _rounded(value: Any) -> Any:
    """The value rounded to four significant digits, which is more than a measurement's precision."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return value
