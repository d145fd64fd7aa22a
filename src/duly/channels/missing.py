"""A channel that this process does not serve."""

from duly.records.event import Event, Outcome, Unreachable


class MissingChannel:
    """A channel that this worker cannot serve, but others may: a setting is missing here, or a library."""

    def __init__(self, name: str, unable: str, lack: str, advice: str) -> None:
        """*unable*: what the worker cannot do, such as ``cannot reach NATS``."""
        self.name, self.lack, self.advice = name, lack, advice
        self._unable = unable

    async def deliver(self, event: Event) -> Outcome:
        return Unreachable(f"this worker {self._unable}: {self.advice}")
