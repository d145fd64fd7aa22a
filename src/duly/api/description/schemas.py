"""The shapes of what the API takes and answers, as JSON Schema. What no schema can say is checked all the same."""

from collections.abc import Mapping
from datetime import timedelta

from duly.api.description.rule_schemas import dst, policies, policy_changes, rule
from duly.api.description.schema_words import (
    MOST_BULK,
    PERSON,
    PRINTABLE,
    TARGET_NAME,
    Schema,
    a_date,
    a_time,
    answered,
    anything,
    choice,
    cursor,
    delay,
    each_maybe,
    given_cursor,
    given_instant,
    instant,
    listed,
    maybe,
    name,
    paged,
    rate,
    reason,
    ref,
    span,
    status,
    taken,
    text,
    url,
    uuid,
    whole,
    zone,
)
from duly.api.description.target_schemas import new_target, target
from duly.decide.checks import LONGEST_RETRY, MAX_ATTEMPTS, MOST_LISTED
from duly.decide.users import LONGEST_NAME
from duly.rules.yearly import LEAPS

_retry: Mapping[str, Schema] = {
    "max_attempts": whole(1, MAX_ATTEMPTS),
    "base": span(timedelta(), LONGEST_RETRY),
    "factor": {"type": "number", "minimum": 1, "maximum": 100},
    "max": span(timedelta(), LONGEST_RETRY),
}
_HOW_OFTEN = "How often and how soon a failed attempt is tried again"
retry: Schema = taken(_retry, description=_HOW_OFTEN)

_schedule: Mapping[str, Schema] = {
    "name": name("name", description="That of the address"),
    "tenant": name("tenant", description="That of the API key"),
    "type": name("type"),
    "rule": rule,
    "timezone": zone,
    "payload": anything,
    "target": target,
    **policies,
    "retry": retry,
    "enabled": {"type": "boolean"},
}

_PARTLY = {**policy_changes, "retry": taken(each_maybe(_retry), description=_HOW_OFTEN)}
"""Of these, a change may give some fields alone, and null is the default again."""

_person: Schema = text(1, LONGEST_NAME, pattern=PERSON)
_needed: Mapping[str, Schema] = {
    "first_name": _person,
    "last_name": _person,
    "date_of_birth": {**a_date, "description": "Not in the future, by the user's own calendar"},
    "timezone": zone,
}
_user: Mapping[str, Schema] = {
    "key": maybe(name("key", description="What your own system calls them; unique")),
    **_needed,
    "anniversary": maybe(a_date),
    "delivery_time": maybe(a_time),
    "leap": maybe(choice(*LEAPS)),
    "target": maybe(target),
    "attributes": maybe({"type": "object", "description": "What your own event types look at; at most 64 KB"}),
}

_timer: Mapping[str, Schema] = {
    "due_at": maybe(given_instant),
    "after": maybe(delay),
    "type": name("type"),
    "payload": anything,
    "target": maybe(target),
    "retry": maybe(retry),
    "correlation_id": maybe(name("correlation_id")),
}
_GIVEN: Schema = {"type": "string"}
_ONE_OF_THEM = [
    {"properties": {"due_at": _GIVEN, "after": {"type": "null"}}, "required": ["due_at"]},
    {"properties": {"after": _GIVEN, "due_at": {"type": "null"}}, "required": ["after"]},
]

_one_status = "|".join(status["enum"])
_statuses: Schema = {
    "type": "string",
    "pattern": f"^({_one_status})(,({_one_status}))*$",
    "description": "One, or several with commas between",
    "examples": ["PENDING", "FAILED,CANCELLED"],
}
_filter: Mapping[str, Schema] = {
    "status": {"anyOf": [_statuses, listed(status, minItems=1)]},
    "type": name("type"),
    "key": name("key"),
    "user_id": uuid,
    "schedule": name("name", description="The name of one that exists"),
    "destination": {
        "anyOf": [{"type": "string", "pattern": TARGET_NAME, "description": "The name of a stored target"}, url]
    },
    "error": text(1, 500, pattern=PRINTABLE, description="A part of the last error"),
    "due_from": given_instant,
    "due_to": given_instant,
    "failed_from": given_instant,
    "failed_to": given_instant,
    "late_by": delay,
}

FILTERS: Mapping[str, Schema] = {**_filter, "status": _statuses}
"""The same in an address."""

PAGING: Mapping[str, Schema] = {"limit": whole(1, MOST_LISTED, default=100), "cursor": given_cursor}

_errors = listed(answered({"path": {"type": "string"}, "message": {"type": "string"}}))

