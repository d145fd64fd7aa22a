"""Tags: what a thing looked like to whoever wants to change it. Equal for equal content, and else another."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

from duly.errors import Stale

if TYPE_CHECKING:
    from duly.records.schedule import Schedule
    from duly.records.user import User

OF_SCHEDULES = (
    "id tenant name type timezone enabled rule_json policies_json payload_json target_json retry_json"
).split()
OF_USERS = (
    "id tenant key first_name last_name date_of_birth timezone anniversary delivery_time leap target_json "
    "attributes_json"
).split()
"""What people can edit, and whose it is. What happens by itself, such as the next firing, changes no tag."""


def schedule_tag(schedule: "Schedule") -> str:
    return _tag(schedule, OF_SCHEDULES)


def user_tag(user: "User") -> str:
    return _tag(user, OF_USERS)


def check_tag(what: str, found: str, expected: str | None) -> None:
    """Stale if this is not what the caller has seen. Who expects nothing is content with anything."""
    if expected is not None and found != expected:
        raise Stale(f"{what} has been changed since: read it again, and decide by what it says now")


def _tag(thing: Any, fields: list[str]) -> str:
    values = [_content(field, getattr(thing, field)) for field in fields]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:32]


def _content(field: str, value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if not field.endswith("_json"):
        return str(value)
    try:
        return [json.loads(value)]
    except (ValueError, RecursionError):  # written there by hand, and still something to replace
        return value
