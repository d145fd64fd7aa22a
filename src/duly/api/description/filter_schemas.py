"""JSON Schemas of filters, derived from the fields of `EventFilter` and `ScheduleFilter`: as query parameters, and in a
body."""

from collections.abc import Mapping

from duly.api.description.schema_words import (
    PRINTABLE,
    TARGET_NAME,
    Schema,
    choice,
    delay,
    exactly,
    given_instant,
    in_any_case,
    listed,
    name,
    status,
    text,
    url,
    uuid,
    zone,
)
from duly.decide.tags import MOST_TAGS, TAG
from duly.records.filters import (
    DESTINATION,
    ERROR,
    FIELDS,
    FLAG,
    INSTANT,
    KEY,
    LONGEST_ERROR,
    SCHEDULE_NAME,
    SPAN,
    STATUSES,
    TYPE,
    USER_ID,
    FilterField,
    FilterKind,
)
from duly.records.finding.schedules import (
    BEGINNING,
    HALT_KIND,
    LONGEST,
    SCHEDULE_FIELDS,
    SOURCE,
    STATUS,
    SWITCH,
    TAGS,
    ZONE,
)
from duly.records.schedule import HaltKind

_one_status = in_any_case(word.lower() for word in status["enum"])
_status: Schema = {"type": "string", "pattern": f"^({_one_status})$", "examples": status["enum"]}
_statuses: Schema = {
    "type": "string",
    "pattern": f"^({_one_status})(,({_one_status}))*$",
    "description": "One, or several separated by commas; in any letter case",
    "examples": ["PENDING", "FAILED,CANCELLED"],
}

_TAG = TAG.strip("^$")

_IN_QUERY: Mapping[FilterKind, Schema] = {
    STATUSES: _statuses,
    TYPE: name("type"),
    KEY: name("key"),
    USER_ID: uuid,
    SCHEDULE_NAME: name("name", description="Name of an existing schedule, or id of an existing or deleted schedule"),
    DESTINATION: {"anyOf": [{"type": "string", "pattern": TARGET_NAME, "description": "Name of a stored target"}, url]},
    ERROR: text(1, LONGEST_ERROR, pattern=PRINTABLE),
    INSTANT: given_instant,
    SPAN: delay,
    FLAG: choice("true", "false"),
    SWITCH: choice("true", "false"),
    BEGINNING: text(1, LONGEST, pattern=PRINTABLE),
    SOURCE: text(1, LONGEST, pattern=PRINTABLE),
    TAGS: {
        "type": "string",
        "pattern": exactly(f"{_TAG}(,{_TAG}){{0,{MOST_TAGS - 1}}}"),
        "description": "Several are separated by commas",
    },
    HALT_KIND: {"type": "string", "pattern": f"^({in_any_case(HaltKind)})$", "examples": list(HaltKind)},
    STATUS: _status,
    ZONE: zone,
}
_IN_BODY: Mapping[FilterKind, Schema] = {
    **_IN_QUERY,
    STATUSES: {
        "anyOf": [
            _statuses,
            listed({"type": "string", "pattern": f"^({_one_status})$", "examples": status["enum"]}, minItems=1),
        ]
    },
    FLAG: {"anyOf": [{"type": "boolean"}, choice("true", "false")]},
    SWITCH: {"anyOf": [{"type": "boolean"}, choice("true", "false")]},
    TAGS: {
        "anyOf": [
            _IN_QUERY[TAGS],
            listed({"type": "string", "pattern": exactly(_TAG)}, minItems=1, maxItems=MOST_TAGS),
        ]
    },
}


def _described(told: str, shape: Schema) -> Schema:
    more = f". {shape['description']}" if "description" in shape else ""
    return {**shape, "description": f"{told}{more}"}


def _written(fields: Mapping[str, FilterField], shapes: Mapping[FilterKind, Schema]) -> Mapping[str, Schema]:
    return {name: _described(field.told, shapes[field.kind]) for name, field in fields.items()}


QUERY = _written(FIELDS, _IN_QUERY)
BODY = _written(FIELDS, _IN_BODY)
QUERY_OF_SCHEDULES = _written(SCHEDULE_FIELDS, _IN_QUERY)
BODY_OF_SCHEDULES = _written(SCHEDULE_FIELDS, _IN_BODY)
