"""A cache of destinations, a few seconds old at most, so that a change of a destination soon reaches every worker."""

import asyncio
import time
from collections.abc import Iterable

from duly.decide.targets.targets import origin_of
from duly.ports import DestinationReader
from duly.records.target import DESTINATION_OF_ALL, Known

FRESH_S = 2.0
"""Seconds for which a delivery uses an entry without reading it again."""

REFRESH_AFTER_S = 5.0
"""Seconds after which an entry is read again in the background, where no delivery waits for it."""

MOST_CACHED = 10_000
"""Entries beyond which the cache is emptied, to bound its memory."""

Key = tuple[str, str]


class DestinationCache:
    def __init__(self, store: DestinationReader) -> None:
        self._store = store
        self._known: dict[Key, tuple[float, Known]] = {}
        self._reading: dict[Key, asyncio.Task[dict[Key, Known]]] = {}
        self._meanwhile: dict[object, set[Key]] = {}  # for each read under way, the keys forgotten since it began

    def seen(self, tenant: str, destination: str) -> Known | None:
        """The entry of a destination, however old."""
        entry = self._known.get((tenant, destination))
        return None if entry is None else entry[1]

    def is_recent(self, tenant: str, destination: str) -> bool:
        entry = self._known.get((tenant, destination))
        return entry is not None and time.monotonic() - entry[0] < REFRESH_AFTER_S

    def fresh(self, tenant: str, destination: str, seconds: float = FRESH_S) -> Known | None:
        """The entry of a destination, unless it is missing or too old."""
        entry = self._known.get((tenant, destination))
        return entry[1] if entry is not None and time.monotonic() - entry[0] < seconds else None

    async def known(self, tenant: str, destination: str, seconds: float = FRESH_S) -> Known:
        """The entry of a destination, read from the store if it is too old. The entry of its tenant as a whole is read
        with it."""
        if (known := self.fresh(tenant, destination, seconds)) is not None:
            return known
        key = (tenant, destination)
        reading = self._reading.get(key)
        if reading is None:  # one query for all concurrent callers; the cancellation of one caller does not end it
            reading = self._reading[key] = asyncio.create_task(self.read([key, (tenant, DESTINATION_OF_ALL)]))
            reading.add_done_callback(lambda _: self._reading.pop(key, None))
        return (await asyncio.shield(reading))[key]

    async def read(self, keys: Iterable[Key]) -> dict[Key, Known]:
        wanted = set(keys)
        while True:
            reading, changed = object(), set[Key]()
            self._meanwhile[reading] = changed
            try:
                read = await self._store.destinations(list(wanted))
            finally:
                del self._meanwhile[reading]
            if changed.isdisjoint(wanted):  # else the rows may be from before the change
                break
        found = {(known.tenant, known.destination): known for known in read}
        if len(self._known) > MOST_CACHED:
            self._known.clear()
        now = time.monotonic()
        self._known.update({key: (now, known) for key, known in found.items()})
        return found

    def forget(self, tenant: str, destination: str) -> None:
        """Drops the entry of a destination that this process has just changed; for a URL, also that of its origin."""
        keys = {(tenant, destination)}
        if "://" in destination:
            keys.add((tenant, origin_of(destination)))
        for key in keys:
            self._known.pop(key, None)
        for changed in self._meanwhile.values():
            changed |= keys
