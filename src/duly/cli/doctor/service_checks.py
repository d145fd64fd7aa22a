"""The checks of ``duly doctor`` for what people have to act on: unserved lanes, dead letters, halted schedules."""

import shlex
from collections.abc import AsyncIterator

from duly.cli.doctor.check_result import OK, WARN, CheckResult
from duly.cli.output import brief, counted
from duly.cli.processes.capabilities import SENT
from duly.decide.targets.commands import COMMAND
from duly.duly import Duly
from duly.records.event import HANDLER
from duly.records.workers.worker import WorkerState
from duly.verbs.workers import MOST_COUNTED, UnservedLane

MOST_SHOWN = 10
"""Halted schedules that are listed; the others are counted."""

READ = 1000
"""Halted schedules that are read."""


async def at_work(duly: Duly) -> AsyncIterator[CheckResult]:
    """Who is at work. No worker at all is no finding by itself: perhaps nothing is due."""
    workers = await duly.workers.list()
    for worker in workers:
        if worker.state is WorkerState.STALLED:
            found = (
                f"{worker.name}: its process lives, but its loop has completed no pass for {brief(worker.pass_limit)}"
            )
            advice = "restart it, and report a bug with its log"
            yield CheckResult(WARN, "workers", found, advice)
    running = sum(worker.state is WorkerState.RUNNING for worker in workers)
    yield CheckResult(OK, "workers", f"{counted(running, 'worker')} running; `duly workers` lists them")


async def unserved(duly: Duly, level: str) -> AsyncIterator[CheckResult]:
    """Overdue events in lanes that nobody serves."""
    late_after = duly.settings.late_after
    lanes = await duly.workers.unserved(late_after)
    now = await duly.now()
    for lane in lanes:
        since = "no worker ever served it" if lane.served is None else f"last served {brief(now - lane.served)} ago"
        found = f"{lane.lane}: {_counted(lane)}, the oldest for {brief(now - lane.ready)}; {since}"
        yield CheckResult(level, "unserved", found, _start(lane.lane))
    if not lanes:
        yield CheckResult(
            OK, "unserved", f"nothing waits for more than {brief(late_after)} in a lane that nobody serves"
        )


def _counted(lane: UnservedLane) -> str:
    if not lane.events:
        return "an event that a crash interrupted could begin again"
    more = " or more" if lane.events >= MOST_COUNTED else ""
    return f"{counted(lane.events, 'event')}{more} could have begun"


def _start(lane: str) -> str:
    type = lane.removeprefix(f"{HANDLER}:")
    if type != lane:
        return f"start a worker whose app has a handler for {type!r}: `duly worker --app MODULE`; or cancel the events"
    if lane == COMMAND:
        return "start a worker that runs commands: `duly worker --commands`; or cancel the events"
    return f"start a worker that can send to {SENT.get(lane, lane)}: `duly worker`; or cancel the events"


async def halted(duly: Duly, level: str) -> AsyncIterator[CheckResult]:
    """Schedules that have no next event because of an error."""
    found = await duly.schedules.halted(limit=READ)
    for schedule in found[:MOST_SHOWN]:
        tenant = "" if schedule.tenant == "default" else f"{schedule.tenant} · "
        whose = "" if schedule.tenant == "default" else f" --tenant {shlex.quote(schedule.tenant)}"
        name = f"{shlex.quote(schedule.name)}{whose}"
        advice = f"correct its rule with `duly schedules put`, then run `duly schedules resume {name}`"
        yield CheckResult(level, "schedules", f"{tenant}{schedule.name} is halted: {schedule.halted}", advice)
    if more := len(found[MOST_SHOWN:]):
        yield CheckResult(level, "schedules", f"and {more:,}{' or' * (len(found) == READ)} more that are halted")
    if not found:
        yield CheckResult(OK, "schedules", "none is halted by an error")
