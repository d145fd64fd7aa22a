"""Workers over HTTP, by the client."""

from datetime import timedelta

import pytest

from duly import Duly, Forbidden, Misuse
from duly.client import Client
from duly.engine.presence.beat import row_of
from tests.make import HOUR, START


@pytest.fixture
async def app(app: Duly) -> Duly:
    row = row_of("ada", ["handler:x", "webhook"], app.settings, tick=False)
    await app.store.beat(row, timedelta(seconds=1), begins=True)
    await app.at(START + HOUR, "x")
    await app.at(START + HOUR, "y")
    return app


async def test_a_key_of_all_tenants_sees_the_workers_that_python_sees(app: Duly, server: str) -> None:
    made = await app.keys.create("all", all_tenants=True)
    async with Client(server, key=made.secret) as client:
        [worker] = await client.workers.list()
        assert [worker] == await app.workers.list()
        assert worker.lanes == ("handler:x", "webhook")


async def test_a_key_of_one_tenant_sees_its_lanes_alone(app: Duly, server: str) -> None:
    made = await app.keys.create("mine")
    async with Client(server, key=made.secret) as client:
        assert await client.workers.lanes() == await app.workers.lanes(tenant="default")
        assert [(one.lane, one.served) for one in await client.workers.lanes()] == [
            ("handler:x", True),
            ("handler:y", False),
        ]
        with pytest.raises(Forbidden, match="--all-tenants"):
            await client.workers.list()
        with pytest.raises(Misuse):
            await client.workers.lanes(tenant="other")