_event: Mapping[str, Schema] = {
    "id": uuid,
    "tenant": {"type": "string"},
    "key": maybe({"type": "string"}),
    "type": {"type": "string"},
    "status": status,
    "due_at": instant,
    "local_at": maybe({"type": "string", "description": "What the clocks of its zone show then"}),
    "timezone": maybe({"type": "string"}),
    "zone_data": maybe({"type": "string"}),
    "scheduled_at": maybe(instant),
    "ready_at": maybe(instant),
    "held": maybe({"type": "string", "description": "Why it waits"}),
    "series": maybe({"type": "string"}),
    "schedule": maybe({"type": "string", "description": "The name of its schedule"}),
    "user_id": maybe(uuid),
    "occurrence": maybe({"type": "string"}),
    "head": {"type": "boolean", "description": "Whether it is the next one of its series"},
    "stands_for": whole(1),
    "payload": anything,
    "target": maybe({"type": "object"}),
    "destination": maybe({"type": "string"}),
    "attempts": whole(0),
    "max_attempts": whole(1),
    "retry": {"type": "object"},
    "interruptions": whole(0),
    "version": whole(1),
    "correlation_id": maybe({"type": "string"}),
    "last_error": maybe({"type": "string"}),
    "worker": maybe({"type": "string"}),
    "created_at": instant,
    "claimed_at": maybe(instant),
    "executed_at": maybe(instant),
    "lateness_seconds": maybe({"type": "number"}),
}

_entry: Mapping[str, Schema] = {
    "at": instant,
    "act": {"type": "string"},
    "worker": maybe({"type": "string", "description": "Or the person, or the key"}),
    "version": maybe(whole(0)),
    "attempt": maybe(whole(0)),
    "claimed_at": maybe(instant),
    "detail": maybe({"type": "string"}),
}

_seen_target: Mapping[str, Schema] = {
    "id": uuid,
    "name": {"type": "string"},
    "tenant": {"type": "string"},
    "channel": choice("webhook", "http"),
    "url": {"type": "string"},
    "timeout": maybe({"type": "string"}),
    "headers": listed({"type": "string"}, description="Their names; values are never shown"),
    "enabled": {"type": "boolean"},
    "concurrency": maybe(whole(1)),
    "rate": maybe({"type": "string"}),
    "parked": maybe({"type": "string", "description": "Why nothing is sent"}),
    "parked_since": maybe(instant),
    "probe_at": maybe(instant),
    "created_at": maybe(instant),
    "updated_at": maybe(instant),
}

_history = listed(ref("Entry"))

_warnings: Schema = {
    **listed({"type": "string"}),
    "description": "What can be used as it is, and is seldom what was meant",
}

_read_schedule: Mapping[str, Schema] = {
    **{field: maybe(schema) for field, schema in _schedule.items()},
    "target": maybe({"type": "object"}),
    "retry": {"type": "object"},
    "misfire": {"type": "object"},
    "jitter": {"type": "string"},
    "depends_on": maybe({"type": "object"}),
    "rule": {"type": "object"},
    "dst": {"type": "object"},
    "exclude": listed({"type": "string"}),
    "start": maybe(instant),
    "end": maybe(instant),
    "id": uuid,
    "next_at": maybe(instant),
    "last_at": maybe(instant),
    "held": maybe({"type": "string"}),
    "halted": maybe({"type": "string", "description": "Why none follows: paused, ended, or an error"}),
    "origin": maybe({"type": "string", "description": "The function that declares it"}),
    "created_at": instant,
    "updated_at": instant,
    "passed_over": maybe(
        answered(
            {"count": whole(1), "first": listed(instant), "fire_with": {"type": "string"}},
            description="What this request has passed over: how many, the first few, and the command that fires one",
        )
    ),
    "warnings": _warnings,
}

_read_user: Mapping[str, Schema] = {
    "id": uuid,
    "tenant": {"type": "string"},
    **_user,
    "target": maybe({"type": "object"}),
    "attributes": {"type": "object"},
    "created_at": instant,
    "updated_at": instant,
    "warnings": _warnings,
}

_ignored: Mapping[str, Schema] = {
    field: {"description": "As it was read; ignored"}
    for field in (
        *("id", "next_at", "last_at", "held", "halted", "origin", "created_at", "updated_at", "passed_over"),
        "warnings",
    )
}


def _or_refused(schema: str) -> Schema:
    """One of many: what is bad is refused alone, so the request is good whatever it has there."""
    return {"anyOf": [ref(schema), {"description": "Anything else is refused; the others are not harmed"}]}


