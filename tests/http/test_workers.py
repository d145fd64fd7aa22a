"""Workers over HTTP: hosts are for keys of all tenants, and each tenant learns whether its own lanes are served."""

from datetime import timedelta

import msgspec
import pytest

from duly.engine.presence.beat import row_of
from duly.testing import ManualClock
from duly.verbs import workers
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller
from tests.make import HOUR, START

BEAT = timedelta(seconds=10)


@pytest.fixture
async def http(duly: OpenDuly, calling: OpenCaller) -> Caller:
    return await calling(await duly())


async def at_work(http: Caller, name: str, *lanes: str) -> None:
    row = msgspec.structs.replace(row_of(name, lanes, http.app.settings, tick=False), host="secret-host", beat=BEAT)
    await http.app.store.beat(row, timedelta(), begins=True)


async def bearer(http: Caller, tenant: str, *, all_tenants: bool = False) -> str:
    made = await http.app.keys.create(tenant, tenant=tenant, scope="read", all_tenants=all_tenants)
    return f"Bearer {made.secret}"


async def test_a_tenant_learns_which_lanes_of_its_own_events_are_served_and_nothing_else(
    http: Caller, clock: ManualClock
) -> None:
    await at_work(http, "ada", "handler:mine", "handler:theirs")
    await http.app.at(START + HOUR, "mine", tenant="acme")
    await http.app.at(START + HOUR, "nobodys", tenant="acme")
    await http.app.at(START + HOUR, "theirs", tenant="other")
    key = await bearer(http, "acme")
    answer = await http("GET", "/v1/workers", authorization=key)
    assert answer.json() == {
        "workers": None,
        "lanes": [
            {"lane": "handler:mine", "served": True, "seen_at": "2026-01-01T00:00:00Z"},
            {"lane": "handler:nobodys", "served": False, "seen_at": None},
        ],
    }
    clock.advance(2 * BEAT + timedelta(microseconds=1))
    told = await http.get("/v1/workers", authorization=key)
    assert [lane["served"] for lane in told["lanes"]] == [False, False]


async def test_a_key_for_all_tenants_sees_workers_with_their_hosts(http: Caller, clock: ManualClock) -> None:
    await at_work(http, "ada", "handler:mine", "webhook")
    await http.app.at(START + HOUR, "mine", tenant="acme")
    key = await bearer(http, "operators", all_tenants=True)
    told = await http.get("/v1/workers", authorization=key)
    [worker] = told["workers"]
    assert (worker["name"], worker["host"], worker["state"]) == ("ada", "secret-host", "running")
    assert worker["lanes"] == ["handler:mine", "webhook"]
    assert (worker["started_at"], worker["seen_at"]) == ("2026-01-01T00:00:00Z",) * 2
    assert told["lanes"] == []  # its own tenant has no events
    told = await http.get("/v1/workers", authorization=key, duly_tenant="acme")
    assert [lane["lane"] for lane in told["lanes"]] == ["handler:mine"]
    clock.advance(2 * BEAT + timedelta(microseconds=1))
    told = await http.get("/v1/workers", authorization=key)
    assert told["workers"][0]["state"] == "dead"


async def test_without_keys_a_caller_on_this_machine_sees_its_lanes_and_no_hosts(
    duly: OpenDuly, calling: OpenCaller
) -> None:
    http = await calling(await duly(), keyless=True)
    await at_work(http, "ada", "handler:mine")
    await http.app.at(START + HOUR, "mine")
    answer = await http("GET", "/v1/workers")
    assert answer.json()["workers"] is None
    assert "secret-host" not in answer.text
    assert [lane["served"] for lane in answer.json()["lanes"]] == [True]


async def test_scheduling_a_type_that_no_worker_has_served_says_so_until_one_has(
    http: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await http.app.keys.create("any")
    key = f"Bearer {(await http.app.keys.create('w', scope='write')).secret}"
    timer, schedule = {"after": "1h", "type": "new"}, {"rule": {"every": "1h"}, "type": "new"}
    told = "no worker has served the type 'new' yet: it waits until one runs whose app has a handler for it"
    assert (await http.put("/v1/timers/k", timer, authorization=key))["warnings"] == [told]
    assert told in (await http.put("/v1/schedules/s", schedule, authorization=key))["warnings"]
    many = {"timers": [timer, timer, {"after": "1h", "type": "x", "target": {"webhook": "https://a.example"}}]}
    assert (await http.post("/v1/timers", many, authorization=key))["warnings"] == [told]
    await at_work(http, "ada", "handler:new")
    assert (await http.put("/v1/timers/k", timer, authorization=key))["warnings"] == [told]  # it is asked now and then
    monkeypatch.setattr(workers, "ASKED_EVERY_S", 0.0)
    assert (await http.put("/v1/timers/k", timer, authorization=key))["warnings"] == []
    await http.app.store.leave("ada")
    assert (await http.put("/v1/timers/k", timer, authorization=key))["warnings"] == []  # it was served once
    assert (await http.post("/v1/timers", many, authorization=key))["warnings"] == []
