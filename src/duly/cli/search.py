"""``duly search``: finds events, users, schedules and targets by an id, a key or a name."""

import asyncio
from typing import Annotated

from cyclopts import App, Parameter
from rich.text import Text

from duly.cli.events.views import in_columns
from duly.cli.invocation import Hidden, Invocation
from duly.cli.output import note, print_json, readable, screen
from duly.records.finding.search import MOST_FOUND, USUALLY_FOUND, SearchResult, SearchResults


def register(commands: App) -> None:
    commands.command(search)


def search(
    *text: Annotated[str, Parameter(help="An id, a webhook-id, a key, or the beginning of a name")],
    tenant: Annotated[str, Parameter(help="Tenant to search in (default: default)")] = "default",
    limit: Annotated[
        int, Parameter(help=f"Results at most (default: {USUALLY_FOUND}, at most {MOST_FOUND})", metavar="N")
    ] = USUALLY_FOUND,
    invocation: Hidden,
) -> None:
    """Find events, users, schedules and targets: by id, by key, or by the beginning of a name.

    duly search ada love
    """
    asyncio.run(_search(" ".join(text), tenant, limit, invocation))


async def _search(text: str, tenant: str, limit: int, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        found = await duly.search(text, tenant=tenant, limit=limit)
    if invocation.json:
        print_json(SearchResults(found))
    elif not found:
        note(f"nothing found in tenant {tenant!r:.60}")
    else:
        console = screen()
        console.print(in_columns(_columns(found), ("KEY OR NAME", "WHAT"), console.width))


def _columns(found: list[SearchResult]) -> dict[str, list[str | Text]]:
    return {
        "KIND": [one.kind for one in found],
        "ID": [one.id for one in found],
        "KEY OR NAME": [readable(one.name or "") for one in found],
        "WHAT": [readable(one.title) for one in found],
        "STATUS": [one.status or "" for one in found],
    }
