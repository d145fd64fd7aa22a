"""A channel whose library is loaded on the first delivery. Processes that deliver nothing never need the library, and
it is not small (aiohttp: 13 MB and 0.24 s of work)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from duly.ports import Channel
from duly.records.event import Event, Outcome


class LazyChannel:
    """A placeholder for a channel. Once the channel is loaded, ``deliver`` is replaced by the channel's own."""

    def __init__(self, make: Callable[[], Channel]) -> None:
        self._make = make
        self._making = asyncio.Lock()
        self._channel: Channel | None = None
        self.deliver: Callable[[Event], Coroutine[Any, Any, Outcome]] = self._first

    @property
    def is_loaded(self) -> bool:
        return self._channel is not None

    async def load(self) -> None:
        await self._made()

    async def _first(self, event: Event) -> Outcome:
        return await (await self._made()).deliver(event)

    async def _made(self) -> Channel:
        async with self._making:
            if self._channel is None:  # in a thread: the import would block the event loop
                self._channel = await asyncio.to_thread(self._make)
                self.deliver = self._channel.deliver
        return self._channel

    async def close(self) -> None:
        if (close := getattr(self._channel, "close", None)) is not None:
            await close()
