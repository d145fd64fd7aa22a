"""``duly cancel``, ``duly events cancel`` and ``reschedule``, and the loop for acts on several events."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated

from cyclopts import App, Parameter

from duly.cli.batch import Reason
from duly.cli.events.filters import ANY_OPEN_EVENT, OpenEventFilters
from duly.cli.events.views import acted
from duly.cli.exit_codes import DONE, FAILED
from duly.cli.instants import resolve
from duly.cli.invocation import Hidden, Invocation, person
from duly.cli.lists.acts import Progress, Words, act_on_all
from duly.cli.names import DEFAULT_TENANT, is_id
from duly.cli.output import print_json, screen, tell_error
from duly.duly import Duly
from duly.errors import Conflict, DulyError, Misuse, NotFound
from duly.records.event import EVENT_JSON, Event
from duly.records.finding.acts import ActedOn
from duly.records.results import CancelResult

Act = Callable[[str], Awaitable[Event]]
KeyOrId = Annotated[str, Parameter(name="KEY-OR-ID")]
GIVE_IDS = "give the ids or keys of the events; `duly events list` shows them"
UNKNOWN = "it does not exist, or was cancelled before; `duly events list` shows the events"
WORDS = {CancelResult.CANCELLED: "cancelled", CancelResult.RUNNING: "asked to stop"}
Tenant = Annotated[str | None, Parameter(help="Only in this tenant")]


def register(app: App) -> None:
    app.command(cancel_events, name="cancel")
    app.command(reschedule)


def register_shortcut(commands: App) -> None:
    """``duly cancel``, which is ``duly events cancel`` without filters."""
    commands.command(cancel)


def cancel(*ids: KeyOrId, tenant: Tenant = None, reason: Reason = None, invocation: Hidden) -> int:
    """Cancel events: they will not fire. What runs is asked to stop. A schedule goes on with its next."""
    if not ids:
        raise Misuse(GIVE_IDS)
    return asyncio.run(_cancel(ids, tenant, reason, invocation))


def cancel_events(
    *ids: KeyOrId,
    which: OpenEventFilters = ANY_OPEN_EVENT,
    all: Annotated[bool, Parameter(help="Instead of ids: all open events, or those that match the filters")] = False,
    dry_run: Annotated[bool, Parameter(help="With filters: show how many of each kind, and change nothing")] = False,
    yes: Annotated[bool, Parameter(help="With filters: do not ask for confirmation")] = False,
    reason: Reason = None,
    invocation: Hidden,
) -> int:
    """Cancel events: they will not fire. What runs is asked to stop. A schedule goes on with its next.

    duly events cancel --type newsletter --dry-run
    """
    filtered = replace(which, tenant=None) != ANY_OPEN_EVENT
    if ids and not (filtered or all or dry_run or yes):
        return cancel(*ids, tenant=which.tenant, reason=reason, invocation=invocation)
    if ids:
        raise Misuse("give either ids or keys, or filters and --all, --dry-run and --yes, not both")
    if not filtered and not all:
        raise Misuse(f"{GIVE_IDS}; or filters such as --type, or --all")

    async def deed(duly: Duly, rehearses: bool, tell: Progress) -> ActedOn:
        return await duly.events.cancel_all(
            await which.filter(duly), reason=reason, everything=all, dry_run=rehearses, tenant=which.tenant,
            by=person(), progress=tell,
        )  # fmt: skip

    return act_on_all(deed, Words("cancel", "cancelled", "events"), dry_run=dry_run, yes=yes, invocation=invocation)


async def _cancel(ids: tuple[str, ...], tenant: str | None, reason: str | None, invocation: Invocation) -> int:
    done: list[tuple[Event, CancelResult]] = []
    async with invocation.duly_for_looking() as duly:
        by, now = person(), await duly.now()
        for id in ids:
            result = await duly.cancel(id, tenant=tenant, by=by, reason=reason)
            if result is CancelResult.NOTHING:
                where = "" if tenant is None and is_id(id) else f" in tenant {tenant or DEFAULT_TENANT!r}"
                tell_error(NotFound(f"there is no event {id!r:.60} to cancel{where}: {UNKNOWN}"), json=invocation.json)
                continue
            event = await duly.events.get(id, tenant=tenant)
            if result is CancelResult.FIRED:
                tell_error(Conflict(f"cannot cancel event {event.id}: it is {event.status}"), json=invocation.json)
                continue
            done.append((event, result))
    if invocation.json:
        print_json({"events": [EVENT_JSON.write(event) | {"result": result} for event, result in done]})
    else:
        for event, result in done:
            screen().print(acted(event, WORDS[result], now), soft_wrap=True)
    return DONE if len(done) == len(ids) else FAILED


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
        raise Misuse(GIVE_IDS)
    return asyncio.run(_do_each(ids, word, act_of, invocation))


async def _do_each(ids: tuple[str, ...], word: str, act_of: Callable[[Duly], Act], invocation: Invocation) -> int:
    done: list[Event] = []
    async with invocation.duly_for_looking() as duly:
        act, now = act_of(duly), await duly.now()
        for id in ids:
            try:
                done.append(await act(id))
            except DulyError as error:
                if len(ids) == 1:
                    raise
                tell_error(error, json=invocation.json)
    if invocation.json:
        print_json({"events": [EVENT_JSON.write(event) for event in done]})
    else:
        for event in done:
            screen().print(acted(event, word, now), soft_wrap=True)
    return DONE if len(done) == len(ids) else FAILED
