"""Values for the formats of the API's description: good ones, made by what the description says of them in words."""

import copy
import string
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import schemathesis
from hypothesis import strategies as st

from duly.api.description.schema_words import ETAGS, NAME, PERSON, PRINTABLE
from duly.decide.checks import INVISIBLE
from duly.rules.zones import names
from duly.values.durations import format_duration, parse_duration

Text = st.SearchStrategy[str]

SEEN = st.characters(exclude_categories=["C", "Z"], codec="utf-8").filter(lambda c: not INVISIBLE.match(c))
LETTERS = st.sampled_from(string.ascii_letters + string.digits + ".-_/:%'\"\\") | SEEN
WORD = st.text(LETTERS, min_size=1, max_size=20)
NAMES = st.lists(WORD, min_size=1, max_size=3).map(" ".join)
PEOPLE = st.lists(WORD, min_size=1, max_size=3).map("\u200d".join) | NAMES | NAMES.map("{} ".format)
TEXTS = st.text(LETTERS | st.just(" "), min_size=1, max_size=60)

# -- times

FIRST, LAST = datetime(3, 1, 1), datetime(9997, 12, 31)  # noqa: DTZ001 - of any zone
OFFSETS = (
    st.just("Z")
    | st.just("z")
    | st.builds("{}{:02}:{:02}".format, st.sampled_from("+-"), st.integers(0, 23), st.integers(0, 59))
)


def _local(first: datetime, *precisions: str) -> Text:
    moments = st.datetimes(first, LAST)
    return st.builds(datetime.isoformat, moments, st.sampled_from("Tt "), st.sampled_from(precisions))


EPOCH = datetime(1970, 1, 2)  # noqa: DTZ001 - of any zone
DAYS = st.dates(EPOCH.date(), LAST.date()).map(str)
INSTANTS = st.builds("{}{}".format, _local(FIRST, "minutes", "seconds", "milliseconds", "microseconds"), OFFSETS)
SINCE_1970 = _local(EPOCH, "minutes", "seconds")
MOMENTS = DAYS | SINCE_1970 | st.builds("{}{}".format, SINCE_1970, OFFSETS)
BIRTHS = st.dates(max_value=datetime.now(UTC).date() - timedelta(days=2)).map(str)
UNITS = ("w", "d", "h", "m", "s", "ms", "us")


def spans(least: str, most: str) -> Text:
    """Durations between two others, and these themselves."""
    low, high = parse_duration(least), parse_duration(most)
    between = st.timedeltas(low, high).map(format_duration)
    one_unit = st.builds("{}{}".format, st.integers(0, 100), st.sampled_from(UNITS)).filter(
        lambda written: low <= parse_duration(written) <= high
    )
    return st.sampled_from([least, most]) | between | one_unit | between.map(" {} ".format)


# -- rules


def _field(low: int, high: int, *more: str) -> Text:
    values = st.integers(low, high).map(str)
    ranges = st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda ends: "{}-{}".format(*sorted(ends)))
    steps = st.builds("{}/{}".format, st.just("*") | ranges, st.integers(1, high - low))
    items = st.lists(values | ranges | steps | st.sampled_from(more or ("*",)), min_size=1, max_size=3)
    return st.just("*") | items.map(",".join)


FIVE = (
    _field(0, 59),
    _field(0, 23),
    _field(1, 28, "L", "LW", "15W"),
    _field(1, 12, "JAN", "jun", "DEC"),
    _field(0, 6, "MON", "fri", "SUN", "MON#1", "5L"),
)
CRONS = (
    st.tuples(*FIVE).map(" ".join)
    | st.tuples(_field(0, 59), *FIVE).map(" ".join)
    | st.sampled_from(["@yearly", "@monthly", "@weekly", "@daily", "@hourly", "@MIDNIGHT"])
)

