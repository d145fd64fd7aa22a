"""Functions that write JSON Schema, and the small schemas that larger ones are made of.

Patterns are ECMAScript's, with its flag u. A format that JSON Schema does not define stands for a check that no pattern
can express: its description explains the check, and the server's reader performs it.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from duly.decide.checks import INVISIBLE, LONGEST
from duly.records.event import Status
from duly.records.finding.cursors import CURSOR
from duly.values.durations import format_duration
from duly.values.instants import DATE, HOURS_AND_MINUTES, INSTANT, LOCAL, MAX_DELAY, OFFSET, TIME_OF_DAY, YEARS
from duly.values.spans import SpanOption

Schema = Mapping[str, Any]

MOST_BULK = 10_000
"""Timers or users in one request."""


def exactly(pattern: str) -> str:
    return f"^({pattern})$"


def _escaped(characters: str) -> str:
    """The characters as escape sequences, so that invisible ones can be seen in a pattern."""
    return "".join(
        c if c.isascii() else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\u{{{ord(c):x}}}" for c in characters
    )


_VISIBLE = rf"[^\p{{C}}\p{{Z}}{_escaped(INVISIBLE.pattern.strip('[]'))}]"
NAME = rf"^{_VISIBLE}+( +{_VISIBLE}+)*$"
"""The name of a type, a key, a tenant or a schedule: visible characters, with spaces between them."""

PRINTABLE = r"^([^\p{C}\p{Z}]| )*$"
_OF_A_PERSON = r"([^\p{C}\p{Zl}\p{Zp}]|[\u200c\u200d])*"
PERSON = rf"^{_OF_A_PERSON}[^\p{{C}}\p{{Z}}]{_OF_A_PERSON}$"
"""The name of a person: not blank, and with the joiners that some scripts need."""

TARGET_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
SPAN = r"^ *([0-9]{1,12}(\.[0-9]{1,6})?(ms|us|[wdhms]) *)+$"
RATE = r"^[ \t]*[0-9]{1,9}(\.[0-9]{1,6})?([ \t]*/[ \t]*[smhd])?[ \t]*$"
ZONE = r"^[A-Za-z][A-Za-z0-9_+/-]*$"
_HOST = r"([^\p{C}\p{Z}/?#@:\[\]\\]+|\[[^\p{C}\p{Z}/?#@\[\]\\]+\])"
URL = rf"^[Hh][Tt][Tt][Pp][Ss]?://{_HOST}(:[0-9]{{0,5}})?([/?][^\p{{C}}\p{{Z}}#]*)?#?$"
ETAG = r'(\*|(W/)?"[^",]*")'
ETAGS = rf"^{ETAG}([ \t]*,[ \t]*{ETAG})*$"

DUE_PLACE = exactly(rf"{INSTANT}/[0-9a-fA-F]{{8}}(-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}")
"""A place in the order of due times: the due time and the id of an event."""

_TODAY_ON = r"(?!0|1[0-8]|19[0-6]|9999)"  # years from 1970 to 9998
_WHOLE_SECONDS = r"(\.(0{1,6}|0{6}[0-9]{1,3}))?"
_LOCAL_SECONDS = rf"{_TODAY_ON}{DATE}([Tt ]{HOURS_AND_MINUTES}(:[0-5][0-9]{_WHOLE_SECONDS})?)?"


def in_any_case(words: Iterable[str]) -> str:
    """A pattern of lower-case words that ignores case: JSON Schema's patterns have no flag for that."""
    written = ("".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in word) for word in sorted(words))
    return "|".join(written)


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def each_maybe(fields: Mapping[str, Schema]) -> dict[str, Schema]:
    """The fields, each of which may also be null, which means the same as a missing field."""
    return {field: maybe(schema) if schema.keys() - {"description"} else schema for field, schema in fields.items()}


def text(least: int = 1, most: int = 200, **more: Any) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": most, **more}


def name(field: str, **more: Any) -> Schema:
    return text(1, LONGEST[field], pattern=NAME, **more)


def choice(*values: str, **more: Any) -> Schema:
    return {"type": "string", "enum": list(values), **more}


def whole(least: int, most: int | None = None, **more: Any) -> Schema:
    bounds = {"minimum": least} if most is None else {"minimum": least, "maximum": most}
    return {"type": "integer", **bounds, **more}


def listed(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def taken(fields: Mapping[str, Schema], *required: str, **more: Any) -> Schema:
    """An object in a request: no other fields are allowed."""
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(required),
        "additionalProperties": False,
        **more,
    }


