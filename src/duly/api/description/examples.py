"""Examples for the description of the API. Those of records are produced by the code that writes the records; a test
checks all others against their schemas."""

from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from duly.records.event import EVENT_JSON, Event, Status
from duly.records.history import ENTRY_JSON, Entry
from duly.records.schedule import SCHEDULE_JSON, Schedule
from duly.records.target import TARGET_JSON, Target
from duly.records.user import USER_JSON, User
from duly.records.wire.forms import JsonForm
from duly.records.workers.worker import LANE_JSON, WORKER_JSON, LaneInfo, WorkerInfo, WorkerKind, WorkerState

R = TypeVar("R", bound=msgspec.Struct)

_ID = "019a8f2e-6c00-7abc-8def-0123456789ab"
OTHER_EVENT_ID = "019a8f2e-6c00-7def-8abc-0123456789ab"
_USER = "019a8f2e-6c00-7000-8000-00000000ada0"
_EARLIER = datetime(2026, 10, 1, 12, tzinfo=UTC)
_NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
_DUE = datetime(2026, 12, 1, 9, tzinfo=UTC)


def _told(form: JsonForm[R], record: R) -> dict[str, Any]:
    """A record as a caller reads it: the decoded JSON."""
    return msgspec.json.decode(msgspec.json.encode(form.write(record)))  # type: ignore[no-any-return]


TIMER: dict[str, Any] = {
    "due_at": "2026-12-01T09:00:00Z",
    "type": "invoice.overdue",
    "payload": {"invoice": 7},
    "target": {"webhook": "https://hooks.example/duly"},
}

EVENT = _told(
    EVENT_JSON,
    Event(
        id=_ID,
        tenant="default",
        type="invoice.overdue",
        lane="webhook",
        status=Status.PENDING,
        due=_DUE,
        ready=_DUE,
        version=1,
        attempts=0,
        interruptions=0,
        stands_for=1,
        payload_json='{"invoice": 7}',
        target_json='{"webhook": "https://hooks.example/duly"}',
        retry_json=None,
        key="invoice-7",
        correlation_id=None,
        series=None,
        occurrence=None,
        head=False,
        held=None,
        hold_kind=None,
        held_for=None,
        last_error=None,
        created=_NOW,
        claimed=None,
        executed=None,
        worker=None,
        destination="https://hooks.example",
    ),
)

ENTRY = _told(
    ENTRY_JSON,
    Entry(_NOW, "rescheduled", "key console", detail="due 2026-12-01T08:00:00Z → 2026-12-01T09:00:00Z"),
)

NEW_TIMER = {**EVENT, "change": "created", "warnings": []}

TIMER_RESULTS: dict[str, Any] = {
    "created": 1,
    "changed": 0,
    "unchanged": 0,
    "already_fired": 0,
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
                    "message": "expected an instant with a time zone, such as 2026-12-01T09:00:00Z, not 5",
                }
            ],
        },
    ],
    "warnings": [],
}

NEW_SCHEDULE: dict[str, Any] = {
    "type": "report.weekly",
    "rule": {"cron": "0 9 * * MON"},
    "timezone": "Europe/Brussels",
    "target": {"webhook": "https://hooks.example/duly"},
    "misfire": {"policy": "latest"},
}

SCHEDULE = _told(
    SCHEDULE_JSON,
    Schedule(
        id="019a8f2e-6c00-7000-8000-000000005c4e",
        tenant="default",
        name="weekly-report",
        type="report.weekly",
        rule_json='{"cron": "0 9 * * MON"}',
        timezone="Europe/Brussels",
        target_json='{"webhook": "https://hooks.example/duly"}',
        created=_EARLIER,
        updated=_EARLIER,
        next_at=datetime(2026, 11, 23, 8, tzinfo=UTC),
        last_at=datetime(2026, 11, 16, 8, tzinfo=UTC),
        last_status=Status.COMPLETED,
    ),
)

MOVED: dict[str, Any] = {
    **SCHEDULE,
    "next_at": "2026-12-01T10:00:00Z",
    "passed_over": {
        "count": 1,
        "first": ["2026-11-30T08:00:00Z"],
        "fire_with": "duly schedules backfill weekly-report --from 2026-11-30T08:00:00Z --to 2026-11-30T08:00:01Z",
    },
}

