"""Tells, once for each lane, that events were scheduled which no worker has ever served."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable

NeverServedLanes = Callable[[Iterable[str]], Awaitable[Iterable[str]]]
"""Asks the store which of these lanes no worker has ever served."""


class NeverServed:
    """The lanes of which a process has told already, and the questions that are under way."""

    def __init__(
        self, served_here: Callable[[], Collection[str]], ask: NeverServedLanes, tell: Callable[[str], None]
    ) -> None:
        self._served_here, self._ask, self._tell = served_here, ask, tell
        self._told: set[str] = set()
        self._asking: set[asyncio.Future[None]] = set()

    async def look(self, lanes: Iterable[str]) -> None:
        """Tells which of these lanes no worker has ever served."""
        if asked := self._unknown(lanes):
            await self._look(asked)

    def look_beside(self, lanes: Iterable[str], loop: asyncio.AbstractEventLoop) -> None:
        """The same, beside the caller: a transaction of the caller's does not wait for the question. The connection of
        that transaction may be used in another loop, or in none."""
        if asked := self._unknown(lanes):
            loop.call_soon_threadsafe(self._begin, asked)

    async def close(self) -> None:
        """Ends the questions that are under way."""
        asking = [*self._asking]
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _unknown(self, lanes: Iterable[str]) -> set[str]:
        served = self._served_here()
        return {lane for lane in lanes if lane not in served and lane not in self._told}

    def _begin(self, lanes: Collection[str]) -> None:
        asking = asyncio.ensure_future(self._look(lanes))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)

    async def _look(self, lanes: Iterable[str]) -> None:
        for lane in await self._ask(lanes):
            if lane not in self._told:
                self._told.add(lane)
                self._tell(lane)
