"""What is kept beside an event: its history, and what is left of its key when it was deleted."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from duly.records.event import Event, Status, lane_of
from duly.records.marks import FromZero, Id, told
from duly.records.wire.forms import JsonForm


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
