"""``duly targets``: shows stored targets, limits of destinations, and parked destinations."""

import asyncio
import shlex
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import App, Parameter

from duly.cli.columns import Columns, check_columns, in_chosen_columns
from duly.cli.invocation import Hidden, Invocation
from duly.cli.output import note, print_json, screen
from duly.cli.pages import how_many, read_cursor, written_cursor
from duly.cli.targets import acts, put
from duly.cli.targets.pages import BEGINNING, all_parked
from duly.cli.targets.views import Row, one_destination, one_target, row_of, table
from duly.duly import Duly
from duly.records.history import ENTRY_JSON
from duly.records.target import KNOWN_JSON, TARGET_JSON, Known

targets = App(
    name="targets", help="Create, limit, enable and disable targets: named destinations of webhooks and HTTP requests."
)

Listed = Annotated[str | None, Parameter(help="Only in this tenant")]
Page = Annotated[str | None, Parameter(help="Next page: the last name of the previous page", metavar="NAME")]


def register(commands: App) -> None:
    for verbs in (put, acts):
        verbs.register(targets)
    commands.command(targets)


@targets.command(name="list", sort_key=1)
def list_(
    *,
    tenant: Listed = None,
    limit: Annotated[int, how_many(100)] = 100,
    after: Page = None,
    columns: Columns = None,
    invocation: Hidden,
) -> None:
    """List stored targets and whether they are parked."""
    asyncio.run(_list(tenant, limit, after, check_columns(TARGET_JSON, columns), invocation))


async def _list(tenant: str | None, limit: int, after: str | None, columns: list[str], invocation: Invocation) -> None:
    last = BEGINNING if after is None else read_cursor(after, tenant)
    async with invocation.duly_for_looking() as duly:
        found = await duly.targets.list(tenant=tenant, limit=limit, after=last)
        ends = (found[-1].tenant, found[-1].name) if found else BEGINNING
        more = len(found) == limit and await duly.targets.list(tenant=tenant, limit=1, after=ends)
        if not invocation.json and not (columns and found):
            await _draw(duly, [row_of(target) for target in found], "targets", after)
    if columns and found and not invocation.json:
        console = screen()
        console.print(in_chosen_columns(TARGET_JSON, found, columns, console.width))
    following = written_cursor(*ends, tenant) if more else None
    if invocation.json:
        print_json({"targets": [TARGET_JSON.write(target) for target in found], "next": following})
    elif following is not None:
        note(f"for the next page, add --after {shlex.quote(following)}")


async def _draw(duly: Duly, rows: Sequence[Row], what: str, after: str | None = None) -> None:
    if not rows:
        note(f"no {what}" if after is None else f"no more {what}")
        return
    waiting, now = await duly.targets.waiting_for([row.known for row in rows]), await duly.now()
    console = screen()
    console.print(table(rows, waiting, now, console.width))


@targets.command(sort_key=2)
def show(
    target: Annotated[str, Parameter(help="Name of a target, or URL or origin of a destination", metavar="NAME|URL")],
    /,
    *,
    tenant: Annotated[str, Parameter(help="Tenant of the target (default: default)")] = "default",
    invocation: Hidden,
) -> None:
    """Show a target: its URL, its limits, why it is parked, how many events wait for it. Never its secrets."""
    asyncio.run((_show_destination if "://" in target else _show)(target, tenant, invocation))


async def _show(name: str, tenant: str, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        target = await duly.targets.get(name, tenant=tenant)
        waiting = await duly.targets.waiting(name, tenant=tenant)
        history = await duly.targets.history(name, tenant=tenant)
        now = await duly.now()
    if invocation.json:
        around = {"waiting": waiting, "history": [ENTRY_JSON.write(entry) for entry in history]}
        print_json(TARGET_JSON.write(target) | around)
    else:
        screen().print(one_target(target, waiting, history, now))


async def _show_destination(url: str, tenant: str, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        known, waiting = await duly.targets.known(url, tenant=tenant), await duly.targets.waiting(url, tenant=tenant)
        now = await duly.now()
    if invocation.json:
        print_json(KNOWN_JSON.write(known) | {"waiting": waiting})
    else:
        screen().print(one_destination(known, waiting, now))


@targets.command(sort_key=3)
def destinations(
    *, tenant: Listed = None, limit: Annotated[int, how_many(100)] = 100, after: Page = None, invocation: Hidden
) -> None:
    """List all destinations that have limits or are parked, also those without a stored target."""
    asyncio.run(_destinations(tenant, limit, after, invocation))


async def _destinations(tenant: str | None, limit: int, after: str | None, invocation: Invocation) -> None:
    last = BEGINNING if after is None else read_cursor(after, tenant)
    async with invocation.duly_for_looking() as duly:
        found = await duly.targets.destinations(tenant=tenant, limit=limit, after=last)
        ends = (found[-1].tenant, found[-1].destination) if found else BEGINNING
        more = len(found) == limit and await duly.targets.destinations(tenant=tenant, limit=1, after=ends)
        following = written_cursor(*ends, tenant) if more else None
        if invocation.json:
            print_json({"destinations": await _to_json(duly, found), "next": following})
            return
        await _draw(duly, [Row(known) for known in found], "limits, and no destination is parked", after)
    if following is not None:
        note(f"for the next page, add --after {shlex.quote(following)}")


@targets.command(sort_key=4)
def parked(*, tenant: Listed = None, invocation: Hidden) -> None:
    """List parked destinations (open circuit breakers), the reasons, and how many events wait for them."""
    asyncio.run(_parked(tenant, invocation))


async def _parked(tenant: str | None, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        found = await all_parked(duly, tenant)
        if invocation.json:
            print_json({"destinations": await _to_json(duly, found)})
        else:
            await _draw(duly, [Row(known) for known in found], "destination is parked")


async def _to_json(duly: Duly, destinations: Sequence[Known]) -> list[dict[str, Any]]:
    waiting = await duly.targets.waiting_for(destinations)
    return [
        KNOWN_JSON.write(known) | {"waiting": waiting.get((known.tenant, known.destination), 0)}
        for known in destinations
    ]
