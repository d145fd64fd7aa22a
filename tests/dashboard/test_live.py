"""Live updates: one rendering for all who look at the same, and an end when the server stops."""

import asyncio
from contextlib import aclosing

import httpx
import pytest

from duly import every
from duly.dashboard.handler import DashboardHandler
from tests.client.serving import serving
from tests.conftest import OpenDuly
from tests.dashboard.visiting import OpenVisitor, Visitor

VIEWERS = 10


@pytest.fixture
async def visitor(duly: OpenDuly, visiting: OpenVisitor) -> Visitor:
    app = await duly()
    await app.schedules.put("digest", every("1h"), "digest.send")
    return await visiting(app)


async def test_a_change_reaches_those_who_look(visitor: Visitor) -> None:
    async with aclosing(visitor.fragments("/schedules")) as fragments:
        assert "paused" not in await anext(fragments)
        await visitor.app.schedules.pause("digest")
        assert "paused" in await anext(fragments)


async def test_a_live_part_has_no_form_and_no_token(visitor: Visitor) -> None:
    for path in ("/", "/schedules", "/schedules/digest", "/targets"):
        fragment = await visitor.live(path)
        assert "csrf" not in fragment.lower()
        assert "<form" not in fragment


async def test_ten_who_look_at_the_same_cost_one_rendering(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = 0
    original = DashboardHandler.rendered_live

    async def counted(*given: object) -> object:
        nonlocal rendered
        rendered += 1
        return await original(*given)  # type: ignore[arg-type]

    async with serving(visitor.app, visitor.api) as base, httpx.AsyncClient(base_url=base, timeout=20) as client:

        async def look(until: asyncio.Event) -> None:
            async with client.stream("GET", "/live", params={"page": "/schedules"}) as answer:
                async for line in answer.aiter_lines():
                    if "data: " in line:
                        ready.append(1)
                        if len(ready) == VIEWERS:
                            all_look.set()
                        await until.wait()
                        return

        ready: list[int] = []
        until, all_look = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for _ in range(VIEWERS):
                group.create_task(look(until))
            await all_look.wait()
            [watched] = visitor.api.state.live._watched.values()
            assert watched.viewers == VIEWERS
            monkeypatch.setattr(DashboardHandler, "rendered_live", counted)
            await visitor.app.schedules.pause("digest")
            await watched.newer_than(watched.number)
            assert rendered <= 2
            until.set()


async def test_a_server_that_stops_does_not_wait_for_open_pages(visitor: Visitor) -> None:
    began = asyncio.get_running_loop().time()
    async with serving(visitor.app, visitor.api) as base:
        client = httpx.AsyncClient(base_url=base, timeout=20)
        answer = await client.send(client.build_request("GET", "/live", params={"page": "/schedules"}), stream=True)
        assert answer.status_code == 200
    ended = asyncio.get_running_loop().time()
    assert b"".join([part async for part in answer.aiter_raw()]) is not None
    await client.aclose()
    assert ended - began < visitor.app.settings.shutdown_grace.total_seconds()


@pytest.mark.parametrize(
    "page", ["", "schedules", "//evil.example/", "https://evil.example/", "/nothing", "/v1/events"]
)
async def test_only_pages_of_the_dashboard_are_watched(visitor: Visitor, page: str) -> None:
    assert (await visitor.client.get("/live", params={"page": page})).status_code == 404
