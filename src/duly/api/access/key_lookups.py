"""Batched lookups of API keys, for when too many unknown keys arrive: a flood of guesses must not lock out a good
key."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from duly.errors import DulyError

BATCH_WINDOW_S = 0.05
"""Seconds for which keys are collected before a query: at most 20 queries a second."""

MOST_WAITING_KEYS = 10_000
"""Keys that may wait at once; a single process does not receive more in that time."""


class KeyLookups:
    """Looks many keys up in one query, with one query at a time."""

    def __init__(self, known: Callable[[Collection[str]], Awaitable[set[str]]]) -> None:
        self._known = known
        self._waiting: dict[str, asyncio.Future[bool | DulyError]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def knows(self, secret: str) -> bool:
        """Whether a key with this secret exists, also if it is revoked or expired."""
        if secret not in self._waiting and len(self._waiting) >= MOST_WAITING_KEYS:
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
            await asyncio.sleep(BATCH_WINDOW_S)
            waiting, self._waiting = self._waiting, {}
            found: set[str] | DulyError
            try:
                found = await self._known(waiting)
            except DulyError as error:  # for example, the database is down: each caller gets the error
                found = error
            for secret, answer in waiting.items():
                answer.set_result(found if isinstance(found, DulyError) else secret in found)
