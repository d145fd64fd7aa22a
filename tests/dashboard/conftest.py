from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from duly import Duly
from duly.api.app import create_api
from tests.conftest import OpenDuly
from tests.dashboard.visiting import OpenVisitor, Visitor


@pytest.fixture
async def visiting(duly: OpenDuly) -> AsyncIterator[OpenVisitor]:
    """Visitors of the dashboard of a Duly: ``visitor = await visiting(app, keyless=False)``; each has cookies of its
    own."""
    async with AsyncExitStack() as stack:

        async def visiting(app: Duly | None = None, *, keyless: bool = True, **headers: str) -> Visitor:
            app = app or await duly()
            api = create_api(app, keyless=keyless)
            transport = httpx.ASGITransport(api, raise_app_exceptions=False)
            client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)
            return Visitor(app, api, await stack.enter_async_context(client), keyless=keyless)

        yield visiting


@pytest.fixture
async def visitor(visiting: OpenVisitor) -> Visitor:
    """A visitor on a server without keys."""
    return await visiting()
