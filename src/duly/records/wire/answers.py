"""The responses of the HTTP API other than single records: counts, results for each of many items, and problem
documents. The server writes them, the OpenAPI document has their schemas, and the client reads them."""

from typing import Any, Literal

import msgspec

from duly.decide.series.preview import Preview
from duly.records.event import EVENT_JSON
from duly.records.figures.consequence import CONSEQUENCE
from duly.records.finding.acts import ActedOn, ActKind
from duly.records.finding.counts import Count
from duly.records.history import ENTRY_JSON
from duly.records.marks import FromOne, FromZero, Id, Warnings
from duly.records.results import Discarded, Replayed
from duly.records.schedule import SCHEDULE_JSON
from duly.records.target import TARGET_JSON
from duly.records.wire.forms import CURSOR, struct_with
from duly.records.workers.worker import LANE_JSON, WORKER_JSON


class FieldError(msgspec.Struct, frozen=True):
    """What is wrong with one field of a request."""

    path: str
    message: str


UNCERTAIN = "urn:duly:problem:uncertain"
"""The ``type`` of a problem document after which it is unknown whether the request was carried out."""


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An error, as a problem document (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError]
    request_id: str


Change = Literal["created", "changed", "unchanged", "already_fired"]
"""What came of a timer that was put."""


class TimerResult(msgspec.Struct, frozen=True):
    """The result for one timer of a bulk request."""

    status: Change | Literal["refused"]
    id: Id | None
    key: Any
    errors: list[FieldError]


class TimerResults(msgspec.Struct, frozen=True):
    """The results of a bulk request, in the order of its timers."""

    created: FromZero
    changed: FromZero
    unchanged: FromZero
    already_fired: FromZero
    refused: FromZero
    results: list[TimerResult]
    warnings: Warnings = []


class UserResult(msgspec.Struct, frozen=True):
    """The result for one user of a bulk request."""

    status: Literal["added", "changed", "unchanged", "refused"]
    id: Id | None
    key: Any
    errors: list[FieldError]


class UserResults(msgspec.Struct, frozen=True):
    """The results of a bulk request, in the order of its users."""

    added: FromZero
    changed: FromZero
    unchanged: FromZero
    refused: FromZero
    results: list[UserResult]
    nowhere: dict[str, FromOne]  # how many added users have events that have nowhere to go, by type of event
    warnings: Warnings


class KnownType(msgspec.Struct, frozen=True):
    """An event type: one of users' calendars, or one with a handler."""

    name: str
    source: Literal["calendar", "handler"]
    depends_on: tuple[str, ...]  # the fields of a user that it is planned from


class KnownTypes(msgspec.Struct, frozen=True):
    """The event types that a server knows, ordered by name."""

    event_types: list[KnownType]


class DeletedSchedule(msgspec.Struct, frozen=True):
    """A schedule that was deleted, and how many of its events were cancelled with it."""

    name: str
    cancelled: FromZero
    consequence: CONSEQUENCE = msgspec.UNSET


class ReleasedEvents(msgspec.Struct, frozen=True):
    """The number of events that were released when a target was enabled."""

    name: str
    events: FromZero
    more: bool  # whether more events are released in the background


class Occurrences(msgspec.Struct, frozen=True):
    """The next occurrences of a rule or a schedule."""

    occurrences: list[Preview]
    complete: bool  # whether the list has as many as requested, or all there are


EVENT_WITH_HISTORY = struct_with(
    "EventWithHistory",
    EVENT_JSON.struct,
    history=list[ENTRY_JSON.struct],  # type: ignore[name-defined]
    history_cursor=CURSOR,
)
RESUMED = struct_with("Resumed", SCHEDULE_JSON.struct, passed=FromZero, fires=bool)
EVENT_WITH_CHANGE = struct_with("EventWithChange", EVENT_JSON.struct, change=Change, warnings=Warnings)
PREVIEWED: dict[str, Any] = {"dry_run": bool, "would": Count | None, "kinds": tuple[ActKind, ...]}
"""What an act by a filter answers beside its numbers; the last two are of a dry run."""

REPLAYED = struct_with("Replayed", Replayed, next_cursor=CURSOR, **PREVIEWED)
DISCARDED = struct_with("Discarded", Discarded, next_cursor=CURSOR, **PREVIEWED)
ACTED_ON = struct_with("ActedOn", ActedOn, next_cursor=CURSOR)
TARGET_WITH_SECRET = struct_with("TargetWithSecret", TARGET_JSON.struct, secret=str | None)
AT_WORK = msgspec.defstruct(
    "AtWork",
    [
        ("workers", list[WORKER_JSON.struct] | None),  # type: ignore[name-defined]
        ("lanes", list[LANE_JSON.struct]),  # type: ignore[name-defined]
    ],
    frozen=True,
)
"""Who is at work, and whether lanes are served. The workers are for keys of all tenants."""