CONSEQUENCE: dict[str, Any] = {
    "at": "2026-11-20T09:00:00Z",
    "message": "A new event is planned, due Mon 2026-11-30 09:00 Europe/Brussels. 1 occurrence is skipped, that of Mon "
    "2026-11-23 09:00 Europe/Brussels: skipped by ada: a holiday.",
    "moved": [],
    "skipped": {
        "count": 1,
        "first": [
            {
                "type": "report.weekly",
                "scheduled_at": "2026-11-23T08:00:00Z",
                "stands_for": 1,
                "reason": "skipped by ada: a holiday",
            }
        ],
    },
    "owed": {"count": 0, "first": []},
    "cancelled": {"count": 0, "first": []},
    "created": [{"id": None, "type": "report.weekly", "due_at": "2026-11-30T08:00:00Z"}],
    "switched": None,
    "deleted": False,
    "next": [
        {
            "type": "report.weekly",
            "due_at": "2026-11-30T08:00:00Z",
            "local_at": "2026-11-30T09:00:00",
            "timezone": "Europe/Brussels",
            "note": None,
            "viewer_at": "2026-11-30T17:00:00",
        }
    ],
    "viewer": "Asia/Tokyo",
    "load": [{"at": "2026-11-23T08:00:00Z", "now": 12, "after": 11}],
    "load_complete": True,
}

SKIPPED: dict[str, Any] = {**SCHEDULE, "next_at": "2026-11-30T08:00:00Z", "consequence": CONSEQUENCE}
"""Of a dry run."""

PREVIEW: dict[str, Any] = {"rule": {"cron": "30 2 * * *"}, "timezone": "Europe/Brussels", "count": 3}

WHY_NOT: dict[str, Any] = {
    "kind": "paused",
    "message": "the schedule was paused by key console at 2026-11-29T16:00:00Z, until 2026-12-01T10:00:00Z: "
    f"event {_ID} was skipped",
    "at": "2026-12-01T08:00:00Z",
    "local_at": "2026-12-01T09:00:00",
    "timezone": "Europe/Brussels",
    "event_id": _ID,
    "by": "key console",
    "until": "2026-12-01T10:00:00Z",
    "next_at": None,
}

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

FORECAST: dict[str, Any] = {
    "from": "2026-12-01T06:00:00Z",
    "to": "2026-12-01T08:00:00Z",
    "step": "1h",
    "steps": [
        {"at": "2026-12-01T06:00:00Z", "count": 0, "by_type": {}},
        {"at": "2026-12-01T07:00:00Z", "count": 412, "by_type": {"birthday": 411, "report.daily": 1}},
    ],
    "complete": True,
    "warnings": [],
}

_OF_A_DAY: dict[str, Any] = {
    "runs": 24,
    "completed": 23,
    "failed": 1,
    "skipped": 0,
    "success_rate": 0.9583333333333334,
    "duration": {"p50": 0.412, "p95": 1.18, "p99": 2.31},
    "lateness": {"p50": 0.00343, "p95": 0.00607, "p99": 0.0118},
}
STATS: dict[str, Any] = {
    "from": "2026-12-01T00:00:00Z",
    "to": "2026-12-02T00:00:00Z",
    "total": _OF_A_DAY,
    "days": [{**_OF_A_DAY, "day": "2026-12-01"}],
    "groups": [],
}

BACKFILLED: dict[str, Any] = {
    "label": "default",
    "events": [_ID],
    "existing": 0,
    "occurrences": ["2026-11-16T08:00:00Z"],
}

NEW_USER: dict[str, Any] = {
    "first_name": "Ada",
    "last_name": "Lovelace",
    "date_of_birth": "1990-12-10",
    "timezone": "Europe/London",
    "key": "crm-7",
}

USER = _told(
    USER_JSON,
    User(
        id=_USER,
        tenant="default",
        first_name="Ada",
        last_name="Lovelace",
        date_of_birth=date(1990, 12, 10),
        timezone="Europe/London",
        key="crm-7",
        created=_NOW,
        updated=_NOW,
    ),
)

USER_RESULTS: dict[str, Any] = {
    "added": 1,
    "changed": 0,
    "unchanged": 0,
    "refused": 1,
    "results": [
        {"status": "added", "id": _USER, "key": "crm-7", "errors": []},
        {"status": "refused", "id": None, "key": None, "errors": [{"path": "last_name", "message": "is missing"}]},
    ],
    "nowhere": {},
    "warnings": [],
}

TARGET = _told(
    TARGET_JSON,
    Target(
        id="019a8f2e-6c00-7000-8000-0000000054a9",
        tenant="default",
        name="shop",
        channel="webhook",
        spec_json='{"url": "https://hooks.example/duly"}',
        created=_NOW,
        updated=_NOW,
    ),
)

