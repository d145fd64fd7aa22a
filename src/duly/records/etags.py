"""ETags of schedules, users and templates: equal for equal content, and different otherwise. A caller shows one to
prove which content its change is based on."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

from duly.errors import Stale

if TYPE_CHECKING:
    from duly.records.schedule import Schedule
    from duly.records.template import Template
    from duly.records.user import User

OF_SCHEDULES = (
    "id tenant name type timezone enabled rule_json policies_json payload_json target_json retry_json tags_json"
).split()
"""The fields of a schedule that people can edit, and its owner. Values that change by themselves, such as the next
firing, change no ETag."""

OF_USERS = (
    "id tenant key first_name last_name date_of_birth timezone anniversary delivery_time leap target_json "
    "attributes_json"
).split()
"""The fields of a user that people can edit, and the user's owner."""


OF_TEMPLATES = "tenant name settings_json".split()
"""The fields of a template that people can edit, and its owner."""


def schedule_tag(schedule: "Schedule") -> str:
    return _tag(schedule, OF_SCHEDULES)


def user_tag(user: "User") -> str:
    return _tag(user, OF_USERS)


def template_tag(template: "Template") -> str:
    return _tag(template, OF_TEMPLATES)


def check_tag(what: str, found: str, expected: str | None) -> None:
    """Raises Stale if the content is not the one that the caller has seen. A caller that expects nothing is never
    refused."""
    if expected is not None and found != expected:
        raise Stale(f"{what} has been changed since you read it: read it again, then repeat the change")


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
    except (ValueError, RecursionError):  # edited by hand in the database; it must still be possible to replace it
        return value
