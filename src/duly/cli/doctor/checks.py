"""The checks of ``duly doctor``, each with a finding and what to do."""

import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import NamedTuple

import apsw

from duly.cli.doctor.check_result import FAIL, OK, WARN, CheckResult
from duly.cli.doctor.command_checks import commands
from duly.cli.doctor.fixes import fix
from duly.cli.doctor.row_checks import rows
from duly.cli.doctor.service_checks import at_work, halted, unserved
from duly.cli.doctor.snapshot_checks import snapshots
from duly.cli.doctor.storage_checks import storage
from duly.cli.doctor.target_checks import engines, targets, webhooks
from duly.cli.doctor.zone_checks import zone_data
from duly.cli.invocation import Invocation, require_file
from duly.cli.output import brief, counted, utc, without_password
from duly.cli.processes.capabilities import SENT, handlers_of
from duly.duly import Duly
from duly.errors import ApiNotReady, DulyError, Misuse, NotWritable, StoreUnavailable
from duly.records.event import Status, lane_of
from duly.records.specs import Compare, Now, OneOf
from duly.stores.migrations import migrations, pending
from duly.values.durations import format_duration
from duly.verbs.events.events import MOST

FIRST_SOUND_SQLITE = (3, 51, 3)
"""The first version in which a reset of the WAL cannot corrupt the file."""

TOLERABLE_CLOCK = timedelta(seconds=1)
"""The difference between this host's clock and the database's that is not reported."""


class Wanted(NamedTuple):
    """How the checks are made."""

    every: bool = False  # compare the rows of every event, not only of the newest
    urgent: str = FAIL  # the level of what people have to act on
    nats_monitor: str | None = None  # the address of NATS' monitoring
    fixing: bool = False  # do what `fixes` can about findings


async def examine(invocation: Invocation, wanted: Wanted) -> tuple[list[CheckResult], list[str]]:
    """All findings, and what was fixed before them; checks that an earlier failure makes impossible are left out."""
    try:
        duly = invocation.duly()
    except Misuse as error:
        return [*_libraries(), CheckResult(FAIL, "app", str(error))], []
    findings, fixed = [*_libraries(), *_app(duly)], list[str]()
    looked_at = Duly(settings=duly.settings, migrate=False)
    try:
        require_file(looked_at)
        await looked_at.store.connect()
    except NotWritable as error:
        return [*findings, CheckResult(FAIL, "database", str(error))], fixed
    except StoreUnavailable as error:
        advice = "check that the database is running and that --db or DULY_DATABASE_URL is its address"
        return [*findings, CheckResult(FAIL, "database", str(error), advice)], fixed
    except DulyError as error:
        return [*findings, CheckResult(FAIL, "database", str(error))], fixed
    served = {lane_of(type, None) for type in handlers_of(duly)}
    try:
        if wanted.fixing:
            fixed += await fix(looked_at, [finding async for finding in _database(looked_at, served, wanted)])
        async for finding in _database(looked_at, served, wanted):
            findings.append(finding)  # one by one, to keep the findings when a later check fails
    except DulyError as error:
        findings.append(CheckResult(FAIL, "database", str(error)))
    finally:
        await looked_at.store.close()
    return findings, fixed


# -- this host


def _libraries() -> Iterator[CheckResult]:
    zones = version("tzdata")
    if int(zones.partition(".")[0]) < datetime.now(UTC).year - 1:
        yield CheckResult(WARN, "time zones", f"tzdata {zones} is old", "pip install --upgrade tzdata")
    else:
        yield CheckResult(OK, "time zones", f"tzdata {zones}")


def _app(duly: Duly) -> Iterator[CheckResult]:
    if handlers := handlers_of(duly):
        yield CheckResult(OK, "app", f"{counted(len(handlers), 'handler')}: {', '.join(sorted(handlers))}")


# -- the database


async def _database(duly: Duly, served: set[str], wanted: Wanted) -> AsyncIterator[CheckResult]:
    yield CheckResult(OK, "database", without_password(duly.settings.database_url))
    for finding in await (_sqlite(duly) if duly.one_writer else _postgres(duly)):
        yield finding
    applied = await duly.store.applied()
    newest = migrations(duly.store.dialect)[-1].version
    if missing := pending(duly.store.dialect, applied):
        found = f"at migration {applied} of {missing[-1].version}"
        yield CheckResult(FAIL, "schema", found, "run `duly migrate`")
        return
    yield CheckResult(OK, "schema", f"migration {applied}" + ("" if applied == newest else ", applied by a newer Duly"))
    if not duly.one_writer:
        yield await _api_role(duly)
    for checks in (
        storage(duly),
        snapshots(duly),
        zone_data(duly),
        at_work(duly),
        _events(duly, served, wanted),
        unserved(duly, wanted.urgent),
        halted(duly, wanted.urgent),
        targets(duly),
        rows(duly, every=wanted.every),
    ):
        async for finding in checks:
            yield finding


