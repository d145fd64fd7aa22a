"""What is kept beside an event: its history, and what is left of its key when it was deleted."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import msgspec

from duly.records.event import Event, Status, lane_of
from duly.records.marks import FromZero, Id, told
from duly.records.wire.forms import JsonForm


class Cause(StrEnum):
    """Why occurrences do not fire. The sentence in ``detail`` is for people."""

    MISFIRE = "misfire"  # found late: another event stands for them, or the misfire policy drops them
    OVERLAP = "overlap"  # the event before was still running
    DEPENDENCY = "dependency"  # the schedule that theirs depends on had not succeeded in time
    SHADOW = "shadow"  # their schedule only records what would have fired
    PAUSED = "paused"  # their time came while their schedule was paused
    EDITED = "edited"  # their schedule, or their user, was changed
    MOVED = "moved"  # the one before them was moved past them
    BY_HAND = "by_hand"  # somebody skipped them
    EXPIRED = "expired"  # no attempt could begin in time


class Entry(msgspec.Struct, frozen=True):
    """One row of the history: an attempt, an interruption, or an act of a person."""

    at: datetime
    act: str
    worker: Annotated[str | None, told("The worker, the person or the API key")] = None
    version: FromZero | None = None
    attempt: FromZero | None = None
    claimed: datetime | None = None
    detail: str | None = None
    output: Annotated[str | None, told("The end of what a command has written")] = None
    cause: Annotated[Cause | None, told("Why it does not fire, for programs")] = None
    first: Annotated[datetime | None, told("The first of several occurrences that it is about")] = None
    last: Annotated[datetime | None, told("The last of these occurrences")] = None


ENTRY_JSON = JsonForm(Entry)
HISTORY_PAGE = ENTRY_JSON.page("History", "history")


class FiredKey(msgspec.Struct, frozen=True):
    """What is remembered of a key whose event has fired and was deleted."""

    tenant: str
    key: str
    id: Id
    type: str
    due: datetime
    executed: datetime | None
    status: Status
    fired: datetime  # when the event ended

    def event(self) -> Event:
        """The event, as far as it is remembered: without its payload, target and counts."""
        created = timedelta(milliseconds=int(self.id[:8] + self.id[9:13], 16))  # an id begins with its time
        return Event(
            id=self.id,
            tenant=self.tenant,
            type=self.type,
            lane=lane_of(self.type, None),
            status=self.status,
            due=self.due,
            ready=None,
            version=1,
            attempts=0,
            interruptions=0,
            stands_for=1,
            payload_json="null",
            target_json=None,
            retry_json=None,
            key=self.key,
            correlation_id=None,
            series=None,
            occurrence=None,
            head=False,
            held=None,
            hold_kind=None,
            held_for=None,
            last_error=None,
            created=datetime(1970, 1, 1, tzinfo=UTC) + created,
            claimed=None,
            executed=self.executed,
            worker=None,
        )
