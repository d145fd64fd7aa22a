"""The consequence of an act that was not carried out: what a dry run tells."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from duly.records.marks import FromOne, FromZero, Id, Instant, told
from duly.records.wire.forms import JsonPart
from duly.rules.zones import to_wall


class MovedEvent(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """An event that has another due time after the act."""

    id: Id
    type: str
    from_: Instant
    to: Instant


class NamedEvent(msgspec.Struct, frozen=True, rename={"due": "due_at"}):
    """An event, as far as a consequence names it."""

    id: Annotated[Id | None, told("Null if the act would create it")]
    type: str
    due: Instant


class PassedEvent(msgspec.Struct, frozen=True, rename={"at": "scheduled_at"}):
    """A row of occurrences that do not fire, and why."""

    type: str
    at: Instant  # the instant of the occurrence; of many, that of the first
    stands_for: FromOne
    reason: str | None


class PassedEvents(msgspec.Struct, frozen=True):
    """The occurrences that the act skips."""

    count: FromZero = 0
    first: tuple[PassedEvent, ...] = ()  # the first few rows; a row may stand for many occurrences


class NamedEvents(msgspec.Struct, frozen=True):
    """Events of one fate."""

    count: FromZero = 0
    first: tuple[NamedEvent, ...] = ()  # the first few, by due time


class NextOccurrence(msgspec.Struct, frozen=True, rename={"due": "due_at", "local": "local_at"}):
    """One occurrence to come after the act."""

    type: str
    due: Instant
    local: Annotated[datetime, told("What the clocks in its own zone show")]
    timezone: str
    note: Annotated[str | None, told("What is unusual: a gap or an overlap of the clocks, excluded days, a move")]
    viewer_at: Annotated[datetime | None, told("What the clocks in the viewer's zone show")] = None


class HourLoad(msgspec.Struct, frozen=True):
    """How many events of the tenant are known to become due in one hour: as it is, and after the act."""

    at: Instant  # the beginning of the hour
    now: FromZero
    after: FromZero


class Consequence(msgspec.Struct, frozen=True, kw_only=True):
    """What an act would do, told by a dry run. Nothing of it was done."""

    at: Annotated[Instant, told("The store's time at which this would have been the consequence")]
    message: Annotated[str, told("The consequence in a few sentences, for people")]
    moved: tuple[MovedEvent, ...] = ()
    skipped: PassedEvents = PassedEvents()
    owed: Annotated[NamedEvents, told("Due already, and still to fire")] = NamedEvents()
    cancelled: NamedEvents = NamedEvents()
    created: Annotated[tuple[NamedEvent, ...], told("New events, such as another next event")] = ()
    switched: Annotated[Literal["paused", "resumed"] | None, told("Whether the act pauses or resumes")] = None
    deleted: bool = False
    next: Annotated[tuple[NextOccurrence, ...], told("The next ten occurrences after the act")] = ()
    viewer: Annotated[str | None, told("The time zone of `viewer_at`")] = None
    load: Annotated[tuple[HourLoad, ...], told("Hours where events were and will be, a week of each")] = ()
    load_complete: Annotated[bool, told("Whether all that is known was counted in these hours")] = True

    def saying(self, message: str) -> "Consequence":
        return msgspec.structs.replace(self, message=message)

    def seen_from(self, timezone: str) -> "Consequence":
        """The same, with the next occurrences in the time zone of a viewer as well."""
        ahead = tuple(msgspec.structs.replace(one, viewer_at=to_wall(one.due, timezone)) for one in self.next)
        return msgspec.structs.replace(self, viewer=timezone, next=ahead)


def _written(record: Any) -> dict[str, Consequence]:
    return {} if record.consequence is None else {"consequence": record.consequence}


def _read(seen: Any) -> dict[str, Consequence | None]:
    return {"consequence": None if seen.consequence is msgspec.UNSET else seen.consequence}


CONSEQUENCE = Annotated[Consequence | msgspec.UnsetType, told("What the act would do; only with `dry_run=true`")]
CONSEQUENCE_PART = JsonPart({"consequence": CONSEQUENCE}, _written, _read)
"""The field of an answer that has a consequence if it is of a dry run. Other answers leave it out: lists would repeat
its absence a thousand times."""