async def _sqlite(duly: Duly) -> list[CheckResult]:
    library_version = apsw.sqlite_lib_version()
    if tuple(int(part) for part in library_version.split(".")) < FIRST_SOUND_SQLITE:
        advice = "pip install --upgrade apsw: before 3.51.3, resetting the WAL could corrupt the file"
        library = CheckResult(FAIL, "SQLite", library_version, advice)
    else:
        library = CheckResult(OK, "SQLite", library_version)
    async with duly.transaction() as tx:
        journal = await tx.fetchval("PRAGMA journal_mode")
        synchronous = await tx.fetchval("PRAGMA synchronous")
    found = f"journal_mode {journal}, synchronous {_SYNCHRONOUS.get(synchronous, synchronous)}"
    if synchronous < 2:
        durable = CheckResult(
            FAIL, "durability", found, "synchronous must be FULL, or a power cut loses accepted events"
        )
    elif journal == "wal":
        durable = CheckResult(OK, "durability", found)
    else:
        durable = CheckResult(
            WARN, "durability", found, "put the file on a local disk: this file system does not support WAL mode"
        )
    return [library, durable, CheckResult(OK, "clock", "the database uses this host's")]


_SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


async def _postgres(duly: Duly) -> list[CheckResult]:
    async with duly.transaction() as tx:
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes")
        server, *settings = [await tx.fetchval(f"SHOW {name}") for name in names]
    off = [name for name, value in zip(names[1:], settings, strict=True) if value == "off"]
    found = ", ".join(f"{name} {value}" for name, value in zip(names[1:], settings, strict=True))
    advice = f"set {' and '.join(off)} to on in postgresql.conf, or a power cut loses accepted events" if off else None
    return [
        CheckResult(OK, "PostgreSQL", server),
        CheckResult(FAIL if off else OK, "durability", found, advice),
        await _clock(duly),
    ]


async def _api_role(duly: Duly) -> CheckResult:
    """Whether requests of the API could be served."""
    try:
        await duly.store.require_rls_role()
    except ApiNotReady as error:
        return CheckResult(FAIL, "API role", error.found, error.advice, tuple(error.sql), fix="api role")
    if (role := duly.settings.api_role) is None:
        return CheckResult(OK, "API role", "off: requests run without row-level security, for the tenant default alone")
    return CheckResult(OK, "API role", role)


async def _clock(duly: Duly) -> CheckResult:
    """The difference between the clocks: the best of a few measurements, as each is only as exact as its round trip."""
    looks = []
    for _ in range(5):
        began, monotonic = datetime.now(UTC), time.monotonic()
        theirs = await duly.now()
        trip = timedelta(seconds=time.monotonic() - monotonic)
        looks.append((trip, theirs - (began + trip / 2)))
    trip, apart = min(looks)
    found = f"this host's is {brief(apart)} {'behind' if apart > timedelta() else 'ahead of'} the database's"
    if abs(apart) > TOLERABLE_CLOCK + trip:
        advice = "synchronise both clocks (NTP); events fire by the database's clock, so no event is early or lost"
        return CheckResult(WARN, "clock", found, advice)
    return CheckResult(OK, "clock", found)


# -- waiting events


async def _events(duly: Duly, served: set[str], wanted: Wanted) -> AsyncIterator[CheckResult]:
    now, overview = await duly.now(), await duly.store.overview()
    waiting = [row for row in overview if row[1] in (Status.PENDING, Status.PROCESSING)]
    for finding in webhooks(duly, waiting):
        yield finding
    async for finding in engines(duly, waiting, wanted.nats_monitor):
        yield finding
    async for finding in commands(duly, waiting):
        yield finding
    handled = [row for row in waiting if row[0] not in SENT]
    for lane, _, count, oldest in handled:
        if served and lane not in served and oldest <= now:
            found = (
                f"{lane}: {counted(count, 'event')}, the oldest due {brief(now - oldest)} ago, and this "
                "app has no handler for it"
            )
            advice = "run a worker whose app has this handler, or cancel the events with `duly events cancel`"
            yield CheckResult(WARN, "handlers", found, advice)
    if served and all(lane in served or oldest > now for lane, _, _, oldest in handled):
        yield CheckResult(OK, "handlers", "every due event has a handler in this app")
    total = sum(row[2] for row in waiting)
    if waiting:
        oldest = min(row[3] for row in waiting)
        yield CheckResult(OK, "waiting", f"{counted(total, 'event')}, the oldest due {utc(oldest)} UTC")
    else:
        yield CheckResult(OK, "waiting", "no events")
    yield await _overdue(duly)
    dead = sum(row[2] for row in overview if row[1] == Status.FAILED)
    if dead:
        advice = "list them with `duly events list --dead`, then replay or discard them"
        yield CheckResult(wanted.urgent, "dead letters", counted(dead, "event"), advice)
    else:
        yield CheckResult(OK, "dead letters", "none")


async def _overdue(duly: Duly) -> CheckResult:
    late_after = duly.settings.late_after
    unfinished = OneOf("status", (Status.PENDING, Status.PROCESSING)) & Compare("due", "<", Now(-late_after))
    overdue = len(await duly.events.find(unfinished, limit=MOST))
    if not overdue:
        return CheckResult(OK, "overdue", f"none by more than {brief(late_after)}")
    found = f"{counted(overdue, 'event')}{' or more' if overdue == MOST else ''} by more than {brief(late_after)}"
    shown = f"duly events list --stuck --late-by {format_duration(late_after)}"
    return CheckResult(WARN, "overdue", found, f"check that a worker is running; list them with `{shown}`")
