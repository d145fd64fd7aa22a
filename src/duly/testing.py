"""For testing code that uses Duly: a clock that the test moves, and a channel that records."""

from datetime import UTC, datetime, timedelta

from duly.records.event import Delivered, Event, Outcome


class ManualClock:
    """Give it to ``Duly(…, clock=clock)``: nothing is due until the test says so.

    >>> clock = ManualClock(datetime(2026, 12, 1, 9, 0, tzinfo=UTC))
    >>> clock.advance(minutes=30).isoformat()
    '2026-12-01T09:30:00+00:00'
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._now = (start or datetime(2026, 1, 1, tzinfo=UTC)).astimezone(UTC)

    def now(self) -> datetime:
        return self._now

    def advance(self, span: timedelta | None = None, **units: float) -> datetime:
        """Move on by a span, or by ``hours=1``, ``seconds=30`` and so on."""
        self._now += span if span is not None else timedelta(**units)
        return self._now

    def set(self, instant: datetime) -> None:
        self._now = instant.astimezone(UTC)


class Recorder:
    """A channel that keeps what it is given, and answers with the outcomes it was told, then with Delivered."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.events: list[Event] = []
        self._outcomes = list(outcomes)

    async def deliver(self, event: Event) -> Outcome:
        self.events.append(event)
        return self._outcomes.pop(0) if self._outcomes else Delivered()

    @property
    def ids(self) -> list[str]:
        return [event.id for event in self.events]
