"""``duly schedules put``: create or replace a schedule, from options or from a file."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from cyclopts import App, Parameter

from duly.cli.invocation import Hidden, Invocation, person
from duly.cli.names import DEFAULT_TENANT
from duly.cli.output import note, print_json, screen, tell_error
from duly.cli.payloads import read_payload, read_text
from duly.cli.schedules.dry_run import IN_EARNEST, DryRunOptions, consequence_view
from duly.cli.schedules.options import AS_USUAL, NO_BOUNDS, NO_RULE, DeliveryOptions, RuleOptions, TimetableOptions
from duly.cli.schedules.views import put_line
from duly.cli.targets.options import HERE, TargetOptions
from duly.duly import Duly
from duly.errors import DulyError, Invalid, Misuse, NotFound, Problem
from duly.records.event import lane_of
from duly.records.schedule import SCHEDULE_JSON, Schedule
from duly.records.wire.schedule_reader import read_schedule


def register(app: App) -> None:
    app.command(put, sort_key=4)


class PutResult(NamedTuple):
    """A stored schedule, and whether it was created, changed or unchanged."""

    schedule: Schedule
    change: str


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ContentOptions:
    """Options for the content of the events."""

    type: Annotated[str | None, Parameter(help="Event type; it selects the handler")] = None
    payload: Annotated[str | None, Parameter(help="Payload, as JSON", metavar="JSON", allow_leading_hyphen=True)] = None
    tag: Annotated[
        list[str] | None, Parameter(help="Name to select it by; may be repeated (default: as it was)", metavar="TAG")
    ] = None
    no_tags: Annotated[bool, Parameter(help="Without tags")] = False
    paused: Annotated[bool, Parameter(help="Pause it: it does not fire until resumed")] = False
    enabled: Annotated[bool, Parameter(help="Enable it, also if it was paused before")] = False

    def fields(self) -> dict[str, Any]:
        if self.paused and self.enabled:
            raise Misuse(
                "--paused and --enabled cannot be used together: give one, or neither to keep the present state"
            )
        switched: dict[str, Any] = {"enabled": self.enabled} if self.paused or self.enabled else {}
        if self.tag and self.no_tags:
            raise Misuse("--tag and --no-tags cannot be used together: give one, or neither to keep the tags")
        if self.tag or self.no_tags:
            switched["tags"] = self.tag or []
        payload = {} if self.payload is None else {"payload": read_payload(self.payload)}
        return {"type": self.type, **payload, **switched}


NOTHING = ContentOptions()

Options = tuple[ContentOptions, RuleOptions, TargetOptions, TimetableOptions, DeliveryOptions]


def put(
    name: str | None = None,
    /,
    *,
    what: ContentOptions = NOTHING,
    when: RuleOptions = NO_RULE,
    aimed: TargetOptions = HERE,
    bounds: TimetableOptions = NO_BOUNDS,
    delivery: DeliveryOptions = AS_USUAL,
    tenant: Annotated[str | None, Parameter(help="Tenant of the schedule (default: default)")] = None,
    file: Annotated[
        str | None,
        Parameter(
            help="Read schedules from a JSON file: an object, a list, or the output of `list --json`; - is "
            "standard input",
            allow_leading_hyphen=True,
        ),
    ] = None,
    dry: DryRunOptions = IN_EARNEST,
    invocation: Hidden,
) -> int:
    """Create a schedule, or replace the one with this name.

    duly schedules put weekly-report --type report.weekly --cron '0 9 * * MON' --timezone Europe/Brussels
    """
    options = (what, when, aimed, bounds, delivery)
    dry.check()
    if file is None:
        return asyncio.run(_put(name, options, tenant, dry, invocation))
    if options != (NOTHING, NO_RULE, HERE, NO_BOUNDS, AS_USUAL):
        raise Misuse(
            "with --file, only NAME, --tenant and --dry-run can be given: write the other settings in the file"
        )
    return asyncio.run(_put_file(name, file, tenant, dry, invocation))


async def _put(
    name: str | None, options: Options, tenant: str | None, dry: DryRunOptions, invocation: Invocation
) -> int:
    what, when, aimed, bounds, delivery = options
    if name is None:
        raise Misuse("give the name of the schedule, or --file")
    own, when = when.own_template()
    if what.type is None and own is None:
        raise Misuse("the event type is missing: give --type, as in --type report.weekly")
    options = (what, when, aimed, bounds, delivery)
    async with _opened(dry, invocation) as duly:
        settings = await settings_of(duly, options, tenant or DEFAULT_TENANT, partial=own is not None)
        written = {"name": name, "template": own, **settings}
        done = await put_one(duly, read_schedule(written, tenant=tenant), dry_run=dry.dry_run)
        await warn_of_unserved(duly, [done.schedule])
        now = await duly.now()
    if invocation.json:
        print_json(_to_json(done, dry))
    else:
        _print(done, dry, now)
    return 0


def _opened(dry: DryRunOptions, invocation: Invocation) -> AbstractAsyncContextManager[Duly]:
    """The Duly for a put; a dry run makes no file."""
    return invocation.duly_for_looking() if dry.dry_run else invocation.duly()


def _print(done: PutResult, dry: DryRunOptions, now: datetime) -> None:
    if dry.dry_run:
        screen().print(consequence_view(done.schedule.name, dry.seen(done.schedule.consequence)))
    else:
        screen().print(put_line(done.schedule, done.change, now), soft_wrap=True)


async def settings_of(duly: Duly, options: Options, tenant: str, *, partial: bool) -> dict[str, Any]:
    """The fields of a schedule or, if *partial*, of a template or for one: then the rule may be missing."""
    what, when, aimed, bounds, delivery = options
    written = {**what.fields(), **delivery.policies(), "timezone": when.timezone, **await bounds.policies(duly)}
    if not partial or when.says_when:
        written["rule"] = await when.rule(duly)
    return {**written, "target": await aimed.spec(duly, tenant)}


async def warn_of_unserved(duly: Duly, schedules: Iterable[Schedule]) -> None:
    """Notes on standard error which types no worker has served yet."""
    for warning in await duly.workers.warnings({lane_of(one.type, one.target) for one in schedules}):
        note(f"warning: {warning}")


async def put_one(duly: Duly, arguments: dict[str, Any], *, dry_run: bool = False) -> PutResult:
    """Stores a schedule; returns it with the change that this made."""
    before = await existing(duly, arguments["name"], arguments.get("tenant", "default"))
    after = await duly.schedules.put(**arguments, by=person(), dry_run=dry_run)
    return PutResult(after, change(before, after))


async def existing(duly: Duly, name: str, tenant: str) -> Schedule | None:
    try:
        return await duly.schedules.get(name, tenant=tenant)
    except NotFound:
        return None


def change(before: Schedule | None, after: Schedule) -> str:
    if before is None:
        return "created"
    moving: dict[str, Any] = dict.fromkeys(
        (
            "next_at",
            "last_at",
            "last_status",
            "held",
            "hold_kind",
            "halted",
            "halt_kind",
            "passed_over",
            "earlier_json",
            "consequence",
        )
    )
    same = msgspec.structs.replace(before, **moving) == msgspec.structs.replace(after, **moving)
    return "unchanged" if same else "changed"


async def _put_file(name: str | None, file: str, tenant: str | None, dry: DryRunOptions, invocation: Invocation) -> int:
    found, alone = _schedules_in(read_text(file))
    if name is not None and not alone:
        raise Misuse(f"{name!r} cannot be the name of every schedule in a list: remove NAME")
    done: list[PutResult] = []
    async with _opened(dry, invocation) as duly:
        for written in _in_order(found):
            try:
                arguments = read_schedule(written, name=name, tenant=tenant)
                done.append(await put_one(duly, arguments, dry_run=dry.dry_run))
            except DulyError as error:
                if alone:
                    raise
                tell_error(_of(written, error), json=invocation.json)
        await warn_of_unserved(duly, [one.schedule for one in done])
        now = await duly.now()
    if invocation.json:
        print_json(_to_json(done[0], dry) if alone else {"schedules": [_to_json(one, dry) for one in done]})
    else:
        for one in done:
            _print(one, dry, now)
    return 0 if len(done) == len(found) else 1


def _schedules_in(text: str) -> tuple[list[Any], bool]:
    """The schedules in a file, and whether the file holds a single one."""
    try:
        written = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid([Problem("file", f"is not valid JSON: {error}")]) from None
    if isinstance(written, dict) and isinstance(written.get("schedules"), list):
        written = written["schedules"]
    return (written, False) if isinstance(written, list) else ([written], True)


def _in_order(found: Sequence[Any]) -> list[Any]:
    """The schedules, ordered so that each comes after the one it depends on; those in a cycle are refused later, when
    they are stored."""
    waiting, ordered = list(found), []
    while waiting:
        names = {one.get("name") for one in waiting if isinstance(one, dict) and isinstance(one.get("name"), str)}
        ready = [one for one in waiting if _needs(one) not in names] or waiting
        ordered += ready
        waiting = [one for one in waiting if not any(one is each for each in ready)]
    return ordered


def _needs(written: Any) -> str | None:
    depends_on = written.get("depends_on") if isinstance(written, dict) else None
    name = depends_on.get("schedule") if isinstance(depends_on, dict) else None
    return name if isinstance(name, str) else None


def _of(written: Any, error: DulyError) -> DulyError:
    """The error, with the name of the schedule that caused it."""
    name = written.get("name") if isinstance(written, dict) else None
    if isinstance(error, Invalid):
        return Invalid([Problem(f"{name}: {path}" if name else path, message) for path, message in error.problems])
    return error


def _to_json(done: PutResult, dry: DryRunOptions) -> dict[str, Any]:
    told = {"consequence": dry.seen(done.schedule.consequence)} if dry.dry_run else {}
    return SCHEDULE_JSON.write(done.schedule) | told | {"change": done.change}
