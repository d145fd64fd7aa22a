"""Replays and discards dead letters in batches, some hundred in each transaction. An interrupted call has committed
whole transactions; the next call continues with the rest."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from duly.decide.lifecycle import LONGEST_WAIT
from duly.decide.targets.origin import closed, starts_no_command
from duly.errors import Invalid, Problem
from duly.ports import DeadLetter, DeadLetterStore
from duly.records.results import Discarded, Replayed
from duly.records.specs import Spec

LETTERS_PER_TRANSACTION = 500
"""Dead letters that are replayed or discarded in one transaction, for which others wait."""

MOST_KINDS = 100
"""Kinds of dead letters that are counted apart."""


class Place(NamedTuple):
    """The place where a call has stopped, so that another call can continue as if it were the same."""

    since: datetime  # only events that were dead letters at this time
    after: str | None = None  # the id of the last one processed
    left: int | None = None  # how many more are wanted; None: all
    free: datetime | None = None  # with a rate: when the next one may be ready


class Extent(NamedTuple):
    """How much a call does: the *limit* that the caller wants in all, the *most* that this call processes, and the
    place where the call begins."""

    limit: int | None = None
    most: int | None = None
    begun: Place | None = None


async def replay_all(
    store: DeadLetterStore,
    spec: Spec,
    gap: timedelta | None,
    extent: Extent,
    by: str,
    tell: Callable[[Replayed], object],
    channels: Collection[str] = (),
) -> tuple[Replayed, Place | None]:
    """Replays dead letters. With a *gap*, each becomes ready that long after the one before it; the times are stored,
    so no process has to wait for them. Returns the place to continue from if *extent* ended the call. Dead letters that
    came over HTTP are left alone if their channel is not among *channels*; so are commands that a request may not
    start."""
    if gap is not None and extent.begun is None:
        await _refuse_endless(store, spec, gap, extent.limit)
    done, walk, pace = Replayed(), _Walk(store, spec, extent), _Pace(store, gap, extent.begun)
    async for letters in walk.chunks():
        allowed = [letter for letter in letters if _may_start(letter, channels)]
        back = await _replay(store, allowed, await pace.next(len(allowed)), by) if allowed else {}
        done = Replayed(
            events=done.events + len(back),
            until=max(filter(None, (done.until, *back.values())), default=None),
            left_alone=done.left_alone + len(letters) - len(back),
        )
        tell(done)
    return done, None if walk.rest is None else walk.rest._replace(free=pace.free)


async def _replay(
    store: DeadLetterStore, letters: Sequence[DeadLetter], ready: Sequence[datetime | None], by: str
) -> dict[str, datetime]:
    """Replays dead letters, except for those whose keys were taken by events that are open."""
    if not any(letter.keyless for letter in letters):
        return await store.replay_found(letters, ready, by)
    async with store.begin() as tx:
        taken = await tx.take_keys([letter.id for letter in letters])
        left = [(letter, at) for letter, at in zip(letters, ready, strict=True) if letter.id not in taken]
        return await tx.replay_found([letter for letter, _ in left], [at for _, at in left], by) if left else {}


async def discard_all(
    store: DeadLetterStore, spec: Spec, extent: Extent, by: str, reason: str | None, tell: Callable[[Discarded], object]
) -> tuple[Discarded, Place | None]:
    done, walk = Discarded(), _Walk(store, spec, extent)
    async for letters in walk.chunks():
        away = await store.discard_found(letters, by, reason)
        done = Discarded(
            events=done.events + len(away),
            left_alone=done.left_alone + len(letters) - len(away),
        )
        tell(done)
    return done, walk.rest


def _may_start(letter: DeadLetter, channels: Collection[str]) -> bool:
    target = None if letter.target_json is None else msgspec.json.decode(letter.target_json)
    return not starts_no_command(target, channels) and not closed(letter.via, target, channels)


class _Walk:
    """Walks through the events that are dead letters when the walk begins, the oldest first. A replayed event that
    fails again is not visited twice, and events that fail for the first time meanwhile are not visited."""

    def __init__(self, store: DeadLetterStore, spec: Spec, extent: Extent) -> None:
        self._store, self._spec, self._extent = store, spec, extent
        self.rest: Place | None = None  # where to continue, if the walk stopped early

    async def chunks(self) -> AsyncIterator[list[DeadLetter]]:
        place = self._extent.begun or Place(await self._store.now(), left=self._extent.limit)
        room = self._extent.most
        while place.left != 0:
            if room == 0:
                self.rest = place
                return
            most = min(many for many in (LETTERS_PER_TRANSACTION, place.left, room) if many is not None)
            letters = await self._store.find_dead(self._spec, since=place.since, after=place.after, limit=most)
            if letters:
                yield letters
            if len(letters) < most:
                return
            place = place._replace(after=letters[-1].id, left=None if place.left is None else place.left - most)
            room = None if room is None else room - most


class _Pace:
    """The time at which each replayed event becomes ready: at once, or a gap after the one before it, and never in the
    past."""

    def __init__(self, store: DeadLetterStore, gap: timedelta | None, begun: Place | None) -> None:
        self._store, self._gap = store, gap
        self.free = None if begun is None else begun.free

    async def next(self, count: int) -> Sequence[datetime | None]:
        if self._gap is None:
            return [None] * count
        now = await self._store.now()
        first = now if self.free is None else max(now, self.free)
        self.free = first + count * self._gap
        return [first + place * self._gap for place in range(count)]


async def _refuse_endless(store: DeadLetterStore, spec: Spec, gap: timedelta, limit: int | None) -> None:
    there = (await store.count_dead(spec, most=1)).events
    many = there if limit is None else min(limit, there)
    if many > LONGEST_WAIT // gap:
        raise Invalid(
            [Problem("rate", f"{many:,} events would take longer than a year: raise the rate, or give a limit")]
        )
