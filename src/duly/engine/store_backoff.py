"""Rides out a store that cannot be reached or written: said once when it begins, once when it ends, with backoff
between."""

import math
import time
from datetime import timedelta

from duly.backoff import Backoff
from duly.errors import NotWritable, StoreError, StoreUnavailable
from duly.ports import Health
from duly.signals import Signals, StoreDown, StoreUp

SHORTEST = 0.1  # seconds before the second try
LONGEST = 5.0  # seconds between tries, at most: so late it is noticed that the store is back
ON_THEIR_WAY = SHORTEST / 2  # seconds: what was under way when all else failed may still succeed


class StoreBackoff:
    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self.lasts = False  # whether the store is known to be away
        self._since = 0.0
        self._last = 0.0
        self._ended = 0.0  # when the last one was over, by time.monotonic
        self._backoff = Backoff(SHORTEST, LONGEST)
        self._writing_failed = False
        self._believed_after = ON_THEIR_WAY  # seconds since the last failure

    def failed(self, error: Exception, asked: float = math.inf) -> float:
        """How many seconds to wait before the next try. *asked*: when that was begun which has failed, by
        time.monotonic. What was under way before the last outage ended belongs to that one."""
        if not self.lasts and asked < self._ended:
            return SHORTEST
        wait = self._backoff.next()
        if isinstance(error, NotWritable):
            # On a full disk a small write may find room where a large one does not: the one that failed comes again
            # after its wait, and if it fails again, nothing is over.
            self._writing_failed, self._believed_after = True, wait
        if not self.lasts:
            self.lasts, self._since = True, time.monotonic()
            tried = "; writing is tried again every few seconds" if self._writing_failed else ""
            self._signals.emit(StoreDown(f"{error}{tried}", readable=self._writing_failed))
        self._last = time.monotonic()
        return wait

    async def read(self, store: Health) -> None:
        """Something was read. On a full disk that works all the time: where writing has failed, that is tried."""
        if self._writing_failed:
            if not self._believes:
                return
            try:
                await store.try_writing()
            except StoreUnavailable:
                raise
            except StoreError:  # it takes a right that this user does not have: then nothing better is known
                pass
        self.over()

    def over(self) -> None:
        """Something worked that tells of the whole store."""
        if self.lasts and self._believes:
            self._signals.emit(StoreUp(timedelta(seconds=time.monotonic() - self._since)))
            self.lasts, self._ended = False, time.monotonic()
            self._backoff.reset()
            self._writing_failed, self._believed_after = False, ON_THEIR_WAY

    @property
    def _believes(self) -> bool:
        return time.monotonic() - self._last > self._believed_after