SCHEMAS: Mapping[str, Schema] = {
    "Problem": answered(
        {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "errors": _errors,
            "request_id": {"type": "string"},
        },
        description="RFC 9457",
    ),
    "Timer": taken({**_timer, "key": maybe(name("key"))}, "type", oneOf=_ONE_OF_THEM),
    "Timers": taken({"timers": listed(_or_refused("Timer"), minItems=1, maxItems=MOST_BULK)}, "timers"),
    "TimerResults": answered(
        {
            "created": whole(0),
            "changed": whole(0),
            "unchanged": whole(0),
            "refused": whole(0),
            "results": listed(
                answered(
                    {
                        "status": choice("created", "changed", "unchanged", "refused"),
                        "id": maybe(uuid),
                        "key": anything,
                        "errors": _errors,
                    }
                )
            ),
        }
    ),
    "Event": answered(_event),
    "EventWithHistory": answered({**_event, "history": _history, "history_cursor": cursor}),
    "Events": paged("events", "Event"),
    "History": paged("history", "Entry"),
    "Entry": answered(_entry),
    "Filter": taken(_filter, description="Which dead letters; all that is given must hold"),
    "Replay": taken(
        {"filter": ref("Filter"), **each_maybe({"rate": rate, "limit": whole(1), "cursor": given_cursor})}, "filter"
    ),
    "Replayed": answered(
        {"replayed": whole(0), "last_ready_at": maybe(instant), "left_alone": whole(0), "next_cursor": cursor}
    ),
    "Discard": taken(
        {"filter": ref("Filter"), **each_maybe({"reason": reason, "limit": whole(1), "cursor": given_cursor})}, "filter"
    ),
    "Discarded": answered({"discarded": whole(0), "left_alone": whole(0), "next_cursor": cursor}),
    "DeadLetters": answered(
        {
            "dead_letters": whole(0),
            "kinds": listed(
                answered(
                    {
                        "tenant": {"type": "string"},
                        "type": {"type": "string"},
                        "lane": {"type": "string"},
                        "destination": maybe({"type": "string"}),
                        "events": whole(1),
                    }
                )
            ),
        }
    ),
    "NewSchedule": taken({**each_maybe(_schedule), "type": name("type"), "rule": rule, **_ignored}, "type", "rule"),
    "ScheduleChanges": taken(
        {**each_maybe({**_schedule, **_PARTLY, "type": name("type")}), "type": name("type"), "rule": rule, **_ignored}
    ),
    "Schedule": answered(_read_schedule),
    "Schedules": paged("schedules", "Schedule"),
    "Resumed": answered({**_read_schedule, "passed": whole(0), "fires": {"type": "boolean"}}),
    "Deleted": answered({"name": {"type": "string"}, "cancelled": whole(0)}),
    "Backfilled": answered({"label": {"type": "string"}, "events": listed(uuid), "existing": whole(0)}),
    "Occurrences": answered(
        {
            "occurrences": listed(
                answered({"due_at": instant, "local_at": {"type": "string"}, "note": maybe({"type": "string"})})
            ),
            "complete": {"type": "boolean", "description": "Whether they are as many as were asked for, or all"},
        }
    ),
    "Preview": taken(
        {
            "rule": rule,
            **each_maybe(
                {
                    "timezone": zone,
                    "dst": dst,
                    "after": given_instant,
                    "count": whole(1, MOST_LISTED),
                    **{policy: policies[policy] for policy in ("start", "end", "exclude")},
                }
            ),
        },
        "rule",
    ),
    "NewUser": taken(_user, "first_name", "last_name", "date_of_birth", "timezone"),
    "UserChanges": taken(
        {
            **_user,
            "id": uuid,
            "tenant": name("tenant"),
            **{at: _ignored[at] for at in ("created_at", "updated_at", "warnings")},
        }
    ),
    "User": answered(_read_user),
    "Users": paged("users", "User"),
    "NewUsers": taken({"users": listed(_or_refused("UserRow"), minItems=1, maxItems=MOST_BULK)}, "users"),
    "UserRow": taken(_user, description="A new user, or what is to be changed of the one with this key"),
    "UserResults": answered(
        {
            "added": whole(0),
            "changed": whole(0),
            "unchanged": whole(0),
            "refused": whole(0),
            "results": listed(
                answered(
                    {
                        "status": choice("added", "changed", "unchanged", "refused"),
                        "id": maybe(uuid),
                        "key": anything,
                        "errors": _errors,
                    }
                )
            ),
        }
    ),
    "EventTypes": answered(
        {
            "event_types": listed(
                answered(
                    {
                        "name": {"type": "string"},
                        "source": choice("calendar", "handler"),
                        "depends_on": listed({"type": "string"}),
                    }
                )
            )
        }
    ),
    "NewTarget": new_target,
    "Target": answered(_seen_target),
    "TargetWithSecret": answered(
        {**_seen_target, "secret": maybe({"type": "string", "description": "Shown this once, where it is new"})}
    ),
    "Targets": paged("targets", "Target"),
    "Limits": taken({"concurrency": maybe(whole(1, 10_000)), "rate": maybe(rate)}),
    "Released": answered({"name": {"type": "string"}, "events": whole(0), "more": {"type": "boolean"}}),
}
