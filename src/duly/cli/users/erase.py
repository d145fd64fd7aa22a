"""``duly users erase``: delete a user, and scrub what is stored of the person."""

import asyncio
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from duly.cli.exit_codes import DONE, FAILED
from duly.cli.invocation import Hidden, Invocation, confirmed, person, require_terminal
from duly.cli.output import counted, note, print_json, screen
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
    yes: Annotated[bool, Parameter(help="Do not ask for confirmation")] = False,
    invocation: Hidden,
) -> int:
    """Delete a user and scrub names and content from all past events and histories. It cannot be undone.

    Asks before, on a terminal; elsewhere it needs --yes. Also of a user who was deleted before, by the id. Waiting
    events and dead letters are cancelled.
    """
    if (done := asyncio.run(_erase(user, tenant, invocation, yes=yes))) is None:
        note("nobody was erased")
        return FAILED
    if invocation.json:
        print_json(msgspec.to_builtins(done))
    else:
        screen().print(_told(done), soft_wrap=True)
    return DONE


async def _erase(name: str, tenant: str | None, invocation: Invocation, *, yes: bool) -> Erased | None:
    """Erases the user; None if the person at the terminal does not confirm it."""
    async with invocation.duly_for_looking() as duly:
        id = await user_id(duly, name, tenant)
        if not yes:
            require_terminal(f"this would erase user {id} for ever: add --yes to do it", json=invocation.json)
        question = f"erase user {id}, and names and content of all events of this user? It cannot be undone."
        if not yes and not confirmed(question):
            return None
        return await duly.users.erase(id, tenant=tenant, by=person())


def _told(done: Erased) -> str:
    was = "deleted and erased" if done.deleted else "erased; it was deleted before"
    parts = [f"{counted(done.events, 'event')} scrubbed"]
    if done.cancelled or done.discarded:
        parts[0] += f" ({done.cancelled:,} cancelled, {counted(done.discarded, 'dead letter')} discarded)"
    parts.append(f"{done.history:,} history {'entry' if done.history == 1 else 'entries'}")
    if done.answers:
        parts.append(counted(done.answers, "stored answer"))
    return f"user {done.id} {was}: {', '.join(parts)}"
