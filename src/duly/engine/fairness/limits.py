"""How many of a worker's places and starts each tenant and each destination may have."""

from typing import Protocol

from duly.records.event import Event, Outcome


class Limits(Protocol):
    """The limits of one worker. They are asked before an event is claimed and before it is started, and notified when
    it has ended. They are kept in memory; no method waits."""

    def binds(self, tenant: str, destination: str | None) -> bool:
        """Whether any limit applies besides the worker's own concurrency. If not, ``places`` and ``turns`` need not be
        called."""

    def places(self, tenant: str, destination: str | None) -> int:
        """How many events of this tenant and destination may run at once. The destination None stands for events
        without one, such as those of Python handlers."""

    def places_of(self, tenant: str) -> int:
        """How many events of this tenant may run at once, to all destinations together."""

    def turns(self, tenant: str, destination: str | None) -> int:
        """How many more events may start now under the rates of the tenant and the destination."""

    def started(self, event: Event) -> None:
        """Counts a started event against the rates."""

    def ended(self, event: Event, outcome: Outcome | None) -> None:
        """Notes the outcome of an event; None when it was settled already, or was taken from its runner."""


class Unlimited:
    """No limits besides the worker's concurrency."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency

    def binds(self, tenant: str, destination: str | None) -> bool:
        return False

    def places(self, tenant: str, destination: str | None) -> int:
        return self._concurrency

    def places_of(self, tenant: str) -> int:
        return self._concurrency

    def turns(self, tenant: str, destination: str | None) -> int:
        return self._concurrency

    def started(self, event: Event) -> None: ...

    def ended(self, event: Event, outcome: Outcome | None) -> None: ...
