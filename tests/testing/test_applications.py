"""Applications that open their Duly themselves, in an event loop of their own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from duly import Duly, Event
from duly.testing import fired, rebound, travel
from tests.make import DAY, START


@pytest.fixture
def duly(tmp_path: Path) -> Duly:
    duly = Duly(f"sqlite:///{tmp_path}/real.db")

    @duly.on("remind")
    async def remind(event: Event) -> None: ...

    return duly


@pytest.fixture
def app(duly: Duly) -> Starlette:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with duly:
            yield

    async def order(_: Request) -> PlainTextResponse:
        return PlainTextResponse((await duly.after("3d", "remind")).id)

    return Starlette(routes=[Route("/orders", order, methods=["POST"])], lifespan=lifespan)


def test_time_is_moved_in_the_loop_of_starlettes_test_client(duly: Duly, app: Starlette) -> None:
    with rebound(duly, start=START), TestClient(app) as client, travel(duly) as time:
        id = client.post("/orders").text
        time.by(4 * DAY)
        [event] = fired(duly, "remind", at=START + 3 * DAY)
        assert event.id == id
        client.post("/orders")
        time.by(4 * DAY)
        fired(duly, "remind", times=2)


def test_each_client_of_a_test_finds_what_the_one_before_has_left(duly: Duly, app: Starlette) -> None:
    with rebound(duly, start=START):
        with TestClient(app) as client:
            client.post("/orders")
        with TestClient(app), travel(duly) as time:
            time.by(4 * DAY)
            fired(duly, "remind", times=1)
