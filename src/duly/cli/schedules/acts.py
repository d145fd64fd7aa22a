"""``duly schedules pause``, ``resume``, ``trigger``, ``reschedule``, ``skip``, ``backfill`` and ``delete``."""

from collections.abc import Callable
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from rich.text import Text

from duly.cli.batch import Act, ActResult, Reason, each
from duly.cli.instants import EXAMPLES, resolve_in
from duly.cli.invocation import Hidden, Invocation, person
from duly.cli.lists.acts import Progress, Words, act_on_all
from duly.cli.output import STYLES, counted, readable
from duly.cli.payloads import read_payload
from duly.cli.schedules.dry_run import IN_EARNEST, DryRunOptions, consequence_view
from duly.cli.schedules.filters import ANY_SCHEDULE, BY_NAME, FilterOptions, ManyOptions, by_filter
from duly.cli.schedules.views import acted, backfilled, paused_now, resumed
from duly.duly import Duly
from duly.errors import Invalid, Misuse, Problem
from duly.records.event import EVENT_JSON, Status
from duly.records.finding.acts import ActedOn
from duly.records.schedule import SCHEDULE_JSON, Schedule
from duly.rules.recurrence import DEFAULT_ZONE
from duly.verbs.schedules.runs import UNCHANGED

Tenant = Annotated[str, Parameter(help="Tenant of the schedule (default: default)")]

Passed = Parameter(
    help="Occurrences missed during the pause: skip (default), or fire by the misfire policy", metavar="SKIP|FIRE"
)


def register(app: App) -> None:
    verbs: tuple[Callable[..., int], ...] = (pause, resume, trigger, skip, reschedule, backfill, delete)
    for place, verb in enumerate(verbs, start=10):
        app.command(verb, sort_key=place)


def pause(
    *names: str,
    which: FilterOptions = ANY_SCHEDULE,
    many: ManyOptions = BY_NAME,
    tenant: Tenant = "default",
    reason: Reason = None,
    until: Annotated[
        str | None, Parameter(help="When the pause ends by itself: a span from now such as 2h, an instant, or a local "
                                   "time in the schedule's zone", metavar="WHEN")
    ] = None,
    passed: Annotated[str | None, Passed] = None,
    invocation: Hidden,
) -> int:  # fmt: skip
    """Pause schedules: no event of them starts; running events finish.

    duly schedules pause --tag nightly --until 2h --reason migration --dry-run
    """
    if by_filter(names, which, many, tries=True):
        asked, words = which.filter(), Words("pause", "paused", "schedules")

        async def deed(duly: Duly, dry_run: bool, tell: Progress) -> ActedOn:
            ends = None if until is None else await resolve_in(duly, until, DEFAULT_ZONE, "until")
            fate = None if passed is None else passed.lower()
            return await duly.schedules.pause_all(
                asked, reason=reason, until=ends, passed=fate, everything=many.all, dry_run=dry_run, tenant=tenant,
                by=person(), progress=tell,
            )  # fmt: skip

        return act_on_all(deed, words, dry_run=many.dry_run, yes=many.yes, invocation=invocation)

    async def act(duly: Duly, name: str) -> ActResult:
        before = await duly.schedules.get(name, tenant=tenant)
        ends = None if until is None else await resolve_in(duly, until, before.timezone, "until")
        fate = None if passed is None else passed.lower()
        paused = await duly.schedules.pause(
            name, tenant=tenant, by=person(), reason=reason, until=ends, passed=fate, dry_run=many.dry_run
        )
        if many.dry_run:
            return _as_it_would_be(paused, many)
        return ActResult(SCHEDULE_JSON.write(paused), acted(paused, paused_now(before, paused), await duly.now()))

    return _each(names, act, "schedules", invocation)


