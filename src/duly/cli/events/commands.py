"""``duly events``: look at events, and cancel, move, replay or discard them."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Literal

import msgspec
from cyclopts import App, Parameter

from duly.cli.columns import Columns, check_columns, in_chosen_columns
from duly.cli.events import acts, dead_letters
from duly.cli.events.acts import Tenant
from duly.cli.events.days import Coming, coming
from duly.cli.events.filters import EVERY_EVENT, ListFilters
from duly.cli.events.views import one_event, table
from duly.cli.invocation import Hidden, Invocation
from duly.cli.lists.counting import Counting, tell_count
from duly.cli.lists.exports import Format, Wanted, export
from duly.cli.output import note, print_json, readable, screen
from duly.cli.pages import check_after, how_many
from duly.duly import Duly
from duly.records.event import EVENT_JSON, Event, Status
from duly.records.filters import EventFilter
from duly.records.finding.sorting import DUE, NEWEST, DuePlace
from duly.records.history import ENTRY_JSON

USUAL = 20
"""Events of a page."""

Sort = Annotated[
    Literal["-created", "due", "-due"] | None,
    Parameter(
        help="The newest first, or waiting events by due time: the next one first (due), or the last one (-due)",
        allow_leading_hyphen=True,
    ),
]
After = Annotated[
    str | None,
    Parameter(help="Next page: the last id of the previous page; by due time, what it has printed", metavar="ID"),
]

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
    sort: Sort = None,
    limit: Annotated[int | None, how_many(USUAL)] = None,
    after: After = None,
    columns: Columns = None,
    format: Format = None,
    count: Counting = False,
    invocation: Hidden,
) -> None:
    """List events, newest first, or waiting ones in the order of their due times."""
    wanted = Wanted(limit, after, check_columns(EVENT_JSON, columns), format, count)
    wanted.check(json=invocation.json)
    asyncio.run(_list(which, sort, wanted, invocation))


async def _list(which: ListFilters, sort: str | None, wanted: Wanted, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        asked, now = await which.filter(duly), await duly.now()
        ahead = which.due is not None and asked.due_from is not None and asked.due_from > now
        if ahead and not asked.status:
            asked = msgspec.structs.replace(asked, status=(Status.PENDING,))
        sort = sort or (DUE if ahead and asked.status == (Status.PENDING,) else NEWEST)
        if sort == NEWEST:
            check_after(wanted.after, "an event's")
        later = Coming() if which.due is None else await coming(duly, asked, which.tenant, now)
        more = {} if which.due is None else later.to_json()
        if wanted.counts:
            tell_count(await duly.events.count(asked, tenant=which.tenant), json=invocation.json, more=more)
            if not invocation.json:
                later.tell()
            return
        if wanted.format:
            await export(EVENT_JSON, _pages(duly, asked, which.tenant, sort, wanted), wanted)
            later.tell()
            return
        limit, find = wanted.at_once(USUAL), partial(duly.events.find, asked, tenant=which.tenant, sort=sort)
        found = await find(limit=limit, after=wanted.after)
        last = _place(found[-1], sort) if found else None
        following = last if len(found) == limit and await find(limit=1, after=last) else None
    if invocation.json:
        print_json({"events": [EVENT_JSON.write(event) for event in found], "next": following, **more})
        return
    if not found:
        note("no events found")
        later.tell()
        return
    console = screen()
    chosen = wanted.columns
    usual = table(found, now, console.width)
    console.print(in_chosen_columns(EVENT_JSON, found, chosen, console.width) if chosen else usual)
    if following:
        note(f"for the next page, add --after {following}")
    later.tell()


async def _pages(
    duly: Duly, asked: EventFilter, tenant: str | None, sort: str, wanted: Wanted
) -> AsyncIterator[list[Event]]:
    """All pages, from the one that was asked for."""
    after = wanted.after
    while True:
        page = await duly.events.page(asked, tenant=tenant, limit=wanted.at_once(USUAL), after=after, sort=sort)
        yield page.events
        if page.next is None:
            return
        after = page.next


def _place(event: Event, sort: str) -> str:
    return event.id if sort == NEWEST else str(DuePlace(event.due, event.id))


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
