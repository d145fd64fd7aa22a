"""``duly schedules stats``: what has become of the runs of a schedule, day by day, or of all events."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table
from rich.text import Text

from duly.cli.events.views import empty_table
from duly.cli.instants import resolve_in
from duly.cli.invocation import Hidden, Invocation
from duly.cli.output import brief, note, print_json, readable, screen, utc
from duly.cli.schedules.acts import Tenant
from duly.records.figures.stats import STATS_JSON, Percentiles, RunStats, Stats
from duly.rules.recurrence import DEFAULT_ZONE

FIGURES = ("RUNS", "OK", "FAILED", "SKIPPED", "TOOK p50", "p95", "p99", "LATE p50", "p95", "p99")


def register(schedules: App) -> None:
    schedules.command(stats, sort_key=3)


def stats(
    name: str | None = None,
    /,
    *,
    from_: Annotated[
        str | None,
        Parameter(
            name="--from", help="Where it begins: an instant or a delay (default: 30 days before)", metavar="WHEN"
        ),
    ] = None,
    to: Annotated[str | None, Parameter(help="Where it ends (default: now)", metavar="WHEN")] = None,
    tenant: Tenant = "default",
    invocation: Hidden,
) -> None:
    """Show how often a schedule ran, how that ended, how long it took and how late it began, by day (UTC).

    Without a name, show the same of all events of the tenant, by type.

    duly schedules stats digest
    duly schedules stats digest --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --json
    duly schedules stats
    """
    asyncio.run(_stats(name, from_, to, tenant, invocation))


async def _stats(name: str | None, from_: str | None, to: str | None, tenant: str, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        start = None if from_ is None else await resolve_in(duly, from_, DEFAULT_ZONE, "from")
        end = None if to is None else await resolve_in(duly, to, DEFAULT_ZONE, "to")
        if name is None:
            found = await duly.stats(start, end, by="type", tenant=tenant)
        else:
            found = await duly.schedules.stats(name, start, end, tenant=tenant)
    if invocation.json:
        print_json(STATS_JSON.write(found))
        return
    by_type = [(readable(group.name), group) for group in found.groups]
    by_day = [(f"{day.day:%a %Y-%m-%d}", day) for day in found.days if day.runs or day.skipped]
    screen().print(_table("DAY" if name is not None else "TYPE", by_day if name is not None else by_type, found))
    note(f"from {utc(found.from_)} to {utc(found.to)} UTC")


def _table(title: str, rows: Iterable[tuple[str, RunStats]], found: Stats) -> Table:
    drawn = empty_table()
    drawn.add_column(title, no_wrap=True)
    for column in FIGURES:
        drawn.add_column(column, justify="right", no_wrap=True)
    for what, figures in (*rows, ("total", found.total)):
        drawn.add_row(what, *_figures(figures))
    return drawn


def _figures(figures: RunStats) -> list[Text]:
    rate = "" if figures.success_rate is None else f"{figures.success_rate:.1%}"
    return [
        Text(f"{figures.runs:,}"),
        Text(rate),
        Text(f"{figures.failed:,}", "red" if figures.failed else "dim"),
        Text(f"{figures.skipped:,}", "" if figures.skipped else "dim"),
        *(Text(one) for one in (*_seconds(figures.duration), *_seconds(figures.lateness))),
    ]


def _seconds(percentiles: Percentiles) -> list[str]:
    told = (percentiles.p50, percentiles.p95, percentiles.p99)
    return ["" if one is None else brief(timedelta(seconds=one)) for one in told]
