"""Statistics over HTTP: each tenant has its own."""

import pytest

from duly import Duly, Event, Retry, every
from duly.testing import ManualClock
from tests.conftest import OpenDuly
from tests.http.calling import Caller, OpenCaller
from tests.make import HOUR


@pytest.fixture
async def http(duly: OpenDuly, calling: OpenCaller) -> Caller:
    app = await duly()

    @app.on("sync")
    @app.on("report")
    async def sync(event: Event) -> None:
        if event.payload == "fail":
            raise ValueError("not today")

    return await calling(app)


@pytest.fixture
async def acme(http: Caller, clock: ManualClock) -> str:
    """A key of a tenant whose events have ended, beside those of another one."""
    app: Duly = http.app
    for tenant, payload in (("acme", None), ("globex", "fail")):
        await app.schedules.put("pulse", every("1h"), "sync", payload, tenant=tenant, retry=Retry(max_attempts=1))
    await app.at(clock.now() + HOUR, "report", tenant="acme")
    clock.advance(HOUR)
    await app.tick()
    await app.schedules.skip("pulse", tenant="acme")
    return f"Bearer {(await app.keys.create('a', tenant='acme', scope='read')).secret}"


async def test_a_schedule_has_those_of_its_runs(http: Caller, acme: str) -> None:
    address = "/v1/schedules/pulse/stats?from=2026-01-01T00:00:00Z&to=2026-01-01T02:00:00Z"
    figures = {
        "runs": 1,
        "completed": 1,
        "failed": 0,
        "skipped": 1,
        "success_rate": 1.0,
        "duration": {"p50": 0.001, "p95": 0.001, "p99": 0.001},
        "lateness": {"p50": 0.001, "p95": 0.001, "p99": 0.001},
    }
    assert await http.get(address, authorization=acme) == {
        "from": "2026-01-01T00:00:00Z",
        "to": "2026-01-01T02:00:00Z",
        "total": figures,
        "days": [{"day": "2026-01-01", **figures}],
        "groups": [],
    }


async def test_a_tenant_has_those_of_all_its_events_by_type_or_lane(http: Caller, acme: str) -> None:
    told = await http.get("/v1/stats?by=type", authorization=acme)
    assert [(group["name"], group["runs"]) for group in told["groups"]] == [("report", 1), ("sync", 1)]
    assert (told["total"]["runs"], told["total"]["failed"], len(told["days"])) == (2, 0, 31)
    told = await http.get("/v1/stats?by=lane", authorization=acme)
    assert [group["name"] for group in told["groups"]] == ["handler:report", "handler:sync"]
    assert (await http.get("/v1/stats", authorization=acme))["groups"] == []


async def test_a_schedule_of_another_tenant_is_not_there(http: Caller, acme: str) -> None:
    await http.app.schedules.put("theirs", every("1h"), "sync", tenant="globex")
    answer = await http("GET", "/v1/schedules/theirs/stats", authorization=acme)
    assert (answer.status_code, "'theirs'" in answer.text) == (404, True)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("from=yesterday", "from"),
        ("to=2026-13-01T00:00:00Z", "to"),
        ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "to"),
        ("from=2020-01-01T00:00:00Z", "from"),
        ("by=schedule", "by"),
    ],
)
async def test_what_cannot_be_told_is_refused_with_its_path(http: Caller, acme: str, query: str, path: str) -> None:
    answer = await http("GET", f"/v1/stats?{query}", authorization=acme)
    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (422, [path])
