from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from duly import Duly
from duly.api.app import create_api
from duly.engine.presence.beat import row_of
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller
from tests.receivers.obedient import Obedient

SERVED = ("x", "y", "report", "greet", "invoice.overdue", "sale", "other", "digest", "report.weekly", "cleanup")


@pytest.fixture
async def calling(duly: OpenDuly) -> AsyncIterator[OpenCaller]:
    """Callers of the API of a Duly: ``http = await calling(app, key=made.secret)``; without a Duly, of a new one."""
    async with AsyncExitStack() as stack:

        async def calling(app: Duly | None = None, *, keyless: bool = True, **headers: str) -> Caller:
            app = app or await duly()
            api = create_api(app, keyless=keyless)
            transport = httpx.ASGITransport(api, raise_app_exceptions=False)
            client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)
            return Caller(app, api, await stack.enter_async_context(client))

        yield calling


@pytest.fixture
async def http(calling: OpenCaller) -> Caller:
    """One of them, on a server without keys. A worker has served the types of the tests before, so that no answer warns
    of them."""
    http = await calling()
    lanes = [f"handler:{type}" for type in SERVED]
    await http.app.store.beat(row_of("past", lanes, http.app.settings, tick=False), None, begins=True)
    await http.app.store.leave("past")
    return http


@pytest.fixture
async def receiver() -> AsyncIterator[Obedient]:
    """Whom webhooks are sent to."""
    async with Obedient() as receiver:
        yield receiver
