"""Which channels are reachable now. Events for a broker that is down are not claimed, and keep their place in the
queue."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from duly.errors import StoreUnavailable
from duly.ports import ClaimPort, Reachable, Route, SlowToStart
from duly.signals import ChannelDown, ChannelNotServed, ChannelUp, Signals


class BrokerHealth:
    """The health of a worker's channels. Emits one signal when a channel goes down and one when it is up again."""

    def __init__(self, channels: Mapping[str, Reachable], signals: Signals, changed: Callable[[], None]) -> None:
        self._channels, self._signals, self._changed = channels, signals, changed
        self._since: dict[str, float] = {}  # channels that are down, and since when, by time.monotonic
        self.on_trial: frozenset[str] = frozenset()  # channels that are down and get one event at a time as a probe

    def is_up(self, name: str) -> bool:
        return name not in self._since

    def is_open(self, name: str) -> bool:
        return self.is_up(name) or name in self.on_trial

    @property
    def down(self) -> dict[str, str]:
        """The channels that are down, each with the reason."""
        return {name: self._channels[name].down or "" for name in self._since}

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
    """Emits ChannelNotServed for each of these channels that has pending events: perhaps no other worker serves it."""
    with contextlib.suppress(StoreUnavailable):  # the worker's loop reports that
        if advice and await _waits_for(store, *advice):
            for name in advice:
                if await _waits_for(store, name):
                    signals.emit(ChannelNotServed(name, advice[name]))


async def _waits_for(store: ClaimPort, *lanes: str) -> bool:
    horizon, _ = await store.horizon(lanes)
    return any(span is not None for span in horizon)


async def prepare(routes: Mapping[str, Route], store: ClaimPort, every: timedelta) -> None:
    """Prepares channels that are slow to start, as soon as they have a pending event, even one that is due much
    later."""
    left = {lane: route.channel for lane, route in routes.items() if isinstance(route.channel, SlowToStart)}
    while left:
        for lane, channel in list(left.items()):
            with contextlib.suppress(Exception):  # the first delivery meets the same error and reports it
                if await _waits_for(store, lane):
                    del left[lane]
                    await channel.prepare()
        await asyncio.sleep(every.total_seconds())
