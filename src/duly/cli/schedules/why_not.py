"""``duly schedules why-not``: why a schedule did not run at an instant."""

import asyncio
from typing import Annotated

from cyclopts import App, Parameter

from duly.cli.instants import without_delay
from duly.cli.invocation import Hidden, Invocation
from duly.cli.output import print_json, readable, screen
from duly.cli.schedules.acts import Tenant
from duly.decide.series.why_not import WhyNot


def register(app: App) -> None:
    app.command(why_not, name="why-not", sort_key=4)


def why_not(
    name: str,
    /,
    *,
    at: Annotated[
        str,
        Parameter(
            help="When it should have run: an instant, a local time in the schedule's zone, or a time ago such as -1h",
            metavar="WHEN",
            allow_leading_hyphen=True,
        ),
    ],
    tenant: Tenant = "default",
    invocation: Hidden,
) -> None:
    """Explain why a schedule did not run at an instant, or that it did.

    duly schedules why-not nightly --at 2026-03-29T02:30
    """
    asyncio.run(_why_not(name, at, tenant, invocation))


async def _why_not(name: str, at: str, tenant: str, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        answer: WhyNot = await duly.schedules.why_not(name, await without_delay(duly, at, "at"), tenant=tenant)
    if invocation.json:
        print_json(answer)
    else:
        when = f"{answer.local.isoformat(sep=' ')} {answer.timezone}"
        screen().print(readable(f"{when}: {answer.kind}: {answer.message}"), soft_wrap=True)
