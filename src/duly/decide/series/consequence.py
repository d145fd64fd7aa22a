"""The consequence of an act: the difference between the events of some series before it and after it. Pure: a dry run
supplies the rows."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from duly.decide.series.due_head import Drop, HeadFacts, continues_after, decide, occurrence_of
from duly.decide.series.forecast import Continuation, StepRange, expand
from duly.decide.series.pauses import PausedTime
from duly.decide.series.preview import Preview, preview, preview_from
from duly.records.event import Event, HoldKind, Status
from duly.records.figures.consequence import (
    HourLoad,
    MovedEvent,
    NamedEvent,
    NamedEvents,
    NextOccurrence,
    PassedEvent,
    PassedEvents,
)
from duly.records.series import Series
from duly.rules.policies import SHADOW
from duly.rules.recurrence import DEFAULT_ZONE

OPEN = (Status.PENDING, Status.PROCESSING)

MOST_NEXT = 10
"""Occurrences to come that a consequence tells."""

MOST_FIRST = 5
"""Events of one fate that a consequence names."""

MOST_HOURS = 12
"""Hours of which a consequence tells the load, where events were, and as many where they will be."""

LONGEST_LOAD = timedelta(days=7)
"""These hours lie within a week, because what lies between them is counted as well."""

HOUR = timedelta(hours=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Scene(NamedTuple):
    """The events of some series at one moment, and their series by name, those without a head included."""

    events: Mapping[str, Event]
    series: Mapping[str, Series]
    now: datetime
    paused: PausedTime | None = None  # of a schedule whose pause ends by itself

    def heads(self) -> Iterator[tuple[Event, Series]]:
        for event in self.events.values():
            series = self.series.get(event.series or "")
            if event.head and event.status in OPEN and series is not None:
                yield event, series


def moved(before: Scene, after: Scene) -> tuple[MovedEvent, ...]:
    both = [(old, after.events[id]) for id, old in before.events.items() if id in after.events]
    there = [MovedEvent(new.id, new.type, old.due, new.due) for old, new in both if _moves(old, new)]
    return tuple(sorted(there, key=lambda one: (one.to, one.type)))


def _moves(old: Event, new: Event) -> bool:
    return old.due != new.due and old.status is Status.PENDING and new.status is Status.PENDING


def became(before: Scene, after: Scene, status: Status) -> list[Event]:
    """The events that the act has brought to this status, the earliest first."""
    return sorted(
        (
            event
            for id, event in after.events.items()
            if event.status is status and (id not in before.events or before.events[id].status is not status)
        ),
        key=lambda event: (occurrence_of(event).at, event.id),
    )


def skipped(rows: Sequence[Event], reasons: Mapping[str, str | None]) -> PassedEvents:
    """Skipped rows, as a consequence tells them. The due time of a row that stands for many is that of the first."""
    first = tuple(
        PassedEvent(
            row.type, row.due if row.stands_for > 1 else occurrence_of(row).at, row.stands_for, reasons.get(row.id)
        )
        for row in rows[:MOST_FIRST]
    )
    return PassedEvents(sum(row.stands_for for row in rows), first)


def _named(events: Collection[Event], before: Scene) -> tuple[NamedEvent, ...]:
    """Events by due time. The id of an event that the act creates is left out: it is undone, and the act itself gives
    another one."""
    ordered = sorted(events, key=lambda event: (event.due, event.type, event.id))
    return tuple(NamedEvent(one.id if one.id in before.events else None, one.type, one.due) for one in ordered)


def created(before: Scene, after: Scene) -> tuple[NamedEvent, ...]:
    new = [event for id, event in after.events.items() if id not in before.events and event.status in OPEN]
    return _named(new, before)


def cancelled(before: Scene, after: Scene, count: int | None) -> NamedEvents:
    """The cancelled events; the act itself may tell how many they are."""
    rows = became(before, after, Status.CANCELLED)
    return NamedEvents(len(rows) if count is None else count, _named(rows, before)[:MOST_FIRST])


def owed(before: Scene, after: Scene) -> NamedEvents:
    """The events that are due already and will fire. A paused one waits, and one that the misfire policy leaves out, or
    that has expired, will be skipped."""
    rows = [event for event in after.events.values() if event.status in OPEN and _is_owed(event, after)]
    return NamedEvents(len(rows), _named(rows, before)[:MOST_FIRST])


def _is_owed(event: Event, after: Scene) -> bool:
    if event.due > after.now or event.hold_kind is HoldKind.PAUSED:
        return False
    if event.status is Status.PROCESSING:
        return True
    if event.expires_at is not None and event.expires_at < after.now:
        return False
    series = after.series.get(event.series or "")
    if not event.head or series is None:
        return True
    try:
        return not isinstance(decide(event, series, HeadFacts(after.now, succeeded=after.now)), Drop)
    except Exception:  # its rule cannot be evaluated: the claim will halt its series
        return False


# -- the next occurrences


def upcoming(scene: Scene, enough: Callable[[], bool]) -> list[NextOccurrence]:
    """The occurrences after now, of all series together, until *enough* returns true. Those that are due already are
    told as owed."""
    found = [one for head, series in scene.heads() for one in _upcoming(head, series, scene, enough)]
    return sorted(found, key=lambda one: (one.due, one.type))[:MOST_NEXT]


def _upcoming(head: Event, series: Series, scene: Scene, enough: Callable[[], bool]) -> Iterator[NextOccurrence]:
    zone = series.timezone or DEFAULT_ZONE
    try:
        ahead = _previews(head, series, scene, enough)
    except Exception:  # the rule cannot be evaluated here: only the head is known
        ahead = []
    for one in ahead:
        yield NextOccurrence(series.type, one.due, one.local, zone, one.note)


def _previews(head: Event, series: Series, scene: Scene, enough: Callable[[], bool]) -> list[Preview]:
    now, paused = scene.now, scene.paused
    if head.due > now or paused is not None:
        found = preview_from(series, paused, head, now, MOST_NEXT + 1, enough)
        return [one for one in found if one.due > now][:MOST_NEXT]
    table = series.timetable
    start = max(continues_after(head, series), now - table.longest_jitter)
    later = preview(table, start, MOST_NEXT + 2, series, enough)  # jitter is shorter than the space between two
    return [one for one in later if one.due > now][:MOST_NEXT]


# -- the load


def windows(were: Iterable[datetime], will_be: Iterable[datetime], now: datetime) -> list[list[datetime]]:
    """The hours in which events were and will be, in windows of a week at most. Hours that are over are left out."""
    found: list[list[datetime]] = []
    for hour in sorted({*_first_hours(were, now), *_first_hours(will_be, now)}):
        if found and hour - found[-1][0] < LONGEST_LOAD:
            found[-1].append(hour)
        else:
            found.append([hour])
    return found


def _first_hours(instants: Iterable[datetime], now: datetime) -> list[datetime]:
    hours = sorted({at - (at - EPOCH) % HOUR for at in instants if at > now})
    return [hour for hour in hours if hour - hours[0] < LONGEST_LOAD][:MOST_HOURS]


def load(counts: Mapping[datetime, int], scenes: tuple[Scene, Scene], enough: Callable[[], bool]) -> list[HourLoad]:
    """The load of each hour. *counts* has what becomes due in it as it is. What the act changes is counted in the
    scenes before and after it, until *enough* returns true."""
    hours = sorted(counts)
    old, new = (_by_hour(scene, hours, enough) for scene in scenes)
    return [HourLoad(hour, counts[hour], max(0, counts[hour] - old[hour] + new[hour])) for hour in hours]


def _by_hour(scene: Scene, hours: Sequence[datetime], enough: Callable[[], bool]) -> dict[datetime, int]:
    """How many events of a scene become due in each hour, counted as a forecast counts them."""
    fires = [event for event in scene.events.values() if _is_foretold(event, scene)]
    goes_on = [
        Continuation(series, head, paused=scene.paused)
        for head, series in scene.heads()
        if head.status is Status.PENDING and (series.enabled or scene.paused is not None) and not _is_shadow(series)
    ]
    found = {}
    for hour in hours:
        rows = sum(hour <= event.due < hour + HOUR for event in fires)
        one_step = StepRange(hour, hour + HOUR, HOUR)
        found[hour] = rows + expand(goes_on, one_step, scene.now, enough).counts.total()
    return found


def _is_foretold(event: Event, scene: Scene) -> bool:
    series = scene.series.get(event.series or "")
    shadow = event.head and series is not None and _is_shadow(series)
    return event.status is Status.PENDING and event.hold_kind is not HoldKind.PAUSED and not shadow


def _is_shadow(series: Series) -> bool:
    try:
        return series.policies.mode == SHADOW
    except (ValueError, msgspec.MsgspecError):  # the policies were edited by hand
        return False
