"""How long a worker that finds nothing to claim may sleep."""

from datetime import timedelta

from duly.backoff import Backoff
from duly.ports import Horizon

NOW, FOREVER = timedelta(), timedelta.max

LIMITED = timedelta(milliseconds=100)
"""Between looks at what may have become possible: while every place is taken, who has nothing under way; while
something is ready that may not start, whether it may."""

SHORTEST = 0.002  # seconds before the next look at what is ready and not to be had: a lock is mostly that short
LONGEST = 0.5  # seconds between such looks, at most


class Sleep:
    """Until the next event is ready or to be reserved, and not past the poll interval."""

    def __init__(self, lookahead: timedelta, poll_interval: timedelta) -> None:
        self._lookahead, self._poll_interval = lookahead, poll_interval
        self._blocked = Backoff(SHORTEST, LONGEST)

    def after_reserving(self, *, limited: bool) -> float:
        """All that is due within the look-ahead is reserved, so half of it can pass before the next look."""
        return min(self._lookahead / 2, self._longest(limited)).total_seconds()

    def after_a_claim(self, horizon: Horizon, *, found: bool, limited: bool, whole: bool) -> float:
        """*found*: it found something; *whole*: all lanes have been looked at."""
        ahead = self._ahead(horizon, limited)
        if found or (ahead > NOW and not limited):
            if self._blocked.begun:
                self._blocked.reset()
            return max(0.0, ahead.total_seconds())
        if not whole:
            return 0.0
        if ahead > NOW:
            return ahead.total_seconds()
        # Ready, but not to be had: somebody has it locked. Do not spin.
        return self._blocked.next()

    def _ahead(self, horizon: Horizon, limited: bool) -> timedelta:
        fresh, heads = (self._reserved_at(span) for span in horizon[:2])
        alone = horizon.alone
        if limited:  # what is ready among these may be what may not start; what is fresh is told of only if it may
            heads, alone = (span if span is not None and span > NOW else None for span in (heads, alone))
        return min(self._longest(limited), *(span for span in (fresh, heads, alone) if span is not None), FOREVER)

    def _reserved_at(self, span: timedelta | None) -> timedelta | None:
        return span - self._lookahead if span is not None and span > self._lookahead else span

    def _longest(self, limited: bool) -> timedelta:
        return LIMITED if limited else self._poll_interval
