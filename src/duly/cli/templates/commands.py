"""``duly templates``: lists, shows, stores and deletes templates of schedules."""

import asyncio
from typing import Annotated

from cyclopts import App, Parameter

from duly.cli.invocation import Hidden, Invocation
from duly.cli.names import DEFAULT_TENANT
from duly.cli.output import note, print_json, screen
from duly.cli.pages import how_many
from duly.cli.schedules.options import AS_USUAL, NO_BOUNDS, NO_RULE, DeliveryOptions, RuleOptions, TimetableOptions
from duly.cli.schedules.put import NOTHING, ContentOptions, Options, settings_of
from duly.cli.targets.options import HERE, TargetOptions
from duly.cli.templates.views import one_template, table
from duly.errors import Misuse
from duly.records.template import TEMPLATE_JSON
from duly.records.wire.schedule_reader import read_settings

templates = App(
    name="templates", help="List templates of schedules; store your own, for `duly schedules put --template`."
)

Name = Annotated[str, Parameter(help="Name of the template", metavar="NAME")]
Tenant = Annotated[str, Parameter(help="Tenant (default: default)")]

USUAL = 100
"""Templates of a page."""


def register(commands: App) -> None:
    commands.command(templates)


@templates.command(name="list", sort_key=1)
def list_(
    *,
    tenant: Tenant = DEFAULT_TENANT,
    limit: Annotated[int, how_many(USUAL)] = USUAL,
    after: Annotated[
        str | None, Parameter(help="Next page: the last name of the previous page", metavar="NAME")
    ] = None,
    invocation: Hidden,
) -> None:
    """List the templates: common rules that are built in, and the tenant's own."""
    asyncio.run(_list(tenant, limit, after, invocation))


async def _list(tenant: str, limit: int, after: str | None, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        found = await duly.templates.list(tenant=tenant, limit=limit, after=after)
        more = len(found) == limit and await duly.templates.list(tenant=tenant, limit=1, after=found[-1].name)
    following = found[-1].name if more else None
    if invocation.json:
        print_json({"templates": [TEMPLATE_JSON.write(one) for one in found], "next": following})
        return
    if not found:
        note("no more templates")
        return
    screen().print(table(found))
    if following is not None:
        note(f"for the next page, add --after {following}")


@templates.command(sort_key=2)
def show(name: Name, /, *, tenant: Tenant = DEFAULT_TENANT, invocation: Hidden) -> None:
    """Show the settings of a template."""
    asyncio.run(_show(name, tenant, invocation))


async def _show(name: str, tenant: str, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        template = await duly.templates.get(name, tenant=tenant)
    if invocation.json:
        print_json(TEMPLATE_JSON.write(template))
    else:
        screen().print(one_template(template))


@templates.command(sort_key=3)
def put(
    name: Name,
    /,
    *,
    what: ContentOptions = NOTHING,
    when: RuleOptions = NO_RULE,
    aimed: TargetOptions = HERE,
    bounds: TimetableOptions = NO_BOUNDS,
    delivery: DeliveryOptions = AS_USUAL,
    tenant: Tenant = DEFAULT_TENANT,
    invocation: Hidden,
) -> None:
    """Create a template, or replace the one with this name. Schedules that were made from it stay as they are.

    duly templates put morning-report --type report --cron '0 9 * * MON-FRI' --timezone Europe/Brussels
    """
    options = (what, when, aimed, bounds, delivery)
    if options == (NOTHING, NO_RULE, HERE, NO_BOUNDS, AS_USUAL):
        raise Misuse(
            "the template would be empty: give a part of a schedule, such as --type report --cron '0 9 * * MON'"
        )
    asyncio.run(_put(name, options, tenant, invocation))


async def _put(name: str, options: Options, tenant: str, invocation: Invocation) -> None:
    async with invocation.duly() as duly:
        written = await settings_of(duly, options, tenant, partial=True)
        settings = read_settings({field: value for field, value in written.items() if value is not None})
        stored = await duly.templates.put(name, tenant=tenant, **settings)
    if invocation.json:
        print_json(TEMPLATE_JSON.write(stored))
    else:
        screen().print(f"template {stored.name}: {'created' if stored.new else 'replaced'}", soft_wrap=True)


@templates.command(sort_key=4)
def delete(name: Name, /, *, tenant: Tenant = DEFAULT_TENANT, invocation: Hidden) -> None:
    """Delete a template of the tenant. Schedules that were made from it stay as they are."""
    asyncio.run(_delete(name, tenant, invocation))


async def _delete(name: str, tenant: str, invocation: Invocation) -> None:
    async with invocation.duly() as duly:
        deleted = await duly.templates.delete(name, tenant=tenant)
    if invocation.json:
        print_json(TEMPLATE_JSON.write(deleted))
    else:
        screen().print(f"template {deleted.name}: deleted", soft_wrap=True)
