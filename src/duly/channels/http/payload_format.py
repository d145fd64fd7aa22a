"""The headers and the body of a webhook, signed if there is a secret."""

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from duly.decide.targets.secrets import signature
from duly.records.event import Event, EventUser
from duly.values.instants import write_instant

JSON = "application/json"
TEST_HEADER = "Duly-Test"
"""The header that marks a test, with the value ``true``. No other delivery has it."""

CLOUD = "application/cloudevents+json"

_encode = msgspec.json.Encoder().encode


class EventFacts(msgspec.Struct):
    """The facts of an event in the body of a webhook."""

    id: str
    key: str | None
    tenant: str
    due_at: str
    fired_at: str
    lateness_seconds: float
    attempt: int
    correlation_id: str | None
    schedule: str | None
    user: EventUser | None


class Body(msgspec.Struct):
    type: str
    timestamp: str
    data: msgspec.Raw
    event: EventFacts
    test: bool | msgspec.UnsetType = msgspec.UNSET  # only in tests


def standard_body(event: Event) -> bytes:
    """The body of a Standard Webhook: the event's type, its due time, its payload and its facts."""
    facts = facts_of(event)
    test = True if event.is_test else msgspec.UNSET
    return _encode(Body(event.type, facts.due_at, msgspec.Raw(event.payload_json.encode()), facts, test))


def facts_of(event: Event) -> EventFacts:
    fired = max(event.claimed or event.due, event.due)
    late = (fired - event.due).total_seconds()
    return EventFacts(
        event.id,
        event.key,
        event.tenant,
        write_instant(event.due),
        write_instant(fired),
        late,
        event.attempt,
        event.correlation_id,
        event.schedule,
        event.user,
    )


def subject_of(event: Event) -> str | None:
    """What the event is about, as the subject of a CloudEvent: the key of a timer, the name of a schedule, or the key
    of a user; of a user without a key, the id."""
    if event.user is not None:
        return event.user.key or event.user.id
    return event.key or event.schedule


def cloud_body(event: Event) -> bytes:
    """The body of a CloudEvent in structured mode. Names of extensions have no underscores there."""
    facts = facts_of(event)
    said: dict[str, Any] = {
        "specversion": "1.0",
        "id": event.id,
        "source": f"/duly/{quote(event.tenant, safe='')}",
        "type": event.type,
        "time": facts.due_at,
        "datacontenttype": JSON,
        "data": msgspec.Raw(event.payload_json.encode()),
        "firedat": facts.fired_at,
        "tenant": event.tenant,
        "attempt": facts.attempt,
    }
    if event.correlation_id is not None:
        said["correlationid"] = event.correlation_id
    if (subject := subject_of(event)) is not None:
        said["subject"] = subject
    if facts.schedule is not None:
        said["schedule"] = facts.schedule
    if facts.user is not None:
        said["userid"] = facts.user.id
        if facts.user.key is not None:
            said["userkey"] = facts.user.key
    if event.is_test:
        said["test"] = True
    return _encode(said)


BODY_FORMATS = {"standard": (JSON, standard_body), "cloudevents": (CLOUD, cloud_body)}
"""Content type and writer of each body format, for webhooks and for messages to brokers alike."""


def signed_headers(event: Event, body: bytes, secrets: Sequence[str], content_type: str) -> dict[str, str]:
    """The headers of a webhook. The id is the event's id, the same on every retry and replay; without a secret there is
    no signature."""
    now = int(time.time())
    headers = {
        "Content-Type": content_type,
        "webhook-id": event.id,
        "webhook-timestamp": str(now),
        "Idempotency-Key": event.id,
    }
    if event.is_test:
        headers[TEST_HEADER] = "true"
    if secrets:
        headers["webhook-signature"] = signature(secrets, event.id, now, body)
    return headers
