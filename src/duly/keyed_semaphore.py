"""So many at once for each of many: nobody's crowd keeps all the others waiting."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class KeyedSemaphore:
    """Of what is shared, each may have *most* at once; whoever wants more waits for their own to come back."""

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        self._taken: dict[Hashable, tuple[asyncio.Semaphore, int]] = {}  # and how many have it or wait for it

    def has_room(self, whose: Hashable) -> bool:
        """Whether ``take`` would not wait."""
        taken = self._taken.get(whose)
        return taken is None or not taken[0].locked()

    async def take(self, whose: Hashable) -> None:
        places, many = self._taken.get(whose) or (asyncio.Semaphore(self._most), 0)
        self._taken[whose] = places, many + 1
        try:
            await places.acquire()
        except BaseException:
            self._leave(whose)
            raise

    def give_back(self, whose: Hashable) -> None:
        self._taken[whose][0].release()
        self._leave(whose)

    @asynccontextmanager
    async def one(self, whose: Hashable) -> AsyncIterator[None]:
        await self.take(whose)
        try:
            yield
        finally:
            self.give_back(whose)

    def _leave(self, whose: Hashable) -> None:
        places, many = self._taken[whose]
        if many > 1:
            self._taken[whose] = places, many - 1
        else:
            del self._taken[whose]
