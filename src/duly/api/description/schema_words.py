"""Words for writing JSON Schema, and the small shapes that the larger ones are made of."""

from collections.abc import Mapping
from typing import Any

from duly import instants
from duly.decide.checks import LONGEST
from duly.records.event import Status

Schema = Mapping[str, Any]

INSTANT = f"^{instants.PATTERN}$"
DURATION = r"^\s*(\d{1,12}(\.\d{1,6})?(ms|us|[wdhms])\s*)+$"
MOST_BULK = 10_000


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def text(least: int = 1, most: int = 200, **more: Any) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": most, **more}


def name(field: str, **more: Any) -> Schema:
    return text(1, LONGEST[field], **more)


def choice(*values: str, **more: Any) -> Schema:
    return {"type": "string", "enum": list(values), **more}


def whole(least: int, most: int | None = None, **more: Any) -> Schema:
    bounds = {"minimum": least} if most is None else {"minimum": least, "maximum": most}
    return {"type": "integer", **bounds, **more}


def listed(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def taken(fields: Mapping[str, Schema], *required: str, **more: Any) -> Schema:
    """An object that somebody sends: nothing else may be in it."""
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(required),
        "additionalProperties": False,
        **more,
    }


def answered(fields: Mapping[str, Schema], **more: Any) -> Schema:
    """An object that is answered: all of it is always there."""
    return {"type": "object", "properties": dict(fields), "required": list(fields), **more}


def paged(items: str, schema: str) -> Schema:
    return answered({items: listed(ref(schema)), "next_cursor": cursor})


cursor: Schema = maybe({"type": "string", "description": "For what comes next; null at the end"})
instant: Schema = {"type": "string", "format": "date-time", "description": "A UTC instant"}
given_instant: Schema = {"type": "string", "pattern": INSTANT, "description": "An instant with its zone"}
duration: Schema = {"type": "string", "pattern": DURATION, "description": "Such as 30s, 1h30m or 90d"}
a_date: Schema = {"type": "string", "format": "date"}
uuid: Schema = {"type": "string", "format": "uuid"}
anything: Schema = {"description": "Any JSON, at most 1 MB and 100 levels deep"}
zone: Schema = {"type": "string", "minLength": 1, "maxLength": 100, "description": "An IANA zone such as Asia/Tokyo"}
a_time: Schema = {"type": "string", "pattern": r"^\d\d:\d\d(:\d\d)?$", "description": "A time of day such as 09:00"}
status: Schema = choice(*(one.value for one in Status))
reason: Schema = taken({"reason": maybe(text(1, 1000))})
moment: Schema = text(1, 60, description="An instant, or a local time of the schedule's zone")
