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

keys = App(name="keys", help="Create, list and revoke API keys.")

USE = 'curl -H "Authorization: Bearer {hint}…" http://127.0.0.1:8080/v1/schedules'


def register(commands: App) -> None:
    commands.command(keys)


@keys.command(sort_key=1)
def create(
    name: Annotated[
        str, Parameter(help="Name of the key, such as its owner or purpose; need not be unique", metavar="NAME")
    ],
    /,
    *,
    tenant: Annotated[str, Parameter(help="Tenant of the key (default: default)")] = "default",
    scope: Annotated[
        str, Parameter(help="Scope in that tenant: read, write or admin (default: read)", metavar="SCOPE")
    ] = "read",
    all_tenants: Annotated[
        bool, Parameter(help="Allow requests to act in any tenant, within the scope", negative="")
    ] = False,
    expires: Annotated[
        str | None,
        Parameter(
            help="Lifetime such as 90d, or an instant (default: valid until revoked)",
            metavar="WHEN",
            allow_leading_hyphen=True,
        ),
    ] = None,
    rate: Annotated[
        str | None,
        Parameter(
            help="Rate limit, such as 100/s (default: the server's limit)",
            metavar="RATE",
            allow_leading_hyphen=True,
        ),
    ] = None,
    invocation: Hidden,
) -> None:
    """Create an API key. It is shown only once.

    duly keys create crm --tenant acme --scope write --expires 90d
    """
    when = None if expires is None else parse_when(expires, "expires")
    wanted = {"tenant": tenant, "scope": scope, "expires": when, "rate": rate, "all_tenants": all_tenants}
    asyncio.run(_create(name, wanted, invocation))


async def _create(name: str, wanted: dict[str, Any], invocation: Invocation) -> None:
    async with invocation.duly() as duly:
        made = await duly.keys.create(name, **wanted, by=person())
        refused = duly.settings.api_role is None and not duly.one_writer and made.key.tenant != "default"
    if invocation.json:
        print_json(KEY_JSON.write(made.key) | {"state": made.key.state(made.key.created)} | {"key": made.secret})
        return
    console = screen()
    console.print(done_to(made.key, "created"), soft_wrap=True)
    console.print(made.secret, soft_wrap=True)
    note("copy it now: it is not stored and is not shown again")
    if refused:
        note("warning: servers refuse it with DULY_API_ROLE=off, which is for the tenant default alone")
    note(f"use it like this: {USE.format(hint=made.key.hint)}")


@keys.command(name="list", sort_key=2)
def list_(
    *,
    tenant: Annotated[str | None, Parameter(help="Only in this tenant")] = None,
    limit: Annotated[int, how_many(100)] = 100,
    after: Annotated[str | None, Parameter(help="Next page: the last id of the previous page", metavar="ID")] = None,
    columns: Columns = None,
    invocation: Hidden,
) -> None:
    """List API keys, newest first, with their scopes and last use. The keys themselves are never shown."""
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
        note(f"for the next page, add --after {found[-1].id}")


@keys.command(sort_key=3)
def revoke(
    *keys: Annotated[str, Parameter(help="Ids or names of the keys", metavar="ID|NAME")],
    tenant: Annotated[str | None, Parameter(help="Only in this tenant")] = None,
    invocation: Hidden,
) -> int:
    """Revoke API keys by id or name: requests with them are refused from now on."""

    async def act(duly: Duly, name: str) -> ActResult:
        found = await _find(duly, name, tenant)
        key = await duly.keys.revoke(found.id, tenant=tenant, by=person())
        return ActResult(KEY_JSON.write(key) | {"state": key.state(await duly.now())}, done_to(key, "revoked"))

    return each(keys, act, "keys", "give ids or names of the keys; `duly keys list` shows them", invocation)


async def _find(duly: Duly, name: str, tenant: str | None) -> ApiKey:
    """The key with this id, or the valid one with this name."""
    return await find(name, partial(duly.keys.get, tenant=tenant), partial(duly.keys.named, tenant=tenant))
