"""The runs of APScheduler's jobs, by the code of APScheduler itself. The triggers are made anew from what was read; no
pickle is loaded."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from duly.errors import Misuse
from duly.imports.apscheduler.job_store import Job
from duly.imports.apscheduler.triggers import Combined, Cron, Date, Interval, Trigger
from duly.imports.found import NextRun

NEEDED = (
    "comparing asks APScheduler itself: run it where APScheduler 3 is installed, as in `pip install 'apscheduler<4'`"
)

A_MOMENT = timedelta(milliseconds=1)
"""How long after a run APScheduler asks for the next one: it looks at the clock when the run was due."""


def runs_of_job(job: Job) -> NextRun:
    trigger = made(job.trigger)
    if isinstance(job.trigger, Interval):
        return _interval_runs(trigger, job.next_run)
    if isinstance(job.trigger, Date):
        at = job.next_run or job.trigger.at
        return lambda last: at if last < at else None
    return lambda last: _asked(trigger, last)


def _asked(trigger: Any, last: datetime) -> datetime | None:
    """The run after an instant. Of an earlier run it is told only where that is safe: a combined trigger would look for
    ever, and a trigger with a start heeds it before its first run alone."""
    begin = getattr(trigger, "start_date", None)
    if not hasattr(trigger, "timezone") or (begin is not None and last < begin):
        found: datetime | None = trigger.get_next_fire_time(None, last + timedelta(microseconds=1))
    else:
        local = last.astimezone(trigger.timezone)
        found = trigger.get_next_fire_time(local, local + A_MOMENT)
    return found


def _interval_runs(trigger: Any, next_run: datetime | None) -> NextRun:
    def following(last: datetime) -> datetime | None:
        if next_run is not None and last < next_run:
            return next_run
        found: datetime | None = trigger.get_next_fire_time(last.astimezone(trigger.timezone), last)
        return found

    if next_run is not None:
        return following
    return lambda last: trigger.get_next_fire_time(None, last + timedelta(microseconds=1))


def made(trigger: Trigger) -> Any:
    """A trigger of the library, without its jitter, which is random."""
    try:
        from apscheduler.triggers.combining import AndTrigger, OrTrigger
        from apscheduler.triggers.cron import CronTrigger
        from apscheduler.triggers.date import DateTrigger
        from apscheduler.triggers.interval import IntervalTrigger
    except ImportError:
        raise Misuse(NEEDED) from None
    match trigger:
        case Cron():
            fields = {name: ",".join(map(str, expressions)) for name, expressions in trigger.fields.items()}
            bounds = {"start_date": trigger.start, "end_date": trigger.end}
            return CronTrigger(**fields, **bounds, timezone=ZoneInfo(trigger.timezone))
        case Interval():
            seconds = trigger.every / timedelta(seconds=1)
            bounds = {"start_date": trigger.start, "end_date": trigger.end}
            return IntervalTrigger(seconds=seconds, **bounds, timezone=ZoneInfo(trigger.timezone))
        case Date():
            return DateTrigger(trigger.at, timezone=UTC)
        case Combined():
            kind = AndTrigger if trigger.by == "and" else OrTrigger
            return kind([made(each) for each in trigger.triggers])