def resume(
    *names: str,
    which: FilterOptions = ANY_SCHEDULE,
    many: ManyOptions = BY_NAME,
    passed: Annotated[str | None, Passed] = None,
    tenant: Tenant = "default",
    invocation: Hidden,
) -> int:
    """Resume paused schedules."""
    if by_filter(names, which, many, tries=True):
        asked, words = which.filter(), Words("resume", "resumed", "schedules")

        async def deed(duly: Duly, dry_run: bool, tell: Progress) -> ActedOn:
            fate = None if passed is None else passed.lower()
            return await duly.schedules.resume_all(
                asked, passed=fate, everything=many.all, dry_run=dry_run, tenant=tenant, by=person(), progress=tell
            )

        return act_on_all(deed, words, dry_run=many.dry_run, yes=many.yes, invocation=invocation)

    async def act(duly: Duly, name: str) -> ActResult:
        before = await duly.schedules.get(name, tenant=tenant)
        fate = None if passed is None else passed.lower()
        result = await duly.schedules.resume(name, passed=fate, tenant=tenant, by=person(), dry_run=many.dry_run)
        if many.dry_run:
            told = _as_it_would_be(result.schedule, many)
            return ActResult(told.json | {"passed": result.passed, "fires": result.fires}, told.said)
        now = await duly.now()
        said = acted(result.schedule, "was not paused", now) if before.enabled else resumed(result, now)
        return ActResult(result.to_json(), said)

    return _each(names, act, "schedules", invocation)


def trigger(
    *names: str,
    which: FilterOptions = ANY_SCHEDULE,
    many: ManyOptions = BY_NAME,
    payload: Annotated[
        str | None, Parameter(help="Payload for this event only, as JSON", metavar="JSON", allow_leading_hyphen=True)
    ] = None,
    correlation_id: Annotated[str | None, Parameter(help="Correlation id, for tracing")] = None,
    tenant: Tenant = "default",
    invocation: Hidden,
) -> int:
    """Trigger schedules now, also paused ones. Their next events do not move."""
    if by_filter(names, which, many):
        if payload is not None or correlation_id is not None:
            raise Misuse("--payload and --correlation-id go with the names of schedules, not with filters")
        asked, words = which.filter(), Words("trigger", "triggered", "schedules")

        async def deed(duly: Duly, dry_run: bool, tell: Progress) -> ActedOn:
            return await duly.schedules.trigger_all(
                asked, everything=many.all, dry_run=dry_run, tenant=tenant, by=person(), progress=tell
            )

        return act_on_all(deed, words, dry_run=many.dry_run, yes=many.yes, invocation=invocation)
    given = UNCHANGED if payload is None else read_payload(payload)

    async def act(duly: Duly, name: str) -> ActResult:
        event = await duly.schedules.trigger(
            name, payload=given, tenant=tenant, by=person(), correlation_id=correlation_id
        )
        waits = f", {event.held}" if event.held else ""
        fate = {Status.PENDING: f"it fires now{waits}", Status.SKIPPED: "shadow mode: recorded, not delivered"}
        said = Text.assemble("triggered ", (readable(name), "bold"), ": event ", (event.id, "bold"), "  ",
                             (event.status.value, STYLES[event.status]),
                             f", {fate[event.status]}" if event.status in fate else "")  # fmt: skip
        return ActResult(EVENT_JSON.write(event) | {"schedule": name}, said)

    return _each(names, act, "events", invocation)


def skip(
    *names: str, tenant: Tenant = "default", reason: Reason = None, dry: DryRunOptions = IN_EARNEST, invocation: Hidden
) -> int:
    """Skip the next event of each schedule, and only that event."""
    dry.check()

    async def act(duly: Duly, name: str) -> ActResult:
        skipped = await duly.schedules.skip(name, tenant=tenant, by=person(), reason=reason, dry_run=dry.dry_run)
        if dry.dry_run:
            return _as_it_would_be(skipped, dry)
        return ActResult(SCHEDULE_JSON.write(skipped), acted(skipped, "leaves one out", await duly.now()))

    return _each(names, act, "schedules", invocation)


