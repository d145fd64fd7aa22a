"""What no schema can say: the only problems for which data that a schema allows may be refused with 422."""

from typing import Any, NamedTuple

LONG_AGO = "2000-01-01T00:00:00Z"


class Query(dict[str, str]):
    """A query beside the example of a body."""


class SchemaException(NamedTuple):
    """A path among the errors of a problem document, and a body or query that shows the need for each operation."""

    path: str
    reason: str
    requests: dict[str, Any]


def _schedule(**more: Any) -> dict[str, Any]:
    """Ways to ask for a schedule: a new one, a change of one that fires at nine every day, and a template."""
    new = {"type": "x", "rule": {"cron": "0 9 * * *"}, **more}
    return {"put_schedule": new, "change_schedule": more, "put_template": more}


_ALONE = Query(viewer="Asia/Tokyo")
_DAILY = {"cron": "0 9 * * *"}
_BACKWARDS = {"start": "2030-01-02", "end": "2030-01-01"}
_NEVER = {"rule": {"cron": "0 9 * * MON"}, "exclude": ["MON"]}
_TWICE = {"target": {"http": {"url": "https://hooks.example/", "headers": {"X-One": "1", "x-one": "2"}}}}
_RUNS = {"target": {"command": {"argv": ["/opt/jobs/backup"]}}}

SCHEMA_EXCEPTIONS = (
    SchemaException(
        "max_wait",
        "it must not be less than quiet, in whatever unit each is written",
        {"put_timer": {"type": "x", "quiet": "2h", "max_wait": "1h"}},
    ),
    SchemaException(
        "end",
        "it must be after the start, in whatever zone each is written",
        {**_schedule(**_BACKWARDS), "preview_rule": {"rule": _DAILY, **_BACKWARDS}},
    ),
    SchemaException(
        "until",
        "the end of a pause must be later than now",
        {
            "pause_schedule": {"until": LONG_AGO},
            "pause_schedules": {"filter": {"type": "x"}, "until": LONG_AGO},
        },
    ),
    SchemaException(
        "filter",
        "it may be empty only if everything is meant",
        {
            "pause_schedules": {"filter": {}},
            "resume_schedules": {"filter": {}},
            "trigger_schedules": {"filter": {}},
            "cancel_events": {"filter": {"stuck": False}},
        },
    ),
    SchemaException(
        "jitter",
        "it must be shorter than two occurrences are apart, which the rule decides",
        _schedule(rule={"every": "1m"}, jitter="1m"),
    ),
    SchemaException(
        "rule",
        "it must fire some day, within its bounds and beside its days of rest",
        {**_schedule(**_NEVER), "preview_rule": _NEVER},
    ),
    SchemaException(
        "template",
        "it must exist",
        {"put_schedule": {"template": "nothing"}},
    ),
    SchemaException(
        "type",
        "a template need not have it",
        {"put_schedule": {"template": "hourly"}},
    ),
    SchemaException(
        "depends_on.schedule",
        "a change may give one of its two fields, if there is another to keep",
        {"change_schedule": {"depends_on": {"within": "1h"}}},
    ),
    SchemaException(
        "depends_on.within",
        "a change may give one of its two fields, if there is another to keep",
        {"change_schedule": {"depends_on": {"schedule": "load"}}},
    ),
    SchemaException(
        "to",
        "it must be after from, and not ahead of the server's clock",
        {"backfill_schedule": {"from": LONG_AGO, "to": LONG_AGO}},
    ),
    SchemaException(
        "to",
        "it must be after from, and at most ten years after it",
        {"forecast_events": {"from": LONG_AGO, "to": LONG_AGO}},
    ),
    SchemaException(
        "step",
        "it must not be shorter than a 2,000th of the range",
        {"forecast_events": {"from": LONG_AGO, "to": "2001-02-01T00:00:00Z", "step": "1s"}},
    ),
    SchemaException(
        "limit",
        "no more occurrences may be between from and to",
        {"backfill_schedule": {"from": LONG_AGO, "to": "2000-02-01T00:00:00Z", "limit": 1}},
    ),
    SchemaException(
        "target.*.headers.*",
        "names of headers that differ in capitals alone are the same",
        {
            "put_timer": {"type": "x", "after": "1h", **_TWICE},
            **_schedule(**_TWICE),
            "add_user": {
                "first_name": "Ada",
                "last_name": "Lovelace",
                "date_of_birth": "1990-12-10",
                "timezone": "UTC",
                **_TWICE,
            },
            "change_user": _TWICE,
        },
    ),
    SchemaException(
        "target.command",
        "it needs an admin key for all tenants, and is never tested over HTTP",
        {
            "put_timer": {"type": "x", "after": "1h", **_RUNS},
            **_schedule(**_RUNS),
            "test_unsaved_target": _RUNS,
        },
    ),
    SchemaException(
        "viewer",
        "it belongs to a dry run, and an act that was meant to be one must not be done",
        dict.fromkeys(
            (
                *("put_schedule", "change_schedule", "delete_schedule", "pause_schedule", "resume_schedule"),
                *("reschedule_next", "skip_next", "change_user", "delete_user"),
            ),
            _ALONE,
        ),
    ),
    SchemaException(
        "headers.*",
        "names of headers that differ in capitals alone are the same",
        {"put_target": {"url": "https://hooks.example/", "headers": {"X-One": "1", "x-one": "2"}}},
    ),
)
