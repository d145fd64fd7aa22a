"""A channel whose library is loaded when the first event needs it: most workers never do, and it is not small."""

import asyncio
from collections.abc import Callable

from duly.core.model import Event, Outcome
from duly.ports import Channel


class Lazily:
    def __init__(self, make: Callable[[], Channel]) -> None:
        self._make = make
        self._making = asyncio.Lock()
        self._channel: Channel | None = None

    async def deliver(self, event: Event) -> Outcome:
        if self._channel is None:
            async with self._making:
                if self._channel is None:  # in a thread: others shall not be late for it
                    self._channel = await asyncio.to_thread(self._make)
        return await self._channel.deliver(event)

    async def close(self) -> None:
        if (close := getattr(self._channel, "close", None)) is not None:
            await close()
