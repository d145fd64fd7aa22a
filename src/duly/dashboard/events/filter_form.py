"""The filter of a list of events, as a form and as an address that can be shared. The form follows from the fields of
`EventFilter`: a new filter appears by itself."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from starlette.datastructures import QueryParams

from duly.dashboard.events.when import EXAMPLES, read_when, written_when
from duly.dashboard.visit import Visit
from duly.decide.checks import is_id
from duly.errors import NotFound, Problem
from duly.records.event import Status
from duly.records.filters import (
    DESTINATION,
    ERROR,
    FIELDS,
    FLAG,
    INSTANT,
    SCHEDULE_NAME,
    SPAN,
    STATUSES,
    USER_ID,
    EventFilter,
    read_filter,
)

NOT_OF_DEAD_LETTERS = ("status", "late_by", "stuck")
"""Fields that say nothing about dead letters, which all have one status."""

AT_HAND = ("type", "key", "schedule", "user_id")
"""Fields that are shown at once; the others stand behind "More filters"."""

PLACEHOLDERS = {
    USER_ID: "id or key",
    DESTINATION: "name or URL",
    ERROR: "some of its text",
    INSTANT: "2026-12-01 09:00, or -1h",
    SPAN: "5m",
    SCHEDULE_NAME: "name",
}
"""Examples of values, by their kind."""

LABELS = {"user_id": "User", "error": "Error has"}
"""Labels that differ from the names of the fields."""


class FilterInput(NamedTuple):
    """An input of the form."""

    name: str
    label: str
    help: str
    kind: str  # text, checkbox, statuses
    value: str
    placeholder: str
    problems: Sequence[str]


class AskedFilter(NamedTuple):
    """The filter that somebody has asked for, and what is wrong with it."""

    which: EventFilter
    written: Mapping[str, str]  # as it was written, for the form
    problems: Sequence[Problem]


async def read_asked(visit: Visit, given: Mapping[str, str], fields: Iterable[str] = FIELDS) -> AskedFilter:
    """The filter in a query string or a form. Times without an offset are on the visitor's clocks, and a user may be
    named by the key."""
    written, values, problems = dict[str, str](), dict[str, object](), list[Problem]()
    for name in fields:
        text = _text(given, name)
        if not text.strip():
            continue
        written[name] = text
        value = await _value(visit, name, text)
        if isinstance(value, Problem):
            problems.append(value)
        else:
            values[name] = value
    which, wrong = read_filter(values)
    return AskedFilter(which, written, [*problems, *wrong])


def _text(given: Mapping[str, str], name: str) -> str:
    """The value of a field; several statuses are joined, and of other fields the last one counts."""
    if FIELDS[name].kind is STATUSES and isinstance(given, QueryParams):
        return ",".join(one for one in given.getlist(name) if one)
    return given.get(name, "")


async def _value(visit: Visit, name: str, text: str) -> object:
    kind = FIELDS[name].kind
    if kind is INSTANT:
        found = read_when(name, text, visit.times)
        return found if isinstance(found, Problem) else kind.in_query(found)
    if kind is SPAN:
        return text.strip()
    if kind is FLAG:
        return text in ("true", "yes", "on")
    if kind is USER_ID and not is_id(text.strip().lower()):
        try:
            return (await visit.own.users.by_key(text, tenant=visit.tenant)).id
        except NotFound:
            return Problem(name, f"there is no user with the id or key {text!r:.60}")
    return text.strip() if kind is USER_ID else text


def inputs(visit: Visit, asked: AskedFilter, fields: Iterable[str] = FIELDS) -> list[FilterInput]:
    """The inputs of the form, with what was asked for."""
    return [_input(visit, name, asked) for name in fields]


def _input(visit: Visit, name: str, asked: AskedFilter) -> FilterInput:
    field = FIELDS[name]
    value = getattr(asked.which, name)
    if value in (None, (), False):
        shown = asked.written.get(name, "")
    elif field.kind is INSTANT:
        shown = written_when(value, visit.times)
    else:
        shown = field.kind.in_query(value)
    words = name.replace("_", " ").removesuffix(" id")
    return FilterInput(
        name,
        LABELS.get(name, words[0].upper() + words[1:]),
        field.told.replace("`", "") + (f"; {EXAMPLES}" if field.kind is INSTANT else ""),
        {FLAG: "checkbox", STATUSES: "statuses"}.get(field.kind, "text"),
        shown,
        PLACEHOLDERS.get(field.kind, ""),
        [problem.message for problem in asked.problems if problem.path == name],
    )


class StatusChoice(NamedTuple):
    """A status that can be chosen or left out, by a link."""

    word: str
    chosen: bool
    href: str


def status_choices(visit: Visit, which: EventFilter) -> list[StatusChoice]:
    """A link for each status, which adds it to the filter or removes it."""
    every = StatusChoice("all", not which.status, visit.here(status=None, after=None))
    chosen = frozenset(which.status)
    choices = []
    for status in Status:
        then = [one.value for one in Status if one in chosen ^ {status}]
        href = visit.here(status=",".join(then) if len(then) < len(Status) else None, after=None)
        choices.append(StatusChoice(status.value.lower(), status in chosen, href))
    return [every, *choices]
