"""``duly forecast``: how many events are known to become due, step by step, with a bar for each."""

import asyncio
from typing import Annotated

from cyclopts import App, Parameter

from duly.cli.figures.views import forecast_table
from duly.cli.instants import resolve_in
from duly.cli.invocation import Hidden, Invocation
from duly.cli.output import counted, note, print_json, screen
from duly.errors import Invalid
from duly.records.figures.forecast import FORECAST_JSON
from duly.rules.notation import zone_problems
from duly.rules.recurrence import DEFAULT_ZONE


def register(commands: App) -> None:
    commands.command(forecast)


def forecast(
    *,
    from_: Annotated[
        str | None,
        Parameter(
            name="--from", help="Where it begins: an instant, a local time or a delay (default: now)", metavar="WHEN"
        ),
    ] = None,
    to: Annotated[str | None, Parameter(help="Where it ends (default: after 24 steps)", metavar="WHEN")] = None,
    step: Annotated[
        str | None, Parameter(help="Length of a step, such as 15m or 1d (default: as the range needs)", metavar="SPAN")
    ] = None,
    timezone: Annotated[
        str, Parameter(help="Time zone of local times, also of those printed (default: UTC)", metavar="ZONE")
    ] = DEFAULT_ZONE,
    tenant: Annotated[str | None, Parameter(help="Only the events of this tenant")] = None,
    invocation: Hidden,
) -> None:
    """Forecast how many events become due, step by step: those that wait, and those that follow by rules.

    Events of paused and shadow schedules are not counted. What is overdue is counted where it was due.

    duly forecast
    duly forecast --from 2026-12-24 --to 2026-12-27 --timezone Europe/Brussels --step 1h
    duly forecast --to 365d --step 1d --json
    """
    asyncio.run(_forecast(from_, to, step, timezone, tenant, invocation))


async def _forecast(
    from_: str | None, to: str | None, step: str | None, timezone: str, tenant: str | None, invocation: Invocation
) -> None:
    if problems := zone_problems(timezone):
        raise Invalid(problems)
    async with invocation.duly_for_looking() as duly:
        start = None if from_ is None else await resolve_in(duly, from_, timezone, "from")
        end = None if to is None else await resolve_in(duly, to, timezone, "to")
        found = await duly.forecast(start, end, step, tenant=tenant)
    if invocation.json:
        print_json(FORECAST_JSON.write(found))
        return
    console = screen()
    console.print(forecast_table(found, timezone, console.width, blocks=console.encoding.startswith("utf")))
    types = ", ".join(f"{type} {many:,}" for type, many in found.by_type.items())
    note(f"{counted(found.count, 'event')} in {counted(len(found.steps), 'step')}" + (f": {types}" if types else ""))
    for warning in found.warnings:
        note(f"warning: {warning}")
