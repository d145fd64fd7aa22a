"""A tenant tries to reach what another has in a broker, by every door of the API and past it. The brokers are real."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from duly import Duly, Event, Status
from duly.api.app import create_api
from duly.testing import ManualClock
from tests.channels.brokers_under_test import BrokerUnderTest, Received
from tests.conftest import OpenDuly
from tests.http.calling import Caller
from tests.make import HOUR, START, a_user
from tests.stores.rows import write

CLOSED = "tenant 'acme' may not use "


class World:
    """Two tenants and a broker in which each has a place; what acme may name over HTTP is called by its name."""

    def __init__(self, broker_or_celery: BrokerUnderTest, opened: OpenDuly, stack: AsyncExitStack) -> None:
        self._broker, self._opened, self._stack = broker_or_celery, opened, stack
        self._suffix = uuid4().hex[:8]
        self.own, self.others = (f"{tenant}-{self._suffix}" for tenant in ("acme", "globex"))
        address = f"{{tenant}}-{self._suffix}"
        self.allow = (
            f"celery:shop.*/{address}"
            if broker_or_celery.channel == "celery"
            else f"{broker_or_celery.channel}:{address}"
        )
        self._secret: str | None = None

    async def make(self) -> None:
        for place in (self.own, self.others):
            await self._broker.make(place)

    async def server(self, allow: str) -> Caller:
        """A server, and a worker, with this setting; acme is the caller."""
        app = await self._opened(broker_allow=allow, **self._broker.settings())
        self._secret = self._secret or (await app.keys.create("acme", tenant="acme", scope="write")).secret
        api = create_api(app)
        transport = httpx.ASGITransport(api, raise_app_exceptions=False)
        client = httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", headers={"Authorization": f"Bearer {self._secret}"}
        )
        return Caller(app, api, await self._stack.enter_async_context(client))

    def target(self, place: str) -> dict[str, Any]:
        return self._broker.target(place)

    async def arrived(self, place: str) -> list[Received]:
        return await self._broker.received(place)


@pytest.fixture
async def world(broker_or_celery: BrokerUnderTest, open_app: OpenDuly) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        world = World(broker_or_celery, open_app, stack)
        await world.make()
        yield world


def timer(target: Any, **more: Any) -> dict[str, Any]:
    return {"type": "x", "due_at": "2020-01-01T00:00:00Z", "target": target, **more}


def schedule(target: Any) -> dict[str, Any]:
    return {"type": "x", "rule": {"every": "1h"}, "target": target}


async def letters(app: Duly) -> list[Event]:
    return [event for event in await app.events.find() if event.status is Status.FAILED]


async def test_no_operation_of_the_api_sends_to_another_tenants_place(world: World) -> None:
    acme = await world.server(world.allow)
    own, others = world.target(world.own), world.target(world.others)
    await acme.app.at(START, "x", tenant="globex", target=others)  # what globex itself has there
    await acme.put("/v1/timers/open", timer(own))
    await acme.put("/v1/schedules/open", schedule(own))
    user = await acme.post("/v1/users", a_user(target=own))
    tried = [
        ("PUT", "/v1/timers/new", timer(others)),
        ("PUT", "/v1/timers/open", timer(others)),
        ("PUT", "/v1/schedules/new", schedule(others)),
        ("PUT", "/v1/schedules/open", schedule(others)),
        ("PATCH", "/v1/schedules/open", {"target": others}),
        ("POST", "/v1/users", a_user(target=others)),
        ("PUT", f"/v1/users/{user['id']}", {"target": others}),
    ]
    for method, path, body in tried:
        answer = await acme(method, path, body)
        assert (answer.status_code, CLOSED in answer.text) == (422, True), (method, path)
    for path, rows in {"timers": timer(others), "users/import": a_user(target=others)}.items():
        answer = await acme.post(f"/v1/{path}", {path.partition("/")[0]: [rows]})
        assert (answer["results"][0]["status"], CLOSED in str(answer)) == ("refused", True)
    await acme.app.tick()
    assert [len(await world.arrived(place)) for place in (world.own, world.others)] == [1, 1]
    assert await letters(acme.app) == []


async def test_a_stored_event_goes_by_the_setting_of_the_worker(world: World, clock: ManualClock) -> None:
    """The operator narrows the setting, and starts server and worker again."""
    own = world.target(world.own)
    acme = await world.server(world.allow)
    await acme.put("/v1/timers/k", timer(own))
    await acme.put("/v1/schedules/hourly", schedule(own))
    user = await acme.post("/v1/users", a_user(target=own))
    await acme.app.at(START, "ours", tenant="acme", target=own)
    [birthday] = await acme.app.users.ahead(user["id"])
    narrowed = await world.server("")
    clock.set(birthday.due)
    await narrowed.app.tick()
    refused = await letters(narrowed.app)
    assert sorted(event.type for event in refused) == ["birthday", "x", "x"]
    for event in refused:
        assert event.attempts == 1  # of three: at once
        assert CLOSED in (event.last_error or "")
        answer = await narrowed("POST", f"/v1/events/{event.id}/replay")
        assert (answer.status_code, CLOSED in answer.text) == (422, True)
    many = await narrowed.post("/v1/events/replay", {"filter": {}})
    assert (many["replayed"], many["left_alone"]) == (0, 3)
    answer = await narrowed("POST", "/v1/schedules/hourly/trigger")
    assert (answer.status_code, CLOSED in answer.text) == (422, True)
    assert len(await letters(narrowed.app)) == 3
    assert [one.id for one in await world.arrived(world.own)] == [
        event.id for event in await acme.app.events.find() if event.type == "ours"
    ]
    widened = await world.server(world.allow)
    many = await widened.post("/v1/events/replay", {"filter": {}})
    assert (many["replayed"], many["left_alone"]) == (3, 0)
    await widened.app.tick()
    assert {event.id for event in refused} <= {one.id for one in await world.arrived(world.own)}


async def test_a_row_that_was_written_without_the_api_is_not_sent(world: World) -> None:
    acme = await world.server(world.allow)
    await acme.put("/v1/timers/k", timer(world.target(world.own)))
    event = await acme.app.events.by_key("k", tenant="acme")
    target = (event.target_json or "").replace(world.own, world.others)
    await write(acme.app.store, "UPDATE duly.events SET target = $1 WHERE id = $2", target, event.id)
    await acme.app.tick()
    refused = await acme.app.events.get(event.id)
    assert (refused.status, refused.attempts, CLOSED in (refused.last_error or "")) == (Status.FAILED, 1, True)
    assert await world.arrived(world.others) == []
    # Code may replay it, and it is asked again; what code has made itself goes where it says.
    await acme.app.events.replay(event.id)
    await acme.app.tick()
    assert (await acme.app.events.get(event.id)).status is Status.FAILED
    await acme.app.at(START, "x", tenant="acme", target=world.target(world.others))
    await acme.app.tick()
    assert len(await world.arrived(world.others)) == 1


async def test_a_dead_letter_of_code_may_be_replayed_over_http(world: World, clock: ManualClock) -> None:
    """It is only sent again, to where the operator has sent it."""
    acme = await world.server("")
    event = await acme.app.at(START, "x", tenant="acme", target=world.target(world.others))
    await write(acme.app.store, "UPDATE duly.events SET status = 'FAILED', ready = NULL WHERE id = $1", event.id)
    await acme.post(f"/v1/events/{event.id}/replay")
    clock.advance(HOUR)
    await acme.app.tick()
    assert [one.id for one in await world.arrived(world.others)] == [event.id]


async def test_no_request_empties_a_stream(redis_broker: BrokerUnderTest, open_app: OpenDuly) -> None:
    async with AsyncExitStack() as stack:
        world = World(redis_broker, open_app, stack)
        acme = await world.server(f"redis:*, {world.allow}")
        for _ in range(3):
            await acme.app.at(START - timedelta(days=1), "x", tenant="globex", target=world.target(world.others))
        trimmed = {"redis": {"stream": world.others, "max_length": 1}}
        answer = await acme("PUT", "/v1/timers/k", timer(trimmed))
        assert [one["path"] for one in answer.json()["errors"]] == ["target.redis.max_length"]
        await acme.put("/v1/timers/k", timer({"redis": world.others}))
        await write(acme.app.store, "UPDATE duly.events SET target = $1 WHERE key = 'k'", json.dumps(trimmed))
        await acme.app.tick()
        assert "max_length" in ((await acme.app.events.by_key("k", tenant="acme")).last_error or "")
        assert len(await world.arrived(world.others)) == 3
