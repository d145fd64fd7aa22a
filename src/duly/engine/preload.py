"""Loads the libraries of channels before anything is claimed for them: at the first delivery, that would make its event
late by up to a second, and whatever else is due just then."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta

from duly.errors import StoreUnavailable
from duly.ports import ClaimPort, Loadable, Route

IDLE_WITHIN_S = 0.5
"""Seconds. What nothing waits for yet is loaded when the worker is first idle, so as not to slow down what is due; but
after this at the latest, for a worker with a backlog may not be idle for hours."""

NOW, EVER = timedelta(), timedelta.max


class Preload:
    """The lanes of one worker whose channels are still to be loaded."""

    def __init__(self, routes: Mapping[str, Route], store: ClaimPort, loaded: Callable[[], None]) -> None:
        self._store, self._loaded = store, loaded
        channels = {lane: route.channel for lane, route in routes.items()}
        self._left = {
            lane: channel
            for lane, channel in channels.items()
            if isinstance(channel, Loadable) and not channel.is_loaded
        }
        self.lanes: Collection[str] = self._left.keys()
        self._idle = asyncio.Event()

    def idle(self) -> None:
        """The worker has nothing to do."""
        self._idle.set()

    async def run(self) -> None:
        """At once what something waits for, now or one day; all else when there is time for it."""
        with contextlib.suppress(StoreUnavailable):  # others tell of that
            await self._load_awaited(EVER)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDLE_WITHIN_S):
                await self._idle.wait()
        for lane in list(self._left):
            await self._load(lane)

    async def load_what_is_due(self) -> None:
        """For a tick, which has no use for the rest."""
        await self._load_awaited(NOW)

    async def _load_awaited(self, within: timedelta) -> None:
        if await self._is_awaited(within, *self._left):  # one question, which is mostly enough
            for lane in list(self._left):
                if await self._is_awaited(within, lane):
                    await self._load(lane)

    async def _is_awaited(self, within: timedelta, *lanes: str) -> bool:
        if not lanes:
            return False
        horizon, _ = await self._store.horizon(lanes)
        return any(span is not None and span <= within for span in horizon)

    async def _load(self, lane: str) -> None:
        with contextlib.suppress(Exception):  # its first event will find the same, and tells
            await self._left[lane].load()
        del self._left[lane]
        self._loaded()
