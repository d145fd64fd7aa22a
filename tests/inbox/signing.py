"""Deliveries as a receiver gets them, signed by the reference library."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook

ID = "019ab0c1-7d3e-7a55-9c0e-4b8f3a2d1e00"
SECRET = "whsec_" + b64encode(b"known to Duly and to us alone").decode()
OTHER = "whsec_" + b64encode(b"known to somebody else, not us").decode()


def make_body(message: str = "Hey, Ada Lovelace it's your birthday", **changes: Any) -> bytes:
    event: dict[str, Any] = {
        "id": ID,
        "tenant": "default",
        "due_at": "2026-12-01T09:00:00Z",
        "fired_at": "2026-12-01T09:00:00.02Z",
    }
    event |= {"lateness_seconds": 0.02, "attempt": 1, "correlation_id": None}
    envelope = {
        "type": "birthday",
        "timestamp": "2026-12-01T09:00:00.02Z",
        "data": {"message": message},
        "event": event,
    }
    return json.dumps(envelope | changes).encode()


def sign(body: bytes, *secrets: str, id: str = ID, at: datetime | None = None) -> dict[str, str]:
    at = at or datetime.now(UTC)
    signatures = [Webhook(secret).sign(id, at, body.decode()) for secret in secrets or [SECRET]]
    return {
        "webhook-id": id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
        "idempotency-key": id,
        "content-type": "application/json",
    }
