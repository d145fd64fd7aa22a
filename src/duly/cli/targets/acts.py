"""``duly targets enable``, ``disable``, ``probe``, ``test``, ``limit``, ``reseal`` and ``delete``."""

import asyncio
from collections.abc import Callable
from typing import Annotated

from cyclopts import App, Parameter
from rich.text import Text

from duly.cli.batch import Act, ActResult, each
from duly.cli.exit_codes import DONE, FAILED
from duly.cli.invocation import Hidden, Invocation, person
from duly.cli.output import counted, note, print_json, readable, screen
from duly.cli.targets.options import HERE, TargetOptions
from duly.cli.targets.views import all_limits, done_to, named, what_came_back
from duly.duly import Duly
from duly.errors import Misuse
from duly.records.target import KNOWN_JSON, TARGET_JSON
from duly.target_secrets import ANEW

Tenant = Annotated[str, Parameter(help="Tenant of the target (default: default)")]


def register(app: App) -> None:
    verbs: tuple[Callable[..., int | None], ...] = (enable, disable, probe, send_test, limit, reseal, delete)
    for place, verb in enumerate(verbs, start=20):
        app.command(verb, name="test" if verb is send_test else None, sort_key=place)


def enable(*targets: str, tenant: Tenant = "default", invocation: Hidden) -> int:
    """Enable parked or disabled targets, by name, URL or origin. Events that wait for them are released."""

    async def act(duly: Duly, name: str) -> ActResult:
        released = await duly.targets.enable(name, tenant=tenant, by=person())
        waited = f": {counted(released, 'event')} that waited for it may start" if released else ""
        return await _done(duly, name, tenant, f"is enabled{waited}", released=released)

    return _each(targets, act, invocation)


def disable(
    *targets: str,
    reason: Annotated[str | None, Parameter(help="Reason, stored in the history and shown for waiting events")] = None,
    tenant: Tenant = "default",
    invocation: Hidden,
) -> int:
    """Disable targets, by name, URL or origin. Their events wait until they are enabled, and use no attempt.

    duly targets disable crm --reason 'it moves tonight'
    """

    async def act(duly: Duly, name: str) -> ActResult:
        await duly.targets.disable(name, tenant=tenant, reason=reason, by=person())
        return await _done(duly, name, tenant, "is disabled: its events wait until it is enabled")

    return _each(targets, act, invocation)


def probe(*targets: str, tenant: Tenant = "default", invocation: Hidden) -> int:
    """Probe parked targets now, by name, URL or origin, instead of at their next scheduled try."""

    async def act(duly: Duly, name: str) -> ActResult:
        await duly.targets.probe(name, tenant=tenant, by=person())
        return await _done(duly, name, tenant, "is tried by the next worker that checks it")

    return _each(targets, act, invocation)


def send_test(
    name: Annotated[str | None, Parameter(help="Name of a stored target")] = None,
    /,
    *,
    aimed: TargetOptions = HERE,
    tenant: Tenant = "default",
    invocation: Hidden,
) -> int:
    """Send a test to a target, stored or not, and show what came back. It is marked as a test, and nothing counts it.

    duly targets test crm
    """
    if (name is None) == (aimed == HERE):
        raise Misuse("give either the name of a target, or one of --webhook, --to, --command and --target")
    return asyncio.run(_test(name, aimed, tenant, invocation))


async def _test(name: str | None, aimed: TargetOptions, tenant: str, invocation: Invocation) -> int:
    async with invocation.duly_for_looking() as duly:
        if aimed.command is not None:
            duly.serve_commands()
        target = name if name is not None else await aimed.spec(duly, tenant)
        tested = await duly.targets.test(target or "", tenant=tenant, by=person())
    if invocation.json:
        print_json(tested)
    else:
        screen().print(what_came_back(tested), soft_wrap=True)
    return DONE if tested.outcome == "delivered" else FAILED


def _each(targets: tuple[str, ...], act: Act, invocation: Invocation) -> int:
    missing = "give names or URLs of targets; `duly targets list` and `duly targets destinations` show them"
    return each(targets, act, "destinations", missing, invocation)


