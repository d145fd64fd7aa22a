"""The sparkline of a schedule: its latest runs, the oldest first, each as a bar by its outcome."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache

from markupsafe import Markup, escape

from duly.dashboard.times import Times, short
from duly.records.event import Status
from duly.records.figures.runs import Run

BARS = 20
"""Runs of a sparkline."""

BAR, STEP, HEIGHT = 4, 6, 24  # the width of a bar, the distance of two, and the height, in units of the drawing

MOST_KEPT = 1024
"""Drawings that are remembered."""

LATE = timedelta(minutes=5)
"""A run that begins later than this is drawn as late."""

LOOKS = {
    "completed": ("c-good", 14),
    "late": ("c-late", 17),
    "failed": ("c-bad", 24),
    "skipped": ("c-skip", 6),
    "cancelled": ("c-skip", 6),
    "running": ("c-next", 10),
    "waiting": ("c-next", 6),
}
"""The colour and height of a bar by its outcome: the heights differ for people who cannot tell the colours apart."""

NAMES = {
    Status.COMPLETED: "completed",
    Status.FAILED: "failed",
    Status.SKIPPED: "skipped",
    Status.CANCELLED: "cancelled",
    Status.PROCESSING: "running",
    Status.PENDING: "waiting",
}


def outcome(run: Run) -> str:
    """How a run has ended, or that it has not."""
    if run.lateness is not None and run.lateness > LATE and run.status is Status.COMPLETED:
        return "late"
    return NAMES[run.status]


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a sparkline depends on. Drawing one takes a millisecond, and a live list would draw 50 of them each
    second."""

    runs: tuple[Run, ...]  # the oldest first
    zone: str
    today: date
    times: Times = field(compare=False)


def sparkline(runs: Sequence[Run], times: Times) -> Markup:
    """The chart of *runs*, which are given with the newest first."""
    return _drawn(Drawing((*reversed(runs[:BARS]),), times.zone, times.today(), times)) if runs else Markup("")


@lru_cache(maxsize=MOST_KEPT)
def _drawn(drawing: Drawing) -> Markup:
    left = (BARS - len(drawing.runs)) * STEP
    bars = "".join(_bar(run, left + place * STEP, drawing.times) for place, run in enumerate(drawing.runs))
    size = f'viewBox="0 0 {BARS * STEP} {HEIGHT}" width="{BARS * STEP}" height="{HEIGHT}"'
    label = escape(_summary(drawing.runs))
    return Markup(f'<svg class="spark" {size} role="img" aria-label="{label}">{bars}</svg>')


def _bar(run: Run, x: int, times: Times) -> str:
    look, height = LOOKS[outcome(run)]
    missed = f'<circle class="c-late" cx="{x + BAR / 2}" cy="2" r="2"/>' if run.missed else ""
    bar = f'<rect class="{look}" x="{x}" y="{HEIGHT - height}" width="{BAR}" height="{height}" rx="1"/>'
    return f"<g><title>{escape(told(run, times))}</title>{bar}{missed}</g>"


def told(run: Run, times: Times) -> str:
    """A run in words, such as ``today 09:00:00: completed, 1.2 s late``."""
    said = f"{times.words(run.at)}: {outcome(run)}"
    if run.lateness is not None and run.lateness > timedelta():
        said = said.replace(": late", ": completed") + f", {short(run.lateness)} late"
    if run.missed:
        said += f", for {run.missed:,} missed before it"
    return f"{said}: {run.reason}" if run.reason else said


def _summary(runs: Sequence[Run]) -> str:
    counts = Counter(map(outcome, runs))
    return f"Latest {len(runs)} runs: " + ", ".join(f"{many} {name}" for name, many in counts.most_common())
