from collections.abc import AsyncIterator

import pytest

from duly import Duly
from duly.client import Client
from tests.client.serving import Between, serving
from tests.conftest import OpenDuly

SECRET = "c2VjcmV0IGVub3VnaCBmb3IgdGVzdHMgb2YgY2xpZW50cw=="


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    """The Duly behind the server."""
    return await duly(secret_key=SECRET)


@pytest.fixture
async def server(app: Duly) -> AsyncIterator[str]:
    async with serving(app) as url:
        yield url


@pytest.fixture
async def client(server: str) -> AsyncIterator[Client]:
    async with Client(server) as client:
        yield client


@pytest.fixture
async def between(server: str) -> AsyncIterator[Between]:
    async with Between(server) as between:
        yield between


@pytest.fixture
async def far(between: Between) -> AsyncIterator[Client]:
    """A client who asks through what stands between."""
    async with Client(between.url, timeout=5) as client:
        yield client
