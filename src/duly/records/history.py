"""The history entry: one attempt at an event, or one act of a person."""

from datetime import datetime

import msgspec


class Entry(msgspec.Struct, frozen=True):
    """One row of the history: an attempt, an interruption or a human act."""

    at: datetime
    act: str
    worker: str | None = None
    version: int | None = None
    attempt: int | None = None
    claimed: datetime | None = None
    detail: str | None = None
