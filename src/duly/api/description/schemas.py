"""JSON Schemas of request bodies. Rules that a schema cannot express are checked by the readers. Answers are described
by the structs that are written."""

from collections.abc import Mapping
from datetime import timedelta

from duly.api.description import filter_schemas
from duly.api.description.rule_schemas import dst, policies, policy_changes, rule
from duly.api.description.schema_words import (
    DUE_PLACE,
    MOST_BULK,
    PERSON,
    Schema,
    a_date,
    a_time,
    anything,
    choice,
    delay_or_seconds,
    each_maybe,
    exactly,
    given_cursor,
    given_instant,
    listed,
    maybe,
    name,
    rate,
    reason,
    ref,
    span,
    spans_or_seconds,
    taken,
    text,
    uuid,
    whole,
    zone,
)
from duly.api.description.target_schemas import calendar_target, new_target, target
from duly.decide.calendars.type_settings import DEFAULT, LANGUAGE_TAG, LONGEST_TEXT, MOST_TEXTS, TEXT_FIELDS
from duly.decide.calendars.users import LONGEST_NAME
from duly.decide.checks import LONGEST_RETRY, MAX_ATTEMPTS, MOST_LISTED
from duly.decide.tags import MOST_TAGS, TAG
from duly.records.calendar.type_settings import TYPE_SETTINGS_JSON
from duly.records.event import TIMER_SPANS
from duly.records.finding.sorting import NEWEST, SORTS
from duly.records.schedule import SCHEDULE_JSON
from duly.records.wire.schedule_reader import SETTINGS
from duly.rules.yearly import LEAPS

_retry: Mapping[str, Schema] = {
    "max_attempts": whole(1, MAX_ATTEMPTS),
    "base": span(timedelta(), LONGEST_RETRY),
    "factor": {"type": "number", "minimum": 1, "maximum": 100},
    "max": span(timedelta(), LONGEST_RETRY),
}
_HOW_OFTEN = "Retries: the number of attempts and the back-off between them"
retry: Schema = taken(_retry, description=_HOW_OFTEN)

_schedule: Mapping[str, Schema] = {
    "name": name("name", description="The same name as in the address"),
    "tenant": name("tenant", description="The tenant of the API key"),
    "type": name("type"),
    "rule": rule,
    "timezone": zone,
    "payload": anything,
    "target": target,
    **policies,
    "retry": retry,
    "tags": listed(
        {"type": "string", "pattern": exactly(TAG.strip("^$"))},
        maxItems=MOST_TAGS,
        description="Names by which it is selected; without them, it keeps those that it has",
    ),
    "enabled": {"type": "boolean"},
}

template: Schema = name("name", description="A template, built in or your own; what the body has not is copied from it")
_BY_ITSELF_OR_BY_TEMPLATE = [
    {"properties": {"type": {"type": "string"}, "rule": {"type": "object"}}, "required": ["type", "rule"]},
    {"properties": {"template": {"type": "string"}}, "required": ["template"]},
]

_PARTLY = {**policy_changes, "retry": taken(each_maybe(_retry), description=_HOW_OFTEN)}
"""Objects of which a change may set single fields; null resets a field to its default."""

_person: Schema = text(1, LONGEST_NAME, pattern=PERSON)
_needed: Mapping[str, Schema] = {
    "first_name": _person,
    "last_name": _person,
    "date_of_birth": {**a_date, "description": "Date of birth; not in the future in the user's time zone"},
    "timezone": zone,
}
_user: Mapping[str, Schema] = {
    "key": maybe(name("key", description="Your own id of the user; unique")),
    **_needed,
    "anniversary": maybe(a_date),
    "delivery_time": maybe(a_time),
    "leap": maybe(choice(*LEAPS)),
    "target": maybe(calendar_target),
    "attributes": maybe({"type": "object", "description": "Attributes for your own event types; at most 64 KB"}),
}

_FIELD_OF_A_TEXT = "|".join(TEXT_FIELDS)
_texts: Schema = {
    "type": "object",
    "description": "Texts by language, such as `de` or `de-AT`; `default` is for all other languages; null removes one",
    "propertyNames": {"pattern": exactly(f"{DEFAULT}|{LANGUAGE_TAG}")},
    "additionalProperties": maybe(
        text(1, LONGEST_TEXT, pattern=exactly(rf"([^{{}}]|\{{\{{|\}}\}}|\{{({_FIELD_OF_A_TEXT})\}})*"))
    ),
    "maxProperties": MOST_TEXTS,
}

