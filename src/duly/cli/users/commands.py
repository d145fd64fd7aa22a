"""``duly users``: shows users and their planned events, and updates events to the current event types."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from cyclopts import App, Parameter

from duly.cli.columns import Columns, check_columns, in_chosen_columns
from duly.cli.invocation import Hidden, Invocation, person, require_file
from duly.cli.lists.counting import Counting, tell_count
from duly.cli.lists.exports import Format, Wanted, export
from duly.cli.output import counted, note, print_json, screen
from duly.cli.pages import check_after, how_many
from duly.cli.users import acts, erase, import_file
from duly.cli.users.acts import Tenant
from duly.cli.users.filters import EVERY_USER, UserOptions
from duly.cli.users.names import find_user
from duly.cli.users.views import UserContext, one_user, table
from duly.duly import Duly
from duly.records.event import EVENT_JSON, Event
from duly.records.finding.users import UserFilters
from duly.records.history import ENTRY_JSON
from duly.records.user import USER_JSON, User

users = App(name="users", help="Add, import, change, list, delete and erase users.")

USUAL = 20
"""Users of a page."""

SHOWN_EVENTS = 5
"""Latest events on the page of a user."""


def register(commands: App) -> None:
    for verbs in (acts, erase, import_file):
        verbs.register(users)
    commands.command(users)


@users.command(name="list", sort_key=1)
def list_(
    *,
    which: UserOptions = EVERY_USER,
    limit: Annotated[int | None, how_many(USUAL)] = None,
    after: Annotated[str | None, Parameter(help="Next page: the last id of the previous page", metavar="ID")] = None,
    columns: Columns = None,
    format: Format = None,
    count: Counting = False,
    invocation: Hidden,
) -> None:
    """List users, newest first, each with the next event in the user's local time."""
    wanted = Wanted(limit, after, check_columns(USER_JSON, columns), format, count)
    wanted.check(json=invocation.json)
    check_after(after, "a user's")
    asyncio.run(_list(which.filters(), which.tenant, wanted, invocation))


async def _list(which: UserFilters, tenant: str | None, wanted: Wanted, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        if wanted.counts:
            tell_count(await duly.users.count(tenant=tenant, **which), json=invocation.json)
            return
        if wanted.format:
            await export(USER_JSON, _pages(duly, which, tenant, wanted), wanted)
            return
        limit = wanted.at_once(USUAL)
        found = await duly.users.list(tenant=tenant, limit=limit, after=wanted.after, **which)
        more = len(found) == limit and await duly.users.list(tenant=tenant, limit=1, after=found[-1].id, **which)
        heads = await duly.users.next_events([user.id for user in found])
        now = await duly.now()
    if invocation.json:
        listed = [USER_JSON.write(user) | {"next_event": _in_short(heads.get(user.id))} for user in found]
        print_json({"users": listed, "next": found[-1].id if more else None})
        return
    if not found:
        note("no users" if wanted.after is None else "no more users")
        return
    console = screen()
    usual, chosen = table(found, heads, now, console.width), wanted.columns
    console.print(in_chosen_columns(USER_JSON, found, chosen, console.width) if chosen else usual)
    if more:
        note(f"for the next page, add --after {found[-1].id}")


async def _pages(duly: Duly, which: UserFilters, tenant: str | None, wanted: Wanted) -> AsyncIterator[list[User]]:
    """All pages, from the one that was asked for."""
    page, after = None, wanted.after
    while page is None or page.more:
        page = await duly.users.page(tenant=tenant, limit=wanted.at_once(USUAL), after=after, **which)
        yield page.items
        after = page.items[-1].id if page.items else None


def _in_short(head: Event | None) -> dict[str, Any] | None:
    if head is None:
        return None
    told = EVENT_JSON.write(head)
    return {name: told[name] for name in ("id", "type", "due_at", "local_at")}


@users.command(sort_key=3)
def show(
    user: Annotated[str, Parameter(help="Id or key of the user", metavar="ID")],
    /,
    *,
    tenant: Tenant = None,
    invocation: Hidden,
) -> None:
    """Show a user: the stored data, the next events, the latest events and the history."""
    asyncio.run(_show(user, tenant, invocation))


async def _show(name: str, tenant: str | None, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        user = await find_user(duly, name, tenant)
        ahead = await duly.users.ahead(user.id)
        events = await duly.users.events(user.id, limit=SHOWN_EVENTS)
        history = await duly.users.history(user.id)
        now = await duly.now()
    if invocation.json:
        around = {
            "ahead": [EVENT_JSON.write(event) for event in ahead],
            "events": [EVENT_JSON.write(event) for event in events],
            "history": [ENTRY_JSON.write(entry) for entry in history],
        }
        print_json(USER_JSON.write(user) | around)
        return
    console = screen()
    console.print(one_user(user, UserContext(ahead, events, history), now, console.width))


@users.command(sort_key=20)
def refresh(
    *,
    tenant: Annotated[str | None, Parameter(help="Only users in this tenant")] = None,
    invocation: Hidden,
) -> int:
    """Update all users' events to the present event types and delivery time.

    Run it after the code of an event type, or DULY_DELIVERY_TIME, has changed. --app names the app that registers
    the types; events of types that are not registered there do not change.
    """
    return asyncio.run(_refresh(tenant, invocation))


async def _refresh(tenant: str | None, invocation: Invocation) -> int:
    duly = invocation.duly_with_event_types()
    require_file(duly)
    async with duly:
        done = await duly.users.refresh(tenant=tenant, by=person())
    if invocation.json:
        refused = {id: [problem._asdict() for problem in error.problems] for id, error in done.refused.items()}
        print_json({"users": done.users, "events": done.events, "refused": refused})
        return 1 if done.refused else 0
    screen().print(f"{counted(done.users, 'user')} checked, {counted(done.events, 'event')} changed")
    for id, error in done.refused.items():
        note(f"user {id}: {error}")
    if done.refused:
        note(
            f"{counted(len(done.refused), 'user')} have data that an event type cannot use; their events "
            "were not changed"
        )
    if invocation.named_app() is None:
        note(f"without --app, only Duly's own event types were applied: {', '.join(duly.event_types.names())}")
    return 1 if done.refused else 0
