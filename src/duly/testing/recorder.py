"""Channels that record what they are given, and answer what the test says."""

from collections.abc import Iterable, Iterator, Mapping

from duly.errors import Misuse
from duly.records.event import Delivered, Event, Outcome


class Recorder:
    """A channel that records the events it gets. It returns the given outcomes in order, then Delivered."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.events: list[Event] = []
        self._outcomes = list(outcomes)

    def answer(self, *outcomes: Outcome) -> None:
        """Returns these outcomes next, one for each attempt; then Delivered."""
        self._outcomes = list(outcomes)

    async def deliver(self, event: Event) -> Outcome:
        self.events.append(event)
        return self._outcomes.pop(0) if self._outcomes else Delivered()

    @property
    def ids(self) -> list[str]:
        return [event.id for event in self.events]

    @property
    def payloads(self) -> list[object]:
        return [event.payload for event in self.events]


class Sent(Mapping[str, Recorder]):
    """The recorders of all channels, by name: ``sent["webhook"]``, ``sent["nats"]``."""

    def __init__(self, channels: Iterable[str]) -> None:
        self.events: list[Event] = []  # of all channels, in the order of the attempts
        self._recorders = {name: _Listed(self.events) for name in channels}

    def __getitem__(self, channel: str) -> Recorder:
        if channel not in self._recorders:
            raise Misuse(f"there is no channel {channel!r}; the channels are {', '.join(sorted(self._recorders))}")
        return self._recorders[channel]

    def __iter__(self) -> Iterator[str]:
        return iter(self._recorders)

    def __len__(self) -> int:
        return len(self._recorders)


class _Listed(Recorder):
    """A recorder that also adds to a list that it shares with others."""

    def __init__(self, all_events: list[Event]) -> None:
        super().__init__()
        self._all_events = all_events

    async def deliver(self, event: Event) -> Outcome:
        self._all_events.append(event)
        return await super().deliver(event)
