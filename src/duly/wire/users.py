"""Users as JSON: snake_case, dates and times of day as they are written, UTC instants that end in Z."""

from typing import Any

import msgspec

from duly.instants import write_instant
from duly.records.event import Event
from duly.records.results import Imported, Refreshed, RefusedRow
from duly.records.user import User


def user_to_json(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "tenant": user.tenant,
        "key": user.key,
        "first_name": user.first_name,
        "last_name": user.last_name,
        "date_of_birth": user.date_of_birth.isoformat(),
        "timezone": user.timezone,
        "anniversary": None if user.anniversary is None else user.anniversary.isoformat(),
        "delivery_time": None if user.delivery_time is None else user.delivery_time.isoformat(),
        "leap": user.leap,
        "target": _stored(user.target_json, "null"),
        "attributes": _stored(user.attributes_json, "{}"),
        "created_at": write_instant(user.created),
        "updated_at": write_instant(user.updated),
        "warnings": user.warnings,
    }


def _stored(written: str | None, nothing: str) -> msgspec.Raw:
    return msgspec.Raw((nothing if written is None else written).encode())


def next_to_json(head: Event | None) -> dict[str, Any] | None:
    """In short, for lists."""
    if head is None:
        return None
    return {
        "id": head.id,
        "type": head.type,
        "due_at": write_instant(head.due),
        "local_at": None if head.local is None else head.local.isoformat(),
    }


def imported_to_json(done: Imported) -> dict[str, Any]:
    counts = {word: getattr(done, word) for word in ("added", "changed", "unchanged", "refused")}
    return counts | {"last_line": done.last}


def rehearsed_to_json(done: Imported) -> dict[str, Any]:
    """Nothing was added."""
    return {"good": done.rows - done.refused, "refused": done.refused, "last_line": done.last}


def refused_to_json(bad: RefusedRow) -> dict[str, Any]:
    return {"line": bad.number, "problems": [problem._asdict() for problem in bad.problems]}


def refreshed_to_json(done: Refreshed) -> dict[str, Any]:
    refused = {id: [problem._asdict() for problem in error.problems] for id, error in done.refused.items()}
    return {"users": done.users, "events": done.events, "refused": refused}
