"""``duly event-types``: lists the event types of users' calendars, and shows and changes what tenants set for them."""

import asyncio
from typing import Annotated, Any

from cyclopts import App, Parameter

from duly.cli.event_types.views import one_type, table
from duly.cli.invocation import Hidden, Invocation, require_file
from duly.cli.names import DEFAULT_TENANT
from duly.cli.output import note, print_json, screen
from duly.cli.targets.options import HERE, TargetOptions
from duly.decide.calendars.type_settings import DEFAULT
from duly.errors import Misuse
from duly.records.calendar.type_settings import TYPE_SETTINGS_JSON

event_types = App(name="event-types", help="List event types of users' calendars; set their texts and default targets.")

Name = Annotated[str, Parameter(help="Name of the event type, such as birthday", metavar="TYPE")]
Tenant = Annotated[str, Parameter(help="Tenant (default: default)")]


def register(commands: App) -> None:
    commands.command(event_types)


@event_types.command(name="list", sort_key=1)
def list_(*, tenant: Tenant = DEFAULT_TENANT, invocation: Hidden) -> None:
    """List the event types, with what the tenant has set for them. --app names the app with your own types."""
    asyncio.run(_list(tenant, invocation))


async def _list(tenant: str, invocation: Invocation) -> None:
    duly = invocation.duly_with_event_types()
    require_file(duly)
    async with duly:
        found = [await duly.event_types.settings(name, tenant=tenant) for name in duly.event_types.names()]
    if invocation.json:
        print_json({"event_types": [TYPE_SETTINGS_JSON.write(settings) for settings in found]})
    else:
        screen().print(table(found))


@event_types.command(sort_key=2)
def show(type: Name, /, *, tenant: Tenant = DEFAULT_TENANT, invocation: Hidden) -> None:
    """Show the texts and the default target of an event type."""
    asyncio.run(_show(type, tenant, invocation))


async def _show(type: str, tenant: str, invocation: Invocation) -> None:
    duly = invocation.duly_with_event_types()
    require_file(duly)
    async with duly:
        settings = await duly.event_types.settings(type, tenant=tenant)
    if invocation.json:
        print_json(TYPE_SETTINGS_JSON.write(settings))
    else:
        screen().print(one_type(settings))


@event_types.command(sort_key=3)
def update(
    type: Name,
    /,
    *,
    text: Annotated[
        str | None, Parameter(help="Text, with {first_name}, {last_name} and {full_name}", metavar="TEXT")
    ] = None,
    language: Annotated[
        str | None, Parameter(help="Language of --text or --clear-text, such as de or de-AT (default: all others)")
    ] = None,
    clear_text: Annotated[bool, Parameter(help="Remove the text")] = False,
    to: TargetOptions = HERE,
    clear_target: Annotated[bool, Parameter(help="Remove the default target")] = False,
    tenant: Tenant = DEFAULT_TENANT,
    invocation: Hidden,
) -> None:
    """Set the text of an event type for a language, or where events of users without a target go.

    Waiting events follow; those of many users do so in the background, by workers.

    duly event-types update birthday --language de --text "Alles Gute, {first_name}!"
    """
    if text is not None and clear_text:
        raise Misuse("--text and --clear-text cannot be used together: give one of them")
    if language is not None and text is None and not clear_text:
        raise Misuse("--language needs --text or --clear-text")
    texts = {language or DEFAULT: text} if text is not None or clear_text else None
    asyncio.run(_update(type, texts, to, tenant, invocation, clear_target=clear_target))


async def _update(
    type: str,
    texts: dict[str, str | None] | None,
    to: TargetOptions,
    tenant: str,
    invocation: Invocation,
    *,
    clear_target: bool,
) -> None:
    changes: dict[str, Any] = {} if texts is None else {"texts": texts}
    async with invocation.duly_with_event_types() as duly:
        target = await to.spec(duly, tenant)
        if target is not None and clear_target:
            raise Misuse("--clear-target cannot be used with another target: give one of them")
        if target is not None or clear_target:
            changes["target"] = target
        if not changes:
            raise Misuse("nothing to change: give --text TEXT, or a target such as --webhook URL")
        settings = await duly.event_types.update(type, tenant=tenant, **changes)
    if invocation.json:
        print_json(TYPE_SETTINGS_JSON.write(settings))
        return
    screen().print(one_type(settings))
    for warning in settings.warnings:
        note(f"warning: {warning}")
    if settings.following:
        note("waiting events of further users follow in the background, as soon as a worker runs")
