"""``duly schedules``: shows schedules and their next occurrences."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from cyclopts import App, Parameter

from duly.cli.columns import Columns, check_columns, in_chosen_columns
from duly.cli.instants import resolve_in
from duly.cli.invocation import Hidden, Invocation, person
from duly.cli.lists.counting import Counting, tell_count
from duly.cli.lists.exports import Format, Wanted, export
from duly.cli.output import counted, note, print_json, screen
from duly.cli.pages import how_many, read_cursor, written_cursor
from duly.cli.schedules import acts, compare, put, stats, why_not
from duly.cli.schedules.acts import Tenant
from duly.cli.schedules.filters import ANY_SCHEDULE, FilterOptions
from duly.cli.schedules.imports import commands as imports
from duly.cli.schedules.options import NO_BOUNDS, NO_RULE, RuleOptions, TimetableOptions
from duly.cli.schedules.views import ScheduleContext, one_schedule, preview_table, replanned_table, table
from duly.decide.error_text import describe
from duly.decide.series.preview import Preview
from duly.duly import Duly
from duly.errors import Misuse
from duly.records.event import EVENT_JSON
from duly.records.finding.schedules import ScheduleFilter
from duly.records.history import ENTRY_JSON
from duly.records.schedule import SCHEDULE_JSON, Schedule
from duly.records.specs import OfSeries
from duly.records.wire.schedule_reader import read_schedule
from duly.rules.recurrence import DEFAULT_ZONE

schedules = App(name="schedules", help="List, create, pause, trigger, backfill or delete schedules.")

USUAL = 100
"""Schedules of a page."""

SHOWN_AHEAD = 5
"""Next occurrences on the page of a schedule."""

SHOWN_EVENTS = 5
"""Latest events on the page of a schedule."""


def register(commands: App) -> None:
    for verbs in (put, acts, imports, compare, stats, why_not):
        verbs.register(schedules)
    commands.command(schedules)


@schedules.command(name="list", sort_key=1)
def list_(
    *,
    tenant: Annotated[str | None, Parameter(help="Only in this tenant")] = None,
    which: FilterOptions = ANY_SCHEDULE,
    limit: Annotated[int | None, how_many(USUAL)] = None,
    after: Annotated[
        str | None, Parameter(help="Next page: the last name of the previous page", metavar="NAME")
    ] = None,
    columns: Columns = None,
    format: Format = None,
    count: Counting = False,
    invocation: Hidden,
) -> None:
    """List schedules with their rules, state and next event.

    With --app, also show schedules that its code declared earlier and no longer declares.
    """
    wanted = Wanted(limit, after, check_columns(SCHEDULE_JSON, columns), format, count)
    wanted.check(json=invocation.json)
    asyncio.run(_list(tenant, which.filter(), wanted, invocation))


async def _list(tenant: str | None, which: ScheduleFilter, wanted: Wanted, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        if wanted.counts:
            tell_count(await duly.schedules.count(which, tenant=tenant), json=invocation.json)
            return
        last = None if wanted.after is None else _cursor(wanted.after, tenant)
        if wanted.format:
            await export(SCHEDULE_JSON, _pages(duly, which, tenant, last), wanted)
            return
        limit = wanted.at_once(USUAL)
        found = await duly.schedules.list(which, tenant=tenant, limit=limit, after=last)
        more = len(found) == limit and await duly.schedules.list(which, tenant=tenant, limit=1, after=found[-1])
        now = await duly.now()
    undeclared = await _undeclared(invocation)
    following = written_cursor(found[-1].tenant, found[-1].name, tenant) if more else None
    if invocation.json:
        print_json({"schedules": [_to_json(one, undeclared) for one in found], "next": following})
        return
    if not found:
        note("no schedules" if wanted.after is None else "no more schedules")
        return
    console = screen()
    usual, chosen = table(found, undeclared or (), now, console.width), wanted.columns
    console.print(in_chosen_columns(SCHEDULE_JSON, found, chosen, console.width) if chosen else usual)
    if more:
        note(f"for the next page, add --after {following}")


async def _pages(
    duly: Duly, which: ScheduleFilter, tenant: str | None, last: Schedule | None
) -> AsyncIterator[list[Schedule]]:
    """All pages, from the one that was asked for."""
    found: list[Schedule] | None = None
    while found is None or len(found) == USUAL:
        found = await duly.schedules.list(which, tenant=tenant, limit=USUAL, after=last)
        yield found
        last = found[-1] if found else last


def _to_json(schedule: Schedule, undeclared: set[str] | None) -> dict[str, Any]:
    """The JSON of a schedule; whether the code declares it is included only if there is an app."""
    told = {} if undeclared is None else {"undeclared": schedule.id in undeclared}
    return SCHEDULE_JSON.write(schedule) | told


async def _undeclared(invocation: Invocation) -> set[str] | None:
    """The ids of schedules that the app's code does not declare any more; None without an app."""
    app = invocation.app_for_looking()
    if app is None:
        return None
    async with app:
        return {schedule.id for schedule in await app.orphans()}


