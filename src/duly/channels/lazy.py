"""A channel whose library is loaded by those who deliver: others never need it, and it is not small (aiohttp: 13 MB and
0.24 s of work)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from duly.ports import Channel
from duly.records.event import Event, Outcome


class LazyChannel:
    """Stands for a channel until it is loaded, and then lets its ``deliver`` be that of the channel."""

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
            if self._channel is None:  # in a thread: others shall not be late for it
                self._channel = await asyncio.to_thread(self._make)
                self.deliver = self._channel.deliver
        return self._channel

    async def close(self) -> None:
        if (close := getattr(self._channel, "close", None)) is not None:
            await close()
