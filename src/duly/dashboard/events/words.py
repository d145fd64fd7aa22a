"""Words for the state of an event in a list: how late it was, is, or when it is tried again."""

from datetime import datetime, timedelta
from typing import NamedTuple

from duly.dashboard.times import short
from duly.records.event import Event, Status

UNREMARKABLE = timedelta(seconds=1)
"""How long after its due time an event may wait for a worker before it counts as overdue."""


class Timing(NamedTuple):
    """The timing of an event in a few words; *late*: whether it needs attention."""

    words: str
    late: bool = False


def timing(event: Event, now: datetime, late_after: timedelta) -> Timing:
    """How late an event was completed, how long it is overdue, or what it waits for."""
    match event.status:
        case Status.COMPLETED if event.lateness is not None:
            return Timing(short(event.lateness), event.lateness > late_after)
        case Status.PROCESSING if event.ready is not None and event.ready < now:
            return Timing("interrupted", late=True)
        case Status.PROCESSING if event.claimed is not None:
            return Timing(f"runs for {short(now - event.claimed)}")
        case Status.PENDING if event.held is not None:
            return Timing("held")
        case Status.PENDING if event.attempts and event.ready is not None and event.ready > now:
            return Timing(f"again in {short(event.ready - now)}")
        case Status.PENDING if now - event.due >= UNREMARKABLE:
            return Timing(f"overdue {short(now - event.due)}", now - event.due > late_after)
    return Timing("")
