"""How much of a worker each tenant and each destination may have."""

from typing import Protocol

from duly.records.event import Event, Outcome


class Limits(Protocol):
    """Asked before an event is claimed and before it is started; told when it has ended. Everything is for one worker,
    in memory; nothing here waits."""

    def binds(self, tenant: str, destination: str | None) -> bool:
        """Whether there is any limit at all for these, beside the places that the worker has. What is asked below
        need not be asked otherwise."""

    def places(self, tenant: str, destination: str | None) -> int:
        """How many events of this tenant and destination may be under way at once. None: events without a destination,
        such as those that Python handlers take."""

    def places_of(self, tenant: str) -> int:
        """How many of the tenant's, wherever they go."""

    def turns(self, tenant: str, destination: str | None) -> int:
        """How many more may be started at once by the rates that the tenant and the destination have."""

    def started(self, event: Event) -> None:
        """It takes its turn."""

    def ended(self, event: Event, outcome: Outcome | None) -> None:
        """What became of it; None when that was settled already, or it was taken away."""


class Unlimited:
    """Everybody may have all there is."""

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
