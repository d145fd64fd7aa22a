"""Ends requests whose answer does not come in time. Checking all pending requests a few times a second costs less than
two timers for each request."""

import asyncio

from duly.channels.http.guard import Dial

CHECK_INTERVAL = 0.1
"""Seconds between checks, while a request is pending."""


class PendingRequest:
    """A request, from its start until the head of its answer has arrived, in the task that sends it."""

    __slots__ = ("_cancelled", "_dial", "_silence", "_task", "_total", "exceeded", "until")

    def __init__(self, dial: Dial, silence: float, total: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._dial, self._silence, self._total = task, dial, silence, total
        self._cancelled = task.cancelling()
        self.until = dial.began + total
        self.exceeded: float | None = None  # the exceeded limit in seconds

    def look(self, now: float) -> None:
        if self.exceeded is not None:
            return
        if now >= self.until:
            self.exceeded = self._total
        elif now >= self._dial.since + self._silence:
            self.exceeded = self._silence
        else:
            return
        self._task.cancel()

    def was_ended_here(self) -> bool:
        """Whether the task was cancelled by this deadline alone. If so, the cancellation is undone, and the task can
        continue."""
        return self.exceeded is not None and self._task.uncancel() <= self._cancelled


class Deadlines:
    def __init__(self) -> None:
        self._under_way: set[PendingRequest] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, dial: Dial, silence: float, total: float) -> PendingRequest:
        """Registers a request. *silence*: seconds for the answer once connected; *total*: seconds for all of it."""
        underway = PendingRequest(dial, silence, total)
        self._under_way.add(underway)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CHECK_INTERVAL, self._look)
        return underway

    def end(self, underway: PendingRequest) -> None:
        self._under_way.discard(underway)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        for underway in self._under_way:
            underway.look(loop.time())
        self._timer = loop.call_later(CHECK_INTERVAL, self._look) if self._under_way else None
