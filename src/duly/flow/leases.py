"""Keeps what a worker has in hand its own: leases are renewed as long as it lives, and what was lost is let go."""

import asyncio
from datetime import timedelta

from duly.core.model import Claim, Event
from duly.errors import StoreUnavailable
from duly.flow.outage import Outage
from duly.flow.pool import Pool
from duly.flow.settle import Settler
from duly.ports import Store
from duly.signals import Lost, Signals

BEATS = 3
"""So many times is a lease renewed before it would end."""


class Leases:
    def __init__(
        self, store: Store, lease: timedelta, pool: Pool, settler: Settler, outage: Outage, signals: Signals
    ) -> None:
        self._store, self._lease, self._pool, self._settler = store, lease, pool, settler
        self._outage, self._signals = outage, signals

    def under_way(self) -> list[Event]:
        """What is claimed and not settled yet."""
        return [*self._pool.events(), *self._settler.events()]

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(self._lease.total_seconds() / BEATS)
            held = {event.id: event for event in self.under_way()}
            if not held:
                continue
            try:
                kept = await self._store.renew([Claim(event.id, event.version) for event in held.values()], self._lease)
            except StoreUnavailable as error:
                self._outage.failed(error)
            else:
                self._drop(set(held) - kept)

    def _drop(self, lost: set[str]) -> None:
        """What is not started and no longer ours is somebody else's to start."""
        for event in [event for event in self._pool.turns if event.id in lost]:
            self._pool.turns.remove(event)
            self._signals.emit(Lost(event, "renew"))