def reschedule(
    name: str,
    /,
    *when: Annotated[
        str, Parameter(help="2026-12-01T09:00:00Z, a local time in the schedule's zone, +30s, in 5m, or now")
    ],
    tenant: Tenant = "default",
    dry: DryRunOptions = IN_EARNEST,
    invocation: Hidden,
) -> int:
    """Reschedule the next event of a schedule, and only that event: the rule continues after it."""
    dry.check()
    if not when:
        raise Misuse(f"give the new due time: {EXAMPLES}")

    async def act(duly: Duly, name: str) -> ActResult:
        zone = (await duly.schedules.get(name, tenant=tenant)).timezone
        due = await resolve_in(duly, " ".join(when), zone)
        moved = await duly.schedules.reschedule(name, due, tenant=tenant, by=person(), dry_run=dry.dry_run)
        if dry.dry_run:
            return _as_it_would_be(moved, dry)
        return ActResult(SCHEDULE_JSON.write(moved), acted(moved, "was moved, this once", await duly.now()))

    return _each((name,), act, "schedules", invocation)


def backfill(
    name: str,
    /,
    *,
    from_: Annotated[str, Parameter(name="--from", help="Start of the range: an instant, a local time or "
"date in the schedule's zone, or -7d",
                                    metavar="WHEN", allow_leading_hyphen=True)],
    to: Annotated[str, Parameter(help="End of the range, not included", metavar="WHEN",
                                 allow_leading_hyphen=True)],
    limit: Annotated[int, Parameter(help="Maximum number of events; a range with more is refused "
"(default: 100)")] = 100,
    label: Annotated[
        str | None, Parameter(help="Label: an occurrence that a backfill with this label has fired is not fired "
"again; a new label fires it again (default: default)")
    ] = None,
    dry_run: Annotated[bool, Parameter(help="Show what would fire, and fire nothing")] = False,
    tenant: Tenant = "default",
    invocation: Hidden,
) -> int:  # fmt: skip
    """Backfill a past time range: fire now what the schedule would have fired in it, oldest first.

    duly schedules backfill weekly-report --from 2026-01-01 --to 2026-02-01
    """

    async def act(duly: Duly, name: str) -> ActResult:
        zone = (await duly.schedules.get(name, tenant=tenant)).timezone
        start, end = await resolve_in(duly, from_, zone, "from"), await resolve_in(duly, to, zone, "to")
        try:
            result = await duly.schedules.backfill(
                name, start, end, limit=limit, label=label, dry_run=dry_run, tenant=tenant, by=person()
            )
        except Invalid as error:
            raise Invalid([Problem(_OPTIONS.get(path, path), message) for path, message in error.problems]) from None
        return ActResult(msgspec.to_builtins(result) | {"dry_run": dry_run}, backfilled(name, result, zone, dry_run))

    return _each((name,), act, None, invocation)


_OPTIONS = {"start": "from", "end": "to"}


def delete(*names: str, tenant: Tenant = "default", dry: DryRunOptions = IN_EARNEST, invocation: Hidden) -> int:
    """Delete schedules, without asking for confirmation. Waiting events are cancelled; running events finish."""
    dry.check()

    async def act(duly: Duly, name: str) -> ActResult:
        if dry.dry_run:
            told = await duly.schedules.delete(name, tenant=tenant, by=person(), dry_run=True)
            json = {"name": name, "tenant": tenant, "cancelled": told.cancelled.count, "consequence": dry.seen(told)}
            return ActResult(json, consequence_view(name, told))
        cancelled = await duly.schedules.delete(name, tenant=tenant, by=person())
        waited = f"{counted(cancelled, 'waiting event')} {'was' if cancelled == 1 else 'were'} cancelled"
        said = Text.assemble("deleted ", (readable(name), "bold"), f": {waited}")
        return ActResult({"name": name, "tenant": tenant, "cancelled": cancelled}, said)

    return _each(names, act, "deleted", invocation)


def _as_it_would_be(schedule: Schedule, dry: DryRunOptions) -> ActResult:
    told = dry.seen(schedule.consequence)
    return ActResult(SCHEDULE_JSON.write(schedule) | {"consequence": told}, consequence_view(schedule.name, told))


def _each(names: tuple[str, ...], act: Act, of_many: str | None, invocation: Invocation) -> int:
    return each(names, act, of_many, "give the names of the schedules; `duly schedules list` shows them", invocation)
