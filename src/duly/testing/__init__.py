"""Tools to test code that uses Duly: a clock that the test moves, a channel that records events, and builders of users
and events."""

from datetime import UTC, datetime, timedelta

from duly.records.event import Delivered, Event, Outcome
from duly.testing.builders import EventBuilder, UserBuilder

__all__ = ["EventBuilder", "ManualClock", "Recorder", "UserBuilder"]


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


class Recorder:
    """A channel that records the events it gets. It returns the given outcomes in order, then Delivered."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.events: list[Event] = []
        self._outcomes = list(outcomes)

    async def deliver(self, event: Event) -> Outcome:
        self.events.append(event)
        return self._outcomes.pop(0) if self._outcomes else Delivered()

    @property
    def ids(self) -> list[str]:
        return [event.id for event in self.events]
