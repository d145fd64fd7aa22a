"""What this process knows of destinations is not what they were before somebody here changed them."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from duly import Duly
from duly.api.access.tenancy import Tenancy, tenancy
from duly.api.protocol.request import Caller
from tests.api.sending import KEY
from tests.conftest import OpenDuly

URL, ANOTHER = "https://hooks.example/in", "https://hooks.example/out"
CHANGES: dict[str, Any] = {
    "put": lambda targets: targets.put("crm", ANOTHER),
    "rotate": lambda targets: targets.rotate("crm"),
    "disable": lambda targets: targets.disable("crm"),
    "limit": lambda targets: targets.limit("crm", concurrency=3),
    "delete": lambda targets: targets.delete("crm"),
}


class Oops(Exception):
    pass


@pytest.fixture
async def app(duly: OpenDuly) -> Duly:
    app = await duly(secret_key=KEY)
    await app.store.prepare_rls_role()
    await app.targets.put("crm", URL)
    return app


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_destination_that_is_read_before_the_commit_is_not_cached_after_it(app: Duly, change: Any) -> None:
    before = await app.destination_cache.known("default", "crm")
    own: Tenancy
    async with tenancy(app, Caller("default"), writes=True) as own:
        await change(own.targets)
        assert await app.destination_cache.known("default", "crm") == before
    assert app.destination_cache.fresh("default", "crm") is None
    assert await app.destination_cache.known("default", "crm") != before


async def test_a_change_that_was_rolled_back_leaves_the_destination_cached(app: Duly) -> None:
    before = await app.destination_cache.known("default", "crm")
    with suppress(Oops):
        async with tenancy(app, Caller("default"), writes=True) as own:
            await own.targets.disable("crm")
            raise Oops
    assert app.destination_cache.fresh("default", "crm") == before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_destination_that_is_changed_while_it_is_read_is_read_again(
    app: Duly, change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, may_go_on = asyncio.Event(), asyncio.Event()
    destinations = app.store.destinations

    async def slowly(keys: Sequence[tuple[str, str]]) -> Any:
        found = await destinations(keys)
        if not read.is_set():
            read.set()
            await may_go_on.wait()
        return found

    [before] = await destinations([("default", "crm")])
    monkeypatch.setattr(app.store, "destinations", slowly)
    reading = asyncio.create_task(app.destination_cache.known("default", "crm"))
    await read.wait()
    await change(app.targets)
    may_go_on.set()
    assert await reading != before
    assert app.destination_cache.fresh("default", "crm") == await reading
