"""Examples for the description of the API: true to its schemas, which a test checks."""

from typing import Any

_ID = "019a8f2e-6c00-7abc-8def-0123456789ab"
_USER = "019a8f2e-6c00-7000-8000-00000000ada0"

TIMER: dict[str, Any] = {
    "due_at": "2026-12-01T09:00:00Z",
    "type": "invoice.overdue",
    "payload": {"invoice": 7},
    "target": {"webhook": "https://hooks.example/duly"},
}

RETRY = {"max_attempts": 3, "base": "30s", "factor": 4.0, "max": "1h"}

EVENT: dict[str, Any] = {
    "id": _ID,
    "tenant": "default",
    "key": "invoice-7",
    "type": "invoice.overdue",
    "status": "PENDING",
    "due_at": "2026-12-01T09:00:00Z",
    "local_at": None,
    "timezone": None,
    "zone_data": None,
    "scheduled_at": None,
    "ready_at": "2026-12-01T09:00:00Z",
    "held": None,
    "series": None,
    "schedule": None,
    "user_id": None,
    "occurrence": None,
    "head": False,
    "stands_for": 1,
    "payload": {"invoice": 7},
    "target": {"webhook": "https://hooks.example/duly"},
    "destination": "https://hooks.example",
    "attempts": 0,
    "max_attempts": 3,
    "retry": RETRY,
    "interruptions": 0,
    "version": 1,
    "correlation_id": None,
    "last_error": None,
    "worker": None,
    "created_at": "2026-11-16T12:00:00Z",
    "claimed_at": None,
    "executed_at": None,
    "lateness_seconds": None,
}

ENTRY: dict[str, Any] = {
    "at": "2026-11-16T12:00:00Z",
    "act": "rescheduled",
    "worker": "key console",
    "version": None,
    "attempt": None,
    "claimed_at": None,
    "detail": "due 2026-12-01T08:00:00Z → 2026-12-01T09:00:00Z",
}

TIMER_RESULTS: dict[str, Any] = {
    "created": 1,
    "changed": 0,
    "unchanged": 0,
    "refused": 1,
    "results": [
        {"status": "created", "id": _ID, "key": "invoice-7", "errors": []},
        {
            "status": "refused",
            "id": None,
            "key": None,
            "errors": [
                {
                    "path": "due_at",
                    "message": "expected an instant with its zone, such as 2026-12-01T09:00:00Z, not 5",
                }
            ],
        },
    ],
}

NEW_SCHEDULE: dict[str, Any] = {
    "type": "report.weekly",
    "rule": {"cron": "0 9 * * MON"},
    "timezone": "Europe/Brussels",
    "target": {"webhook": "https://hooks.example/duly"},
    "misfire": {"policy": "latest"},
}

SCHEDULE: dict[str, Any] = {
    "name": "weekly-report",
    "tenant": "default",
    "type": "report.weekly",
    "rule": {"cron": "0 9 * * MON"},
    "timezone": "Europe/Brussels",
    "payload": None,
    "target": {"webhook": "https://hooks.example/duly"},
    "misfire": {"policy": "latest", "tolerance": "30s", "limit": 100},
    "overlap": "allow",
    "max_concurrent": None,
    "depends_on": None,
    "start": None,
    "end": None,
    "dst": {"gap": "after", "overlap": "first"},
    "jitter": "0s",
    "exclude": [],
    "mode": "live",
    "retry": RETRY,
    "enabled": True,
    "id": "019a8f2e-6c00-7000-8000-000000005c4e",
    "next_at": "2026-11-23T08:00:00Z",
    "last_at": "2026-11-16T08:00:00Z",
    "held": None,
    "halted": None,
    "origin": None,
    "created_at": "2026-10-01T12:00:00Z",
    "updated_at": "2026-10-01T12:00:00Z",
    "passed_over": None,
    "warnings": [],
}

MOVED: dict[str, Any] = {
    **SCHEDULE,
    "next_at": "2026-12-01T10:00:00Z",
    "passed_over": {
        "count": 1,
        "first": ["2026-11-30T08:00:00Z"],
        "fire_with": "duly schedules backfill weekly-report --from 2026-11-30T08:00:00Z --to 2026-11-30T08:00:01Z",
    },
}