REPLAYED: dict[str, Any] = {
    "replayed": 250,
    "last_ready_at": "2026-11-16T12:00:05Z",
    "left_alone": 0,
    "next_cursor": None,
    "dry_run": False,
    "would": None,
    "kinds": [],
}
DISCARDED: dict[str, Any] = {
    "discarded": 12,
    "left_alone": 0,
    "next_cursor": None,
    "dry_run": False,
    "would": None,
    "kinds": [],
}
ACTED_ON: dict[str, Any] = {
    "done": 0,
    "left_alone": 0,
    "dry_run": True,
    "would": {"value": 12, "exact": True},
    "kinds": [{"tenant": "default", "type": "report.weekly", "state": "enabled", "many": 12}],
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

TYPE_SETTINGS: dict[str, Any] = {
    "tenant": "default",
    "type": "birthday",
    "default_text": "Hey, {first_name} {last_name} it's your birthday",
    "texts": {"de": "Alles Gute, {first_name}!", "default": "Happy birthday, {first_name}!"},
    "target": {"webhook": "https://hooks.example.com/birthdays"},
    "following": False,
    "created_at": "2026-11-16T12:00:00Z",
    "updated_at": "2026-11-16T12:00:00Z",
    "warnings": [],
}

TARGET_TEST: dict[str, Any] = {
    "id": OTHER_EVENT_ID,
    "target": "shop",
    "channel": "webhook",
    "outcome": "failed",
    "error": "503 Service Unavailable from hooks.example",
    "status": 503,
    "headers": {"Content-Type": "text/plain", "Retry-After": "30"},
    "body": "we are moving",
    "acknowledged": None,
    "seconds": 0.041,
    "parked": None,
}

SEARCH_RESULTS: dict[str, Any] = {
    "results": [
        {"kind": "event", "id": _ID, "name": "invoice-7", "title": "invoice.overdue", "status": "PENDING"},
        {"kind": "user", "id": _USER, "name": "crm-7", "title": "Ada Lovelace", "status": None},
    ]
}

METRICS = (
    "# HELP duly_http_requests_total Answered HTTP requests\n"
    "# TYPE duly_http_requests_total counter\n"
    'duly_http_requests_total{method="GET",route="/v1/events",status="200"} 12.0\n'
)

PROBLEMS: dict[int, str] = {
    400: "the body is not JSON: JSON is malformed: invalid character (byte 12)",
    401: "this request needs an API key: send it in the header Authorization: Bearer …",
    403: "this request needs the scope write, but the key has the scope read",
    404: "there is no event 019a8f2e-6c00-7abc-8def-0123456789ab",
    408: "the body did not arrive within 30 s",
    409: "cannot cancel event 019a8f2e-6c00-7abc-8def-0123456789ab: it is COMPLETED, and only PENDING can be cancelled",
    412: "it has changed since you read it, or does not exist: read it again, then repeat the change",
    413: "the body is larger than 2 MB: send less, or in several requests",
    415: "expected Content-Type: application/json, not text/plain",
    422: "1 problem, and nothing was changed",
    429: "more than 100 requests a second with this key: wait 0.5 s",
    431: "the request's head is larger than 64 KB",
    503: "the database is not available at the moment; nothing was changed. Try again in a few seconds.",
}


def page(name: str, item: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {name: [item], "next_cursor": None, **more}


TEMPLATE = {
    "name": "morning-report",
    "tenant": "default",
    "settings": {"type": "report", "rule": {"cron": "0 9 * * MON-FRI"}, "timezone": "Europe/Brussels"},
    "created_at": "2026-11-19T06:00:00Z",
    "updated_at": "2026-11-19T06:00:00Z",
    "built_in": False,
    "meaning": None,
}

AT_WORK = {
    "workers": [
        _told(
            WORKER_JSON,
            WorkerInfo(
                name="web1:4711:9f3c2a",
                host="web1",
                pid=4711,
                version="0.1.0",
                kind=WorkerKind.WORKER,
                lanes_json='["handler:invoice.overdue","webhook"]',
                started=_EARLIER,
                seen=_NOW,
                last_pass=_NOW,
                beat=timedelta(seconds=10),
                pass_limit=timedelta(seconds=65),
                state=WorkerState.RUNNING,
            ),
        )
    ],
    "lanes": [_told(LANE_JSON, LaneInfo(lane="webhook", served=True, seen=_NOW))],
}
