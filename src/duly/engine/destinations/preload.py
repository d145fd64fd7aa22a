"""Imports the libraries of channels before events are claimed for them. Importing at the first delivery would make that
event, and every other event due at that moment, late by up to a second."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta

from duly.errors import StoreUnavailable
from duly.ports import ClaimPort, Loadable, Route

IDLE_WITHIN_S = 0.5
"""Seconds. Channels without pending events are loaded when the worker is first idle, so that due events are not
delayed; but after this time at the latest, because a worker with a backlog may not be idle for hours."""

NOW = timedelta()
EVER = timedelta.max


class Preload:
    """Loads the channels of one worker; ``lanes`` are the lanes whose channels are not loaded yet."""

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
        """Called when the worker has nothing to do."""
        if self._left:
            self._idle.set()

    async def run(self) -> None:
        """Loads channels with pending events at once, and the others when the worker is idle."""
        with contextlib.suppress(StoreUnavailable):  # the worker's loop reports that
            await self._load_awaited(EVER)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDLE_WITHIN_S):
                await self._idle.wait()
        for lane in list(self._left):
            await self._load(lane)

    async def load_what_is_due(self) -> None:
        """Loads only channels with due events: a tick uses no others."""
        await self._load_awaited(NOW)

    async def _load_awaited(self, within: timedelta) -> None:
        if await self._is_awaited(within, *self._left):  # one query for all lanes, which mostly suffices
            for lane in list(self._left):
                if await self._is_awaited(within, lane):
                    await self._load(lane)

    async def _is_awaited(self, within: timedelta, *lanes: str) -> bool:
        if not lanes:
            return False
        horizon, _ = await self._store.horizon(lanes)
        return any(span is not None and span <= within for span in horizon)

    async def _load(self, lane: str) -> None:
        with contextlib.suppress(Exception):  # the first delivery meets the same error and reports it
            await self._left[lane].load()
        del self._left[lane]
        self._loaded()
