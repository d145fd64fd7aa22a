"""``duly events``: look at events, and cancel, move, replay or discard them."""

import asyncio
from typing import Annotated

from cyclopts import App, Parameter

from duly.cli.columns import Columns, check_columns, in_chosen_columns
from duly.cli.events import acts, dead_letters
from duly.cli.events.acts import Tenant
from duly.cli.events.filters import EVERY_EVENT, ListFilters
from duly.cli.events.views import one_event, table
from duly.cli.invocation import Hidden, Invocation
from duly.cli.output import note, print_json, readable, screen
from duly.cli.pages import check_after, how_many
from duly.records.event import EVENT_JSON
from duly.records.history import ENTRY_JSON

events = App(name="events", help="List, cancel, reschedule, replay or discard events.")


def register(commands: App) -> None:
    for verbs in (acts, dead_letters):
        verbs.register(events)
    commands.command(events)
    acts.register_shortcut(commands)


@events.command(name="list")
def list_(
    *,
    which: ListFilters = EVERY_EVENT,
    limit: Annotated[int, how_many(20)] = 20,
    after: Annotated[str | None, Parameter(help="Next page: the last id of the previous page", metavar="ID")] = None,
    columns: Columns = None,
    invocation: Hidden,
) -> None:
    """List events, newest first."""
    check_after(after, "an event's")
    asyncio.run(_list(which, limit, after, check_columns(EVENT_JSON, columns), invocation))


async def _list(which: ListFilters, limit: int, after: str | None, columns: list[str], invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        asked = await which.filter(duly)
        found = await duly.events.find(asked, tenant=which.tenant, limit=limit, after=after)
        more = len(found) == limit and await duly.events.find(asked, tenant=which.tenant, limit=1, after=found[-1].id)
        now = await duly.now()
    if invocation.json:
        print_json(
            {
                "events": [EVENT_JSON.write(event) for event in found],
                "next": found[-1].id if more else None,
            }
        )
        return
    if not found:
        note("no events found")
        return
    console = screen()
    usual = table(found, now, console.width)
    console.print(in_chosen_columns(EVENT_JSON, found, columns, console.width) if columns else usual)
    if more:
        note(f"for the next page, add --after {found[-1].id}")


@events.command
def show(id: str, /, *, tenant: Tenant = None, invocation: Hidden) -> None:
    """Show an event and its whole history."""
    asyncio.run(_show(id, tenant, invocation))


async def _show(id: str, tenant: str | None, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        event = await duly.events.get(id, tenant=tenant)
        history = await duly.events.history(id, tenant=tenant)
        reason = await duly.events.why(event.id)
        now = await duly.now()
    if invocation.json:
        print_json(EVENT_JSON.write(event) | {"history": [ENTRY_JSON.write(entry) for entry in history]})
    else:
        screen().print(one_event(event, history, reason, now))


@events.command
def why(id: str, /, *, tenant: Tenant = None, invocation: Hidden) -> None:
    """Explain why an event has not fired yet, or did not fire."""
    asyncio.run(_why(id, tenant, invocation))


async def _why(id: str, tenant: str | None, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        reason = await duly.events.why(id, tenant=tenant)
    if invocation.json:
        print_json(reason)
    else:
        screen().print(readable(f"{reason.status}, {reason.kind}: {reason.message}"), soft_wrap=True)
