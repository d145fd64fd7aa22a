"""What a tenant may say of brokers over HTTP: nothing, but what ``DULY_BROKER_ALLOW`` opens to it."""

from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest

from duly import Duly, every, to
from duly.decide.targets.broker_allow import read_broker_allow
from duly.decide.targets.origin import OVER_HTTP
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller
from tests.make import START, a_user

DUE = "2030-01-01T00:00:00Z"
OWN, THEIRS = to.redis("acme:orders"), to.redis("globex:orders")
EMPTIES = to.redis("globex:orders", max_length=1)
ALLOW = "redis:{tenant}:*"


@pytest.fixture
async def acme(duly: OpenDuly, calling: OpenCaller) -> Caller:
    """A tenant of a server that opens to each what is called by its name."""
    app = await duly(broker_allow=ALLOW)
    made = await app.keys.create("acme", tenant="acme", scope="write")
    return await calling(app, authorization=f"Bearer {made.secret}")


def narrow(app: Duly, allow: str = "") -> None:
    """As the operator would, and start the server again."""
    app.settings = msgspec.structs.replace(app.settings, broker_allow=read_broker_allow(allow))


def refused(answer: httpx.Response, *paths: str) -> None:
    assert answer.status_code == 422, answer.text
    assert [one["path"] for one in answer.json()["errors"]] == list(paths)
    assert "over HTTP" in answer.json()["errors"][0]["message"]


def timer(target: Any, **more: Any) -> dict[str, Any]:
    return {"type": "x", "due_at": DUE, "target": target, **more}


def schedule(target: Any) -> dict[str, Any]:
    return {"type": "x", "rule": {"every": "1h"}, "target": target}


async def test_no_broker_is_allowed_on_a_server_without_the_setting(http: Caller) -> None:
    refused(await http("PUT", "/v1/timers/k", timer(to.nats("orders.due"))), "target.nats.subject")
    assert await http.app.events.find() == []
    await http.app.at(START, "x", target=to.nats("orders.due"))  # code may do as before


async def test_a_timer_over_http_reaches_only_places_that_are_allowed(acme: Caller) -> None:
    refused(await acme("PUT", "/v1/timers/k", timer(THEIRS)), "target.redis.stream")
    refused(await acme("PUT", "/v1/timers/k", timer(EMPTIES)), "target.redis.stream", "target.redis.max_length")
    refused(await acme("PUT", "/v1/timers/k", timer(to.redis("acme:orders", max_length=1))), "target.redis.max_length")
    await acme.put("/v1/timers/k", timer(OWN))
    refused(await acme("PUT", "/v1/timers/k", timer(THEIRS)), "target.redis.stream")
    assert (await acme.app.events.by_key("k", tenant="acme")).target == OWN


async def test_of_many_timers_those_for_places_that_are_not_allowed_are_refused(acme: Caller) -> None:
    answer = await acme.post("/v1/timers", {"timers": [timer(OWN), timer(THEIRS, key="k"), timer(EMPTIES)]})
    assert [one["status"] for one in answer["results"]] == ["created", "refused", "refused"]
    assert [one["path"] for one in answer["results"][1]["errors"]] == ["target.redis.stream"]
    assert len(await acme.app.events.find()) == 1


async def test_a_schedule_over_http_reaches_only_places_that_are_allowed(acme: Caller) -> None:
    refused(await acme("PUT", "/v1/schedules/s", schedule(THEIRS)), "target.redis.stream")
    await acme.put("/v1/schedules/s", schedule(OWN))
    refused(await acme("PUT", "/v1/schedules/s", schedule(EMPTIES)), "target.redis.stream", "target.redis.max_length")
    refused(await acme("PATCH", "/v1/schedules/s", {"target": THEIRS}), "target.redis.stream")
    assert (await acme.app.schedules.get("s", tenant="acme")).target == OWN