_timer: Mapping[str, Schema] = {
    "due_at": maybe(given_instant),
    "after": maybe(delay_or_seconds),
    "type": name("type"),
    "payload": anything,
    "target": maybe(target),
    "retry": maybe(retry),
    "correlation_id": maybe(name("correlation_id")),
    "once": maybe(
        {"type": "boolean", "description": "Whether a key that has fired stays fired: true, unless `quiet` is given"}
    ),
    **each_maybe(spans_or_seconds(TIMER_SPANS)),
}
_GIVEN: Schema = {"type": "string"}
_NULL: Schema = {"type": "null"}
_ONE_OF_THEM = [
    {"properties": {"due_at": _GIVEN, "after": _NULL, "quiet": _NULL, "max_wait": _NULL}, "required": ["due_at"]},
    {
        "properties": {"after": {"type": ["string", "number"]}, "due_at": _NULL, "quiet": _NULL, "max_wait": _NULL},
        "required": ["after"],
    },
    {
        "properties": {
            "quiet": {"type": ["string", "number"]},
            "due_at": _NULL,
            "after": _NULL,
            "once": {"enum": [False, None]},
        },
        "required": ["quiet"],
    },
]

PAGING: Mapping[str, Schema] = {"limit": whole(1, MOST_LISTED, default=100), "cursor": given_cursor}
_LAST = "of the last item of the previous page, instead of a cursor"
PAGING_BY_ID: Mapping[str, Schema] = {**PAGING, "after": {**uuid, "description": f"The id {_LAST}"}}
PAGING_BY_NAME: Mapping[str, Schema] = {**PAGING, "after": name("name", description=f"The name {_LAST}")}
COUNTING: Mapping[str, Schema] = {
    "count": {
        **choice("true", "false"),
        "description": "With true, also tell how many match in all: exactly up to "
        "10,000, then as an estimate, whose `exact` is false",
    }
}
SORTED: Mapping[str, Schema] = {
    **PAGING,
    "after": {
        "anyOf": [uuid, {"type": "string", "pattern": DUE_PLACE}],
        "description": f"The id {_LAST}; in the order of due times, its `next_after`",
    },
    "sort": {
        **choice(*SORTS),
        "default": NEWEST,
        "description": "The order: the newest first, or waiting events (`PENDING`) by their due times, the next one "
        "first (`due`) or the last one first (`-due`)",
    },
    **COUNTING,
}

_ignored: Mapping[str, Schema] = {
    field: {"description": "Read-only; ignored in requests"} for field in SCHEDULE_JSON.types if field not in _schedule
}


def _or_refused(schema: str) -> Schema:
    """An item of a batch. A bad item is refused by itself, so the request is valid whatever the item is."""
    return {"anyOf": [ref(schema), {"description": "An invalid item is refused; the other items are not affected"}]}


SCHEMAS: Mapping[str, Schema] = {
    "Timer": taken({**_timer, "key": maybe(name("key"))}, "type", oneOf=_ONE_OF_THEM),
    "Timers": taken({"timers": listed(_or_refused("Timer"), minItems=1, maxItems=MOST_BULK)}, "timers"),
    "Filter": taken(filter_schemas.BODY, description="Filter of events; all given fields must match"),
    "ScheduleFilter": taken(
        filter_schemas.BODY_OF_SCHEDULES, description="Filter of schedules; all given fields must match"
    ),
    "Replay": taken(
        {"filter": ref("Filter"), **each_maybe({"rate": rate, "limit": whole(1), "cursor": given_cursor})}, "filter"
    ),
    "Discard": taken(
        {"filter": ref("Filter"), **each_maybe({"reason": reason, "limit": whole(1), "cursor": given_cursor})}, "filter"
    ),
    "NewSchedule": taken(
        {**each_maybe(_schedule), "template": maybe(template), **_ignored}, anyOf=_BY_ITSELF_OR_BY_TEMPLATE
    ),
    "NewTemplate": taken({field: maybe(_schedule[field]) for field in SETTINGS}),
    "ScheduleChanges": taken(
        {**each_maybe({**_schedule, **_PARTLY, "type": name("type")}), "type": name("type"), "rule": rule, **_ignored}
    ),
    "PreviewedRule": taken(
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
    "NewUsers": taken({"users": listed(_or_refused("UserRow"), minItems=1, maxItems=MOST_BULK)}, "users"),
    "UserRow": taken(_user, description="A new user, or the changed fields of the user with this key"),
    "TypeChanges": taken(
        {
            "texts": _texts,
            "target": maybe(calendar_target),
            **{
                field: {"description": "Read-only; ignored in requests"}
                for field in TYPE_SETTINGS_JSON.types
                if field not in ("texts", "target")
            },
        }
    ),
    "NewTarget": new_target,
    "Limits": taken({"concurrency": maybe(whole(1, 10_000)), "rate": maybe(rate)}),
}
