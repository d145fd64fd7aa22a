"""The year of a schedule: twelve small months, whose days tell when it fires, rests, and when clocks change."""

from collections.abc import Sequence
from datetime import date
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup, escape

from duly.decide.series.days import ScheduleDay
from duly.rules.exclusions import HOLIDAYS

CELL, GAP = 14, 2  # the size of a day, and the distance of two, in units of the drawing
WEEKS = 6
"""Weeks that a month touches, at most."""


class YearMonth(NamedTuple):
    """A small month of the year."""

    first: date
    name: str
    chart: Markup


def kind_of(day: ScheduleDay) -> str:
    """What a day is: one on which the schedule fires, rests, or has nothing to do."""
    if day.excluded is not None:
        return "holiday" if day.excluded.startswith(HOLIDAYS) else "excluded"
    if day.expected is None:
        return "unknown"
    return "fires" if day.expected else "idle"


def day_words(day: ScheduleDay) -> str:
    """A day in words, such as ``Sun 28 Mar 2027: fires once; clocks go forward 1 h at 02:00``."""
    match kind_of(day):
        case "fires":
            said = "fires once" if day.expected == 1 else f"fires {day.expected:,} times"
        case "idle":
            said = "does not fire"
        case "unknown":
            said = "not computed: the rule takes too long"
        case _:
            said = f"excluded by {day.excluded}"
    clocks = f"; {day.clocks}" if day.clocks else ""
    return f"{day.day:%a} {day.day.day} {day.day:%b %Y}: {said}{clocks}"


def months(days: Sequence[ScheduleDay], today: date) -> list[YearMonth]:
    """The months of these days, each as a chart."""
    return [
        YearMonth(first, f"{first:%b}", _month(first, [*group], today))
        for first, group in groupby(days, key=lambda one: one.day.replace(day=1))
    ]


def _month(first: date, days: Sequence[ScheduleDay], today: date) -> Markup:
    before = first.weekday()
    cells = "".join(_cell(day, before + day.day.day - 1, today) for day in days)
    step = CELL + GAP
    size = f'viewBox="0 0 {7 * step} {WEEKS * step}"'
    label = escape(_summary(first, days))
    return Markup(f'<svg class="month-chart" {size} role="img" aria-label="{label}">{cells}</svg>')


def _cell(day: ScheduleDay, place: int, today: date) -> str:
    week, weekday = divmod(place, 7)
    x, y = weekday * (CELL + GAP) + GAP // 2, week * (CELL + GAP) + GAP // 2
    kind = f"d-{kind_of(day)}" + (" d-today" if day.day == today else "") + (" d-past" if day.day < today else "")
    rect = f'<rect class="{kind}" x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="3"/>'
    clock = f'<circle class="d-clock" cx="{x + CELL / 2}" cy="{y + CELL / 2}" r="3.5"/>' if day.clocks else ""
    return f"<g><title>{escape(day_words(day))}</title>{rect}{clock}</g>"


def _summary(first: date, days: Sequence[ScheduleDay]) -> str:
    kinds = [kind_of(day) for day in days]
    said = [f"fires on {kinds.count('fires')} days"]
    said += [f"{kinds.count(kind)} {kind}" for kind in ("excluded", "holiday") if kind in kinds]
    said += [day.clocks for day in days if day.clocks]
    return f"{first:%B %Y}: {', '.join(said)}"