PREVIEW: dict[str, Any] = {"rule": {"cron": "30 2 * * *"}, "timezone": "Europe/Brussels", "count": 3}

OCCURRENCES: dict[str, Any] = {
    "occurrences": [
        {"due_at": "2027-03-27T01:30:00Z", "local_at": "2027-03-27T02:30:00", "note": None},
        {
            "due_at": "2027-03-28T01:00:00Z",
            "local_at": "2027-03-28T03:00:00",
            "note": "2027-03-28 has no 02:30: it fires right after the gap",
        },
    ],
    "complete": True,
}

BACKFILLED: dict[str, Any] = {"label": "2026-11-16T12:00:00Z", "events": [_ID], "existing": 0}

NEW_USER: dict[str, Any] = {
    "first_name": "Ada",
    "last_name": "Lovelace",
    "date_of_birth": "1990-12-10",
    "timezone": "Europe/London",
    "key": "crm-7",
}

USER: dict[str, Any] = {
    "id": _USER,
    "tenant": "default",
    **NEW_USER,
    "anniversary": None,
    "delivery_time": None,
    "leap": None,
    "target": None,
    "attributes": {},
    "created_at": "2026-11-16T12:00:00Z",
    "updated_at": "2026-11-16T12:00:00Z",
    "warnings": [],
}

USER_RESULTS: dict[str, Any] = {
    "added": 1,
    "changed": 0,
    "unchanged": 0,
    "refused": 1,
    "results": [
        {"status": "added", "id": _USER, "key": "crm-7", "errors": []},
        {"status": "refused", "id": None, "key": None, "errors": [{"path": "last_name", "message": "is missing"}]},
    ],
}

TARGET: dict[str, Any] = {
    "id": "019a8f2e-6c00-7000-8000-0000000054a9",
    "name": "shop",
    "tenant": "default",
    "channel": "webhook",
    "url": "https://hooks.example/duly",
    "format": "standard",
    "timeout": None,
    "headers": [],
    "enabled": True,
    "concurrency": None,
    "rate": None,
    "parked": None,
    "parked_since": None,
    "probe_at": None,
    "created_at": "2026-11-16T12:00:00Z",
    "updated_at": "2026-11-16T12:00:00Z",
}

REPLAYED: dict[str, Any] = {
    "replayed": 250,
    "last_ready_at": "2026-11-16T12:00:05Z",
    "left_alone": 0,
    "next_cursor": None,
}

DEAD_LETTERS: dict[str, Any] = {
    "dead_letters": 250,
    "kinds": [
        {
            "tenant": "default",
            "type": "invoice.overdue",
            "lane": "webhook",
            "destination": "https://hooks.example",
            "events": 250,
        }
    ],
}

EVENT_TYPES: dict[str, Any] = {
    "event_types": [
        {"name": "birthday", "source": "calendar", "depends_on": ["date_of_birth", "first_name", "last_name"]},
        {"name": "invoice.overdue", "source": "handler", "depends_on": []},
    ]
}

METRICS = (
    "# HELP duly_http_requests_total Requests that were answered\n"
    "# TYPE duly_http_requests_total counter\n"
    'duly_http_requests_total{method="GET",route="/v1/events",status="200"} 12.0\n'
)

PROBLEMS: dict[int, str] = {
    400: "the body is not JSON: JSON is malformed: invalid character (byte 12)",
    401: "this needs an API key: send it as Authorization: Bearer …",
    403: "this needs the scope write, and the key has read",
    404: "there is no event 019a8f2e-6c00-7abc-8def-0123456789ab",
    408: "the body did not arrive within 30 s",
    409: "cannot cancel event 019a8f2e-6c00-7abc-8def-0123456789ab: it is COMPLETED, and only PENDING can be cancelled",
    412: "it has changed since you read it, or is not there: read it again, and change that",
    413: "the body is larger than 2 MB: send less, or in several requests",
    415: "expected Content-Type: application/json, not text/plain",
    422: "1 problem, and nothing was changed",
    429: "more than 100 requests a second with this key: wait 0.5 s",
    431: "the request's head is larger than 64 KB",
    503: "the database cannot be used just now; nothing was changed. Try again in a moment.",
}


def page(name: str, item: dict[str, Any]) -> dict[str, Any]:
    return {name: [item], "next_cursor": None}
