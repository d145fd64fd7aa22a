"""``duly events replay`` and ``discard``: dead letters by their ids, or all that match the filters."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, NamedTuple

import msgspec
from cyclopts import App, Parameter
from cyclopts.validators import Number
from rich.console import Console

from duly.cli.batch import Reason
from duly.cli.events.acts import each
from duly.cli.events.dead_letter_views import BulkPlan, BulkReport, Stopped, kinds
from duly.cli.events.filters import ANY_DEAD_LETTER, DeadLetterFilters
from duly.cli.exit_codes import DONE, FAILED, INTERRUPTED
from duly.cli.invocation import Hidden, Invocation, confirmed, person, require_terminal
from duly.cli.output import counted, note, print_json, screen, tell_error
from duly.cli.payloads import read_payload
from duly.cli.progress import stopped_by_signals
from duly.decide.targets.rates import read_rate
from duly.duly import Duly
from duly.errors import DulyError, Misuse, StoreError
from duly.records.filters import EventFilter
from duly.records.results import DeadLetters, Discarded, Replayed
from duly.values.instants import write_instant
from duly.verbs.events.edited_replays import UNCHANGED

Deed = Callable[[Duly, EventFilter, BulkReport], Awaitable[Replayed | Discarded]]


def register(app: App) -> None:
    app.command(replay)
    app.command(discard)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class BulkOptions:
    """Options for dead letters that are selected by filters, not by ids."""

    all: Annotated[bool, Parameter(help="Instead of ids: all dead letters, or those that match the filters")] = False
    limit: Annotated[
        int | None,
        Parameter(help="With --all: at most N, oldest first", metavar="N", validator=Number(gte=1)),
    ] = None
    dry_run: Annotated[bool, Parameter(help="With --all: show how many there are of each kind, and change nothing")] = (
        False
    )
    yes: Annotated[bool, Parameter(help="With --all: do not ask for confirmation")] = False


ONE_BY_ONE = BulkOptions()


def replay(
    *ids: str,
    payload: Annotated[
        str | None,
        Parameter(
            help="With ids: as new events with this payload, also what has ended otherwise",
            metavar="JSON",
            allow_leading_hyphen=True,
        ),
    ] = None,
    many: BulkOptions = ONE_BY_ONE,
    rate: Annotated[
        str | None,
        Parameter(help="With --all: replay at this rate, such as 50/s, 600/m or 1000/h", allow_leading_hyphen=True),
    ] = None,
    which: DeadLetterFilters = ANY_DEAD_LETTER,
    invocation: Hidden,
) -> int:
    """Replay dead letters (FAILED): they keep their ids and get all their attempts again.

    With --rate, they become ready one after the other. Their times are stored: the command does not wait.

    With --payload, each is replayed as a new event, which names the old one; the old one ends CANCELLED.

    duly events replay --all --error 503 --rate 50/s
    """
    by = person()
    given = UNCHANGED if payload is None else read_payload(payload)
    if _one_by_one(ids, many, which, rate):
        return each(
            ids,
            "replayed" if payload is None else "replayed as",
            lambda duly: lambda id: duly.events.replay(id, payload=given, tenant=which.tenant, by=by),
            invocation,
        )
    if payload is not None:
        raise Misuse("--payload can only be used with ids, not with --all: each event needs a payload of its own")

    async def deed(duly: Duly, found: EventFilter, report: BulkReport) -> Replayed:
        return await duly.events.replay_all(
            found, tenant=which.tenant, rate=rate, limit=many.limit, by=by, progress=report.progress
        )

    gap = None if rate is None else read_rate(rate)
    preview = asyncio.run(_look(which, invocation))
    return _all(preview, BulkPlan("replay", "replayed", preview.there, many.limit, gap), many, deed, invocation)


def discard(
    *ids: str,
    many: BulkOptions = ONE_BY_ONE,
    reason: Reason = None,
    which: DeadLetterFilters = ANY_DEAD_LETTER,
    invocation: Hidden,
) -> int:
    """Discard dead letters (FAILED).

    duly events discard --all --type newsletter --failed-to -30d --reason 'too late'
    """
    by = person()
    if _one_by_one(ids, many, which):
        return each(
            ids,
            "discarded",
            lambda duly: lambda id: duly.events.discard(id, tenant=which.tenant, by=by, reason=reason),
            invocation,
        )

    async def deed(duly: Duly, found: EventFilter, report: BulkReport) -> Discarded:
        return await duly.events.discard_all(
            found, tenant=which.tenant, limit=many.limit, by=by, reason=reason, progress=report.progress
        )

    preview = asyncio.run(_look(which, invocation))
    return _all(preview, BulkPlan("discard", "discarded", preview.there, many.limit, None), many, deed, invocation)


def _one_by_one(ids: tuple[str, ...], many: BulkOptions, which: DeadLetterFilters, rate: str | None = None) -> bool:
    if many.all and ids:
        raise Misuse("give either ids of dead letters or --all, not both")
    if not many.all and not ids:
        raise Misuse("give ids of dead letters, or --all; `duly events list --dead` shows them")
    if not many.all and (many, rate, replace(which, tenant=None)) != (ONE_BY_ONE, None, ANY_DEAD_LETTER):
        raise Misuse("filters, --rate, --limit, --dry-run and --yes can only be used with --all, not with ids")
    return not many.all


# -- all that match


class BulkPreview(NamedTuple):
    which: EventFilter
    there: DeadLetters
    now: datetime


async def _look(which: DeadLetterFilters, invocation: Invocation) -> BulkPreview:
    async with invocation.duly_for_looking() as duly:
        asked = await which.filter(duly)
        return BulkPreview(asked, await duly.events.dead_letters(asked, tenant=which.tenant), await duly.now())


def _all(found: BulkPreview, plan: BulkPlan, many: BulkOptions, deed: Deed, invocation: Invocation) -> int:
    if many.dry_run:
        _rehearse(plan, found.now, invocation)
        return DONE
    if not plan.events and not invocation.json:
        note("no dead letters found")
        return DONE
    if plan.events and not many.yes and not _agreed(plan, invocation):
        note(f"nothing was {plan.participle}")
        return FAILED
    with BulkReport(plan, json=invocation.json) as report:
        failure = _run(deed, found.which, report, invocation)
    report.summary()
    if failure is not None:
        tell_error(failure, json=invocation.json)
    if (failure or report.interrupted) and not invocation.json:
        told = f"{report.done.events:,} of {plan.events:,} are {plan.participle}; run the command again for the others"
        note(f"interrupted: {told}" if report.interrupted else told)
    if report.interrupted:
        return INTERRUPTED
    return FAILED if failure or report.done.left_alone else DONE


def _rehearse(plan: BulkPlan, now: datetime, invocation: Invocation) -> None:
    if invocation.json:
        last = None if not plan.events else write_instant(now + plan.lasts)
        would = {"dry_run": True, f"would_{plan.verb}": plan.events}
        print_json(would | ({"last_ready_at": last} if plan.verb == "replay" else {}) | msgspec.to_builtins(plan.there))
        return
    if plan.events:
        console = screen()
        console.print(kinds(plan.there, console.width))
    screen().print(f"would {plan.verb} {plan} (a dry run: nothing was changed)", style="bold")


def _agreed(plan: BulkPlan, invocation: Invocation) -> bool:
    """Whether the user at the terminal confirms the plan that is shown."""
    many = counted(plan.events, "dead letter")
    require_terminal(
        f"this would {plan.verb} {many}: add --yes to do it, or --dry-run to see which", json=invocation.json
    )
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    console.print(kinds(plan.there, console.width))
    return confirmed(f"{plan.verb} {plan}?")


def _run(deed: Deed, which: EventFilter, report: BulkReport, invocation: Invocation) -> DulyError | None:
    """Runs the batch; returns the error that ended it early, if there was one."""
    try:
        return asyncio.run(_do(deed, which, report, invocation))
    except KeyboardInterrupt:  # the second Ctrl-C; the first one is a signal to stop
        report.interrupted = True
        return None


async def _do(deed: Deed, which: EventFilter, report: BulkReport, invocation: Invocation) -> DulyError | None:
    with stopped_by_signals(report.stop):
        async with invocation.duly_for_looking() as duly:
            try:
                await deed(duly, which, report)
                report.now = await duly.now()
            except Stopped:
                report.interrupted = True
            except StoreError as error:
                return error
    return None
