"""The first page: what happened and what will happen on one time axis, and what needs somebody."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from starlette.responses import Response

from duly.dashboard.charts.time_axis import Change, FutureStep, PastStep, TimeAxis, draw
from duly.dashboard.pages import Pages
from duly.dashboard.times import Times
from duly.dashboard.visit import Visit
from duly.records.event import Event, Status
from duly.records.filters import EventFilter
from duly.records.finding.schedules import ScheduleFilter
from duly.records.schedule import HaltKind
from duly.records.workers.worker import WorkerState
from duly.rules.zones import instant_of, seconds_of, zone
from duly.values.instants import write_instant

pages = Pages()

TILES_FOR_S = 5.0
"""Seconds for which the numbers of what needs somebody are kept: counting them each second would cost too much."""

AXIS_FOR_S = 10.0
"""Seconds for which the bars are kept."""

MOST_DESTINATIONS = 200
"""Destinations that are looked at, to count those that are parked."""

FEW = 8
"""Events that the page shows of those that come next, and of those that ended last."""


class Range(NamedTuple):
    """A range that the axis can show, as long to the left as to the right of the present."""

    name: str
    words: str
    span: timedelta
    step: timedelta


RANGES = (
    Range("24h", "24 hours", timedelta(hours=24), timedelta(hours=1)),
    Range("7d", "7 days", timedelta(days=7), timedelta(hours=6)),
    Range("14d", "14 days", timedelta(days=14), timedelta(hours=12)),
)


class Tile(NamedTuple):
    """A number, and where to look at what it counts."""

    number: str
    words: str
    link: str
    kind: str = ""  # bad, warn


@pages.get("/")
async def now(visit: Visit) -> Response:
    """The state of the tenant at this moment."""
    wanted = visit.query.get("range", "24h")
    shown = next((one for one in RANGES if one.name == wanted), RANGES[0])
    axis = await visit.cached("axis", AXIS_FOR_S, lambda: _axis(visit, shown), shown.name)
    tiles = await visit.cached("tiles", TILES_FOR_S, lambda: _tiles(visit))
    return visit.live_page(
        "now.html",
        "now_live.html",
        here_is="now",
        axis=draw(axis._replace(now=visit.times.now), _label(visit.times, shown)),
        ranges=RANGES,
        shown=shown,
        tiles=tiles,
        coming=await _coming(visit),
        ended=await _ended(visit),
    )


async def _coming(visit: Visit) -> Sequence[Event]:
    """The events that are due next."""
    page = await visit.own.events.page(
        EventFilter(status=(Status.PENDING,)), tenant=visit.tenant, limit=FEW, sort="due"
    )
    return page.events


async def _ended(visit: Visit) -> Sequence[Event]:
    """The events that ended last, of the newest ones."""
    wanted = EventFilter(status=(Status.COMPLETED, Status.FAILED))
    return (await visit.own.events.page(wanted, tenant=visit.tenant, limit=FEW)).events


async def _tiles(visit: Visit) -> list[Tile]:
    """What needs somebody, and what does not."""
    own, tenant = visit.own, visit.tenant
    late_since = visit.times.now - visit.settings.late_after
    late = await own.events.count(EventFilter(status=(Status.PENDING,), due_to=late_since), tenant=tenant)
    dead = await own.events.dead_letters(tenant=tenant)
    parked = sum(
        one.parked is not None for one in await own.targets.destinations(tenant=tenant, limit=MOST_DESTINATIONS)
    )
    halted = await own.schedules.count(ScheduleFilter(halt_kind=HaltKind.ERROR), tenant=tenant)
    paused = await own.schedules.count(ScheduleFilter(enabled=False), tenant=tenant)
    unserved = [one.lane for one in await own.workers.lanes(tenant=tenant) if not one.served]
    lanes = visit.url("/system") if visit.sees_system else visit.url("/events", status="PENDING")
    waiting = visit.url("/events", status="PENDING", due_to=write_instant(late_since))
    tiles = [
        Tile(str(late), "waiting, and late", waiting, "warn" if late.value else ""),
        Tile(f"{dead.events:,}", "dead letters", visit.url("/dead-letters"), "bad" if dead.events else ""),
        Tile(f"{parked:,}", "parked targets", visit.url("/targets"), "bad" if parked else ""),
        Tile(
            str(halted), "schedules halted by an error", visit.url("/schedules", halt_kind="error"), _bad(halted.value)
        ),
        Tile(str(paused), "paused schedules", visit.url("/schedules", enabled="false")),
        Tile(f"{len(unserved):,}", _unserved(unserved), lanes, _bad(len(unserved))),
    ]
    if visit.sees_system:
        workers = await own.duly.workers.list()
        running = sum(one.state in (WorkerState.RUNNING, WorkerState.DRAINING) for one in workers)
        tiles.append(Tile(f"{running:,}", "workers", visit.url("/system"), "" if running else "bad"))
    return tiles


def _bad(many: int) -> str:
    return "bad" if many else ""


def _unserved(lanes: Sequence[str]) -> str:
    if not lanes:
        return "lanes that nobody serves"
    return f"that nobody serves: {', '.join(lanes[:2])}{' …' if len(lanes) > 2 else ''}"


async def _axis(visit: Visit, shown: Range) -> TimeAxis:
    present = visit.times.now
    whole = instant_of(seconds_of(present) // int(shown.step.total_seconds()) * int(shown.step.total_seconds()))
    since, until = whole - shown.span + shown.step, whole + shown.span
    past = [
        PastStep(one.at, one.completed - one.late, one.late, one.failed, one.skipped)
        for one in await visit.own.runs_by_step(since, until, shown.step)
        if one.at <= whole
    ]
    forecast = await visit.own.forecast(whole, until, shown.step)
    future = [FutureStep(step.at, step.count) for step in forecast.steps]
    return TimeAxis(past, future, shown.step, present, _changes(visit.times.zone, since, until))


def _changes(name: str, since: datetime, until: datetime) -> list[Change]:
    """The changes of the visitor's clocks in a range."""
    found, at = [], seconds_of(since)
    while at < seconds_of(until):
        piece = zone(name).piece(at)
        if piece.end >= seconds_of(until):
            break
        if piece.after != piece.offset:
            forward = piece.after > piece.offset
            found.append(Change(instant_of(piece.end), "clocks go forward" if forward else "clocks go back"))
        at = piece.end
    return found


def _label(times: Times, shown: Range) -> Callable[[datetime], str]:
    pattern = (
        "%H:%M" if shown.span <= timedelta(days=1) else "%a %d %H:%M" if shown.step < timedelta(hours=12) else "%d %b"
    )
    return lambda at: times.local(at).strftime(pattern)
