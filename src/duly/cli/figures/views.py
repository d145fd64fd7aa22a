"""The picture of a forecast."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from rich.table import Table
from rich.text import Text

from duly.cli.events.views import empty_table
from duly.cli.output import readable
from duly.records.figures.forecast import Forecast
from duly.rules.zones import to_wall

SHORTEST_BAR, LONGEST_BAR = 10, 60
"""Columns for the bar of the step with the most events."""

GAP = 2
"""Columns between two columns of the table, and at its end."""

TYPES_NAMED = 3
"""Types that a line names."""

EIGHTHS = " ▏▎▍▌▋▊▉"
WHOLE = "█"
ASCII = "#"
DAY = timedelta(days=1)


def forecast_table(forecast: Forecast, timezone: str, width: int, *, blocks: bool) -> Table:
    """A line for each step: its local time, the number of events, a bar, and the most frequent types. Without *blocks*,
    bars are made of ASCII characters."""
    title, whens = f"FROM ({timezone})", list(_whens(forecast, timezone))
    counts = [f"{step.count:,}" for step in forecast.steps]
    types = [_types(step.by_type) for step in forecast.steps]
    left = width - max(map(len, [title, *whens])) - max(map(len, ["EVENTS", *counts])) - 4 * GAP
    bar = max(SHORTEST_BAR, min(LONGEST_BAR, left - max(map(len, types))))
    most = max(step.count for step in forecast.steps)
    drawn = empty_table()
    drawn.add_column(title, no_wrap=True)
    drawn.add_column("EVENTS", justify="right", no_wrap=True)
    drawn.add_column("", width=bar, no_wrap=True)
    drawn.add_column("TYPES", no_wrap=True)
    for when, step, count, named in zip(whens, forecast.steps, counts, types, strict=True):
        drawn.add_row(
            when,
            Text(count, "" if step.count else "dim"),
            Text(_bar(step.count, most, bar, blocks=blocks), "cyan"),
            Text(_shortened(named, left - bar), "dim"),
        )
    return drawn


def _whens(forecast: Forecast, timezone: str) -> Iterator[str]:
    """The local time at which each step begins; the day only where it changes."""
    day: str | None = None
    for step in forecast.steps:
        local = to_wall(step.at, timezone)
        today = f"{local:%a %Y-%m-%d}"
        if forecast.step >= DAY and not (local.hour or local.minute):
            yield today
        else:
            yield f"{today if today != day else '':14} {_time(local)}"
        day = today


def _time(local: datetime) -> str:
    return f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"


def _types(by_type: Mapping[str, int]) -> str:
    ordered = sorted(by_type.items(), key=lambda one: (-one[1], one[0]))
    named = [
        readable(type) if len(ordered) == 1 else f"{readable(type)} {many:,}" for type, many in ordered[:TYPES_NAMED]
    ]
    return ", ".join(named) + (f", {len(ordered) - TYPES_NAMED} more" if len(ordered) > TYPES_NAMED else "")


def _bar(count: int, most: int, width: int, *, blocks: bool) -> str:
    """A bar whose length is the share of the highest step; at least a sliver for any event."""
    if not count:
        return ""
    eighths = max(1, round(count / most * width * 8))
    if not blocks:
        return ASCII * max(1, round(eighths / 8))
    return WHOLE * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(0, width - 3)]}..."
