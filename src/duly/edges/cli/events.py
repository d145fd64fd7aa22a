"""``duly events``: look at events, and cancel, move, replay or discard them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from cyclopts import App, Parameter

from duly.core.durations import parse_duration
from duly.core.model import Event, Status
from duly.core.specs import DueBetween, Everything, ExecutedLate, OfSeries, OfType, OfUser, OneOf, Spec, Stuck, WithKey
from duly.edges.cli.event_views import acted, one_event, table
from duly.edges.cli.invocation import Hidden, Invocation, person
from duly.edges.cli.output import note, print_json, screen, tell_error
from duly.edges.cli.pages import check_after, how_many
from duly.edges.cli.user_names import DEFAULT_TENANT, user_id
from duly.edges.cli.when import resolve
from duly.edges.event_json import entry_to_json, event_to_json
from duly.errors import DulyError, Invalid, Misuse, Problem
from duly.wiring import Duly

events = App(name="events", help="Look at events, and cancel, move, replay or discard them.")

Act = Callable[[str], Awaitable[Event]]
Tenant = Annotated[str | None, Parameter(help="Only this tenant's")]
Reason = Annotated[str | None, Parameter(help="Why, for the history")]


def register(commands: App) -> None:
    commands.command(events)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which events; all that is given must hold."""

    status: Annotated[list[Status] | None, Parameter(help="May be repeated")] = None
    type: str | None = None
    tenant: str | None = None
    key: str | None = None
    user: Annotated[str | None, Parameter(help="Of this user, by id or key", metavar="ID")] = None
    schedule: Annotated[str | None, Parameter(help="Of this schedule", metavar="NAME")] = None
    due_from: Annotated[
        str | None, Parameter(help="Due then or later: an instant, or such as -1h", allow_leading_hyphen=True)
    ] = None
    due_to: Annotated[str | None, Parameter(help="Due before then", allow_leading_hyphen=True)] = None
    late_by: Annotated[
        str | None, Parameter(help="Late and completed: executed more than this after due, such as 5m")
    ] = None
    stuck: Annotated[
        bool,
        Parameter(help="Not completed an hour after due, or --late-by after it: waiting, under way, or a dead letter"),
    ] = False

    async def spec(self, duly: Duly) -> Spec:
        spec: Spec = Everything()
        if self.status:
            spec &= OneOf("status", tuple(self.status))
        if self.type is not None:
            spec &= OfType(self.type)
        if self.key is not None:
            spec &= WithKey(self.key)
        if self.user is not None:
            spec &= OfUser(await user_id(duly, self.user, self.tenant))
        if self.schedule is not None:
            spec &= OfSeries((await duly.schedules.get(self.schedule, tenant=self.tenant or DEFAULT_TENANT)).series)
        if self.due_from is not None or self.due_to is not None:
            start = None if self.due_from is None else await resolve(duly, self.due_from, "due-from")
            end = None if self.due_to is None else await resolve(duly, self.due_to, "due-to")
            spec &= DueBetween(start, end)
        late_by = None if self.late_by is None else _span(self.late_by)
        if self.stuck:
            spec &= Stuck() if late_by is None else Stuck(late_by)
        elif late_by is not None:
            spec &= ExecutedLate(late_by)
        return spec


ALL = Filter()


@events.command(name="list")
def list_(
    *,
    which: Filter = ALL,
    limit: Annotated[int, how_many(20)] = 20,
    after: Annotated[str | None, Parameter(help="The next page: the last id of this one", metavar="ID")] = None,
    invocation: Hidden,
) -> None:
    """List events, the newest first."""
    check_after(after, "an event's")
    asyncio.run(_list(which, limit, after, invocation))


async def _list(which: Filter, limit: int, after: str | None, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        spec = await which.spec(duly)
        found = await duly.events.find(spec, tenant=which.tenant, limit=limit, after=after)
        more = len(found) == limit and await duly.events.find(spec, tenant=which.tenant, limit=1, after=found[-1].id)
        now = await duly.store.now()
    if invocation.json:
        listed = [event_to_json(event) for event in found]
        print_json({"events": listed, "next": found[-1].id if more else None})
        return
    if not found:
        note("no such events")
        return
    console = screen()
    console.print(table(found, now, console.width))
    if more:
        note(f"there are more: add --after {found[-1].id}")


@events.command
def show(id: str, /, *, tenant: Tenant = None, invocation: Hidden) -> None:
    """Show an event and its whole history."""
    asyncio.run(_show(id, tenant, invocation))


async def _show(id: str, tenant: str | None, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        event = await duly.events.get(id, tenant=tenant)
        history = await duly.events.history(id, tenant=tenant)
        now = await duly.store.now()
    if invocation.json:
        print_json(event_to_json(event) | {"history": [entry_to_json(entry) for entry in history]})
    else:
        screen().print(one_event(event, history, now))


@events.command
def cancel(*ids: str, tenant: Tenant = None, reason: Reason = None, invocation: Hidden) -> int:
    """Cancel events that wait: they will not fire. A schedule goes on with its next."""
    by = person()
    return _each(
        ids,
        "cancelled",
        lambda duly: lambda id: duly.events.cancel(id, tenant=tenant, by=by, reason=reason),
        invocation,
    )


@events.command
def replay(*ids: str, tenant: Tenant = None, invocation: Hidden) -> int:
    """Run dead letters (FAILED) again, under the same id, with all their attempts anew."""
    by = person()
    return _each(ids, "replayed", lambda duly: lambda id: duly.events.replay(id, tenant=tenant, by=by), invocation)


@events.command
def discard(*ids: str, tenant: Tenant = None, reason: Reason = None, invocation: Hidden) -> int:
    """Put dead letters (FAILED) away for good."""
    by = person()
    return _each(
        ids,
        "discarded",
        lambda duly: lambda id: duly.events.discard(id, tenant=tenant, by=by, reason=reason),
        invocation,
    )


@events.command
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

    return _each((id,), "rescheduled", move, invocation)


def _each(ids: tuple[str, ...], word: str, act_of: Callable[[Duly], Act], invocation: Invocation) -> int:
    """Do it to each; what one refuses does not keep the others from it. The exit code."""
    if not ids:
        raise Misuse("name the events by their ids; `duly events list` shows them")
    return asyncio.run(_do_each(ids, word, act_of, invocation))


async def _do_each(ids: tuple[str, ...], word: str, act_of: Callable[[Duly], Act], invocation: Invocation) -> int:
    done: list[Event] = []
    async with invocation.duly_for_looking() as duly:
        act, now = act_of(duly), await duly.store.now()
        for id in ids:
            try:
                await act(id)
                done.append(await duly.events.get(id))
            except DulyError as error:
                if len(ids) == 1:
                    raise
                tell_error(error, json=invocation.json)
    if invocation.json:
        print_json({"events": [event_to_json(event) for event in done]})
    else:
        for event in done:
            screen().print(acted(event, word, now), soft_wrap=True)
    return 0 if len(done) == len(ids) else 1


def _span(written: str) -> timedelta:
    try:
        return parse_duration(written)
    except ValueError as error:
        raise Invalid([Problem("late-by", str(error))]) from None
