"""JSON Schemas of filters, derived from the fields of `EventFilter`: as query parameters, and in a body."""

from collections.abc import Mapping

from duly.api.description.schema_words import (
    PRINTABLE,
    TARGET_NAME,
    Schema,
    choice,
    delay,
    given_instant,
    in_any_case,
    listed,
    name,
    status,
    text,
    url,
    uuid,
)
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
    FilterKind,
)

_one_status = in_any_case(word.lower() for word in status["enum"])
_status: Schema = {"type": "string", "pattern": f"^({_one_status})$", "examples": status["enum"]}
_statuses: Schema = {
    "type": "string",
    "pattern": f"^({_one_status})(,({_one_status}))*$",
    "description": "One, or several separated by commas; in any letter case",
    "examples": ["PENDING", "FAILED,CANCELLED"],
}

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
}


def _described(told: str, shape: Schema) -> Schema:
    more = f". {shape['description']}" if "description" in shape else ""
    return {**shape, "description": f"{told}{more}"}


QUERY: Mapping[str, Schema] = {name: _described(field.told, _IN_QUERY[field.kind]) for name, field in FIELDS.items()}
BODY: Mapping[str, Schema] = {name: _described(field.told, _IN_BODY[field.kind]) for name, field in FIELDS.items()}
