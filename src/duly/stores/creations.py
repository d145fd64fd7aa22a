"""Collects the events that a transaction creates, and announces them only after the commit."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from duly.ports import CreatedEvent

Told = Callable[[Sequence[CreatedEvent]], None]


def nobody(_: Sequence[CreatedEvent]) -> None:
    """The listener while nobody has subscribed."""


class CreatedEvents:
    """The events that a transaction has created. A savepoint that is rolled back removes its own."""

    def __init__(self) -> None:
        self._events: list[CreatedEvent] = []

    def add(self, events: Iterable[CreatedEvent]) -> None:
        self._events.extend(events)

    @contextmanager
    def undone_together(self) -> Iterator[None]:
        """Wraps a savepoint: if it fails, the events created in it are removed."""
        before = len(self._events)
        try:
            yield
        except BaseException:
            del self._events[before:]
            raise

    @contextmanager
    def all_undone(self) -> Iterator[None]:
        """Wraps what is rolled back in any case."""
        before = len(self._events)
        try:
            yield
        finally:
            del self._events[before:]

    def committed(self, tell: Told) -> None:
        if self._events:
            tell(self._events)
