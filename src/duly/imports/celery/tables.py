"""The tables of django-celery-beat. Neither Django nor Celery need be installed."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from duly.imports.celery.application import DEFAULT_QUEUE
from duly.imports.celery.crontab_fields import NAMES, fields_of
from duly.imports.celery.tasks import Task, content_of, crontab_fields, interval_rule
from duly.imports.databases import Query, read_rows
from duly.imports.found import Found, FoundJob, RefusedJob, Unfit
from duly.imports.zones import zone_name
from duly.rules.recurrence import DEFAULT_ZONE
from duly.rules.zones import to_wall
from duly.values.instants import write_instant

Row = Mapping[str, Any]

KINDS = ("crontab", "interval", "clocked", "solar")
"""The tables of times; a task has a row in one of them."""

PERIODS = ("days", "hours", "minutes", "seconds", "microseconds")

LIBRARY = "django-celery-beat"
TASKS = Query("django_celery_beat_periodictask", "SELECT * FROM django_celery_beat_periodictask ORDER BY name", LIBRARY)
TIMES = [
    Query(f"django_celery_beat_{kind}schedule", f"SELECT * FROM django_celery_beat_{kind}schedule", LIBRARY)
    for kind in KINDS
]

MICROSECOND = timedelta(microseconds=1)

QUEUES_ARE_ELSEWHERE = (
    "the tables do not know the routes of the application (task_routes, task_default_queue): tasks without a queue go "
    f"to {DEFAULT_QUEUE!r}"
)


class PeriodicTask(NamedTuple):
    """A row of the tasks, with its row of times."""

    row: Row
    kind: str
    times: Row

    @property
    def name(self) -> str:
        return str(self.row["name"])


async def read_tables(url: str) -> Found:
    """The periodic tasks of a database."""
    return found_in(*await read_rows(url, [TASKS, *TIMES]))


def found_in(tasks: list[Row], *times: list[Row]) -> Found:
    """The periodic tasks of the rows of the tables."""
    by_kind = {kind: {row["id"]: row for row in rows} for kind, rows in zip(KINDS, times, strict=True)}
    found = Found([], [])
    for row in tasks:
        try:
            found.jobs.append(_job(_joined(row, by_kind)))
        except Unfit as unfit:
            found.refused.append(RefusedJob(str(row["name"]), str(unfit)))
        except (TypeError, ValueError, OverflowError, KeyError) as error:  # written by hand, or a column is missing
            found.refused.append(RefusedJob(str(row["name"]), f"its row cannot be read: {error}"))
    anywhere = any(isinstance(job.schedule["target"]["celery"], str) for job in found.jobs)
    return found._replace(remarks=(QUEUES_ARE_ELSEWHERE,) if anywhere else ())


def _joined(row: Row, by_kind: Mapping[str, Mapping[Any, Row]]) -> PeriodicTask:
    chosen = [(kind, row.get(f"{kind}_id")) for kind in KINDS if row.get(f"{kind}_id") is not None]
    if len(chosen) != 1:
        raise Unfit(f"it has {len(chosen)} schedules instead of one")
    [(kind, id)] = chosen
    if (times := by_kind[kind].get(id)) is None:
        raise Unfit(f"its {kind} schedule is not in the database")
    return PeriodicTask(row, kind, times)


def _job(task: PeriodicTask) -> FoundJob:
    row = task.row
    if row["one_off"] and (row.get("total_run_count") or 0) > 0:
        raise Unfit("it is a one-off task and has run")
    content, notes = content_of(Task(row["task"], _json(row, "args"), _json(row, "kwargs"), _options(row)))
    timed, told = _times(task)
    paused = {} if row["enabled"] else {"enabled": False}
    return FoundJob(task.name, {**content, **timed, **_bounds(task), **paused}, (*told, *notes), task)


def _json(row: Row, field: str) -> Any:
    written = row.get(field)
    if not written:
        return None
    try:
        return msgspec.json.decode(written)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unfit(f"its {field} are not valid JSON: {error}") from None


def _options(row: Row) -> dict[str, Any]:
    options = {name: row.get(name) or None for name in ("queue", "exchange", "routing_key")}
    return {
        **options,
        "priority": row.get("priority"),
        "headers": _json(row, "headers") or None,
        "expires": row.get("expire_seconds"),
    }


def _times(task: PeriodicTask) -> tuple[dict[str, Any], tuple[str, ...]]:
    if task.kind == "solar":
        raise Unfit(f"it follows the sun ({task.times['event']}), and Duly has no solar rules")
    if task.kind == "clocked":
        return {"rule": {"at": write_instant(instant(task.times["clocked_time"]))}}, ()
    return _crontab(task) if task.kind == "crontab" else _interval(task)


def _crontab(task: PeriodicTask) -> tuple[dict[str, Any], tuple[str, ...]]:
    zone = zone_name(task.times.get("timezone") or DEFAULT_ZONE)
    fields = fields_of({theirs: task.times[theirs] for theirs in NAMES.values()})
    times = crontab_fields(fields, zone, count=1 if task.row["one_off"] else None)
    begin = task.row.get("start_time")
    if task.row["one_off"] and begin is not None:  # its one occurrence is counted from there
        times["rule"]["start"] = to_wall(instant(begin) - MICROSECOND, zone).replace(microsecond=0).isoformat()
    return times, ()


def _interval(task: PeriodicTask) -> tuple[dict[str, Any], tuple[str, ...]]:
    period = task.times["period"]
    if period not in PERIODS:
        raise Unfit(f"its period {period!r:.40} is unknown")
    try:
        interval = timedelta(**{period: task.times["every"]})
    except OverflowError:
        raise Unfit(f"its interval of {task.times['every']} {period} is too long") from None
    last, begin = task.row.get("last_run_at"), task.row.get("start_time")
    counted = instant(last if last is not None else begin) if (last is not None or begin is not None) else None
    if task.row["one_off"]:
        if counted is None:
            raise Unfit("it is a one-off task whose interval counts from the start of beat: schedule it with `duly at`")
        return {"rule": {"at": write_instant(counted + interval if last is not None else counted)}}, ()
    if counted is None:
        return {"rule": interval_rule(interval)}, ("its interval counts from the import; it has not run yet",)
    return {"rule": {**interval_rule(interval), "start": write_instant(counted.replace(microsecond=0))}}, ()


def _bounds(task: PeriodicTask) -> dict[str, str]:
    """No run before the start, and none at the end or later."""
    begin, end = task.row.get("start_time"), task.row.get("expires")
    return {
        **({} if begin is None else {"start": write_instant(instant(begin))}),
        **({} if end is None else {"end": write_instant(instant(end) - MICROSECOND)}),
    }


def instant(stored: Any) -> datetime:
    """An instant as the databases give it: SQLite has text, in UTC."""
    try:
        moment = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, AttributeError, OverflowError):
        raise Unfit(f"its time {stored!r:.60} cannot be read") from None
