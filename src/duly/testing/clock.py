"""The clock of a test."""

from datetime import UTC, datetime, timedelta


class ManualClock:
    """A clock for ``Duly(…, clock=clock)`` that only the test moves.

    >>> clock = ManualClock(datetime(2026, 12, 1, 9, 0, tzinfo=UTC))
    >>> clock.advance(minutes=30).isoformat()
    '2026-12-01T09:30:00+00:00'
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._now = (start or datetime(2026, 1, 1, tzinfo=UTC)).astimezone(UTC)

    def now(self) -> datetime:
        return self._now

    def advance(self, span: timedelta | None = None, **units: float) -> datetime:
        """Moves the clock forward by a duration, or by ``hours=1``, ``seconds=30`` and so on; returns the new time."""
        self._now += span if span is not None else timedelta(**units)
        return self._now

    def set(self, instant: datetime) -> None:
        self._now = instant.astimezone(UTC)
