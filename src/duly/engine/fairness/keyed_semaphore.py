"""A semaphore for each key, so that many callers of one key do not delay the callers of other keys."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class KeyedSemaphore:
    """A shared resource of which each key may hold *most* places at once; further callers of a key wait until one of
    that key's places is given back."""

    def __init__(self, most: int) -> None:
        self._most = max(1, most)
        self._taken: dict[Hashable, tuple[asyncio.Semaphore, int]] = {}  # with the number of holders and waiters

    def has_room(self, whose: Hashable) -> bool:
        """Whether ``take`` would return at once."""
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