def span(least: timedelta, most: timedelta, note: str = "", told: str = "") -> Schema:
    """A duration from *least* to *most*, both included."""
    low, high = format_duration(least), format_duration(most)
    units = f"duration: numbers with units (w, d, h, m, s, ms, us), from {low} to {high}{note}"
    return {
        "type": "string",
        "pattern": SPAN,
        "format": "time-span",
        "description": f"{told}: a {units}" if told else f"A {units}",
        "examples": ["30s", "1m30s"],
        "x-from": low,
        "x-to": high,
    }


def spans(options: Mapping[str, SpanOption]) -> dict[str, Schema]:
    """Schemas of the fields of a record that are durations."""
    return {name: span(option.least, option.most, option.note, option.told) for name, option in options.items()}


def spans_or_seconds(options: Mapping[str, SpanOption]) -> dict[str, Schema]:
    """The same, which may also be numbers of seconds."""
    return {name: {"anyOf": [span, _seconds(options[name])]} for name, span in spans(options).items()}


def _seconds(option: SpanOption) -> Schema:
    least, most = option.least.total_seconds(), option.most.total_seconds()
    return {"type": "number", "minimum": least, "maximum": most, "description": "The same as a number of seconds"}


given_cursor: Schema = {
    "type": "string",
    "pattern": exactly(CURSOR),
    "format": "cursor",
    "description": "next_cursor of the previous page",
}
given_instant: Schema = {
    "type": "string",
    "pattern": exactly(INSTANT),
    "format": "instant",
    "description": f"Date and time with Z or an offset; the year must be {YEARS}, also in UTC",
    "examples": ["2026-12-01T09:00:00Z"],
}
delay: Schema = span(timedelta(), MAX_DELAY)
delay_or_seconds: Schema = {
    "anyOf": [delay, {"type": "number", "minimum": 0, "maximum": MAX_DELAY.total_seconds()}],
    "description": "A duration with units, or a number of seconds",
}
instant_or_span: Schema = {
    "anyOf": [given_instant, delay, _seconds(SpanOption(timedelta(), MAX_DELAY, ""))],
    "description": "An instant, or the time from now until then, as a duration or in seconds; later than now",
}
BOOLEAN: Schema = {"type": "boolean"}
a_date: Schema = {"type": "string", "format": "date"}
uuid: Schema = {"type": "string", "format": "uuid"}
anything: Schema = {"description": "Any JSON, at most 1 MB and 100 levels deep"}
zone: Schema = {
    "type": "string",
    "pattern": ZONE,
    "format": "timezone",
    "description": "IANA time zone name, such as Europe/Brussels",
    "examples": ["Asia/Tokyo"],
}
a_time: Schema = {
    "type": "string",
    "pattern": exactly(TIME_OF_DAY),
    "description": "Time of day",
    "examples": ["09:00"],
}
status: Schema = choice(*(one.value for one in Status))
moment: Schema = {
    "type": "string",
    "pattern": exactly(f"{INSTANT}|{_TODAY_ON}{LOCAL}"),
    "format": "moment",
    "description": "An instant, or a date or local time in the schedule's zone; year 1970 to 9998",
    "examples": ["2026-12-01T09:00:00Z", "2026-12-01T09:00:00", "2026-12-01"],
}
start_of_rule: Schema = {
    **moment,
    "pattern": exactly(
        f"{_LOCAL_SECONDS}|{_TODAY_ON}{DATE}[Tt ]{HOURS_AND_MINUTES}(:[0-5][0-9]{_WHOLE_SECONDS})?{OFFSET}"
    ),
    "description": f"{moment['description']}; whole seconds",
}
local: Schema = {
    "type": "string",
    "pattern": exactly(_LOCAL_SECONDS),
    "format": "local-time",
    "description": "A date, or a date and time, in the schedule's zone; whole seconds",
    "examples": ["2026-12-01T09:00:00", "2026-12-01"],
}
left_out: Schema = {
    "type": "string",
    "pattern": exactly(f"{INSTANT}|{LOCAL}"),
    "format": "moment",
    "description": "A date, a local time or an instant",
    "examples": ["2026-12-24", "2026-12-31T09:00:00"],
}
url: Schema = {
    "type": "string",
    "maxLength": 2000,
    "pattern": URL,
    "format": "url",
    "description": "http or https URL with a valid host name, without credentials and fragment",
    "examples": ["https://hooks.example/duly"],
}
rate: Schema = {
    "type": "string",
    "pattern": RATE,
    "format": "rate",
    "description": "Rate per second (s), minute (m), hour (h) or day (d), from 1/d to 1,000,000/s",
    "examples": ["50/s", "600/m"],
}
reason: Schema = {"type": "string", "description": "Reason for the history; the first 2,000 characters are stored"}
REASON: Schema = taken({"reason": maybe(reason)})
