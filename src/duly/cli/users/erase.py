"""``duly users erase``: delete a user, and scrub what is stored of the person."""

import asyncio

import msgspec
from cyclopts import App

from duly.cli.invocation import Hidden, Invocation, person
from duly.cli.output import counted, print_json, screen
from duly.cli.users.acts import Name, Tenant
from duly.cli.users.names import user_id
from duly.records.results import Erased


def register(app: App) -> None:
    app.command(erase, sort_key=6)


def erase(
    user: Name,
    /,
    *,
    tenant: Tenant = None,
    invocation: Hidden,
) -> None:
    """Delete a user and scrub names and content from all past events and histories, without asking for confirmation.

    Also of a user who was deleted before, by the id. Waiting events and dead letters are cancelled.
    """
    asyncio.run(_erase(user, tenant, invocation))


async def _erase(name: str, tenant: str | None, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        done = await duly.users.erase(await user_id(duly, name, tenant), tenant=tenant, by=person())
    if invocation.json:
        print_json(msgspec.to_builtins(done))
    else:
        screen().print(_told(done), soft_wrap=True)


def _told(done: Erased) -> str:
    was = "deleted and erased" if done.deleted else "erased; it was deleted before"
    parts = [f"{counted(done.events, 'event')} scrubbed"]
    if done.cancelled or done.discarded:
        parts[0] += f" ({done.cancelled:,} cancelled, {counted(done.discarded, 'dead letter')} discarded)"
    parts.append(f"{done.history:,} history {'entry' if done.history == 1 else 'entries'}")
    if done.answers:
        parts.append(counted(done.answers, "stored answer"))
    return f"user {done.id} {was}: {', '.join(parts)}"
