"""Limits on previews of rules: some rules take long to evaluate, and the server has other requests to answer."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from starlette.requests import Request

from duly.api.protocol.problems import RETRY_AFTER, RefusedRequest
from duly.engine.fairness.keyed_semaphore import KeyedSemaphore

PREVIEW_BUDGET_S = 0.5
"""Seconds for one preview; then it returns the occurrences found so far."""

PREVIEWS_AT_ONCE = 2
"""Previews of all tenants that are evaluated at once."""

PREVIEWS_OF_ONE_TENANT = 1
"""Previews of one tenant at once: the next one waits behind the same tenant's own, not ahead of other tenants."""

PLACE_TIMEOUT_S = 10.0
"""Seconds that a preview waits for a place before it is refused."""


class PreviewPlaces:
    """The places in which previews are evaluated. Each tenant has at most one preview in the queue for a place, so
    tenants take turns, no matter how many previews one of them has requested."""

    def __init__(self) -> None:
        self._places, self._tenants = asyncio.Semaphore(PREVIEWS_AT_ONCE), KeyedSemaphore(PREVIEWS_OF_ONE_TENANT)

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
    """The time limit of a preview, checked after each occurrence; when the time is spent, the preview is incomplete."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + PREVIEW_BUDGET_S
        self.spent = False

    def __call__(self) -> bool:
        self.spent = time.monotonic() >= self._ends
        return self.spent


class Asked(Protocol):
    """What asks for a preview: a request to the API, or a visit to the dashboard."""

    @property
    def request(self) -> Request: ...

    @property
    def tenant(self) -> str: ...


@asynccontextmanager
async def a_turn(ask: Asked) -> AsyncIterator[PreviewBudget]:
    """Waits for a place for a preview. Enter it before any query: a waiting request then holds no database
    connection."""
    places: PreviewPlaces = ask.request.app.state.previews
    try:
        async with asyncio.timeout(PLACE_TIMEOUT_S):
            await places.take(ask.tenant)
    except TimeoutError:
        told = "too many previews and forecasts are running at the moment: try again in a few seconds"
        raise RefusedRequest(503, told, headers={"Retry-After": RETRY_AFTER}) from None
    try:
        yield PreviewBudget()
    finally:
        places.give_back(ask.tenant)
