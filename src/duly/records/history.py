"""The history entry: one attempt at an event, or one act of a person."""

from datetime import datetime
from typing import Annotated

import msgspec

from duly.records.marks import FromZero, told
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


ENTRY_JSON = JsonForm(Entry)
HISTORY_PAGE = ENTRY_JSON.page("History", "history")
