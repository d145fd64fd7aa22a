"""Keys that come when too many unknown ones have come: looked up together, so that a known one is never kept out."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from duly.errors import DulyError

TOGETHER = 0.05
"""Seconds for which they are gathered: so 20 times a second at most does anybody ask the database."""

MOST_TOGETHER = 10_000
"""Keys that wait at once; more do not come to one process in that time."""


class KeyLookups:
    """Asks for many keys in one query, and for one such query at a time."""

    def __init__(self, known: Callable[[Collection[str]], Awaitable[set[str]]]) -> None:
        self._known = known
        self._waiting: dict[str, asyncio.Future[bool | DulyError]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def knows(self, secret: str) -> bool:
        """Whether there is such a key, good or not."""
        if secret not in self._waiting and len(self._waiting) >= MOST_TOGETHER:
            return False
        answer = self._waiting.setdefault(secret, asyncio.get_running_loop().create_future())
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        found = await asyncio.shield(answer)
        if isinstance(found, DulyError):
            raise found
        return found

    async def _ask(self) -> None:
        while self._waiting:
            await asyncio.sleep(TOGETHER)
            waiting, self._waiting = self._waiting, {}
            found: set[str] | DulyError
            try:
                found = await self._known(waiting)
            except DulyError as error:  # such as a database that is away: each is told
                found = error
            for secret, answer in waiting.items():
                answer.set_result(found if isinstance(found, DulyError) else secret in found)
