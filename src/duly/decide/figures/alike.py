"""Groups events that are completed together, so that a batch is counted in a few rows."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from duly.decide.figures.histogram import LEAST_S, WIDTH, bucket, seconds
from duly.records.event import Event, schedule_of

of_event = attrgetter("tenant", "series", "type", "lane", "claimed")


class AlikeEvents(NamedTuple):
    """Claimed events of one tenant, schedule, type and lane, that were claimed together and about as late."""

    tenant: str
    schedule: str | None  # its id
    type: str
    lane: str
    claimed: datetime
    lateness: float  # seconds
    many: int


def alike(events: Sequence[Event]) -> list[AlikeEvents]:
    """Runs for every event, and so mostly in comprehensions: with a call for each, it took three times as long."""
    return [
        AlikeEvents(tenant, schedule, type, lane, claimed, lateness, many)
        for (tenant, schedule, type, lane, claimed), dues in _groups(events)
        for lateness, many in _by_lateness(claimed, dues)
    ]


Key = tuple[str, str | None, str, str, datetime]


def _groups(events: Sequence[Event]) -> Iterable[tuple[Key, list[datetime]]]:
    """The due times of the events that share all else. Mostly, those of a batch are one group."""
    first = events[0]
    tenant, series, type, lane, claimed = of_event(first)
    if series is None and not [
        one
        for one in events
        if one.claimed is not claimed
        or one.series is not None
        or one.type != type
        or one.lane != lane
        or one.tenant != tenant
    ]:
        return [((tenant, None, type, lane, claimed or first.due), [one.due for one in events])]
    found: dict[Key, list[datetime]] = {}
    for one in events:
        schedule = None if one.series is None else schedule_of(one.series)
        key = one.tenant, schedule, one.type, one.lane, one.claimed or one.due
        found.setdefault(key, []).append(one.due)
    return found.items()


def _by_lateness(claimed: datetime, dues: list[datetime]) -> Iterator[tuple[float, int]]:
    """The numbers of events in each bucket of lateness, from the latest on."""
    dues.sort()
    counted = 0
    while counted < len(dues):
        its = bucket((claimed - dues[counted]).total_seconds())
        until = len(dues)
        if its:  # the next bucket begins where this one ends: in these, everything is less late
            until = bisect_left(dues, claimed - timedelta(seconds=LEAST_S * WIDTH ** (its - 1)), counted + 1)
        yield seconds(its), until - counted
        counted = until
