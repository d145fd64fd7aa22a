"""``duly keys``: API keys, with which callers use the HTTP API."""

import asyncio
from functools import partial
from typing import Annotated, Any

from cyclopts import App, Parameter

from duly.cli.batch import ActResult, each
from duly.cli.columns import Columns, check_columns, in_chosen_columns
from duly.cli.instants import parse_when
from duly.cli.invocation import Hidden, Invocation, person
from duly.cli.keys.views import done_to, table
from duly.cli.names import find
from duly.cli.output import note, print_json, screen
from duly.cli.pages import check_after, how_many
from duly.duly import Duly
from duly.records.api_key import KEY_JSON, ApiKey

keys = App(name="keys", help="Make, list and revoke the keys with which the HTTP API is called.")

USE = 'curl -H "Authorization: Bearer {hint}…" http://127.0.0.1:8080/v1/schedules'


def register(commands: App) -> None:
    commands.command(keys)


@keys.command(sort_key=1)
def create(
    name: Annotated[str, Parameter(help="Whose it is or what it is for; need not be unique", metavar="NAME")],
    /,
    *,
    tenant: Annotated[str, Parameter(help="Whose requests they are; else default")] = "default",
    scope: Annotated[
        str, Parameter(help="What they may do in that tenant: read, write or admin; else read", metavar="SCOPE")
    ] = "read",
    all_tenants: Annotated[
        bool, Parameter(help="Requests may name another tenant, and do there what the scope allows", negative="")
    ] = False,
    expires: Annotated[
        str | None,
        Parameter(
            help="How long it is good for, such as 90d, or until when; else until it is revoked",
            metavar="WHEN",
            allow_leading_hyphen=True,
        ),
    ] = None,
    rate: Annotated[
        str | None,
        Parameter(
            help="How many requests, such as 100/s; else as many as the server usually allows",
            metavar="RATE",
            allow_leading_hyphen=True,
        ),
    ] = None,
    invocation: Hidden,
) -> None:
    """Make a key, which is shown this once.

    duly keys create crm --tenant acme --scope write --expires 90d
    """
    when = None if expires is None else parse_when(expires, "expires")
    wanted = {"tenant": tenant, "scope": scope, "expires": when, "rate": rate, "all_tenants": all_tenants}
    asyncio.run(_create(name, wanted, invocation))


async def _create(name: str, wanted: dict[str, Any], invocation: Invocation) -> None:
    async with invocation.duly() as duly:
        made = await duly.keys.create(name, **wanted, by=person())
    if invocation.json:
        print_json(KEY_JSON.write(made.key) | {"state": made.key.state(made.key.created)} | {"key": made.secret})
        return
    console = screen()
    console.print(done_to(made.key, "created"), soft_wrap=True)
    console.print(made.secret, soft_wrap=True)
    note("keep it now: it is stored nowhere, and not shown again")
    note(f"use it as in: {USE.format(hint=made.key.hint)}")


@keys.command(name="list", sort_key=2)
def list_(
    *,
    tenant: Annotated[str | None, Parameter(help="Only this tenant's")] = None,
    limit: Annotated[int, how_many(100)] = 100,
    after: Annotated[str | None, Parameter(help="The next page: the last id of the page before", metavar="ID")] = None,
    columns: Columns = None,
    invocation: Hidden,
) -> None:
    """List keys, the newest first, with what they allow and when they were used. Never the keys themselves."""
    check_after(after, "a key's")
    asyncio.run(_list(tenant, limit, after, check_columns(KEY_JSON, columns), invocation))


async def _list(tenant: str | None, limit: int, after: str | None, columns: list[str], invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        found = await duly.keys.list(tenant=tenant, limit=limit, after=after)
        more = len(found) == limit and await duly.keys.list(tenant=tenant, limit=1, after=found[-1].id)
        now = await duly.now()
    if invocation.json:
        print_json(
            {
                "keys": [KEY_JSON.write(key) | {"state": key.state(now)} for key in found],
                "next": found[-1].id if more else None,
            }
        )
        return
    if not found:
        note("no keys" if after is None else "no more keys")
        return
    console = screen()
    usual = table(found, now, console.width)
    console.print(in_chosen_columns(KEY_JSON, found, columns, console.width) if columns else usual)
    if more:
        note(f"there are more: add --after {found[-1].id}")


@keys.command(sort_key=3)
def revoke(
    *keys: Annotated[str, Parameter(help="Their ids or names", metavar="ID|NAME")],
    tenant: Annotated[str | None, Parameter(help="Only if they are this tenant's")] = None,
    invocation: Hidden,
) -> int:
    """Revoke keys, by id or by name: requests with them are refused from now on."""

    async def act(duly: Duly, name: str) -> ActResult:
        found = await _find(duly, name, tenant)
        key = await duly.keys.revoke(found.id, tenant=tenant, by=person())
        return ActResult(KEY_JSON.write(key) | {"state": key.state(await duly.now())}, done_to(key, "revoked"))

    return each(keys, act, "keys", "name the keys, by id or by name; `duly keys list` shows them", invocation)


async def _find(duly: Duly, name: str, tenant: str | None) -> ApiKey:
    """The key with this id, or the valid one with this name."""
    return await find(name, partial(duly.keys.get, tenant=tenant), partial(duly.keys.named, tenant=tenant))
