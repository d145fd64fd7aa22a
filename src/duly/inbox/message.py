"""The message of a delivery whose signature is valid."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from duly.inbox.refusals import Malformed


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    id: str  # the event's id, the same on every retry and replay
    type: str
    timestamp: datetime  # when the event was due
    data: Any  # the event's payload
    event: Mapping[str, Any]  # due_at, attempt and so on, as they were sent; for a CloudEvent, its other attributes


def read_message(id: str, body: bytes) -> Message:
    """Reads a body of either format. The body decides which, because the signature does not cover the content type."""
    content = _object(body)
    if "specversion" in content:
        own = {"specversion", "datacontenttype", "type", "time", "data"}
        event: Any = {name: value for name, value in content.items() if name not in own}
        time = content.get("time")
    else:
        event = content.get("event", {})
        time = content.get("timestamp")
    if not isinstance(content.get("type"), str) or not isinstance(event, dict):
        raise Malformed(
            "the signature is correct, but the body is not an event: it has no type, or its event is not an object"
        )
    return Message(id=id, type=content["type"], timestamp=_instant(time), data=content.get("data"), event=event)


def _object(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise Malformed("the signature is correct, but the body is not valid JSON") from None
    if not isinstance(content, dict):
        raise Malformed("the signature is correct, but the body is not a JSON object")
    return content


def _instant(text: Any) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is None:
            raise ValueError
        return instant.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise Malformed(
            "the signature is correct, but the body has no timestamp such as 2026-12-01T09:00:00Z"
        ) from None