RRULES = st.builds(
    "{}{}{}".format,
    st.sampled_from(["FREQ=", "RRULE:FREQ=", "rrule:freq="]),
    st.sampled_from(
        [
            "DAILY",
            "DAILY;BYHOUR=9,17;BYMINUTE=0",
            "WEEKLY;BYDAY=MO,WE,FR",
            "WEEKLY;BYDAY=SU;WKST=SU",
            "MONTHLY;BYDAY=-1FR",
            "MONTHLY;BYMONTHDAY=1,15",
            "MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            "YEARLY;BYMONTH=3;BYMONTHDAY=31",
            "YEARLY;BYWEEKNO=20;BYDAY=MO",
            "YEARLY;BYYEARDAY=1,100,200",
        ]
    ),
    st.just("") | st.builds(";INTERVAL={}".format, st.integers(1, 10)) | st.just(";UNTIL=99981231T000000Z"),
)

DAYS_OF_REST = (
    DAYS
    | st.tuples(DAYS, DAYS).map(lambda ends: "/".join(sorted(ends)))
    | st.sampled_from(["12-25", "02-29", "SAT", "sun", "Sunday", " MON ", "holidays:BE", "HOLIDAYS: us-ca"])
)

# -- destinations

LABEL = st.text(string.ascii_letters + string.digits + "-", min_size=1, max_size=20)
HOSTS = st.lists(LABEL, min_size=1, max_size=3).map(".".join) | st.sampled_from(
    ["bücher.example", "[2001:db8::1]", "[::1]", "127.0.0.1", "例え.example"]
)
IN_URLS = st.characters(exclude_categories=["C", "Z"], exclude_characters="#", codec="utf-8").filter(str.isprintable)
URLS = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "https", "HTTPS"]),
    HOSTS,
    st.just("") | st.integers(1, 65535).map(":{}".format),
    st.just("") | st.builds("{}{}".format, st.sampled_from("/?"), st.text(IN_URLS, max_size=30)),
)
RATES = st.builds("{}{}".format, st.integers(1, 1_000_000), st.sampled_from(["", "/s", "/m", " / h", "/d"]))

TAGS = st.lists(st.sampled_from(["*", '"1a2b3c"', 'W/"1a2b3c"', '""']), min_size=1, max_size=3).map(", ".join)

FORMATS: dict[str, Text] = {
    "cursor": st.just("aimed-later"),
    "instant": INSTANTS,
    "moment": MOMENTS,
    "local-time": DAYS | SINCE_1970,
    "timezone": st.sampled_from(sorted(names())),
    "cron": CRONS,
    "rrule": RRULES,
    "days": DAYS_OF_REST,
    "url": URLS,
    "rate": RATES,
    "date": BIRTHS,
}
BY_PATTERN: dict[str, Text] = {NAME: NAMES, PERSON: PEOPLE, PRINTABLE: TEXTS, ETAGS: TAGS}
"""Patterns name characters by what Unicode of today calls them, and the Python that runs here may not know all."""


def drawable(document: dict[str, Any], bare: bool) -> dict[str, Any]:
    """The same description with formats for what cannot be drawn by its pattern alone; the formats are registered.
    *bare*, without what stands beside a format: the phase that looks for boundaries takes the longest text that a
    pattern allows for a good one, whatever the format is."""
    for name, strategy in FORMATS.items():
        schemathesis.openapi.format(name, strategy)
    copied = copy.deepcopy(document)
    for schema in _schemas(copied):
        if schema.get("format") == "time-span":
            schema["format"] = f"time-span {schema['x-from']} {schema['x-to']}"
            schemathesis.openapi.format(schema["format"], spans(schema["x-from"], schema["x-to"]))
        elif isinstance(pattern := schema.get("pattern"), str) and "format" not in schema and pattern in BY_PATTERN:
            schema["format"] = f"as {list(BY_PATTERN).index(pattern)}"
            schemathesis.openapi.format(schema["format"], BY_PATTERN[pattern])
        if bare and schema.get("type") == "string" and "format" in schema:
            for beside in schema.keys() - {"type", "format"}:
                del schema[beside]
    return copied


def _schemas(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in list(value.values()):
            yield from _schemas(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _schemas(inner)
