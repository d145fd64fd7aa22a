"""``duly events cancel`` and ``reschedule``, and the loop for acts on several events."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

from cyclopts import App, Parameter

from duly.cli.batch import Reason
from duly.cli.events.views import acted
from duly.cli.instants import resolve
from duly.cli.invocation import Hidden, Invocation, person
from duly.cli.output import print_json, screen, tell_error
from duly.duly import Duly
from duly.errors import DulyError, Misuse
from duly.records.event import EVENT_JSON, Event

Act = Callable[[str], Awaitable[Event]]
Tenant = Annotated[str | None, Parameter(help="Only in this tenant")]


def register(app: App) -> None:
    app.command(cancel)
    app.command(reschedule)


def cancel(*ids: str, tenant: Tenant = None, reason: Reason = None, invocation: Hidden) -> int:
    """Cancel events that wait: they will not fire. A schedule goes on with its next."""
    by = person()
    return each(
        ids,
        "cancelled",
        lambda duly: lambda id: duly.events.cancel(id, tenant=tenant, by=by, reason=reason),
        invocation,
    )


def reschedule(
    id: str,
    /,
    *when: Annotated[str, Parameter(help="2026-12-01T09:00:00Z, +30s, in 5m, or now")],
    tenant: Tenant = None,
    invocation: Hidden,
) -> int:
    """Move an event that has not started."""

    def move(duly: Duly) -> Act:
        async def to_then(id: str) -> Event:
            due = await resolve(duly, " ".join(when))
            return await duly.events.reschedule(id, due, tenant=tenant, by=person())

        return to_then

    return each((id,), "rescheduled", move, invocation)


def each(ids: tuple[str, ...], word: str, act_of: Callable[[Duly], Act], invocation: Invocation) -> int:
    """Runs an act for each event; a failure of one does not stop the others. Returns the exit code."""
    if not ids:
        raise Misuse("give the ids of the events; `duly events list` shows them")
    return asyncio.run(_do_each(ids, word, act_of, invocation))


async def _do_each(ids: tuple[str, ...], word: str, act_of: Callable[[Duly], Act], invocation: Invocation) -> int:
    done: list[Event] = []
    async with invocation.duly_for_looking() as duly:
        act, now = act_of(duly), await duly.now()
        for id in ids:
            try:
                await act(id)
                done.append(await duly.events.get(id))
            except DulyError as error:
                if len(ids) == 1:
                    raise
                tell_error(error, json=invocation.json)
    if invocation.json:
        print_json({"events": [EVENT_JSON.write(event) for event in done]})
    else:
        for event in done:
            screen().print(acted(event, word, now), soft_wrap=True)
    return 0 if len(done) == len(ids) else 1
