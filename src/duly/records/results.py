"""The results of acts: how many events a replay has changed, which rows an import has refused, and so on."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from duly.errors import Invalid, Problem
from duly.records.marks import FromOne, FromZero, Id, Instant, told
from duly.records.schedule import SCHEDULE_JSON, Schedule


class CancelResult(StrEnum):
    """What a cancellation has found and done."""

    CANCELLED = "cancelled"  # it will not fire
    RUNNING = "running"  # it runs, and was asked to stop
    FIRED = "fired"  # it has ended before: COMPLETED, FAILED or SKIPPED
    NOTHING = "nothing"  # there is no such event, or it was cancelled before


class PutChange(StrEnum):
    """What putting a timer has changed."""

    CREATED = "created"
    MOVED = "moved"  # the open event with the same key
    UNCHANGED = "unchanged"  # the event is the same, or has started; or it has fired, with the same due time
    ALREADY_FIRED = "already_fired"  # the key has fired, with another due time
    REFUSED = "refused"  # an open event of another type has the key


class TargetTest(msgspec.Struct, frozen=True, kw_only=True):
    """What came back from a test of a target."""

    id: Id  # of the event that was sent, the webhook-id; it is not stored
    target: Annotated[str | None, told("Name of the stored target")]
    channel: str
    outcome: Annotated[
        Literal["delivered", "failed", "rejected", "unreachable"],
        told("What it would be for an event: failed is tried again, rejected is a dead letter at once"),
    ]
    error: str | None
    status: Annotated[int | None, told("The HTTP status; null without an answer, and for brokers")] = None
    headers: Annotated[dict[str, str], told("Content-Type, Location, Retry-After and WWW-Authenticate")] = {}
    body: Annotated[str | None, told("The beginning of the answer's body")] = None
    acknowledged: Annotated[bool | None, told("Whether the broker has acknowledged it; null for HTTP")] = None
    seconds: Annotated[float, told("How long it took")]
    parked: Annotated[str | None, told("Why the target's events wait now, although the test was sent")] = None


class Replayed(msgspec.Struct, frozen=True, kw_only=True, rename={"events": "replayed", "until": "last_ready_at"}):
    """The result of a replay of many dead letters so far."""

    events: FromZero = 0
    until: Instant | None = None  # the ready time of the last replayed event
    left_alone: FromZero = 0  # events that somebody else was changing, or whose broker is not allowed over HTTP


class Discarded(msgspec.Struct, frozen=True, kw_only=True, rename={"events": "discarded"}):
    """The result of a discard of many dead letters so far."""

    events: FromZero = 0
    left_alone: FromZero = 0


class PrunedKind(msgspec.Struct, frozen=True, rename={"ended": "oldest_ended_at"}):
    """The deleted events of one status and type, and when the oldest of them had ended."""

    status: str
    type: str
    events: FromOne
    ended: Instant


class Pruned(msgspec.Struct, frozen=True):
    """The finished events that were deleted or, in a dry run, would be."""

    events: FromZero = 0
    kinds: tuple[PrunedKind, ...] = ()  # the most frequent first
    dry_run: bool = False


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """What was scrubbed of a person."""

    id: Id | None = None
    deleted: bool = False  # whether the user was there, and is deleted now
    events: FromZero = 0  # whose content was scrubbed
    cancelled: FromZero = 0  # of these: they would still have been delivered
    discarded: FromZero = 0  # of these: dead letters, which could have been replayed
    history: FromZero = 0  # entries whose details were scrubbed
    answers: FromZero = 0  # stored answers of the API that told of the person


class DeadLetterKind(msgspec.Struct, frozen=True):
    """Dead letters of one tenant and type with the same channel, and their number."""

    tenant: str
    type: str
    lane: str
    destination: str | None  # the target's name, or the origin of its URL
    events: FromOne


class DeadLetters(msgspec.Struct, frozen=True, rename={"events": "dead_letters"}):
    """The number of dead letters, and the most frequent kinds."""

    events: FromZero
    kinds: tuple[DeadLetterKind, ...]


class Resumed(msgspec.Struct, frozen=True):
    """A resumed schedule, and the fate of the occurrences that were missed during its pause."""

    schedule: Schedule
    passed: FromZero
    fires: bool  # whether they fire, by the misfire policy; otherwise they are skipped

    def to_json(self) -> dict[str, Any]:
        """The fields of the schedule, with the missed occurrences beside them."""
        return SCHEDULE_JSON.write(self.schedule) | {"passed": self.passed, "fires": self.fires}


class Backfilled(msgspec.Struct, frozen=True, rename={"ids": "events"}):
    """The result of a backfill. Events that a backfill with the same label created before are not created again."""

    label: str
    ids: list[Id]
    existing: FromZero
    occurrences: Annotated[list[Instant], told("When the created events were due by the rule, or would have been")] = []


def nowhere_to_go(why: str, types: Iterable[str]) -> str:
    """The warning about events of these types that have neither a target nor a handler."""
    named = sorted(types)
    return (
        f"events of {' and '.join(named)} have nowhere to go: {why}, and this process has no handler; set a "
        f"target, or a default one: duly event-types update {named[0]} --webhook URL"
    )


class RefusedRow(NamedTuple):
    """A row that was not imported, and its problems."""

    number: int
    problems: Sequence[Problem]


class StoredRow(NamedTuple):
    """A row that was imported: the id of its user, and whether the user was added, changed, or unchanged."""

    number: int
    id: str
    act: str


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import so far."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    refused: int = 0
    last: int = 0  # the number of the last row that was processed; the rows before it are stored
    problems: tuple[RefusedRow, ...] = ()  # of the first 1,000 refused rows
    nowhere: dict[str, int] = {}  # how many added users have events of a type that have nowhere to go, by type

    @property
    def rows(self) -> int:
        return self.added + self.changed + self.unchanged + self.refused

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about all added users together."""
        if not self.nowhere:
            return ()
        users = max(self.nowhere.values())
        whose = "1 added user has" if users == 1 else f"{users:,} added users have"
        return (nowhere_to_go(f"{whose} no target, and their tenant has no default one for them", self.nowhere),)


class Refreshed(NamedTuple):
    """The result of a refresh: how many users and events changed, and the users that no event type can use any more."""

    users: int
    events: int
    refused: dict[str, Invalid]


class ReplannedHead(msgspec.Struct, frozen=True, order=True, rename={"old": "old_due_at", "new": "new_due_at"}):
    """A head that moves because of newer zone data."""

    tenant: str
    schedule: str
    timezone: str
    event: str  # its id
    old: datetime
    new: datetime
    zone_data: str  # the edition behind the old instant
