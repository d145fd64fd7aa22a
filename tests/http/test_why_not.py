"""Why a schedule did not run at an instant, over HTTP: each tenant asks about its own, and learns of no worker."""

from datetime import timedelta

import pytest

from duly import cron
from duly.engine.presence.beat import row_of
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller
from tests.make import HOUR, LEASE

AT = "/v1/schedules/nightly/why-not?at="


@pytest.fixture
async def http(duly: OpenDuly, calling: OpenCaller) -> Caller:
    caller = await calling(await duly())
    await caller.app.schedules.put("nightly", cron("30 2 * * *", timezone="Europe/Brussels"), "report", tenant="acme")
    return caller


async def key_of(http: Caller, tenant: str) -> str:
    return f"Bearer {(await http.app.keys.create(tenant, tenant=tenant, scope='read')).secret}"


async def test_it_has_the_cause_for_programs_and_for_people(http: Caller) -> None:
    await http.app.schedules.skip("nightly", tenant="acme", by="ada", reason="a holiday")
    acme = await key_of(http, "acme")
    skipped = await http.get(f"{AT}2026-01-01T02:30", authorization=acme)
    assert skipped == {
        "kind": "skipped",
        "message": f"event {skipped['event_id']} was skipped at 2026-01-01T00:00:00Z: skipped by ada: a holiday",
        "at": "2026-01-01T01:30:00Z",
        "local_at": "2026-01-01T02:30:00",
        "timezone": "Europe/Brussels",
        "event_id": skipped["event_id"],
        "by": "ada",
        "until": None,
        "next_at": None,
    }
    assert await http.get(f"{AT}2026-01-01T01:30:00Z", authorization=acme) == skipped
    history = await http.get(f"/v1/events/{skipped['event_id']}/history", authorization=acme)
    assert [entry["cause"] for entry in history["history"]] == ["by_hand"]


async def test_a_reading_that_the_clocks_skip_can_be_asked_for(http: Caller) -> None:
    gap = await http.get(f"{AT}2026-03-29T02:30", authorization=await key_of(http, "acme"))
    assert (gap["kind"], gap["at"], gap["local_at"]) == ("gap", "2026-03-29T01:00:00Z", "2026-03-29T02:30:00")


async def test_each_tenant_asks_about_its_own_and_learns_of_no_worker(http: Caller, clock: ManualClock) -> None:
    clock.advance(2 * HOUR)
    await http.app.store.beat(row_of("host-1", ["handler:report"], http.app.settings, tick=False), timedelta())
    assert await http.app.store.claim("host-1", {"handler:report": 1}, LEASE)
    running = await http.get(f"{AT}2026-01-01T02:30", authorization=await key_of(http, "acme"))
    assert running["kind"] == "running"
    assert "host-1" not in running["message"]
    assert (await http("GET", f"{AT}2026-01-01T02:30", authorization=await key_of(http, "globex"))).status_code == 404
    everyone = f"Bearer {(await http.app.keys.create('all', scope='read', all_tenants=True)).secret}"
    whole = await http.get(f"{AT}2026-01-01T02:30", authorization=everyone, duly_tenant="acme")
    assert "worker host-1 began attempt 1" in whole["message"]


@pytest.mark.parametrize("query", ["", "?at=yesterday", "?at=2026-02-30", "?at=9999-12-31T23:59:59Z", "?at="])
async def test_what_is_no_time_is_refused(http: Caller, query: str) -> None:
    answer = await http("GET", f"/v1/schedules/nightly/why-not{query}", authorization=await key_of(http, "acme"))
    assert (answer.status_code, [one["path"] for one in answer.json()["errors"]]) == (422, ["at"])
