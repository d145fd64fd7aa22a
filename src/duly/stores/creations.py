"""Remembers what was created in a transaction, to be told of when that is committed, and only then."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from duly.records.event import Event, NewEvent

Told = Callable[[Sequence[Event | NewEvent]], None]


def nobody(_: Sequence[Event | NewEvent]) -> None:
    """Who listens while nobody wants to know."""


class CreatedEvents:
    """What a transaction has created. A part of it that is undone takes its own along."""

    def __init__(self) -> None:
        self._events: list[Event | NewEvent] = []

    def add(self, events: Iterable[Event | NewEvent]) -> None:
        self._events.extend(events)

    @contextmanager
    def undone_together(self) -> Iterator[None]:
        """Around a savepoint."""
        before = len(self._events)
        try:
            yield
        except BaseException:
            del self._events[before:]
            raise

    def committed(self, tell: Told) -> None:
        if self._events:
            tell(self._events)
