"""The ``beat_schedule`` of a Celery application."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from duly.errors import Misuse
from duly.imports.celery.crontab_fields import NAMES, fields_of
from duly.imports.celery.tasks import Task, content_of, crontab_fields, interval_rule
from duly.imports.found import Found, FoundJob, RefusedJob, Unfit
from duly.imports.zones import zone_name

DEFAULT_QUEUE = "celery"
"""The queue to which Duly sends tasks that name none."""

ROUNDED = {timedelta(minutes=1): "* * * * *", timedelta(hours=1): "0 * * * *", timedelta(days=1): "0 0 * * *"}
"""Intervals that, rounded to the clock by ``relative``, are times of the clock."""

FROM_THE_IMPORT = "its interval counts from the import; beat counts from its own last run"


def ready(app: Any) -> None:
    """Loads all that adds to the application's schedule, as beat does when it starts."""
    try:
        app.loader.init_worker()
        app.finalize()
    except Exception as error:
        raise Misuse(f"the Celery application cannot be loaded: {type(error).__name__}: {error}") from error


def read_application(app: Any) -> Found:
    """The entries of ``app.conf.beat_schedule``."""
    entries = app.conf.beat_schedule
    if not isinstance(entries, Mapping):
        raise Misuse(f"the beat_schedule of {app} is of type {type(entries).__name__}, not a mapping")
    found = Found([], [], tuple(_remarks(app)))
    for name, entry in entries.items():
        try:
            found.jobs.append(_job(app, str(name), dict(entry)))
        except Unfit as unfit:
            found.refused.append(RefusedJob(str(name), str(unfit)))
        except (TypeError, ValueError) as error:
            found.refused.append(RefusedJob(str(name), f"its entry cannot be read: {error}"))
    return found


def schedule_of(app: Any, entry: Mapping[str, Any]) -> Any:
    """The entry's schedule as beat makes it: numbers are seconds, and the application is its own."""
    from celery.schedules import maybe_schedule

    return maybe_schedule(entry.get("schedule"), bool(entry.get("relative")), app=app)


def _job(app: Any, name: str, entry: dict[str, Any]) -> FoundJob:
    task = entry.get("task")
    if not isinstance(task, str):
        raise Unfit(f"its task is of type {type(task).__name__}, not a name")
    schedule = schedule_of(app, entry)
    times, told = _times(schedule)
    options, routed = _routed(app, Task(task, entry.get("args"), entry.get("kwargs"), entry.get("options") or {}))
    content, notes = content_of(options)
    return FoundJob(name, {**content, **times}, (*told, *routed, *notes), schedule)


def _times(schedule: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    kind = f"{type(schedule).__module__}.{type(schedule).__name__}"
    if kind in ("celery.schedules.crontab", "django_celery_beat.tzcrontab.TzAwareCrontab"):
        if kind == "celery.schedules.crontab" and schedule.nowfun is not None:
            raise Unfit("its crontab has a clock of its own, nowfun, which no rule in Duly has")
        fields = fields_of({theirs: getattr(schedule, f"_orig_{theirs}") for theirs in NAMES.values()})
        return crontab_fields(fields, zone_name(schedule.tz)), ()
    if kind == "celery.schedules.schedule":
        if schedule.nowfun is not None:
            raise Unfit("its interval has a clock of its own, nowfun, which no rule in Duly has")
        return _interval(schedule)
    if kind == "celery.schedules.solar":
        raise Unfit(f"it follows the sun ({schedule.event}), and Duly has no solar rules")
    if schedule is None:
        raise Unfit("it has no schedule")
    raise Unfit(f"its schedule is a {kind}, and only its own code knows when it runs")


def _interval(schedule: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    interval = schedule.run_every
    if not isinstance(interval, timedelta):
        raise Unfit(f"its interval is of type {type(interval).__name__}")
    if not schedule.relative or interval < timedelta(minutes=1):
        return {"rule": interval_rule(interval)}, (FROM_THE_IMPORT,)
    if interval not in ROUNDED:
        raise Unfit(f"its interval {interval} is rounded to the clock (relative): write it as a crontab")
    return {"rule": {"cron": ROUNDED[interval]}, "timezone": zone_name(schedule.tz)}, ()


def _routed(app: Any, task: Task) -> tuple[Task, tuple[str, ...]]:
    """The task with the options that its own attributes and the routes of the application add."""
    own = app.tasks.get(task.name)
    names = ("queue", "exchange", "routing_key", "priority", "expires")
    attributes = {name: getattr(own, name, None) for name in names} if own is not None else {}
    options = {name: value for name, value in {**attributes, **task.options}.items() if value is not None}
    try:
        route = dict(app.amqp.router.route(dict(options), task.name, task.args or (), task.kwargs or {}))
    except Exception as error:  # a router may be the application's own function
        raise Unfit(f"the application cannot route it: {type(error).__name__}: {error}") from None
    queue = route.pop("queue", None)
    name = getattr(queue, "name", queue)
    kind = getattr(getattr(queue, "exchange", None), "type", "direct")
    told = () if kind in ("direct", None) else (f"queue {name}: Duly sends to it alone, not to its {kind} exchange",)
    destined = {} if name in (None, DEFAULT_QUEUE) else {"queue": name}
    return task._replace(options={**route, **destined}), told


def _remarks(app: Any) -> list[str]:
    if app.conf.result_expires and app.conf.result_backend:
        return [
            "beat also sends celery.backend_cleanup at 4:00 if the result backend needs it (databases do, Redis does "
            "not): schedule that task too if yours does"
        ]
    return []
