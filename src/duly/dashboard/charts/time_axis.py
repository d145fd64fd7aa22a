"""One time axis through the present: what happened to its left, what is known to come to its right."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from markupsafe import Markup

WIDTH = 1000
"""Units of the drawing; it is shown as wide as there is room."""

HEIGHT = 190
TOP = 26
"""Units above the highest bar, for the numbers and marks."""

BOTTOM = 24
"""Units below the bars, for the times."""

GAP = 0.16
"""The share of a step that is left empty between two bars."""

LEAST = 2.0
"""Units of the smallest bar, so that one event among a million is seen."""

SECOND = ' class="second"'
"""Marks every second time, which a narrow window leaves out."""

LABELS = 8
"""Times below the axis, about."""


class PastStep(NamedTuple):
    """What happened in one step: how many runs ended, and how."""

    at: datetime
    on_time: int
    late: int
    failed: int
    skipped: int

    @property
    def many(self) -> int:
        return self.on_time + self.late + self.failed + self.skipped


class FutureStep(NamedTuple):
    """How many events are known to become due in one step."""

    at: datetime
    many: int


class Change(NamedTuple):
    """A change of the clocks."""

    at: datetime
    words: str


class TimeAxis(NamedTuple):
    """What the axis shows."""

    past: Sequence[PastStep]
    future: Sequence[FutureStep]
    step: timedelta
    now: datetime
    changes: Sequence[Change] = ()


PARTS = (
    ("on_time", "c-good", "on time"),
    ("late", "c-late", "late"),
    ("failed", "c-bad", "failed"),
    ("skipped", "c-skip", "skipped"),
)


def draw(axis: TimeAxis, label: Callable[[datetime], str]) -> Markup:
    """The axis as SVG; *label* writes an instant in the visitor's time zone."""
    begins = axis.past[0].at if axis.past else axis.now
    ends = (axis.future[-1].at if axis.future else axis.now) + axis.step
    span = max((ends - begins) / axis.step, 1.0)
    unit = WIDTH / span
    ended = {one.at: one.many for one in axis.past}
    coming = {one.at: one.many for one in axis.future}
    most = max([1, *(ended.get(at, 0) + coming.get(at, 0) for at in {*ended, *coming})])
    ground = HEIGHT - BOTTOM

    def x(at: datetime) -> float:
        return (at - begins) / axis.step * unit

    def height(count: int) -> float:
        return max(LEAST, count / most * (ground - TOP)) if count else 0.0

    drawn = [f'<line class="axis" x1="0" x2="{WIDTH}" y1="{ground}" y2="{ground}"/>']
    for step in axis.past:
        drawn += _stack(step, x(step.at), unit, height, ground, label)
    beneath = {step.at: sum(height(getattr(step, name)) for name, _, _ in PARTS) for step in axis.past}
    for ahead in axis.future:
        if ahead.many:
            title = f"{label(ahead.at)}: {ahead.many:,} known to become due"
            foot = ground - beneath.get(ahead.at, 0.0)  # the present step has both
            drawn.append(_bar("c-next", x(ahead.at), unit, foot - height(ahead.many), height(ahead.many), title))
    for change in axis.changes:
        drawn.append(
            f'<g><line class="axis" x1="{x(change.at):.1f}" x2="{x(change.at):.1f}" y1="{TOP - 8}" y2="{ground}" '
            f'stroke-dasharray="3 3"/><text x="{x(change.at) + 4:.1f}" y="{TOP - 2}">{_escaped(change.words)}</text>'
            "</g>"
        )
    here = x(axis.now)
    drawn.append(f'<line class="present" x1="{here:.1f}" x2="{here:.1f}" y1="{TOP - 12}" y2="{ground + 4}"/>')
    anchor = "end" if here > WIDTH * 0.9 else "middle"
    drawn.append(f'<text x="{here:.1f}" y="{TOP - 15}" text-anchor="{anchor}">now</text>')
    drawn += _labels(axis, x, ground, begins, ends, label)
    told = f"{sum(one.many for one in axis.past):,} ended, {sum(one.many for one in axis.future):,} known to come"
    head = f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_escaped(told)}">'
    return Markup(f"{head}{''.join(drawn)}</svg>")  # every text in it is escaped


def _stack(
    step: PastStep,
    left: float,
    unit: float,
    height: Callable[[int], float],
    ground: float,
    label: Callable[[datetime], str],
) -> list[str]:
    """The bars of one past step, one upon the other."""
    told = ", ".join(f"{getattr(step, name):,} {words}" for name, _, words in PARTS if getattr(step, name))
    bars, foot = [], ground
    for name, colour, _ in PARTS:
        if many := getattr(step, name):
            tall = height(many)
            foot -= tall
            bars.append(_bar(colour, left, unit, foot, tall, f"{label(step.at)}: {told}"))
    return bars


def _bar(colour: str, left: float, unit: float, top: float, tall: float, title: str) -> str:
    inset = unit * GAP / 2
    return (
        f'<rect class="{colour}" x="{left + inset:.2f}" y="{top:.2f}" width="{unit - 2 * inset:.2f}" '
        f'height="{tall:.2f}" rx="1.5"><title>{_escaped(title)}</title></rect>'
    )


def _labels(
    axis: TimeAxis,
    x: Callable[[datetime], float],
    ground: float,
    begins: datetime,
    ends: datetime,
    label: Callable[[datetime], str],
) -> list[str]:
    """Some times below the axis."""
    steps = round((ends - begins) / axis.step)
    every = max(1, round(steps / LABELS))
    return [
        f'<text x="{x(at):.1f}" y="{ground + 17}"{SECOND if place % 2 else ""}>{_escaped(label(at))}</text>'
        for place, number in enumerate(range(0, steps, every))
        if x(at := begins + number * axis.step) < WIDTH * 0.93
    ]


def _escaped(text: str) -> str:
    return str(Markup.escape(text))
