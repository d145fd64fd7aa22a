"""Exponential back-off: how long to wait between retries while a service is unavailable."""

from collections.abc import Callable

DOUBLING = 2.0  # each wait is this many times the one before


class Backoff:
    """A series of waits in seconds, from *first* up to *longest*; ``reset`` starts the series again.

    *spread* is a source of jitter such as ``random.uniform``. It is called with half of a wait and the whole wait, so
    that clients that failed together do not retry together. Without *spread*, every wait is exact.
    """

    __slots__ = ("_factor", "_first", "_longest", "_spread", "_wait", "begun")

    def __init__(
        self,
        first: float,
        longest: float,
        factor: float = DOUBLING,
        *,
        spread: Callable[[float, float], float] | None = None,
    ) -> None:
        self._first, self._longest, self._factor = first, longest, factor
        self._spread = spread
        self._wait = first
        self.begun = False  # whether there was a wait since the last reset

    def next(self) -> float:
        """Seconds to wait before the next try."""
        self.begun = True
        wait, self._wait = self._wait, min(self._wait * self._factor, self._longest)
        return wait if self._spread is None else self._spread(wait / 2, wait)

    def reset(self) -> None:
        """Starts again with the first wait, after a success: the next failure is a new outage."""
        self._wait, self.begun = self._first, False
