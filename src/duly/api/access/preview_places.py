"""Previews of rules: some of them take long to evaluate, and a server has others to answer."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from duly.api.protocol.problems import RETRY_AFTER, RefusedRequest
from duly.api.protocol.request import ApiRequest
from duly.keyed_semaphore import KeyedSemaphore

BUDGET = 0.5
"""Seconds for one preview, after which it has no more occurrences than it has found."""

AT_ONCE = 2
EACH = 1
"""Previews of one tenant at once: the next waits for the tenant's own, and not in front of the others."""

PATIENCE = 10.0
"""Seconds until it is one's turn."""


class PreviewPlaces:
    """Where previews are evaluated. A tenant waits for a place with one preview at most, so those who wait take
    turns, however many more of them one tenant has asked for."""

    def __init__(self) -> None:
        self._places, self._tenants = asyncio.Semaphore(AT_ONCE), KeyedSemaphore(EACH)

    async def take(self, tenant: str) -> None:
        await self._tenants.take(tenant)
        try:
            await self._places.acquire()
        except BaseException:
            self._tenants.give_back(tenant)
            raise

    def give_back(self, tenant: str) -> None:
        self._places.release()
        self._tenants.give_back(tenant)


class PreviewBudget:
    """Asked after each occurrence whether the time is spent; then the preview is not complete."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + BUDGET
        self.spent = False

    def __call__(self) -> bool:
        self.spent = time.monotonic() >= self._ends
        return self.spent


@asynccontextmanager
async def a_turn(ask: ApiRequest) -> AsyncIterator[PreviewBudget]:
    """Before anything is asked of the database: who waits here keeps no connection."""
    places: PreviewPlaces = ask.request.app.state.previews
    try:
        async with asyncio.timeout(PATIENCE):
            await places.take(ask.tenant)
    except TimeoutError:
        told = "too many rules are being previewed just now: try again in a moment"
        raise RefusedRequest(503, told, headers={"Retry-After": RETRY_AFTER}) from None
    try:
        yield PreviewBudget()
    finally:
        places.give_back(ask.tenant)
