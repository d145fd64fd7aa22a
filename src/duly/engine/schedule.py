"""Accepts timers: checks all of them, then stores them in one transaction."""

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from duly.decide.keys import key_refused
from duly.decide.planning import plan
from duly.engine.destinations.target_references import require_targets
from duly.ids import new_ids
from duly.ports import Added, TimerPort, TimerStore
from duly.records.event import NewEvent, Timer
from duly.records.results import PutChange

CHUNK = 5000
"""Events in one statement. More are stored in several statements of one transaction."""


async def put_timer(store: TimerPort, timer: Timer, channels: Collection[str]) -> Added:
    """Schedules one timer, or moves the existing event with the same key."""
    events = plan((timer,), channels, new_ids)
    [added] = accepted(events, await put_events(store, events))
    return added


async def add_timers(
    store: TimerStore, timers: Iterable[Timer], channels: Collection[str], tx: TimerPort | None
) -> list[str]:
    """Schedules all timers or, if one is invalid, none; returns the event ids in order."""
    events = plan(list(timers), channels, new_ids)
    if tx is not None:
        return await _add(tx, events)
    if len(events) <= CHUNK and not any(event.key for event in events):
        return await add_events(store, events) if events else []
    async with store.begin() as own:
        return await _add(own, events)


async def add_events(store: TimerPort, events: Sequence[NewEvent]) -> list[str]:
    """Stores events without keys; returns their ids."""
    if any(event.stored_target for event in events):
        await require_targets(store, events)
    ids = await store.add(events)
    store.tell_created(events)
    return ids


async def put_events(store: TimerPort, events: Sequence[NewEvent]) -> list[Added]:
    """Stores events with keys, or moves the existing events with the same keys. Some may be refused."""
    if any(event.stored_target for event in events):
        await require_targets(store, events)
    added = await store.put(events)
    _tell(store, added)
    return added


def accepted(events: Sequence[NewEvent], added: Sequence[Added]) -> Sequence[Added]:
    """The results; raises Conflict if one of the events was refused."""
    for event, one in zip(events, added, strict=True):
        if one.change is PutChange.REFUSED:
            raise key_refused(event.type, one.event)
    return added


def _tell(store: TimerPort, added: Sequence[Added]) -> None:
    store.tell_created([one.event for one in added if one.change is PutChange.CREATED])


class OrderedTimer(NamedTuple):
    """A timer with a key, and its position in the order of requests: larger is later."""

    asked: int
    timer: Timer


async def put_ordered_timers(store: TimerStore, ordered: Iterable[OrderedTimer], channels: Collection[str]) -> None:
    """Schedules timers, or moves the existing events with the same keys, in one transaction. The timers may arrive in
    any order and repeatedly: the latest request for a key counts, once."""
    latest = {(one.timer.tenant, one.timer.key): one for one in sorted(ordered, key=attrgetter("asked"))}
    planned = plan(tuple(one.timer for one in latest.values()), channels, new_ids)
    events = [replace(event, asked=one.asked) for event, one in zip(planned, latest.values(), strict=True)]
    async with store.begin() as tx:
        for start in range(0, len(events), CHUNK):
            chunk = events[start : start + CHUNK]
            accepted(chunk, await put_events(tx, chunk))


class _NothingToKeep(Exception):
    """Rolls a transaction back."""


async def takes_timers(store: TimerStore, like: Timer, channels: Collection[str]) -> bool:
    """Whether the store would accept an ordinary timer. The timer is rolled back."""
    ordinary = replace(like, due=timedelta(days=1), key=new_ids(1)[0], tenant="default", correlation_id=None)
    try:
        async with store.begin() as tx:
            await put_timer(tx, ordinary, channels)
            raise _NothingToKeep
    except _NothingToKeep:
        return True
    except Exception:
        return False


async def _add(tx: TimerPort, events: list[NewEvent]) -> list[str]:
    """Stores events with and without keys; returns their ids in order."""
    ids = [event.id for event in events]
    keyless = [event for event in events if event.key is None]
    for start in range(0, len(keyless), CHUNK):
        await add_events(tx, keyless[start : start + CHUNK])
    keyed = [(index, event) for index, event in enumerate(events) if event.key is not None]
    for start in range(0, len(keyed), CHUNK):
        places, chunk = zip(*keyed[start : start + CHUNK], strict=True)
        for index, added in zip(places, accepted(chunk, await put_events(tx, chunk)), strict=True):
            ids[index] = added.event.id
    return ids
