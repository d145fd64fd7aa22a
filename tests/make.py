"""Builders: a test says what matters to it, and the rest is sensible.

make_event(ready=clock.now())
make_new(due=clock.now() + HOUR, key="invoice-7")
"""

from datetime import date, datetime, timedelta
from typing import Any

import msgspec

from duly.decide.lifecycle import DELIVERED, judge
from duly.decide.retry import DEFAULT, Retry, retry_text
from duly.decide.series.due_head import head_of
from duly.decide.targets.targets import destination_of
from duly.ids import new_id
from duly.records.event import (
    Event,
    Failed,
    Held,
    HoldKind,
    NewEvent,
    Rejected,
    Settlement,
    Status,
    Unreachable,
    lane_of,
)
from duly.records.schedule import Schedule
from duly.records.user import User
from duly.rules.notation import every
from duly.rules.recurrence import Occurrence, Rule
from duly.testing import ManualClock
from duly.values.instants import write_instant

START = ManualClock().now()
"""Where every test's clock starts; what is made without a due time is due then."""

MICROSECOND, SECOND, MINUTE, HOUR, DAY = (
    timedelta(microseconds=1),
    timedelta(seconds=1),
    timedelta(minutes=1),
    timedelta(hours=1),
    timedelta(days=1),
)
LEASE = timedelta(seconds=30)
LANE = "handler:greet"


def make_new(
    *, type: str = "greet", payload: Any = None, target: Any = None, retry: Retry = DEFAULT, **fields: Any
) -> NewEvent:
    """An event on its way to the store, due at the start of the test."""
    if "delay" not in fields:
        fields.setdefault("due", START)
    defaults = {
        "id": new_id(),
        "tenant": "default",
        "lane": lane_of(type, target),
        "destination": destination_of(target),
    }
    written = {"payload_json": _json(payload), "target_json": target and _json(target), "retry_json": retry_text(retry)}
    return NewEvent(type=type, **(defaults | written | fields))


def make_event(
    *,
    type: str = "greet",
    payload: Any = None,
    target: Any = None,
    retry: Retry = DEFAULT,
    status: Status | str = Status.PENDING,
    **fields: Any,
) -> Event:
    """An event as a store would tell of it: its times follow from its due time and its status."""
    status = Status(status)
    due = fields.pop("due", fields.get("ready") or START)
    processing, completed = status is Status.PROCESSING, status is Status.COMPLETED
    waiting = status is Status.PENDING and not fields.get("held")
    defaults = {
        "id": fields.get("id") or new_id(),
        "tenant": "default",
        "lane": lane_of(type, target),
        "ready": due if waiting else due + LEASE if processing else None,
        "hold_kind": HoldKind.PAUSED if fields.get("held") else None,
        "version": 1 if waiting else 2,
        "attempts": int(completed),
        "interruptions": 0,
        "stands_for": 1,
        "payload_json": _json(payload),
        "target_json": target and _json(target),
        "retry_json": retry_text(retry),
        "head": False,
        "created": due - HOUR,
        "claimed": due if processing or completed else None,
        "executed": due if completed else None,
        "worker": "w1" if processing or completed else None,
        "scheduled": due if fields.get("series") else None,
        "timezone": "UTC" if fields.get("series") else None,
        "gated": False,
        "is_test": False,
        "destination": destination_of(target),
    }
    empty: dict[str, Any] = dict.fromkeys(Event.__struct_fields__)
    return Event(**(empty | defaults | fields | {"type": type, "status": status, "due": due}))


def make_schedule(*, rule: Rule | None = None, type: str = "greet", payload: Any = None, **fields: Any) -> Schedule:
    """A schedule that repeats every hour from the start of the test."""
    rule = (rule or every("1h")).anchored(START)
    id = new_id()
    defaults = {"id": id, "tenant": "default", "name": f"hourly-{id}", "payload_json": _json(payload)}
    return Schedule(type=type, rule_json=_json(rule.to_json()), **(defaults | fields))


def make_head(schedule: Schedule | None = None, *, due: datetime = START, **fields: Any) -> NewEvent:
    """The next occurrence of a schedule, named by its instant."""
    head = head_of((schedule or make_schedule()).as_series, Occurrence(write_instant(due), due), new_id)
    return msgspec.structs.replace(head, **fields)


def a_user(**fields: Any) -> dict[str, Any]:
    """What a caller says of a user who was born on 15 March and lives in New York."""
    said = {"first_name": "Ada", "last_name": "Lovelace", "date_of_birth": "1990-03-15", "timezone": "America/New_York"}
    return said | fields


def make_user(*, attributes: Any = None, target: Any = None, **fields: Any) -> User:
    """The same user, as a store would tell of her."""
    said = a_user(**({"date_of_birth": date(1990, 3, 15)} | fields))
    written = {"attributes_json": attributes and _json(attributes), "target_json": target and _json(target)}
    return User(**({"id": new_id(), "tenant": "default"} | written | said))


def completed(event: Event) -> Settlement:
    return Settlement(event, DELIVERED)


def failed(event: Event, error: str = "503", *, jitter: float = 0.5) -> Settlement:
    """Tried again by the event's own policy, in the middle of how long that may take."""
    return Settlement(event, judge(Failed(error), event, jitter))


def rejected(event: Event, error: str = "410") -> Settlement:
    return Settlement(event, judge(Rejected(error), event, 0))


def given_back(event: Event, reason: str = "stopping", *, after: timedelta = timedelta()) -> Settlement:
    return Settlement(event, judge(Unreachable(reason, after), event, 0))


def held(event: Event, reason: str = "is parked: 503", *, parked: str | None = None) -> Settlement:
    """Waits for its destination, or for another thing that is parked."""
    return Settlement(event, judge(Held(parked or event.destination or "", reason), event, 0))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
