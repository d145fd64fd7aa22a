"""Events, their history, and what becomes of many of them, as JSON: snake_case, UTC instants that end in Z."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from duly.instants import write_instant
from duly.ports import DeadLetters
from duly.records.event import Event
from duly.records.history import Entry
from duly.records.results import Discarded, Replayed


def event_to_json(event: Event, schedule: str | None = None) -> dict[str, Any]:
    """With the name of its schedule, which the event itself does not know."""
    lateness = event.lateness
    return {
        "id": event.id,
        "tenant": event.tenant,
        "key": event.key,
        "type": event.type,
        "status": event.status.value,
        "due_at": write_instant(event.due),
        "local_at": None if event.local is None else event.local.isoformat(),
        "timezone": event.timezone,
        "zone_data": event.zone_data,
        "scheduled_at": write_instant(event.scheduled),
        "ready_at": write_instant(event.ready),
        "held": event.held,
        "series": event.series,
        "schedule": schedule,
        "user_id": event.user_id,
        "occurrence": event.occurrence,
        "head": event.head,
        "stands_for": event.stands_for,
        "payload": msgspec.Raw(event.payload_json.encode()),
        "target": event.target,
        "destination": event.destination,
        "attempts": event.attempts,
        "max_attempts": event.retry.max_attempts,
        "retry": event.retry.to_json(),
        "interruptions": event.interruptions,
        "version": event.version,
        "correlation_id": event.correlation_id,
        "last_error": event.last_error,
        "worker": event.worker,
        "created_at": write_instant(event.created),
        "claimed_at": write_instant(event.claimed),
        "executed_at": write_instant(event.executed),
        "lateness_seconds": None if lateness is None else lateness.total_seconds(),
    }


def events_to_json(events: Iterable[Event], schedules: Mapping[str, str]) -> list[dict[str, Any]]:
    """With the names of their schedules, by the events' ids."""
    return [event_to_json(event, schedules.get(event.id)) for event in events]


def entry_to_json(entry: Entry) -> dict[str, Any]:
    return {
        "at": write_instant(entry.at),
        "act": entry.act,
        "worker": entry.worker,
        "version": entry.version,
        "attempt": entry.attempt,
        "claimed_at": write_instant(entry.claimed),
        "detail": entry.detail,
    }


def dead_letters_to_json(letters: DeadLetters) -> dict[str, Any]:
    return {"dead_letters": letters.events, "kinds": [kind._asdict() for kind in letters.kinds]}


def replayed_to_json(done: Replayed) -> dict[str, Any]:
    return {"replayed": done.events, "last_ready_at": write_instant(done.until), "left_alone": done.left_alone}


def discarded_to_json(done: Discarded) -> dict[str, Any]:
    return {"discarded": done.events, "left_alone": done.left_alone}
