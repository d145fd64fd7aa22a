"""What one search finds: events, users, schedules and targets, by their ids, keys and names."""

import re
import uuid
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from duly.decide.checks import name_problems
from duly.errors import Invalid, Problem
from duly.records.finding.users import UserSearch
from duly.records.marks import Id, told

MOST_FOUND = 100
"""Results of one search, at most."""

USUALLY_FOUND = 20
"""Results of one search, unless the caller wants another number."""

_HEADER = re.compile(r"(?:webhook-id|idempotency-key|nats-msg-id)\s*:\s*", re.IGNORECASE)
"""The name of a header that carries an event's id, in front of its value."""

_AROUND = " \t\r\n\"'`<>,;"
"""Characters around a value that was copied from a log or a request."""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a search has found."""

    kind: Literal["event", "user", "schedule", "target"]
    id: Id
    name: Annotated[str | None, told("The key of an event or a user, or the name of a schedule or a target")]
    title: Annotated[str, told("The type of an event or a schedule, the name of a user, or the channel of a target")]
    status: Annotated[str | None, told("Of an event; of a schedule: enabled, paused, ended or error")] = None


class SearchResults(msgspec.Struct, frozen=True):
    """What a search has found, the best match first."""

    results: list[SearchResult]


class Wanted(NamedTuple):
    """A search, checked: the text as a name or key, as an id if it is one, and as the beginnings of a person's name."""

    text: str
    id: str | None
    beginnings: tuple[str, ...]


def read_search(text: Any, path: str = "text") -> Wanted:
    """The search for a text as people paste it: with blanks or quotes around it, or as a header with its name."""
    if not isinstance(text, str):
        raise Invalid([Problem(path, f"expected text, not {type(text).__name__}")])
    cleaned = _HEADER.sub("", text.strip(_AROUND), count=1).strip(_AROUND)
    if not cleaned:
        raise Invalid([Problem(path, "is empty: give an id, a key or the beginning of a name")])
    if problems := name_problems("key", cleaned):
        raise Invalid([problem._replace(path=path) for problem in problems])
    try:
        id = str(uuid.UUID(cleaned))
    except ValueError:
        id = None
    return Wanted(cleaned, id, UserSearch(name=" ".join(cleaned.split())).beginnings)


def check_most(limit: Any) -> None:
    if type(limit) is not int or not 1 <= limit <= MOST_FOUND:
        raise Invalid([Problem("limit", f"must be a whole number from 1 to {MOST_FOUND}, not {limit!r:.50}")])
