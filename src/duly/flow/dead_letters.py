"""Many dead letters at once, some hundred in each transaction. Who stops in between has done whole transactions; who
begins again goes on with the rest."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta

import msgspec

from duly.core.lifecycle import LONGEST_WAIT
from duly.core.specs import Spec
from duly.errors import Invalid, Problem
from duly.ports import Letter, Store

AT_ONCE = 500
MOST_KINDS = 100


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay of many has done so far."""

    events: int = 0
    until: datetime | None = None  # when the last of them is ready
    left_alone: int = 0  # somebody else was changing these when it was their turn


class Discarded(msgspec.Struct, frozen=True, kw_only=True):
    """What a discard of many has done so far."""

    events: int = 0
    left_alone: int = 0


async def replay_all(
    store: Store,
    spec: Spec,
    gap: timedelta | None,
    limit: int | None,
    by: str,
    tell: Callable[[Replayed], object],
) -> Replayed:
    """With a *gap*, each is ready that long after the one before it. It is stored so, and nobody has to stay."""
    if gap is not None:
        await _refuse_endless(store, spec, gap, limit)
    done, pace = Replayed(), _Pace(store, gap)
    async for letters in _chunks(store, spec, limit):
        back = await store.replay_found(letters, await pace.next(len(letters)), by)
        done = Replayed(
            events=done.events + len(back),
            until=max(filter(None, (done.until, *back.values())), default=None),
            left_alone=done.left_alone + len(letters) - len(back),
        )
        tell(done)
    return done


async def discard_all(
    store: Store, spec: Spec, limit: int | None, by: str, reason: str | None, tell: Callable[[Discarded], object]
) -> Discarded:
    done = Discarded()
    async for letters in _chunks(store, spec, limit):
        away = await store.discard_found(letters, by, reason)
        done = Discarded(
            events=done.events + len(away),
            left_alone=done.left_alone + len(letters) - len(away),
        )
        tell(done)
    return done


async def _chunks(store: Store, spec: Spec, limit: int | None) -> AsyncIterator[list[Letter]]:
    """Those that are dead letters as it begins, the oldest first. What fails again meanwhile does not come again, and
    what fails meanwhile for the first time does not come at all."""
    since, after, left = await store.now(), None, limit
    while left is None or left > 0:
        most = AT_ONCE if left is None else min(AT_ONCE, left)
        letters = await store.find_dead(spec, since=since, after=after, limit=most)
        if letters:
            yield letters
        if len(letters) < most:
            return
        after, left = letters[-1].id, None if left is None else left - most


class _Pace:
    """When each of them is ready: at once, or a gap after the one before it, and never in the past."""

    def __init__(self, store: Store, gap: timedelta | None) -> None:
        self._store, self._gap = store, gap
        self._free: datetime | None = None

    async def next(self, count: int) -> Sequence[datetime | None]:
        if self._gap is None:
            return [None] * count
        now = await self._store.now()
        first = now if self._free is None else max(now, self._free)
        self._free = first + count * self._gap
        return [first + place * self._gap for place in range(count)]


async def _refuse_endless(store: Store, spec: Spec, gap: timedelta, limit: int | None) -> None:
    there = (await store.count_dead(spec, most=1)).events
    many = there if limit is None else min(limit, there)
    if many > LONGEST_WAIT // gap:
        raise Invalid([Problem("rate", f"{many:,} events would take longer than a year: raise it, or give a limit")])
