"""Exponential back-off: how long to wait between tries while something is away."""

from collections.abc import Callable

DOUBLING = 2.0  # each wait is this many times the one before


class Backoff:
    """Waits in seconds, from *first* up to *longest*, until ``reset`` begins with the first again.

    *spread* is the caller's luck, such as ``random.uniform``: asked for something between half of a wait and all of
    it, so that those who failed together do not come back together. Without it, every wait is exact.
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
        """Something worked: what fails now is another outage."""
        self._wait, self.begun = self._first, False
