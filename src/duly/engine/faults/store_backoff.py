"""Back-off while the store cannot be reached or written. Emits one signal when an outage begins and one when it
ends."""

import math
import time
from datetime import timedelta

from duly.backoff import Backoff
from duly.errors import NotWritable, StoreError, StoreUnavailable
from duly.ports import Health
from duly.signals import Signals, StoreDown, StoreUp

FIRST_WAIT_S = 0.1
"""Seconds before the second try."""

LONGEST_WAIT_S = 5.0
"""Seconds between tries, at most: the return of the store is noticed that late."""

DOUBTFUL_FOR_S = FIRST_WAIT_S / 2
"""Seconds after a failure in which a success proves nothing: it may be of a request that began before."""


class StoreBackoff:
    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self.lasts = False  # whether an outage is under way
        self._since = 0.0
        self._last = 0.0
        self._ended = 0.0  # when the last outage ended, by time.monotonic
        self._backoff = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S)
        self._writing_failed = False
        self._believed_after = DOUBTFUL_FOR_S  # seconds after the last failure from which a success ends the outage

    def failed(self, error: Exception, asked: float = math.inf) -> float:
        """Notes a failure; returns how many seconds to wait before the next try. *asked*: when the failed request
        began, by time.monotonic. A request that began before the last outage ended belongs to that outage."""
        if not self.lasts and asked < self._ended:
            return FIRST_WAIT_S
        wait = self._backoff.next()
        if isinstance(error, NotWritable):
            # On a full disk a small write may fit where a large one does not. So the outage lasts at least until the
            # failed write has been retried after its wait.
            self._writing_failed, self._believed_after = True, wait
        if not self.lasts:
            self.lasts, self._since = True, time.monotonic()
            tried = "; writing is tried again every few seconds" if self._writing_failed else ""
            self._signals.emit(StoreDown(f"{error}{tried}", readable=self._writing_failed))
        self._last = time.monotonic()
        return wait

    async def read(self, store: Health) -> None:
        """Called after a successful read. On a full disk reads always work: if a write has failed, this tries to write
        before it ends the outage."""
        if self._writing_failed:
            if not self._believes:
                return
            try:
                await store.try_writing()
            except StoreUnavailable:
                raise
            except StoreError:  # the database user may not run the test write: the read has to suffice
                pass
        self.over()

    def over(self) -> None:
        """Ends the outage after a request that proves the whole store works."""
        if self.lasts and self._believes:
            self._signals.emit(StoreUp(timedelta(seconds=time.monotonic() - self._since)))
            self.lasts, self._ended = False, time.monotonic()
            self._backoff.reset()
            self._writing_failed, self._believed_after = False, DOUBTFUL_FOR_S

    @property
    def _believes(self) -> bool:
        return time.monotonic() - self._last > self._believed_after