async def test_editing_a_schedule_of_code_over_http_checks_whether_its_target_is_allowed(acme: Caller) -> None:
    await acme.app.schedules.put("s", every("1h"), "x", target=THEIRS, tenant="acme")
    refused(await acme("PATCH", "/v1/schedules/s", {"payload": 7}), "target.redis.stream")
    for act in ("pause", "resume", "trigger", "skip"):  # what its owner may do with it all the same
        await acme.post(f"/v1/schedules/s/{act}")


async def test_triggers_and_backfills_check_again_whether_the_target_is_allowed(
    acme: Caller, clock: ManualClock
) -> None:
    await acme.put("/v1/schedules/theirs", schedule(OWN))
    await acme.app.schedules.put("ours", every("1h"), "x", target=OWN, tenant="acme")
    clock.advance(timedelta(hours=3))
    narrow(acme.app)
    past = {"from": (START + timedelta(hours=1)).isoformat(), "to": (START + timedelta(hours=3)).isoformat()}
    for act, body in {"trigger": {}, "backfill": past}.items():
        refused(await acme("POST", f"/v1/schedules/theirs/{act}", body), "target.redis.stream")
        await acme.post(f"/v1/schedules/ours/{act}", body)
        await acme.app.schedules.trigger("theirs", tenant="acme")  # code may; the worker asks again


async def test_the_target_of_a_user_must_be_allowed(acme: Caller) -> None:
    refused(await acme("POST", "/v1/users", a_user(target=THEIRS)), "target.redis.stream")
    user = await acme.post("/v1/users", a_user(target=OWN, key="ada"))
    refused(
        await acme("PUT", f"/v1/users/{user['id']}", {"target": EMPTIES}),
        "target.redis.stream",
        "target.redis.max_length",
    )
    rows = [a_user(key="ada", target=THEIRS), a_user(key="bob", target=THEIRS), a_user(key="eve", target=OWN)]
    answer = await acme.post("/v1/users/import", {"users": rows})
    assert [one["status"] for one in answer["results"]] == ["refused", "refused", "added"]
    assert (await acme.app.users.get(user["id"])).target == OWN


async def test_a_users_target_of_code_stays_when_something_else_is_changed(acme: Caller) -> None:
    user = await acme.app.users.add(**a_user(target=THEIRS), tenant="acme")
    await acme.put(f"/v1/users/{user.id}", {"first_name": "Augusta"})
    shown = await acme.get(f"/v1/users/{user.id}")
    await acme.put(f"/v1/users/{user.id}", shown)  # sent back as it is
    stored = await acme.app.users.get(user.id)
    assert (stored.target, stored.via) == (THEIRS, None)
    assert {head.via for head in await acme.app.users.ahead(user.id)} == {None}


class News:
    """Goes where the operator says, whoever it is for."""

    name = "news"
    depends_on = ()

    def rule(self, user: Any, at: Any) -> Any:
        return every("1h")

    def message(self, user: Any) -> str:
        return "hello"

    def target(self, user: Any) -> dict[str, Any]:
        return to.redis("news")


async def test_the_own_target_of_an_event_type_counts_as_codes(acme: Caller) -> None:
    acme.app.event_types.register(News())
    user = await acme.post("/v1/users", a_user())
    planned = {head.type: (head.target, head.via) for head in await acme.app.users.ahead(user["id"])}
    assert planned["news"] == (to.redis("news"), None)


async def test_stored_targets_are_no_way_around_the_allowed_places(acme: Caller) -> None:
    """They are webhooks and requests alone; a broker is none of them, whoever puts it."""
    answer = await acme("PUT", "/v1/targets/t", {"url": "redis://globex:orders", "channel": "redis"})
    assert answer.status_code == 422
    answer = await acme("PUT", "/v1/timers/k", timer({"redis": {"target": "t"}}))
    assert answer.status_code == 422


async def test_targets_that_are_no_brokers_need_not_be_allowed(acme: Caller) -> None:
    await acme.put("/v1/timers/k", timer(to.webhook("https://hooks.example/in")))
    await acme.put("/v1/timers/l", timer(None))
    assert (await acme.app.events.by_key("k", tenant="acme")).via == OVER_HTTP
