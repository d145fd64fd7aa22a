"""Accept timers: check them whole, and store them in one transaction."""

from collections.abc import Collection, Iterable
from datetime import timedelta
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from duly.core.model import NewEvent, Timer
from duly.core.planning import plan
from duly.flow.ids import new_ids
from duly.ports import Added, Statements, Store
from duly.signals import Created, Signals

CHUNK = 5000


async def put_timer(store: Statements, timer: Timer, channels: Collection[str]) -> Added:
    """Schedule one timer, or move the one that has its key."""
    [added] = await store.put(plan((timer,), channels, new_ids))
    return added


async def add_timers(
    store: Store, timers: Iterable[Timer], channels: Collection[str], tx: Statements | None, signals: Signals
) -> list[str]:
    """All of them or, when one is invalid, none; the ids in order."""
    events = plan(list(timers), channels, new_ids)
    if tx is not None:
        return (await _add(tx, events))[0]
    if len(events) <= CHUNK and not any(event.key for event in events):
        ids = created = await store.add(events) if events else []
    else:
        async with store.begin() as own:
            ids, created = await _add(own, events)
    signals.emit(Created(created))
    return ids


class Wish(NamedTuple):
    """A timer with a key, and its place in the order in which all of them were asked for: larger is later."""

    asked: int
    timer: Timer


async def put_wishes(store: Store, wishes: Iterable[Wish], channels: Collection[str], signals: Signals) -> None:
    """Schedule timers, or move those that have their keys already, in one transaction. Whatever the order in which they
    come, the latest wish for a key counts, and each of them once."""
    latest = {(wish.timer.tenant, wish.timer.key): wish for wish in sorted(wishes, key=attrgetter("asked"))}
    planned = plan(tuple(wish.timer for wish in latest.values()), channels, new_ids)
    events = [replace(event, asked=wish.asked) for event, wish in zip(planned, latest.values(), strict=True)]
    async with store.begin() as tx:
        added = [one for start in range(0, len(events), CHUNK) for one in await tx.put(events[start : start + CHUNK])]
    signals.emit(Created([one.event.id for one in added if one.change == "created"]))


class _Enough(Exception):
    """Ends a transaction of which nothing is to be kept."""


async def takes_timers(store: Store, like: Timer, channels: Collection[str]) -> bool:
    """Whether an ordinary one could be stored. It is not."""
    ordinary = replace(like, due=timedelta(days=1), key=new_ids(1)[0], tenant="default", correlation_id=None)
    try:
        async with store.begin() as tx:
            await put_timer(tx, ordinary, channels)
            raise _Enough
    except _Enough:
        return True
    except Exception:
        return False


async def _add(tx: Statements, events: list[NewEvent]) -> tuple[list[str], list[str]]:
    """The ids in order, and those of them that are new."""
    ids = [event.id for event in events]
    keyless = [event for event in events if event.key is None]
    for start in range(0, len(keyless), CHUNK):
        await tx.add(keyless[start : start + CHUNK])
    created = [event.id for event in keyless]
    keyed = [(index, event) for index, event in enumerate(events) if event.key is not None]
    for start in range(0, len(keyed), CHUNK):
        chunk = keyed[start : start + CHUNK]
        for (index, _), added in zip(chunk, await tx.put([event for _, event in chunk]), strict=True):
            ids[index] = added.event.id
            if added.change == "created":
                created.append(added.event.id)
    return ids, created
