"""The runs of beat, by the code of Celery itself."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from duly.errors import Misuse
from duly.imports.celery.crontab_fields import NAMES
from duly.imports.celery.tables import PeriodicTask, instant
from duly.imports.found import NextRun
from duly.imports.zones import zone_name
from duly.rules.recurrence import DEFAULT_ZONE

NEEDED = "comparing asks Celery itself: run it where Celery is installed, as in `pip install celery`"


def runs_of_schedule(schedule: Any) -> NextRun:
    """The runs of one of Celery's schedules. It is asked as beat asks it, at the moment of a run: how long until the
    next?"""
    asked = object.__new__(type(schedule))
    asked.__dict__.update(schedule.__dict__)  # copy.copy would make it anew, without its application
    zone = asked.tz

    def following(last: datetime) -> datetime:
        local = last.astimezone(zone)
        asked.nowfun = lambda: local
        wait: timedelta = asked.remaining_estimate(local)
        return last.astimezone(UTC) + max(wait, timedelta())

    return following


def runs_of_task(task: PeriodicTask) -> NextRun:
    """The runs of a periodic task of django-celery-beat, within the bounds that its scheduler applies to Celery's
    schedules."""
    if task.kind == "clocked":
        at = instant(task.times["clocked_time"])
        return lambda last: at if last < at else None
    begin, end = task.row.get("start_time"), task.row.get("expires")
    following = runs_of_schedule(_schedule(task.kind, task.times))
    first = None if begin is None else instant(begin)
    if task.kind == "interval" and first is not None and task.row.get("last_run_at") is None:
        following = _from(first, following)
    return _bounded(following, first, None if end is None else instant(end), bool(task.row["one_off"]))


def _schedule(kind: str, times: Mapping[str, Any]) -> Any:
    try:
        from celery import Celery
        from celery.schedules import crontab, schedule
    except ImportError:
        raise Misuse(NEEDED) from None
    if kind == "interval":
        found = schedule(timedelta(**{times["period"]: times["every"]}))
        found.app = Celery("duly", set_as_current=False)
        return found
    found = crontab(**{theirs: times[theirs] for theirs in NAMES.values()})
    # In place of django-celery-beat's own class, which only adds the zone, and imports Django where it stands.
    zone = zone_name(times.get("timezone") or DEFAULT_ZONE)
    found.app = Celery("duly", set_as_current=False, changes={"timezone": zone})
    return found


def _from(first: datetime, following: NextRun) -> NextRun:
    return lambda last: first if last < first else following(last)


def _bounded(following: NextRun, begin: datetime | None, end: datetime | None, once: bool) -> NextRun:
    ran: list[datetime] = []

    def bounded(last: datetime) -> datetime | None:
        if once and ran and last >= ran[0]:
            return None
        found = following(last if begin is None else max(last, begin - timedelta(microseconds=1)))
        if found is None or (end is not None and found >= end):
            return None
        ran.append(found)
        return found

    return bounded
