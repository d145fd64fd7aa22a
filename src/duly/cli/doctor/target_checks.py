"""The checks of ``duly doctor`` for events that are sent elsewhere."""

import shlex
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime
from importlib.metadata import version

from duly.channels.brokers.channel import BrokerChannel, BrokerDown
from duly.channels.brokers.registry import BROKERS, make_channel
from duly.cli.doctor.check_result import FAIL, OK, WARN, CheckResult
from duly.cli.doctor.nats_checks import durability
from duly.cli.output import brief, counted
from duly.cli.processes.capabilities import INSTALL, REQUESTS, open_brokers
from duly.cli.targets.pages import all_parked, all_targets
from duly.cli.targets.views import named, state, why
from duly.config import without_login
from duly.decide.targets.brokers import NATS
from duly.decide.targets.targets import WEBHOOK
from duly.duly import Duly
from duly.errors import Misuse
from duly.records.target import Known, Target
from duly.target_secrets import Seal

MOST_SHOWN = 10
"""Findings of one kind that are listed; the others are counted."""

Waiting = tuple[str, str, int, datetime]
"""A lane, a status, the number of events, and when the oldest is due."""


def webhooks(duly: Duly, waiting: Sequence[Waiting]) -> Iterator[CheckResult]:
    """Whether this host could send webhooks."""
    many = _counted(waiting, REQUESTS)
    if WEBHOOK not in duly.routes():
        if any(many.values()):
            found = f"{counted(sum(many.values()), 'event')} to send, but aiohttp is not installed here"
            yield CheckResult(WARN, "webhooks", found, f"{INSTALL} where workers run")
        return
    if many[WEBHOOK] and not duly.settings.secret_key:
        found = f"{counted(many[WEBHOOK], 'webhook')} to send, but DULY_SECRET_KEY is not set, so they cannot be signed"
        yield CheckResult(WARN, "webhooks", found, "set DULY_SECRET_KEY where workers run")
    else:
        yield CheckResult(OK, "webhooks", f"aiohttp {version('aiohttp')}")


async def engines(duly: Duly, waiting: Sequence[Waiting], nats_monitor: str | None) -> AsyncIterator[CheckResult]:
    """Whether brokers and task queues can be reached from here, and whether events need them."""
    many = _counted(waiting, BROKERS)
    absent = {channel.name: channel for channel in duly.absent()}
    for name, engine in BROKERS.items():
        url = getattr(duly.settings, f"{name}_url")
        if name not in absent:
            yield await _reached(name, url)
            if name == NATS:
                yield await durability(url, nats_monitor)
        elif many[name] or url is not None:
            held = f"{counted(many[name], 'event')} to send, but " if many[name] else ""
            yield CheckResult(
                WARN, engine.title, f"{held}{absent[name].lack} here", f"{absent[name].advice} where workers run"
            )
    if (told := open_brokers(duly)) is not None:
        yield CheckResult(OK, "over HTTP", told)


async def _reached(name: str, url: str) -> CheckResult:
    channel = make_channel(name, url)
    assert isinstance(channel, BrokerChannel)
    place = without_login(url).replace("***@", "").partition("?")[0]
    try:
        await channel.prepare()
    except BrokerDown as error:
        advice = "start it, or correct the URL; until then, events for it wait"
        return CheckResult(FAIL, BROKERS[name].title, f"{place}: {error}", advice)
    finally:
        await channel.close()
    return CheckResult(OK, BROKERS[name].title, place)


def _counted(waiting: Sequence[Waiting], lanes: Iterable[str]) -> dict[str, int]:
    return {lane: sum(row[2] for row in waiting if row[0] == lane) for lane in lanes}


async def targets(duly: Duly) -> AsyncIterator[CheckResult]:
    async for finding in _seals(duly):
        yield finding
    parked = await all_parked(duly, None)
    waiting = await duly.targets.waiting_for(parked)
    now = await duly.now()
    for known in parked[:MOST_SHOWN]:
        yield _parked(known, waiting.get((known.tenant, known.destination), 0), now)
    if len(parked) > MOST_SHOWN:
        yield CheckResult(WARN, "targets", f"and {len(parked) - MOST_SHOWN:,} more", "see `duly targets parked`")
    if not parked:
        yield CheckResult(OK, "targets", "none is parked")


async def _seals(duly: Duly) -> AsyncIterator[CheckResult]:
    """Targets whose secrets this Duly cannot decrypt: nothing could be sent to them from here."""
    sealed = [target for target in await all_targets(duly, None) if target.sealed is not None]
    if sealed and not duly.settings.secret_key:
        found = f"{counted(len(sealed), 'target')} with encrypted secrets, but DULY_SECRET_KEY is not set"
        yield CheckResult(FAIL, "secrets", found, "set the DULY_SECRET_KEY that encrypted them")
        return
    closed = list(dict.fromkeys(filter(None, (_closed(target, duly) for target in sealed))))
    for error in closed[:MOST_SHOWN]:
        found, _, advice = error.partition(": ")
        yield CheckResult(FAIL, "secrets", found, advice)
    if len(closed) > MOST_SHOWN:
        yield CheckResult(
            FAIL, "secrets", f"and {counted(len(closed) - MOST_SHOWN, 'more target')} that cannot be decrypted"
        )
    if sealed and not closed:
        yield CheckResult(OK, "secrets", f"DULY_SECRET_KEY decrypts the secrets of {counted(len(sealed), 'target')}")


def _closed(target: Target, duly: Duly) -> str | None:
    try:
        Seal(duly.settings.secret_key).open(target.sealed or "", target.tenant, target.name)
    except Misuse as error:
        return str(error)
    return None


def _parked(known: Known, many: int, now: datetime) -> CheckResult:
    tenant = "" if known.tenant == "default" else f"{known.tenant} · "
    since = "" if known.since is None else f" for {brief(now - known.since)}"
    reason = f": {why(known)}" if why(known) else ""
    waiting = f"; {counted(many, 'event')} waiting" if many else ""
    found = f"{tenant}{named(known)} is {state(known)}{since}{reason}{waiting}"
    whose = "" if known.tenant == "default" else f" --tenant {shlex.quote(known.tenant)}"
    act = "enable" if known.probe_at is None else "probe"
    return CheckResult(
        WARN, "targets", found, f"fix it, then run `duly targets {act} {shlex.quote(named(known))}{whose}`"
    )
