"""Ends the pauses that end by themselves, each at its instant. Any worker may; the first one to lock the schedule
does."""

import asyncio
import contextlib
import random
import time
from datetime import timedelta

from duly.engine.pauses.resumption import end_pause_of, stay_paused
from duly.engine.series.holds import Overtaken
from duly.errors import StoreError, StoreUnavailable
from duly.ports import PauseStore

MOST_AT_ONCE = 200
"""Pauses that one query finds. Each of them ends in a transaction of its own."""

LOOK_AGAIN_S = 0.25
"""Seconds between two queries, at least, while a worker is busy: it may have been woken for a pause that has just got
an end. A query costs 0.3 ms."""

OVERTAKEN_S = 0.01
"""Seconds before the next try to end a pause whose schedule somebody else is changing."""

NOW = timedelta()


async def end_pauses(store: PauseStore) -> timedelta | None:
    """Ends the pauses whose time has come; returns how far away the next end is, or None if no pause has one."""
    while True:
        found = await store.pause_ends(limit=MOST_AT_ONCE)
        ended = [one.id for one in found if one.ends_in <= NOW]
        if not ended:
            return min((one.ends_in for one in found), default=None)
        random.shuffle(ended)  # so that many workers do not wait for each other's locks, schedule by schedule
        for id in ended:
            await _end(store, id)


async def _end(store: PauseStore, id: str) -> None:
    try:
        async with store.begin() as tx:
            await end_pause_of(tx, id)
    except Overtaken:
        await asyncio.sleep(OVERTAKEN_S)
    except StoreError:
        raise
    except Exception as error:  # one bad rule is one schedule that stays paused; the others resume
        async with store.begin() as tx:
            await stay_paused(tx, id, error)


class PauseEnds:
    """The loop of a worker that ends pauses on time: it sleeps until the next end, at most the poll interval."""

    def __init__(self, store: PauseStore, poll_interval: timedelta) -> None:
        self._store, self._poll_interval = store, poll_interval
        self._stirred = asyncio.Event()

    def stir(self) -> None:
        """Looks again soon: the worker was woken, perhaps because a pause has got an end."""
        self._stirred.set()

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            await self._sleep(began, (await self._look()).total_seconds())

    async def _look(self) -> timedelta:
        with contextlib.suppress(StoreUnavailable):  # the worker's loop reports that
            next_end = await end_pauses(self._store)
            if next_end is not None:
                return min(next_end, self._poll_interval)
        return self._poll_interval

    async def _sleep(self, began: float, seconds: float) -> None:
        """Sleeps for that many seconds, or until the worker is woken, but at least LOOK_AGAIN_S since the last look,
        unless a pause ends earlier."""
        self._stirred.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stirred.wait()
                await asyncio.sleep(LOOK_AGAIN_S - (time.monotonic() - began))
