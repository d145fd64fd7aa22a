"""What beat sends: a task with arguments and options, as the type, target and payload of a schedule."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from duly.decide.targets.brokers import celery
from duly.imports.calendar_fields import CalendarFields, rule_of
from duly.imports.found import Unfit, mapping, sequence
from duly.rules.recurrence import DEFAULT_ZONE
from duly.values.durations import format_duration

CARRIED = ("queue", "expires")

LEFT_BEHIND = {
    "priority": "Duly sends without a priority",
    "headers": "Duly sends its own headers alone",
    "serializer": "Duly sends JSON",
    "compression": "Duly does not compress",
    "retry": "Duly retries on its own when the broker is away",
    "retry_policy": "Duly retries on its own when the broker is away",
    "time_limit": "set it on the task",
    "soft_time_limit": "set it on the task",
    "ignore_result": "set it on the task",
    "delivery_mode": "messages are persistent",
    "add_to_parent": "a schedule has no parent task",
    "periodic_task_name": "the schedule has the name",
}
"""Options of a task that change how it is sent, but not whether, where or when; with what becomes of them."""

REFUSED = {
    "exchange": "Duly sends to queues alone",
    "routing_key": "Duly sends to queues alone",
    "countdown": "Duly has no delay beside the schedule",
    "eta": "Duly has no delay beside the schedule",
    "link": "Duly sends a task without callbacks",
    "link_error": "Duly sends a task without callbacks",
    "chain": "Duly sends single tasks",
    "chord": "Duly sends single tasks",
    "shadow": "Duly sends tasks under their own names",
    "task_id": "the task's id is the event's",
}
"""Options without which a task would do something else."""


class Task(NamedTuple):
    """A task as it stands beside its times."""

    name: str
    args: Any = ()
    kwargs: Any = None
    options: Mapping[str, Any] = {}


def content_of(task: Task) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of a schedule that sends a task, and notes on what does not carry over. Raises Unfit if Duly would
    send something else."""
    options = {name: value for name, value in task.options.items() if value is not None}
    for name, value in options.items():
        if name in REFUSED:
            raise Unfit(f"its option {name} {value!r:.60} cannot be carried over: {REFUSED[name]}")
        if name not in LEFT_BEHIND and name not in CARRIED:
            raise Unfit(f"its option {name!r:.40} is unknown here: remove it, or schedule the task by hand")
    queue = options.get("queue")
    if queue is not None and not isinstance(queue, str):
        raise Unfit(f"its queue is of type {type(queue).__name__}, not a name")
    notes = [f"{name} {value!r:.60}: {LEFT_BEHIND[name]}" for name, value in options.items() if name in LEFT_BEHIND]
    expires, told = _expires(options.get("expires"))
    content = {"type": task.name, "target": celery(task.name, queue=queue), "payload": _payload(task), **expires}
    return content, (*notes, *told)


def _payload(task: Task) -> Any:
    args, kwargs = sequence(task.args, "args"), mapping(task.kwargs, "kwargs")
    if args and kwargs:
        raise Unfit(
            "it has args and kwargs, and a payload becomes one of them: write all its arguments as kwargs, there or by "
            "`duly schedules put`"
        )
    return args or kwargs or None


def _expires(given: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    if given is None:
        return {}, ()
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if type(given) not in (int, float) or not given > 0:
        raise Unfit(f"its option expires {given!r:.60} is no number of seconds")
    span = format_duration(timedelta(seconds=given))
    told = f"expires {span}: Duly sends no task later than that, but a task that is sent does not expire"
    return {"expires": span}, (told,)


def crontab_fields(fields: CalendarFields, timezone: str, *, count: int | None = None) -> dict[str, Any]:
    """The rule and zone of a crontab. A time that the clocks skip runs later by the length of the gap, as with beat."""
    rule = rule_of(fields, count)
    local = timezone != DEFAULT_ZONE and "cron" in rule and not fields.spacing
    return {"rule": rule, "timezone": timezone, **({"dst": {"gap": "shift"}} if local else {})}


def interval_rule(interval: timedelta) -> dict[str, Any]:
    try:
        return {"every": format_duration(interval)}
    except ValueError as error:
        raise Unfit(f"its interval {interval} cannot be used: {error}") from None
