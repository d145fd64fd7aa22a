"""Which channels can be reached now. What a broker that is down could not take anyway is not claimed, and waits in its
place."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from duly.errors import StoreUnavailable
from duly.ports import ClaimPort, Reachable, Route, SlowToStart
from duly.signals import ChannelDown, ChannelNotServed, ChannelUp, Signals


class BrokerHealth:
    """Tells once when a channel goes down, and once when it is up again."""

    def __init__(self, channels: Mapping[str, Reachable], signals: Signals, changed: Callable[[], None]) -> None:
        self._channels, self._signals, self._changed = channels, signals, changed
        self._since: dict[str, float] = {}  # of those that are down
        self.on_trial: frozenset[str] = frozenset()  # of these, those that one event at a time may go to

    def is_up(self, name: str) -> bool:
        return name not in self._since

    def is_open(self, name: str) -> bool:
        return self.is_up(name) or name in self.on_trial

    def begin(self) -> None:
        for channel in self._channels.values():
            channel.watch(self._look)
        self._look()

    def end(self) -> None:
        for channel in self._channels.values():
            channel.unwatch(self._look)

    def _look(self) -> None:
        before = self.on_trial, set(self._since)
        for name, channel in self._channels.items():
            if (reason := channel.down) is not None and name not in self._since:
                self._since[name] = time.monotonic()
                self._signals.emit(ChannelDown(name, reason))
            elif reason is None and name in self._since:
                after = time.monotonic() - self._since.pop(name)
                self._signals.emit(ChannelUp(name, timedelta(seconds=after)))
        self.on_trial = frozenset(name for name in self._since if self._channels[name].on_trial)
        if before != (self.on_trial, set(self._since)):
            self._changed()


async def tell_what_is_not_served(store: ClaimPort, advice: Mapping[str, str], signals: Signals) -> None:
    """Of these channels, those that events wait for: this may be the only worker."""
    with contextlib.suppress(StoreUnavailable):  # others tell of that
        if advice and await _waits_for(store, *advice):
            for name in advice:
                if await _waits_for(store, name):
                    signals.emit(ChannelNotServed(name, advice[name]))


async def _waits_for(store: ClaimPort, *lanes: str) -> bool:
    horizon, _ = await store.horizon(lanes)
    return any(span is not None for span in horizon)


async def prepare(routes: Mapping[str, Route], store: ClaimPort, every: timedelta) -> None:
    """Let channels that are slow to start do so before their first event: those that have something to deliver, now or
    one day."""
    left = {lane: route.channel for lane, route in routes.items() if isinstance(route.channel, SlowToStart)}
    while left:
        for lane, channel in list(left.items()):
            with contextlib.suppress(Exception):  # its first event will find the same, and tells
                if await _waits_for(store, lane):
                    del left[lane]
                    await channel.prepare()
        await asyncio.sleep(every.total_seconds())