def _cursor(after: str, tenant: str | None) -> Schedule:
    tenant, name = read_cursor(after, tenant)
    return Schedule(id="", tenant=tenant, name=name, type="", rule_json="")


@schedules.command(sort_key=2)
def show(name: str, /, *, tenant: Tenant = "default", invocation: Hidden) -> None:
    """Show a schedule: its settings, next event, latest events and history."""
    asyncio.run(_show(name, tenant, invocation))


async def _show(name: str, tenant: str, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        schedule = await duly.schedules.get(name, tenant=tenant)
        events = await duly.events.find(OfSeries(schedule.series), limit=SHOWN_EVENTS)
        history = await duly.schedules.history(name, tenant=tenant)
        now = await duly.now()
        ahead = await _ahead(duly, schedule)
    undeclared = await _undeclared(invocation)
    if invocation.json:
        around = {
            "occurrences": [] if isinstance(ahead, str) else ahead,
            "events": [EVENT_JSON.write(event) | {"schedule": name} for event in events],
            "history": [ENTRY_JSON.write(entry) for entry in history],
        }
        print_json(_to_json(schedule, undeclared) | around)
        return
    orphan = undeclared is not None and schedule.id in undeclared
    console = screen()
    console.print(one_schedule(schedule, ScheduleContext(ahead, events, history, orphan), now, console.width))


async def _ahead(duly: Duly, schedule: Schedule) -> list[Preview] | str:
    """The next occurrences: the next event, which may have been moved, and those of the rule after it; or the reason
    why they cannot be computed."""
    try:
        return await duly.schedules.preview(schedule.name, tenant=schedule.tenant, count=SHOWN_AHEAD)
    except Exception as error:  # the row may have been edited by hand: the rest can still be shown
        return describe(error)


@schedules.command(sort_key=3)
def preview(
    name: str | None = None,
    /,
    *,
    when: RuleOptions = NO_RULE,
    bounds: TimetableOptions = NO_BOUNDS,
    count: Annotated[int, how_many(10)] = 10,
    after: Annotated[
        str | None,
        Parameter(
            help="Show occurrences after this: an instant, or a local time in the schedule's zone",
            metavar="WHEN",
            allow_leading_hyphen=True,
        ),
    ] = None,
    tenant: Tenant = "default",
    invocation: Hidden,
) -> None:
    """Preview when a schedule or a rule fires next, with notes about daylight saving.

    duly schedules preview --cron '30 2 * * *' --timezone Europe/Brussels --after 2027-03-26
    """
    asyncio.run(_preview(name, (when, bounds), count, after, tenant, invocation))


async def _preview(
    name: str | None,
    what: tuple[RuleOptions, TimetableOptions],
    count: int,
    after: str | None,
    tenant: str,
    invocation: Invocation,
) -> None:
    if name is not None and what != (NO_RULE, NO_BOUNDS):
        raise Misuse(f"give either the name of a schedule ({name!r}) or options for a rule, not both")
    async with Duly("sqlite://") if name is None else invocation.duly_for_looking() as duly:
        asked: str | dict[str, Any]
        policies: dict[str, Any]
        if name is not None:
            zone, asked, policies = (await duly.schedules.get(name, tenant=tenant)).timezone, name, {}
        else:
            zone, asked, policies = await _asked(duly, *what)
        start = None if after is None else await resolve_in(duly, after, zone, "after")
        found = await duly.schedules.preview(asked, count=count, after=start, timezone=zone, tenant=tenant, **policies)
        now = await duly.now()
    if invocation.json:
        print_json({"occurrences": found})
    elif found:
        console = screen()
        console.print(preview_table(found, zone, now, console.width))
    else:
        note("it never fires after that")


async def _asked(duly: Duly, when: RuleOptions, bounds: TimetableOptions) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The zone, the rule and the policies of the options, as far as they are given."""
    zone, rule, policies = when.timezone or DEFAULT_ZONE, await when.rule(duly), await bounds.policies(duly)
    read_schedule({"name": "preview", "type": "preview", "rule": rule, "timezone": zone, **policies})
    return zone, rule, policies


@schedules.command(sort_key=20)
def replan(
    *,
    dry_run: Annotated[bool, Parameter(help="Show what would move, and change nothing")] = False,
    invocation: Hidden,
) -> None:
    """Replan waiting events by newer time zone data. Workers do this when they start."""
    asyncio.run(_replan(dry_run, invocation))


async def _replan(dry_run: bool, invocation: Invocation) -> None:
    async with invocation.duly_for_looking() as duly:
        moved = await duly.schedules.replan(dry_run=dry_run, by=person())
    if invocation.json:
        print_json({"moved": moved, "dry_run": dry_run})
    elif not moved:
        screen().print("nothing moves")
    else:
        screen().print(replanned_table(moved))
        screen().print(f"{counted(len(moved), 'event')} {'would move' if dry_run else 'moved'}")