async def _done(duly: Duly, destination: str, tenant: str, what: str, **told: int) -> ActResult:
    known = await duly.targets.known(destination, tenant=tenant)
    said = Text.assemble((readable(named(known)), "bold"), f" {readable(what)}")
    return ActResult(KNOWN_JSON.write(known) | told, said)


def limit(
    target: Annotated[
        str | None,
        Parameter(help="Name of a target, or an origin (default: all destinations of the tenant)", metavar="NAME|URL"),
    ] = None,
    /,
    *,
    concurrency: Annotated[
        int | None, Parameter(help="Maximum deliveries at once, for each worker", metavar="N")
    ] = None,
    rate: Annotated[
        str | None,
        Parameter(
            help="Rate limit for all workers together, such as 50/s or 600/m", metavar="RATE", allow_leading_hyphen=True
        ),
    ] = None,
    none: Annotated[bool, Parameter(help="Remove its limits")] = False,
    tenant: Tenant = "default",
    invocation: Hidden,
) -> None:
    """Set the rate limit and concurrency limit of a target. A limit that is not given is removed.

    duly targets limit crm --concurrency 5 --rate 50/s
    """
    if none and (concurrency is not None or rate is not None):
        raise Misuse("--none removes all limits: do not give other limits with it")
    if not none and concurrency is None and rate is None:
        raise Misuse("the limit is missing: give --concurrency 5 or --rate 50/s, for example, or --none for no limits")
    asyncio.run(_limit(target, concurrency, rate, tenant, invocation))


async def _limit(
    target: str | None, concurrency: int | None, rate: str | None, tenant: str, invocation: Invocation
) -> None:
    async with invocation.duly_for_looking() as duly:
        known = await duly.targets.limit(target, concurrency=concurrency, rate=rate, tenant=tenant, by=person())
    if invocation.json:
        print_json(KNOWN_JSON.write(known))
        return
    whose = f"{named(known)} of {tenant}" if target is None else named(known)
    given = all_limits(known)
    said = f" may have {given}" if given else " is not limited"
    screen().print(Text.assemble((readable(whose), "bold"), said), soft_wrap=True)


def reseal(*, tenant: Annotated[str | None, Parameter(help="Only in this tenant")] = None, invocation: Hidden) -> int:
    """Encrypt the secrets of targets again with the first key of DULY_SECRET_KEY, so that old keys can be removed.

    DULY_SECRET_KEY=NEW,OLD duly targets reseal
    """
    return asyncio.run(_reseal(tenant, invocation))


async def _reseal(tenant: str | None, invocation: Invocation) -> int:
    async with invocation.duly_for_looking() as duly:
        done = await duly.targets.reseal(tenant=tenant, by=person())
    if invocation.json:
        closed = [{"tenant": whose, "name": name} for whose, name in done.closed]
        print_json({"resealed": done.resealed, "unchanged": done.unchanged, "closed": closed})
    else:
        said = f"encrypted {counted(done.resealed, 'target')} again; {done.unchanged:,} used the first key already"
        screen().print(said, soft_wrap=True)
        for whose, name in done.closed:
            of = "" if whose == "default" else f" of {whose}"
            note(
                readable(
                    f"target {name}{of} cannot be decrypted with any key in DULY_SECRET_KEY: add its key, or {ANEW}"
                )
            )
    return 1 if done.closed else 0


def delete(
    *names: str,
    force: Annotated[
        bool, Parameter(help="Delete them even if events wait for them: those events become dead letters")
    ] = False,
    tenant: Tenant = "default",
    invocation: Hidden,
) -> int:
    """Delete targets. A target for which events wait is only deleted with --force."""

    async def act(duly: Duly, name: str) -> ActResult:
        target = await duly.targets.delete(name, force=force, tenant=tenant, by=person())
        return ActResult(TARGET_JSON.write(target), done_to(target, "deleted"))

    return each(names, act, "targets", "give the names of the targets; `duly targets list` shows them", invocation)
